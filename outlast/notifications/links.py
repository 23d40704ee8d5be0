"""Signed links that let one person decide one request, until they expire.

Nothing is stored, and every process that has the key accepts a link. The run makes it single-use:
it takes one decision of a person for a request, and none once the request is settled or its
arguments have changed.
"""

import base64
import binascii
import json
import time
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from outlast.agents.errors import UserError
from outlast.hosts import is_this_machine
from outlast.notifications.http import check_url
from outlast.notifications.requests import RequestRef
from outlast.notifications.signatures import check_secret, hmac_hex, is_equal

PARAMETER: Final = "token"
LONGEST_TOKEN: Final = 8_000  # servers refuse longer addresses; bounds the parsing

_PURPOSE: Final = b"outlast decision link 1\n"
"""Keeps signatures of links apart from others with the same key."""


class LinkRefused(Exception):
    """A link is forged, incomplete or too old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(RequestRef):
    """The content of a link."""

    subject: str
    groups: tuple[str, ...] = ()
    expires_at: int


class LinkSigner:
    """Makes and checks the tokens of links."""

    def __init__(self, key: str) -> None:
        self._key = check_secret(key, "key")

    def token(self, link: Link) -> str:
        """Return the token of a link."""
        data = json.dumps(asdict(link)).encode()
        payload = base64.urlsafe_b64encode(data).decode().rstrip("=")
        return f"{payload}.{self._signature(payload)}"

    def read(self, token: str, *, now: float | None = None) -> Link:
        """Return the link of a token."""
        payload, _, signature = token.partition(".")
        is_whole = len(token) <= LONGEST_TOKEN and token.isascii()
        if not is_whole or not is_equal(signature, self._signature(payload)):
            raise LinkRefused("The link is not valid. Copy it whole from the newest mail.")
        try:
            padded = payload + "=" * (-len(payload) % 4)
            data: dict[str, Any] = json.loads(base64.urlsafe_b64decode(padded))
            data["groups"] = tuple(data["groups"])
            link = Link(**data)
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise LinkRefused("The link is of another version. Use the newest mail.") from error
        if link.expires_at <= (time.time() if now is None else now):
            raise LinkRefused("The link has expired. Use the newest mail, or `outlast approve`.")
        return link

    def _signature(self, payload: str) -> str:
        return hmac_hex(self._key, _PURPOSE + payload.encode())


def check_link_base(address: object) -> str:
    """Return the address of the decision page."""
    base = check_url(address, "link_base")
    parts = urlsplit(base)
    if parts.query or parts.fragment:
        raise UserError("link_base= must be an address without a query.")
    if parts.scheme != "https" and not is_this_machine(parts.hostname or ""):
        raise UserError(
            "link_base= must begin with https://, because whoever reads a link may decide."
        )
    return base


def address_of(base: str, token: str) -> str:
    """Return the address that a mail shows."""
    return f"{base}?{urlencode({PARAMETER: token})}"
