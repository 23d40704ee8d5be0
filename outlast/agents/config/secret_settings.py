"""Finds secrets in the settings of a run, which are written into its history."""

import re
from collections.abc import Iterator
from typing import Final, cast

from outlast.loop.values import Json, JsonObject

_SECRET_NAME: Final = re.compile(
    r"""(?:^|.*-)(?:
        (?:proxy-)?authorization | credentials? | password | passwd | passphrase | cookie | bearer
      | (?:api|access|private|secret|signing|encryption|subscription|functions|auth|account)-?key
      | access-?key-?id | secret
      | (?:access|refresh|id|session|security|auth|api|bot|bearer|oauth)-?token
    ) | token | x-.*-token""",
    re.VERBOSE,
)
"""Names of headers, parameters and fields whose values are secrets, in lower case with hyphens."""

_SECRET_VALUE: Final = re.compile(
    r"""^(?:bearer|basic|token|digest|aws4-hmac-sha256)\s+\S
      | \b(?:sk|pk|rk)[-_](?:[a-z0-9]+[-_])*[a-z0-9]{16,}
      | \bgh[pousr]_[a-z0-9]{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
      | \bxox[a-z]-[\w-]{10,} | \bAIza[\w-]{30,} | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
      | \beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.
      | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----
      | ^[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@""",
    re.VERBOSE | re.IGNORECASE,
)
"""Forms of secrets that are recognized wherever they stand."""


def secret_in(settings: JsonObject) -> str | None:
    """Return the place of a recognizable secret in a run's settings, never the secret; or None."""
    return next(_secrets(settings, ""), None)


def _secrets(value: Json, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast("JsonObject", value).items():
            inside = f"{place}.{key}" if place else key
            if is_secret_name(key) and isinstance(inner, str) and inner.strip():
                yield inside
            else:
                yield from _secrets(inner, inside)
    elif isinstance(value, list):
        for number, inner in enumerate(cast("list[Json]", value)):
            yield from _secrets(inner, f"{place}[{number}]")
    elif isinstance(value, str) and is_secret_text(value):
        yield place


def is_secret_text(text: str) -> bool:
    """Whether a text has the form of a key or token, or is a URL with a password."""
    return _SECRET_VALUE.search(text) is not None


def is_secret_name(key: str) -> bool:
    """Whether a header, parameter, field or variable of this name holds a secret."""
    spelled = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key).lower()
    return _SECRET_NAME.fullmatch(re.sub(r"[\W_]+", "-", spelled)) is not None
