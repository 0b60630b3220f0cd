"""Snapshots of a session: what a browser can tell of itself, and how it is brought back.

Restoring runs none of the site's code: the pages that were shown are sent again as they were, and
what is in their fields is put back. A state that lives in scripts does not come back so; then the
tree of what is shown differs, and the caller plays the episode again instead.
"""

import json
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from agent_envs.envs.browser.front import Address
from agent_envs.envs.browser.outline import Element, read_tree
from agent_envs.envs.browser.session import Session
from agent_envs.envs.browser.sites.base import Response
from agent_envs.envs.browser.tab import Tab, script
from agent_envs.envs.browser.trail import Stop, Trail

_HOST = "origin.invalid"
"""Stands for the origin's name, which is another one in every life of a session."""

_COLLECT = """() => {
  const fields = [...document.querySelectorAll('input,textarea,select')], kept = [];
  fields.forEach((e, i) => {
    if (e.tagName == 'SELECT') {
      const on = [...e.options].map(o => o.selected);
      if ([...e.options].some(o => o.selected != o.defaultSelected)) kept.push([i, 'selected', on]);
    } else if (e.type == 'file') { if (e.files.length) kept.push([i, 'file', 0]); }
    else if (['checkbox', 'radio'].includes(e.type)) {
      if (e.checked != e.defaultChecked) kept.push([i, 'checked', e.checked]);
    } else if (e.value != e.defaultValue) kept.push([i, 'value', e.value]);
  });
  const all = [...document.querySelectorAll('*')], focused = document.activeElement;
  let caret = null;
  try { caret = [focused.selectionStart, focused.selectionEnd]; } catch {}
  const moved = all.map((e, i) => [i, e.scrollLeft, e.scrollTop]).filter(x => x[1] || x[2]);
  let stored = {};
  try { stored = {...sessionStorage}; } catch {}
  const details = [...document.querySelectorAll('details')].map(d => d.open);
  const focus = focused == document.body ? -1 : all.indexOf(focused);
  if (![...kept, ...moved, ...details].length && focus < 0 && !Object.keys(stored).length)
    return '';
  return JSON.stringify({fields: kept, focus, caret, moved, stored, details});
}"""

_PUT_BACK = """kept => {
  const fields = [...document.querySelectorAll('input,textarea,select')];
  for (const [i, what, value] of kept.fields) {
    const e = fields[i];
    if (!e) continue;
    if (what == 'selected') [...e.options].forEach((o, k) => { o.selected = value[k]; });
    else e[what] = value;
  }
  document.querySelectorAll('details').forEach((d, i) => { d.open = kept.details[i]; });
  const all = [...document.querySelectorAll('*')], focused = all[kept.focus];
  if (focused) focused.focus({preventScroll: true});
  try { if (kept.caret) focused.setSelectionRange(...kept.caret); } catch {}
  for (const [i, x, y] of kept.moved) if (all[i]) { all[i].scrollLeft = x; all[i].scrollTop = y; }
}"""


_STORE = """([stored, url]) => {
  for (const k in stored) sessionStorage[k] = stored[k];
  location.replace(url);
}"""


@dataclass(frozen=True)
class SavedTab:
    """One tab, with the pages that it shows as they were sent."""

    title: str
    url: str
    stops: tuple[Stop, ...]
    at: int
    documents: tuple[tuple[Address, Response], ...]
    frames: tuple[str, ...]
    """By frame: its fields, focus, scrolling and session storage, as JSON."""
    elements: tuple[Element, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class SavedPages:
    """All that a browser keeps of a session."""

    tabs: tuple[SavedTab, ...]
    shown: int
    storage: str
    next_number: int
    notes: tuple[str, ...]
    lost: bool
    """Whether there is something that only playing again brings back: a file that was chosen, an
    element that is edited in place, or a history within a document that runs scripts."""

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        documents = {id(r): len(r.body) for tab in self.tabs for _, r in tab.documents}
        frames = sum(len(frame) for tab in self.tabs for frame in tab.frames)
        return sum(documents.values()) + frames + len(self.storage)


async def capture(session: Session) -> SavedPages:
    """What is in the browser now. Raises TimeoutError where a page does not answer."""
    if session.world.scripted:
        storage = await session.context.storage_state(indexed_db=True)
    else:
        storage = {"cookies": await session.context.cookies(), "origins": []}
    return SavedPages(
        tuple([await _capture_tab(session, tab) for tab in session.tabs]),
        session.tabs.index(session.shown),
        _without_name(session, json.dumps(storage)),
        session.next_number,
        tuple(session.notes),
        session.uploads
        or any(tab.editors for tab in session.tabs)
        or (session.world.scripted and any(map(_has_inner, session.tabs))),
    )


def _has_inner(tab: Tab) -> bool:
    stops = tab.trail.stops
    return sum(stop.document == stops[tab.trail.at].document for stop in stops) > 1


async def _capture_tab(session: Session, tab: Tab) -> SavedTab:
    await tab.follow()
    frames = await tab.frames()
    trail, documents = tab.trail, session.origin.documents
    shown = {url: ("GET", _target(url)) for _, url in frames}
    sent = dict(shown)
    if trail.stops:
        sent[frames[0][1]] = (trail.stops[trail.at].method, _target(frames[0][1]))
    return SavedTab(
        tab.title,
        _without_name(session, tab.page.url),
        tuple(replace(s, url=_without_name(session, s.url)) for s in trail.stops),
        trail.at,
        tuple((shown[u], documents[sent[u]]) for u in shown if sent[u] in documents),
        tuple([str(await tab.evaluate(script(_COLLECT, None), f) or "") for f, _ in frames]),
        tuple(replace(e, ref="*" if e.ref else "") for _, e in tab.elements),
        tuple(number for number, _ in tab.elements if number),
    )


async def restore(session: Session, saved: SavedPages) -> bool:
    """Bring a fresh session into a saved state; False where what is shown is not the same."""
    kept = session.world.save()
    storage = json.loads(saved.storage.replace(_HOST, session.origin.name))
    session.origin.replaying = {}
    await session.open(storage)
    same = True
    for one in saved.tabs:
        session.origin.replaying = dict(one.documents)
        await _restore_tab(session, one)
        same = same and await _is_same(session, one)
    session.origin.replaying = None
    session.world.load(kept)
    session.shown = session.tabs[saved.shown]
    session.next_number = saved.next_number
    session.notes = [*saved.notes]
    return same


async def _restore_tab(session: Session, saved: SavedTab) -> None:
    """The page that was shown, as it was sent, and what was in it."""
    tab = await session.new_tab()
    stops = [replace(s, url=s.url.replace(_HOST, session.origin.name)) for s in saved.stops]
    tab.trail = Trail(stops, saved.at)
    if not stops:
        return
    stored = json.loads(saved.frames[0] or "{}").get("stored")
    if stored:
        await tab.page.goto(session.real("/"), wait_until="commit")
        await tab.evaluate(script(_STORE, [stored, stops[saved.at].url]))
    else:
        await tab.page.goto(
            stops[saved.at].url, wait_until="commit", timeout=session.patience * 1e3
        )
    await session.rest()
    if any(saved.frames):
        for (frame, _), kept in zip(await tab.frames(), saved.frames, strict=False):
            if kept:
                await tab.evaluate(script(_PUT_BACK, json.loads(kept)), frame)


async def _is_same(session: Session, saved: SavedTab) -> bool:
    """Look at the shown tab, which is the last one; give its elements the numbers they had."""
    await session.rest()
    tab = session.shown
    snapshot = await session.snapshot(tab)
    found = read_tree(snapshot or "")
    alike = tuple(replace(e, ref="*" if e.ref else "") for e in found) == saved.elements
    if alike:
        tab.show_again(found, iter(saved.numbers))
    tab.title, was = saved.title, tab.title
    return alike and was == saved.title and _without_name(session, tab.page.url) == saved.url


def _target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"


def _without_name(session: Session, text: str) -> str:
    return text.replace(session.origin.name, _HOST)
