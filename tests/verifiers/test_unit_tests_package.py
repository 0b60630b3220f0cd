"""Packages: what their tests may use, and what counts as failed."""

from typing import Any

import pytest

from agent_envs.verifiers.unit_tests import Report, verify

SHOP = {
    "shop/__init__.py": "from shop.cart import Cart\nVERSION = '1.2'\n",
    "shop/errors.py": """
class ShopError(Exception):
    pass

class OutOfStock(ShopError, ValueError):
    def __init__(self, item):
        super().__init__(f"no {item}")
        self.item = item
""",
    "shop/cart.py": """
import enum
from dataclasses import dataclass
from shop.errors import OutOfStock

SEEN = []

class Size(enum.Enum):
    SMALL = 1
    LARGE = 2

@dataclass(frozen=True, order=True)
class Item:
    name: str
    price: int = 1

class Cart:
    limit = 3

    def __init__(self, owner=None):
        self.items = []
        self.owner = owner

    @classmethod
    def of(cls, *items):
        cart = cls()
        for item in items:
            cart.add(item)
        return cart

    def add(self, item):
        if len(self.items) == self.limit:
            raise OutOfStock(item.name)
        self.items.append(item)
        SEEN.append(item.name)
        return self

    @property
    def total(self):
        return sum(item.price for item in self.items)

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return iter(self.items)

    def __contains__(self, item):
        return item in self.items

    def __getitem__(self, n):
        return self.items[n]

    def __add__(self, other):
        return Cart.of(*self, *other)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.items.clear()

def totals(carts):
    return {cart.owner: cart.total for cart in carts}

def count(n):
    yield from range(n)
""",
}
GOOD = """
import unittest
import shop
import shop.cart as c
from shop import Cart
from shop.cart import Item, Size, count, totals
from shop.errors import OutOfStock, ShopError
from tests.helpers import pair

def test_plain():
    assert shop.VERSION == '1.2' and Cart.limit == 3

def test_objects():
    cart = Cart('me')
    assert cart.add(Item('a', 2)) is cart
    cart.add(Item('b'))
    assert cart.total == 3 and len(cart) == 2 and cart
    assert [item.name for item in cart] == ['a', 'b']
    assert Item('a', 2) in cart and Item('x') not in cart and cart[1] == Item('b')
    assert isinstance(cart, Cart) and not isinstance(cart, Item)
    assert totals([cart, Cart('you')]) == {'me': 3, 'you': 0}
    assert repr(Item('a')) == "Item(name='a', price=1)"
    assert {Item('a'), Item('a')} == {Item('a')} and Item('a') < Item('b')
    assert (cart + cart[:1:] if False else cart + [Item('z')]).total == 4
    cart.owner = 'her'
    assert cart.owner == 'her'

def test_state_is_of_one_test():
    assert c.SEEN == []
    Cart.of(*pair(Item))
    assert c.SEEN == ['p', 'q']

def test_exceptions():
    cart = Cart.of(Item('a'), Item('b'), Item('c'))
    try:
        cart.add(Item('d'))
    except ShopError as error:
        assert isinstance(error, OutOfStock) and isinstance(error, ValueError)
        assert str(error) == 'no d' and error.item == 'd'
    else:
        assert False
    try:
        cart[7]
    except IndexError:
        pass

def test_others():
    assert Size.SMALL is Size.SMALL and Size(2) == Size.LARGE and Size.LARGE.value == 2
    assert list(count(3)) == [0, 1, 2]
    numbers = count(1)
    assert next(numbers) == 0
    assert next(numbers, 'end') == 'end'
    with Cart.of(Item('a')) as cart:
        assert len(cart) == 1
    assert len(cart) == 0

class TestUnit(unittest.TestCase):
    def setUp(self):
        self.cart = Cart()

    def test_unit(self):
        with self.assertRaises(AttributeError):
            self.cart.nothing
        self.assertEqual(self.cart.total, 0)

class TestPlain:
    def test_method(self):
        assert Cart().total == 0
"""
NAMES = ["test_plain", "test_objects", "test_state_is_of_one_test", "test_exceptions"]
NAMES += ["test_others", "TestUnit.test_unit", "TestPlain.test_method"]
HELPERS = "def pair(kind): return kind('p'), kind('q')\n"


def file(source: str, names: list[str], path: str = "tests/test_shop.py") -> dict[str, Any]:
    return {"path": path, "source": source, "names": names, "must": "fail_to_pass"}


def grade(files: dict[str, str], tests: list[dict[str, Any]], backend: str) -> Report:
    data = {
        "kind": "package",
        "entry_point": "",
        "module": "",
        "files": {name: "" for name in SHOP},
        "visible": [],
        "hidden": tests,
        "solution": SHOP,
        "cpu_seconds": 1,
    }
    return verify(data, files, backend=backend)


def test_what_tests_may_use(backend: str) -> None:
    helpers = file(HELPERS, [], "tests/helpers.py")
    report = grade(SHOP, [helpers, file(GOOD, NAMES)], backend)
    assert [r.name for r in report.results] == [f"tests/test_shop.py::{name}" for name in NAMES]
    assert report.passed, [r for r in report.results if not r.passed]


BAD = """
import unittest
from shop.cart import *
from shop.cart import Cart, Item

def test_wrong(): assert Cart().total == 1
def test_skipped(): raise unittest.SkipTest('x')
@unittest.skip('x')
def test_decorated(): pass
def test_exits(): raise SystemExit(0)
def test_ends(): Cart(); import os; os._exit(0)
def test_yields(): yield
async def test_async(): pass
def test_star(): SEEN
def test_own_function(): Cart(len)
def test_object_is_no_number(): assert Item('a') == 1
class TestUnit(unittest.TestCase):
    @unittest.expectedFailure
    def test_unit(self): self.assertEqual(Cart().total, 1)
    @unittest.skip('x')
    def test_skipped(self): pass
"""
BAD_NAMES = "wrong skipped decorated exits ends yields async star own_function".split()
BAD_NAMES += "object_is_no_number missing".split()


def test_what_counts_as_failed(backend: str) -> None:
    names = [f"test_{name}" for name in BAD_NAMES] + ["TestUnit.test_unit", "TestUnit.test_skipped"]
    report = grade(SHOP, [file(BAD, names)], backend)
    assert not [r.name for r in report.results if r.passed]
    assert len(report.results) == len(names)


@pytest.mark.parametrize(
    "change",
    [
        {"shop/cart.py": "import os; os._exit(0)"},
        {"shop/cart.py": "def broken(:"},
        {"shop/cart.py": "while True: pass"},
        {"shop/cart.py": ""},
        {"shop/__init__.py": "raise SystemExit(0)"},
        {"shop.py": "Cart = None", "shop/__init__.py": ""},
    ],
)
def test_what_cannot_be_imported_fails_all(backend: str, change: dict[str, str]) -> None:
    test = "from shop import Cart\ndef test_a(): assert Cart().total == 0\ndef test_b(): pass"
    report = grade({**SHOP, **change}, [file(test, ["test_a", "test_b"])], backend)
    assert [r.passed for r in report.results] == [False, False], report


def test_tests_that_go_elsewhere_are_run_all_the_same(backend: str) -> None:
    """An answer too long for a cell lies in a file, where the session began."""
    source = """
import os, tempfile
from shop.pages import page
os.chdir(tempfile.gettempdir())
def test_one(): assert len(page(1)) == 50_000
def test_two(): assert len(page(2)) == 100_000
"""
    files = SHOP | {"shop/pages.py": "def page(n): return 'x' * 50_000 * n\n"}
    tests = [file(source, ["test_one", "test_two"], "tests/test_pages.py")]
    report = grade(files, tests, backend)
    assert report.passed, report
