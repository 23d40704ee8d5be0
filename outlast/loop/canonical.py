"""One spelling for each JSON value, and one for each name of a person or group.

Digests of arguments and comparisons of people use them, so that what two people see as the same is
the same, and what a tool could read differently is not.
"""

import json
import re
import unicodedata
from hashlib import sha256
from typing import Any, Final, cast

LONGEST_NAME: Final = 256
"""The most characters of a person's or a group's name."""

_NUMBER: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,18}))?")
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Characters without a shape that Unicode does not count as format characters."""


class _Object(list[tuple[str, Any]]):
    """The pairs of a JSON object, repeated keys included."""


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def digest(text: str) -> str:
    """Return the SHA-256 of a JSON text, the same for every spelling of the same value.

    Values that a tool could read differently have different digests: 1 and 1.0, numbers that a
    float cannot tell apart, and objects that repeat a key with other values or in another order.
    A text that is no JSON is taken as it is.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_Object,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Number,
        )
        canonical = _written(value)
    except (ValueError, RecursionError):
        canonical = text
    # A model may write a lone surrogate; "surrogatepass" encodes it the same way every time.
    return sha256(canonical.encode(errors="surrogatepass")).hexdigest()


def digest_of(value: Any) -> str:
    """Return the digest of a JSON value."""
    return digest(json.dumps(value))


def _written(value: Any) -> str:
    match value:
        case _Object():
            pairs = sorted(
                value, key=lambda pair: pair[0]
            )  # stable: repeated keys keep their order
            return "{" + ",".join(f"{json.dumps(k)}:{_written(v)}" for k, v in pairs) + "}"
        case list():
            entries = cast("list[Any]", value)
            return "[" + ",".join(_written(entry) for entry in entries) + "]"
        case _Number():
            return _number(value)
        case _:
            return json.dumps(value)


def _number(text: str) -> str:
    """Return one spelling for a number: Python's own, where that loses nothing."""
    if re.fullmatch(r"-?[0-9]+", text):
        return "0" if text == "-0" else str(text)
    exact = _exact(text)
    if exact is None:  # NaN, an infinity, or an exponent of more digits than any number needs
        return str(text)
    short = repr(float(text))
    return short if _exact(short) == exact else exact


def _exact(text: str) -> str | None:
    """Return a number as its digits and a power of ten, without zeros at either end."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    sign, whole, fraction, power = found[1], found[2], found[3] or "", int(found[4] or 0)
    digits = (whole + fraction).lstrip("0")
    kept = digits.rstrip("0")
    if not kept:
        return f"{sign}0"
    return f"{sign}{kept}e{power - len(fraction) + len(digits) - len(kept)}"


def same_person(one: str, other: str) -> bool:
    """Whether two names are those of one person."""
    return canonical_name(one) == canonical_name(other)


def canonical_name(name: str) -> str:
    """Return a name for comparisons: people whose names look the same are one person.

    Compatibility forms (NFKC), case, spaces around and between words, and characters that people
    cannot see make no difference.
    """
    visible = "".join(
        one
        for one in _INVISIBLE.sub("", unicodedata.normalize("NFKC", name))
        if unicodedata.category(one) not in {"Cf", "Cc"} or one.isspace()
    )
    return unicodedata.normalize("NFKC", " ".join(visible.casefold().split()))
