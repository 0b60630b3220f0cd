"""Where a tab has been: its history as the environment keeps it.

Chromium's own goes back to a page with what was typed into it, which nobody can take out of a
browser and put into another one. So going back is a fresh visit here, whose place in the trail is
remembered; then all of it is data. Only within one document of a page that runs scripts, which
alone can tell, the browser's own history is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

BLANK = "about:blank"


@dataclass(frozen=True)
class Stop:
    """A page in the trail. `document` is the same for stops within one document."""

    url: str
    method: str
    document: str


class Trail:
    """Stops, and which of them is shown; -1 where none is yet."""

    def __init__(self, stops: Sequence[Stop] = (), at: int = -1) -> None:
        self.stops, self.at = [*stops], at
        self._ids: list[int | None] = [None] * len(self.stops)
        """Chromium's own numbers, where it still has the entry."""
        self._expected: int | None = at if stops else None

    def target(self, by: int) -> int | None:
        """The next stop in a direction that is not the answer to a form; None where none is."""
        place = self.at + by
        while 0 <= place < len(self.stops) and self.stops[place].method != "GET":
            place += by
        return place if 0 <= place < len(self.stops) else None

    def known_as(self, place: int) -> int | None:
        """Chromium's number of a stop in the document that is shown."""
        same = self.stops[place].document == self.stops[self.at].document
        return self._ids[place] if same else None

    def expect(self, place: int) -> None:
        """The next new page is a visit to this stop."""
        self._expected = place

    def update(self, entries: Sequence[dict[str, Any]], index: int, method: str, doc: str) -> None:
        """Take in what Chromium says: its entries, and method and document of the shown page."""
        now = entries[index]
        stop = Stop(now["url"], method, doc)
        if now["url"] == BLANK and not self.stops:
            return
        if now["id"] in self._ids:
            self.at = self._ids.index(now["id"])
            if doc == self.stops[self.at].document:
                stop = replace(stop, method=self.stops[self.at].method)
            self.stops[self.at] = stop
        elif self._expected is not None:
            self.at, self._expected = self._expected, None
            self._ids = [None] * len(self.stops)
            self.stops[self.at] = replace(stop, method=self.stops[self.at].method)
            self._ids[self.at] = now["id"]
        else:
            self._append(entries[: index + 1], stop)

    def _append(self, entries: Sequence[dict[str, Any]], stop: Stop) -> None:
        """New entries after the last known one; or in place of the shown one."""
        ids = [entry["id"] for entry in entries]
        known = [place for place, number in enumerate(self._ids) if number in ids]
        keep = known[-1] + 1 if known else max(self.at, 0)
        after = ids.index(self._ids[known[-1]]) + 1 if known else len(ids) - 1
        new = entries[after:]
        self.stops = [*self.stops[:keep], *(Stop(e["url"], "GET", stop.document) for e in new)]
        self._ids = [*self._ids[:keep], *(e["id"] for e in new)]
        self.stops[-1] = stop
        self.at = len(self.stops) - 1
