"""Five small worlds: a shop, a library, a clinic, an airport's flights, a ledger."""

import datetime
from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random
from typing import Any

from sqlalchemy import Boolean, Date, Integer, MetaData, String, UniqueConstraint

from agent_envs.envs.sql import names
from agent_envs.envs.sql.database import Database
from agent_envs.envs.sql.schemas import Record, World, col, day, key, maybe, ref, skewed, table
from agent_envs.streams import derive


def shop() -> World:
    """Customers buy products."""
    m = MetaData()
    table(
        m, "customer", "customers", key(),
        col("name", String, "name"), col("city", String, "category"),
        col("joined_on", Date, "date", "joining date"), col("vip", Boolean, "flag", "VIP flag"),
        col("birth_year", Integer, "number", optional=True),
    )  # fmt: skip
    table(
        m, "product", "products", key(),
        col("name", String, "name"), col("category", String, "category"),
        col("price", Integer, "number", check="price > 0"),
        col("stock", Integer, "number", check="stock >= 0"),
    )  # fmt: skip
    table(
        m, "purchase", "purchases", key(), ref("customer_id", "customer"),
        col("ordered_on", Date, "date", "order date"), col("status", String, "category"),
    )  # fmt: skip
    table(
        m, "item", "items", key(), ref("purchase_id", "purchase"), ref("product_id", "product"),
        col("quantity", Integer, "number", check="quantity > 0"),
        col("discount", Integer, "number", optional=True),
        UniqueConstraint("purchase_id", "product_id"),
    )  # fmt: skip
    return World("shop", m, _shop_rows)


def _shop_rows(rng: Random, hostile: bool) -> Mapping[str, list[Record]]:
    size = rng.randint(24, 34)
    people = names.people(rng, size, hostile)
    goods = names.goods(rng, rng.randint(16, 22), hostile)
    customers = [
        {"id": i, "name": name, "city": skewed(rng, names.CITIES), "joined_on": day(rng),
         "vip": rng.random() < 0.3, "birth_year": maybe(rng, rng.randint(1950, 2004))}
        for i, name in enumerate(people, 1)
    ]  # fmt: skip
    products = [
        {"id": i, "name": name, "category": skewed(rng, names.CATEGORIES),
         "price": rng.randint(3, 90) * 5, "stock": rng.randint(0, 60)}
        for i, name in enumerate(goods, 1)
    ]  # fmt: skip
    purchases = [
        {"id": i, "customer_id": 1 + int(size * rng.random() ** 1.4), "ordered_on": day(rng),
         "status": skewed(rng, ["shipped", "open", "returned", "cancelled"])}
        for i in range(1, rng.randint(60, 80))
    ]  # fmt: skip
    pairs = {(rng.choice(purchases)["id"], rng.choice(products)["id"]) for _ in range(110)}
    items = [
        {"id": i, "purchase_id": p, "product_id": q, "quantity": rng.randint(1, 6),
         "discount": maybe(rng, rng.randint(1, 6) * 5, 0.5)}
        for i, (p, q) in enumerate(sorted(pairs), 1)
    ]  # fmt: skip
    return {"customer": customers, "product": products, "purchase": purchases, "item": items}


def library() -> World:
    """Members borrow books of authors."""
    m = MetaData()
    table(
        m, "author", "authors", key(),
        col("name", String, "name"), col("country", String, "category"),
        col("born", Integer, "number", "birth year", optional=True),
    )  # fmt: skip
    table(
        m, "book", "books", key(), ref("author_id", "author"),
        col("title", String, "name"), col("genre", String, "category"),
        col("pages", Integer, "number", check="pages > 0"),
        col("copies", Integer, "number", check="copies >= 0"),
        col("published", Integer, "number", "year of publication"),
    )  # fmt: skip
    table(
        m, "member", "members", key(),
        col("name", String, "name"), col("town", String, "category"),
        col("joined_on", Date, "date", "joining date"), col("blocked", Boolean, "flag"),
    )  # fmt: skip
    table(
        m, "loan", "loans", key(), ref("book_id", "book"), ref("member_id", "member"),
        col("lent_on", Date, "date", "lending date"),
        col("returned_on", Date, "date", "return date", optional=True),
        col("fine", Integer, "number", check="fine >= 0"),
    )  # fmt: skip
    return World("library", m, _library_rows)


def _library_rows(rng: Random, hostile: bool) -> Mapping[str, list[Record]]:
    authors = [
        {"id": i, "name": name, "country": skewed(rng, names.COUNTRIES),
         "born": maybe(rng, rng.randint(1900, 1990))}
        for i, name in enumerate(names.people(rng, rng.randint(14, 18), hostile), 1)
    ]  # fmt: skip
    books = [
        {"id": i, "author_id": rng.randint(1, len(authors)), "title": title,
         "genre": skewed(rng, names.GENRES), "pages": rng.randint(60, 700),
         "copies": rng.randint(0, 9), "published": rng.randint(1960, 2023)}
        for i, title in enumerate(names.titles(rng, rng.randint(36, 46), hostile), 1)
    ]  # fmt: skip
    members = [
        {"id": i, "name": name, "town": skewed(rng, names.CITIES), "joined_on": day(rng),
         "blocked": rng.random() < 0.25}
        for i, name in enumerate(names.people(rng, rng.randint(22, 28), hostile), 1)
    ]  # fmt: skip
    loans = []
    for i in range(1, rng.randint(85, 110)):
        lent = datetime.date.fromisoformat(day(rng))
        back = (lent + datetime.timedelta(days=rng.randint(2, 60))).isoformat()
        loans.append(
            {"id": i, "book_id": 1 + int(len(books) * rng.random() ** 1.5),
             "member_id": 1 + int(len(members) * rng.random() ** 1.3),
             "lent_on": lent.isoformat(), "returned_on": maybe(rng, back),
             "fine": rng.choice([0, 0, 1, 2, 3, 5, 8]) * 10}
        )  # fmt: skip
    return {"author": authors, "book": books, "member": members, "loan": loans}


def clinic() -> World:
    """Patients visit doctors and are prescribed drugs."""
    m = MetaData()
    table(
        m, "doctor", "doctors", key(),
        col("name", String, "name"), col("specialty", String, "category"),
        col("hired_on", Date, "date", "hiring date"),
        col("room", Integer, "number", "room number", optional=True),
    )  # fmt: skip
    table(
        m, "patient", "patients", key(),
        col("name", String, "name"), col("city", String, "category"),
        col("born_on", Date, "date", "birth date"),
        col("insurer", String, "category", optional=True),
    )  # fmt: skip
    table(
        m, "visit", "visits", key(), ref("patient_id", "patient"), ref("doctor_id", "doctor"),
        col("visited_on", Date, "date", "visit date"),
        col("fee", Integer, "number", check="fee >= 0"),
        col("urgent", Boolean, "flag"),
        col("duration", Integer, "number", "duration in minutes", optional=True),
    )  # fmt: skip
    table(
        m, "prescription", "prescriptions", key(), ref("visit_id", "visit"),
        col("drug", String, "category"),
        col("days", Integer, "number", "number of days", check="days > 0"),
        UniqueConstraint("visit_id", "drug"),
    )  # fmt: skip
    return World("clinic", m, _clinic_rows)


def _clinic_rows(rng: Random, hostile: bool) -> Mapping[str, list[Record]]:
    doctors = [
        {"id": i, "name": name, "specialty": skewed(rng, names.SPECIALTIES),
         "hired_on": day(rng), "room": maybe(rng, rng.randint(101, 140))}
        for i, name in enumerate(names.people(rng, rng.randint(10, 14), hostile), 1)
    ]  # fmt: skip
    patients = [
        {"id": i, "name": name, "city": skewed(rng, names.CITIES), "born_on": day(rng),
         "insurer": maybe(rng, skewed(rng, names.INSURERS))}
        for i, name in enumerate(names.people(rng, rng.randint(26, 34), hostile), 1)
    ]  # fmt: skip
    visits = [
        {"id": i, "patient_id": 1 + int(len(patients) * rng.random() ** 1.4),
         "doctor_id": 1 + int(len(doctors) * rng.random() ** 1.3), "visited_on": day(rng),
         "fee": rng.randint(2, 40) * 5, "urgent": rng.random() < 0.3,
         "duration": maybe(rng, rng.randint(2, 18) * 5)}
        for i in range(1, rng.randint(80, 100))
    ]  # fmt: skip
    pairs = {(rng.choice(visits)["id"], skewed(rng, names.DRUGS)) for _ in range(75)}
    prescriptions = [
        {"id": i, "visit_id": visit, "drug": drug, "days": rng.randint(2, 30)}
        for i, (visit, drug) in enumerate(sorted(pairs), 1)
    ]  # fmt: skip
    return {"doctor": doctors, "patient": patients, "visit": visits,
            "prescription": prescriptions}  # fmt: skip


def flights() -> World:
    """Airlines fly between airports and sell seats."""
    m = MetaData()
    table(
        m, "airline", "airlines", key(),
        col("name", String, "name"), col("country", String, "category"),
        col("founded", Integer, "number", "founding year", optional=True),
    )  # fmt: skip
    table(
        m, "airport", "airports", key(),
        col("name", String, "name"), col("country", String, "category"),
        col("runways", Integer, "number", "number of runways", check="runways > 0"),
    )  # fmt: skip
    table(
        m, "flight", "flights", key(), ref("airline_id", "airline"),
        ref("airport_id", "airport"),
        col("aircraft", String, "category"),
        col("departed_on", Date, "date", "departure date"),
        col("minutes", Integer, "number", "flight time in minutes", check="minutes > 0"),
        col("delay", Integer, "number", "delay in minutes", optional=True),
        col("seats", Integer, "number", "number of free seats", check="seats >= 0"),
    )  # fmt: skip
    table(
        m, "booking", "bookings", key(), ref("flight_id", "flight"),
        col("class", String, "category", "class"),
        col("price", Integer, "number", check="price > 0"),
        col("paid", Boolean, "flag"),
        col("booked_on", Date, "date", "booking date"),
    )  # fmt: skip
    return World("flights", m, _flights_rows)


def _flights_rows(rng: Random, hostile: bool) -> Mapping[str, list[Record]]:
    airlines = [
        {"id": i, "name": name, "country": skewed(rng, names.COUNTRIES),
         "founded": maybe(rng, rng.randint(1930, 2018))}
        for i, name in enumerate(names.companies(rng, rng.randint(9, 12), hostile), 1)
    ]  # fmt: skip
    airports = [
        {"id": i, "name": name, "country": skewed(rng, names.COUNTRIES),
         "runways": rng.randint(1, 5)}
        for i, name in enumerate(names.places(rng, rng.randint(12, 16), hostile), 1)
    ]  # fmt: skip
    flown = [
        {"id": i, "airline_id": 1 + int(len(airlines) * rng.random() ** 1.3),
         "airport_id": 1 + int(len(airports) * rng.random() ** 1.4),
         "aircraft": skewed(rng, names.AIRCRAFT), "departed_on": day(rng),
         "minutes": rng.randint(9, 130) * 5, "delay": maybe(rng, rng.randint(0, 30) * 3),
         "seats": rng.randint(0, 40)}
        for i in range(1, rng.randint(55, 70))
    ]  # fmt: skip
    bookings = [
        {"id": i, "flight_id": rng.choice(flown)["id"],
         "class": skewed(rng, ["economy", "business", "first"]),
         "price": rng.randint(8, 160) * 5, "paid": rng.random() < 0.7, "booked_on": day(rng)}
        for i in range(1, rng.randint(95, 120))
    ]  # fmt: skip
    return {"airline": airlines, "airport": airports, "flight": flown, "booking": bookings}


def ledger() -> World:
    """Owners hold accounts with entries."""
    m = MetaData()
    table(
        m, "owner", "owners", key(),
        col("name", String, "name"), col("town", String, "category"),
        col("since", Date, "date", "date of the contract"),
        col("advisor", String, "category", optional=True),
    )  # fmt: skip
    table(
        m, "account", "accounts", key(), ref("owner_id", "owner"),
        col("iban", String, "name", "IBAN"), col("kind", String, "category"),
        col("opened_on", Date, "date", "opening date"), col("frozen", Boolean, "flag"),
        col("balance", Integer, "number", check="balance >= 0"), UniqueConstraint("iban"),
    )  # fmt: skip
    table(
        m, "entry", "entries", key(), ref("account_id", "account"),
        col("booked_on", Date, "date", "booking date"),
        col("amount", Integer, "number", check="amount <> 0"),
        col("channel", String, "category", optional=True),
    )  # fmt: skip
    return World("ledger", m, _ledger_rows)


def _ledger_rows(rng: Random, hostile: bool) -> Mapping[str, list[Record]]:
    owners = [
        {"id": i, "name": name, "town": skewed(rng, names.CITIES), "since": day(rng),
         "advisor": maybe(rng, skewed(rng, names.ADVISORS))}
        for i, name in enumerate(names.people(rng, rng.randint(22, 28), hostile), 1)
    ]  # fmt: skip
    accounts = [
        {"id": i, "owner_id": 1 + int(len(owners) * rng.random() ** 1.2), "iban": iban,
         "kind": skewed(rng, ["current", "savings", "deposit", "joint"]),
         "opened_on": day(rng), "frozen": rng.random() < 0.25,
         "balance": rng.randint(0, 180) * 10}
        for i, iban in enumerate(names.ibans(rng, rng.randint(36, 46)), 1)
    ]  # fmt: skip
    entries = [
        {"id": i, "account_id": 1 + int(len(accounts) * rng.random() ** 1.4),
         "booked_on": day(rng), "amount": rng.choice([-1, 1, 1]) * rng.randint(1, 60) * 5,
         "channel": maybe(rng, skewed(rng, ["card", "branch", "app", "phone"]))}
        for i in range(1, rng.randint(110, 140))
    ]  # fmt: skip
    return {"owner": owners, "account": accounts, "entry": entries}


WORLDS: dict[str, World] = {
    world.name: world for world in (shop(), library(), clinic(), flights(), ledger())
}


@lru_cache(maxsize=512)
def database(world: str, seed: int, hostile: bool, dialect: str) -> Database:
    """The database of a world, a function of its arguments alone. Raises KeyError."""
    made = WORLDS[world]
    rng = Random(derive("sql rows", world, seed, hostile))
    filled = made.fill(rng, hostile)
    rows = {
        name: [[*records[0]], *([*map(_stored(dialect), record.values())] for record in records)]
        for name, records in filled.items()
    }
    return Database(made.script(dialect), rows)


def _stored(dialect: str) -> Callable[[Any], Any]:
    """SQLite has no booleans."""
    if dialect == "sqlite":
        return lambda value: int(value) if isinstance(value, bool) else value
    return lambda value: value
