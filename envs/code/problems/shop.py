"""Level 4: a shop's cart, prices and receipt."""

from agent_envs.envs.code.problems.form import Dice
from agent_envs.envs.code.problems.repairs import Package, Place, filled

_TEXT = """\
The package `shop` counts money in whole cents.

- `shop.prices.parse(text)`: cents of a price such as "3.50", "3" or "0.5"; ValueError for a
  negative price or more than two decimals.
- `shop.cart.Cart(items)`: `add(name, cents, count=1)` adds to what is there under that name;
  `remove(name, count)` takes away, never below nothing, and a name of which nothing is left is
  gone; `lines()` is a list of (name, count, cents each) in the order in which names were first
  added.
- `shop.discount.reduced(total)`: from <limit> cents on, <percent> percent less, the reduction
  rounded down to whole cents; below <limit> nothing is taken off.
- `shop.discount.shipping(total)`: <ship> cents below a total of <free>, else 0; an empty cart
  (total 0) is not shipped and costs 0.
- `shop.receipt.receipt(cart)`: a line for each entry, name left-aligned in <width> characters
  and the sum right-aligned in 8 as "12.34", then such a line for `total`."""

_FILES = {
    "shop/prices.py": '''\
"""Prices as text and as cents."""


def parse(text: str) -> int:
    """Cents of a price."""
    whole, _, decimals = text.strip().partition(".")
    if whole.startswith("-") or len(decimals) > 2:
        raise ValueError(f"no price: {text}")
    return 100 * int(whole) + int(decimals.ljust(2, "0"))


def show(cents: int) -> str:
    """A price as text."""
    return f"{cents // 100}.{cents % 100:02}"
''',
    "shop/cart.py": '''\
"""What somebody wants to buy."""


class Cart:
    """Names with counts and prices."""

    def __init__(self, items=()):
        self.items = {}
        for item in items:
            self.add(*item)

    def add(self, name: str, cents: int, count: int = 1) -> None:
        """Put something in."""
        before = self.items.get(name, (0, 0))[0]
        self.items[name] = (before + count, cents)

    def remove(self, name: str, count: int) -> None:
        """Take something out."""
        have, cents = self.items[name]
        if have > count:
            self.items[name] = (have - count, cents)
        else:
            del self.items[name]

    def lines(self) -> list:
        """Name, count and price of each entry."""
        return [(name, count, cents) for name, (count, cents) in self.items.items()]

    def total(self) -> int:
        """What all of it costs."""
        return sum(count * cents for _, count, cents in self.lines())
''',
    "shop/discount.py": '''\
"""What is taken off and what is put on."""


def reduced(total: int) -> int:
    """The total after the discount."""
    if total >= <limit>:
        return total - total * <percent> // 100
    return total


def shipping(total: int) -> int:
    """What it costs to send."""
    return <ship> if 0 < total < <free> else 0
''',
    "shop/receipt.py": '''\
"""A receipt as text."""

from shop.cart import Cart
from shop.prices import show


def receipt(cart: Cart) -> str:
    """One line an entry, and the total."""
    rows = [(name, count * cents) for name, count, cents in cart.lines()]
    rows.append(("total", cart.total()))
    return "\\n".join(f"{name:<<width>}{show(cents):>8}" for name, cents in rows)
''',
}

_PLACES = (
    Place("parse", "shop/prices.py", 'int(decimals.ljust(2, "0"))', 'int(decimals or "0")',
'''\
from shop.prices import parse


def test_one_decimal():
    assert parse("0.5") == 50


def test_one_decimal_above_one():
    assert parse("12.3") == 1230
''', '''\
from shop.prices import parse


def test_each_decimal():
    found = [parse(f"<percent>.{n}") for n in (1, 5, 9)]
    assert found == [<percent>10, <percent>50, <percent>90]


def test_every_form():
    assert [parse(" 7.9 "), parse("7.09"), parse("7"), parse("7.")] == [790, 709, 700, 700]
'''),
    Place("adding", "shop/cart.py", "(before + count, cents)", "(count, cents)",
'''\
from shop.cart import Cart


def test_add_twice():
    cart = Cart([("tea", 250)])
    cart.add("tea", 250, 2)
    assert cart.lines() == [("tea", 3, 250)]
''', '''\
from shop.cart import Cart


def test_add_many():
    cart = Cart()
    for n in (4, 9):
        cart.add("tea", 30, n)
        cart.add("jam", 40)
    assert cart.lines() == [("tea", 13, 30), ("jam", 2, 40)]


def test_total_after_adding():
    cart = Cart([("a", 10, 2), ("b", 7), ("a", 10, 3)])
    assert cart.total() == 57
'''),
    Place("removing", "shop/cart.py", "if have > count:", "if have >= count:",
'''\
from shop.cart import Cart


def test_remove_all():
    cart = Cart([("tea", 250, 2)])
    cart.remove("tea", 2)
    assert cart.lines() == []
''', '''\
from shop.cart import Cart


def test_remove_step_by_step():
    cart = Cart([("tea", 250, 3), ("jam", 90)])
    for left in (2, 1):
        cart.remove("tea", 1)
        assert cart.lines()[0] == ("tea", left, 250)
    cart.remove("tea", 1)
    assert cart.lines() == [("jam", 1, 90)]


def test_remove_the_only_one():
    cart = Cart([("tea", 250), ("jam", 90, 5)])
    cart.remove("tea", 1)
    cart.remove("jam", 9)
    assert cart.lines() == []
'''),
    Place("reduction", "shop/discount.py", "total >= <limit>", "total > <limit>",
'''\
from shop.discount import reduced


def test_from_the_limit_on():
    assert reduced(<limit>) == <limit> - <limit> * <percent> // 100
''', '''\
from shop.discount import reduced


def test_around_the_limit():
    found = [reduced(<limit> + n) - <limit> - n for n in (-1, 0, 1)]
    assert found == [0, -(<limit> * <percent> // 100), -((<limit> + 1) * <percent> // 100)]


def test_at_the_limit_it_is_less():
    assert reduced(<limit>) < <limit> and reduced(<limit> - 1) == <limit> - 1
'''),
    Place("shipping", "shop/discount.py", "0 < total < <free>", "total <= <free>",
'''\
from shop.discount import shipping


def test_free_from_the_limit_on():
    assert shipping(<free>) == 0


def test_nothing_is_not_shipped():
    assert shipping(0) == 0
''', '''\
from shop.discount import shipping


def test_both_ends():
    found = [shipping(n) for n in (0, 1, <free> - 1, <free>, <free> + 1)]
    assert found == [0, <ship>, <ship>, 0, 0]


def test_free_and_nothing():
    assert shipping(<free>) == shipping(0) == 0
'''),
    Place("receipt", "shop/receipt.py", "count * cents) for", "cents) for",
'''\
from shop.cart import Cart
from shop.receipt import receipt


def test_two_of_a_thing():
    line = receipt(Cart([("tea", 250, 2)])).split("\\n")[0]
    assert line.split() == ["tea", "5.00"]
''', '''\
from shop.cart import Cart
from shop.receipt import receipt


def test_every_line():
    found = receipt(Cart([("tea", 250, 3), ("jam", 95), ("rye", 5, 2)])).split("\\n")
    assert found[0] == "tea".ljust(<width>) + "    7.50"
    assert found[1:3] == ["jam".ljust(<width>) + "    0.95", "rye".ljust(<width>) + "    0.10"]
    assert found[3] == "total".ljust(<width>) + "    8.55"


def test_many_of_one():
    assert "99.00" in receipt(Cart([("tea", 100, 99)])).split("\\n")[0]
'''),
)  # fmt: skip


def shop(dice: Dice) -> Package:
    """With limits of its own."""
    return filled(
        "shop",
        _TEXT,
        _FILES,
        _PLACES,
        limit=dice.choice([2000, 3000, 5000, 8000]),
        percent=dice.choice([5, 10, 12, 15]),
        ship=dice.choice([295, 350, 490]),
        free=dice.choice([2500, 4000, 6000]),
        width=dice.choice([12, 16, 20]),
    )
