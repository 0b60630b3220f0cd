"""Level 4: small packages with broken places, and tests for every place.

A place has a right and a wrong piece of code, visible tests and hidden ones. Its tests do not
depend on any other place: so those of a broken place fail and those of the others pass.
"""

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from agent_envs.envs.code.problems.form import Dice, fill

BROKEN = (2, 3)
"""How many places of a package may be broken at once."""


class Place(NamedTuple):
    """A place of a package that can be broken."""

    name: str
    path: str
    right: str
    wrong: str
    visible: str
    hidden: str


@dataclass(frozen=True)
class Package:
    """A package as it should be: what it promises, its files, and its places."""

    name: str
    text: str
    files: Mapping[str, str]
    places: tuple[Place, ...]

    def broken(self, names: tuple[str, ...]) -> dict[str, str]:
        """The files with these places broken."""
        files = dict(self.files)
        for place in self.places:
            if files[place.path].count(place.right) != 1 or place.right == place.wrong:
                raise ValueError(f"{self.name}: {place.name} is not once in {place.path}")
            if place.name in names:
                files[place.path] = files[place.path].replace(place.right, place.wrong)
        return files

    def mutants(self, names: tuple[str, ...]) -> list[dict[str, str]]:
        """Repairs that are none: one place left broken, or another one broken instead."""
        others = [place.name for place in self.places if place.name not in names]
        return [self.broken((name,)) for name in (*names, *others[:2])]

    def tests(self, names: tuple[str, ...], which: str) -> list[dict[str, Any]]:
        """The `visible` or the `hidden` tests, as the verifier takes them."""
        out = []
        for place in self.places:
            source = getattr(place, which)
            end = "_more" if which == "hidden" else ""
            must = "fail_to_pass" if place.name in names else "pass_to_pass"
            found = re.findall(r"^def (test_\w+)", source, re.MULTILINE)
            path = f"tests/test_{place.name}{end}.py"
            out.append({"path": path, "source": source, "names": found, "must": must})
        return out


PackageMaker: TypeAlias = Callable[[Dice], Package]


def choices(package: Package) -> list[tuple[str, ...]]:
    """All sets of places that may be broken at once."""
    names = [place.name for place in package.places]
    return [chosen for n in BROKEN for chosen in itertools.combinations(names, n)]


def filled(
    name: str, text: str, files: Mapping[str, str], places: tuple[Place, ...], **values: object
) -> Package:
    """A package from templates."""
    return Package(
        name,
        fill(text, **values),
        {f"{name}/__init__.py": ""} | {path: fill(s, **values) for path, s in files.items()},
        tuple(Place(*(fill(part, **values) for part in place)) for place in places),
    )
