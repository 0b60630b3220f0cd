"""Random values that fit a tool's schema: what random policies and the conformance kit pass."""

import random
from collections.abc import Callable
from typing import Any

_LETTERS = "abcxyz ABC_-.,:;'\"\\/<>{}[]|%\n\téßñж漢字あ한🙂́\u200d"
_WORDS = ("", "a", "tea", "null", "true", "None", "SELECT 1", "<b>", "{}", "naïve", "東京", "🙂🙂")


def sample(schema: dict[str, Any], rng: random.Random) -> Any:
    """A small random value that fits `schema`, one of those that `@tool` derives.

    It takes the schema of a parameter, or that of all parameters together, from which parameters
    that are not required are left out half of the time. Raises ValueError for a type not known.
    """
    if "anyOf" in schema:
        return sample(rng.choice(schema["anyOf"]), rng)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    draw = _DRAWS.get(schema.get("type", ""))
    if draw is None:
        raise ValueError(f"no sample for the schema {schema!r:.200}; give it a type, as @tool does")
    return draw(schema, rng)


def _string(schema: dict[str, Any], rng: random.Random) -> str:
    match rng.randrange(4):
        case 0:
            return rng.choice(_WORDS)
        case 1:
            return str(_integer(schema, rng))
        case 2:
            return _expression(rng)
    return "".join(rng.choices(_LETTERS, k=rng.randrange(1, 13)))


def _expression(rng: random.Random) -> str:
    terms = [str(rng.randrange(100)) for _ in range(rng.randrange(2, 5))]
    signs = [rng.choice(("+", "-", "*", "/", " + ", "//", "%")) for _ in terms[1:]]
    return terms[0] + "".join(sign + term for sign, term in zip(signs, terms[1:], strict=True))


def _integer(schema: dict[str, Any], rng: random.Random) -> int:
    size = rng.choice((1, 10, 100, 10**6, 10**18))
    return rng.randint(-size, size)


def _number(schema: dict[str, Any], rng: random.Random) -> float:
    whole = _integer(schema, rng)
    return whole if rng.random() < 0.3 else whole * rng.choice((0.5, 0.01, 1e-9, 1.0))


def _boolean(schema: dict[str, Any], rng: random.Random) -> bool:
    return rng.random() < 0.5


def _null(schema: dict[str, Any], rng: random.Random) -> None:
    return None


def _array(schema: dict[str, Any], rng: random.Random) -> list[Any]:
    return [sample(schema["items"], rng) for _ in range(rng.randrange(4))]


def _object(schema: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    if "properties" in schema:
        given = [k for k in schema["properties"] if k in schema["required"] or rng.random() < 0.5]
        return {k: sample(schema["properties"][k], rng) for k in given}
    values = schema["additionalProperties"]
    return {_string({}, rng): sample(values, rng) for _ in range(rng.randrange(4))}


_DRAWS: dict[str, Callable[[dict[str, Any], random.Random], Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "array": _array,
    "object": _object,
}
