"""Level 4: a lending library with dates, fines and a catalogue."""

from agent_envs.envs.code.problems.form import Dice
from agent_envs.envs.code.problems.repairs import Package, Place, filled

_TEXT = """\
The package `library` lends books. Days are whole numbers.

- `library.loans.due(day, renewals=0)`: a loan lasts <loan> days, and each renewal adds <more>,
  but never more than 2 renewals count.
- `library.loans.fine(due, returned)`: <fee> cents for each day after the due day, at most
  <most>; nothing for a book that is returned on the due day or before.
- `library.catalogue.normal(title)`: lower case, runs of white space as one blank, none at the
  ends, and a leading "the ", "a " or "an " moved away: it is left out.
- `library.catalogue.find(titles, words)`: the titles that contain all of the words (compared in
  lower case, whole words), in alphabetical order of their normal form.
- `library.shelf.Shelf(titles)`: `take(title)` and `bring(title)` count copies; `take` raises
  LookupError where no copy is left; `free(title)` says how many are left. A title may be given
  several times.
- `library.shelf.Queue()`: `ask(name)` puts somebody at the end (who waits already stays where
  they are); `next()` gives and removes the first, or None."""

_FILES = {
    "library/loans.py": '''\
"""How long, and what it costs to be late."""


def due(day: int, renewals: int = 0) -> int:
    """The last day of a loan."""
    return day + <loan> + <more> * min(renewals, 2)


def fine(due: int, returned: int) -> int:
    """Cents to pay."""
    late = max(returned - due, 0)
    return min(late * <fee>, <most>)
''',
    "library/catalogue.py": '''\
"""Titles, and how they are found."""


def normal(title: str) -> str:
    """The form by which titles are ordered."""
    words = title.lower().split()
    if len(words) > 1 and words[0] in ("the", "a", "an"):
        words = words[1:]
    return " ".join(words)


def find(titles: list, words: list) -> list:
    """The titles that have all the words."""
    wanted = {word.lower() for word in words}
    found = [title for title in titles if wanted <= set(title.lower().split())]
    return sorted(found, key=normal)
''',
    "library/shelf.py": '''\
"""Copies of books, and who waits for one."""

from collections import Counter


class Shelf:
    """How many copies of each title are here."""

    def __init__(self, titles):
        self.copies = Counter(titles)

    def free(self, title: str) -> int:
        """How many are left."""
        return self.copies[title]

    def take(self, title: str) -> None:
        """Lend one."""
        if self.copies[title] < 1:
            raise LookupError(title)
        self.copies[title] -= 1

    def bring(self, title: str) -> None:
        """Get one back."""
        self.copies[title] += 1


class Queue:
    """Who waits."""

    def __init__(self):
        self.names = []

    def ask(self, name: str) -> None:
        """Wait, at the end."""
        if name not in self.names:
            self.names.append(name)

    def next(self):
        """Whose turn it is."""
        return self.names.pop(0) if self.names else None
''',
}

_PLACES = (
    Place("due", "library/loans.py", "min(renewals, 2)", "renewals",
'''\
from library.loans import due


def test_only_two_renewals_count():
    assert due(10, 3) == due(10, 2) == 10 + <loan> + 2 * <more>
''', '''\
from library.loans import due


def test_many_renewals():
    found = [due(0, n) for n in range(4)]
    assert found == [<loan>, <loan> + <more>] + [<loan> + 2 * <more>] * 2


def test_a_hundred_renewals():
    assert due(7, 100) == 7 + <loan> + 2 * <more>
'''),
    Place("fine", "library/loans.py", "max(returned - due, 0)", "max(returned - due + 1, 0)",
'''\
from library.loans import fine


def test_in_time():
    assert fine(20, 20) == 0


def test_one_day_late():
    assert fine(20, 21) == <fee>
''', '''\
from library.loans import fine


def test_each_day():
    assert [fine(20, day) for day in (10, 19, 20, 21, 22)] == [0, 0, 0, <fee>, 2 * <fee>]


def test_up_to_the_most():
    days = <most> // <fee>
    assert fine(5, 5 + days - 1) == (days - 1) * <fee> and fine(5, 900) == <most>
'''),
    Place("order", "library/catalogue.py", "key=normal", "key=str.lower",
'''\
from library.catalogue import find


def test_articles_do_not_count():
    assert find(["Old sea", "The old age"], ["old"]) == ["The old age", "Old sea"]
''', '''\
from library.catalogue import find


def test_all_articles():
    titles = ["The zoo at night", "A night out", "An early night", "Night and day"]
    found = ["An early night", "Night and day", "A night out", "The zoo at night"]
    assert find(titles, ["NIGHT"]) == found


def test_only_a_leading_article():
    assert find(["Up the hill", "The hill", "An hill"], ["hill"])[-1] == "Up the hill"
    assert find(["A hill", "An ash hill"], ["hill"]) == ["An ash hill", "A hill"]
'''),
    Place("words", "library/catalogue.py", "wanted <= set(title.lower().split())",
          "any(word in title.lower() for word in wanted)",
'''\
from library.catalogue import find


def test_whole_words():
    assert find(["Seashore"], ["sea"]) == []


def test_all_words():
    assert find(["Sea life", "Sea wolf"], ["sea", "wolf"]) == ["Sea wolf"]
''', '''\
from library.catalogue import find


def test_no_part_of_a_word():
    assert find(["Cats", "Concatenate", "Cat"], ["cat"]) == ["Cat"]


def test_each_word_counts():
    titles = ["Red cat", "Red dog", "Cat and dog", "Dog cat red"]
    assert find(titles, ["Red", "CAT"]) == ["Dog cat red", "Red cat"]
'''),
    Place("copies", "library/shelf.py", "self.copies[title] < 1", "title not in self.copies",
'''\
from library.shelf import Shelf


def test_the_last_copy_is_gone():
    shelf = Shelf(["emma"])
    shelf.take("emma")
    try:
        shelf.take("emma")
    except LookupError:
        return
    raise AssertionError("taken twice")
''', '''\
from library.shelf import Shelf


def test_never_below_nothing():
    shelf = Shelf(["emma", "ulysses", "emma"])
    taken = 0
    for _ in range(4):
        try:
            shelf.take("emma")
            taken += 1
        except LookupError:
            pass
    assert (taken, shelf.free("emma"), shelf.free("ulysses")) == (2, 0, 1)


def test_brought_back_and_taken():
    shelf = Shelf(["emma"])
    refused = 0
    for _ in range(2):
        shelf.take("emma")
        try:
            shelf.take("emma")
        except LookupError:
            refused += 1
        shelf.bring("emma")
    assert (refused, shelf.free("emma")) == (2, 1)
'''),
    Place("queue", "library/shelf.py", "self.names.pop(0)", "self.names.pop()",
'''\
from library.shelf import Queue


def test_first_come_first_served():
    queue = Queue()
    for name in ("ada", "bo", "ada"):
        queue.ask(name)
    assert [queue.next(), queue.next(), queue.next()] == ["ada", "bo", None]
''', '''\
from library.shelf import Queue


def test_long_queue():
    queue = Queue()
    for n in range(5):
        queue.ask(f"p{n % 3}")
    assert [queue.next() for _ in range(4)] == ["p0", "p1", "p2", None]


def test_back_to_the_end():
    queue = Queue()
    queue.ask("ada")
    queue.ask("bo")
    first = queue.next()
    queue.ask(first)
    assert [first, queue.next(), queue.next()] == ["ada", "bo", "ada"]
'''),
)  # fmt: skip


def library(dice: Dice) -> Package:
    """With days and fees of its own."""
    fee = dice.choice([10, 20, 25])
    return filled(
        "library",
        _TEXT,
        _FILES,
        _PLACES,
        loan=dice.choice([14, 21, 28]),
        more=dice.choice([7, 10, 14]),
        fee=fee,
        most=fee * dice.choice([10, 20, 30]),
    )
