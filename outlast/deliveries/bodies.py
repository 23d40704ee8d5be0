"""Bodies of deliveries: read within bounds, and made into a JSON value."""

import asyncio
import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Final, NoReturn
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from outlast.client.deliveries import LONGEST_ID
from outlast.deliveries.problems import Refused
from outlast.edges.bodies import DOORS, BodyRefused
from outlast.loop.values import Json

LARGEST_BODY_BYTES: Final = DOORS["webhook"].size
"""The largest body: GitHub sends webhooks of up to 25 MB."""

BODY_SECONDS: Final = 30.0
"""How long a sender may take for a body."""

BYTES_AT_ONCE: Final = 200_000_000
"""How much of bodies a process holds at the same time."""

MOST_FIELDS: Final = 1_000
"""How many fields a form may have."""

ID_HEADERS: Final = ("Idempotency-Key", "Webhook-Id", "Svix-Id", "X-GitHub-Delivery")
"""The headers that may name a delivery, the first one first. `X-Request-Id` and its like are not
among them: proxies set it anew for each repetition."""


@dataclass
class BodyReader:
    """Reads the bodies of requests of one kind, of which a process holds so many bytes at once.

    Attributes:
        held: how many bytes of bodies are held now.
    """

    held: int = field(default=0, init=False)

    async def read(self, request: Request) -> bytes:
        """Return the body of a request.

        Raises:
            Refused: it is too large, comes too slowly, or there are too many others.
        """
        length = request.headers.get("Content-Length", "")
        if length.isdecimal() and int(length[:20]) > LARGEST_BODY_BYTES:
            raise _too_large()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await self._read(request)
        except TimeoutError:
            message = f"The body did not come within {BODY_SECONDS:.0f} seconds."
            raise Refused(408, "too_slow", message) from None
        except ClientDisconnect:
            raise Refused(400, "cut_off", "The body was cut off.") from None

    async def _read(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async for chunk in request.stream():
                if len(body) + len(chunk) > LARGEST_BODY_BYTES:
                    raise _too_large()
                if self.held + len(chunk) > BYTES_AT_ONCE:
                    message = "Too many deliveries come at once. Send it again in a moment."
                    raise Refused(503, "too_many", message)
                body += chunk
                self.held += len(chunk)
            return bytes(body)
        finally:
            self.held -= len(body)


def _too_large() -> Refused:
    message = f"The body has more than {LARGEST_BODY_BYTES:,} bytes."
    return Refused(413, "too_large", message)


def delivery_id_of(headers: Headers, body: bytes) -> str:
    """Return what tells a delivery from others: an id in a header, or else a digest of the body.

    Raises:
        Refused: the id is too long.
    """
    given = next((headers[name] for name in ID_HEADERS if headers.get(name)), "")
    if len(given) > LONGEST_ID:
        message = f"The id of a delivery may have {LONGEST_ID} characters, and not {len(given)}."
        raise Refused(400, "invalid_id", message)
    return given or digest_id(body)


def digest_id(*parts: bytes) -> str:
    """Return an id made of what was sent."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return f"sha256:{digest.hexdigest()}"


# --- The value of a body -------------------------------------------------------------------------


def value_of(content_type: str, body: bytes) -> Json:
    """Return the JSON value that a body stands for.

    | `Content-Type` | value |
    |---|---|
    | `application/json`, `…+json` | the JSON |
    | `application/x-www-form-urlencoded` | an object of texts; a name that repeats has a list |
    | `text/…` | a text |
    | anything else, or none | `{"content_type": "…", "base64": "…"}` |

    An empty body is null, whatever its type.

    Raises:
        Refused: the body is not what its type says.
    """
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    if not body:
        return None
    if kind == "application/json" or kind.endswith("+json"):
        return json_of(body)
    if kind == "application/x-www-form-urlencoded":
        return _form(body)
    if kind.startswith("text/"):
        return _text(body, parameters)
    return {"content_type": content_type, "base64": base64.b64encode(body).decode()}


def json_of(body: bytes) -> Json:
    """Return the JSON in a body.

    Raises:
        Refused: there is none.
    """
    try:
        DOORS["webhook"].check(body)
        return json.loads(body.decode(), parse_constant=_no_constant)
    except BodyRefused as error:
        raise Refused(413, "too_large", str(error)) from None
    except (
        ValueError,
        RecursionError,
    ):  # includes UnicodeDecodeError, and numbers of thousands of digits
        message = "The body is no JSON in UTF-8, although its Content-Type says so."
        raise Refused(400, "invalid_json", message) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _form(body: bytes) -> Json:
    try:
        pairs = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        message = f"The body is no form in UTF-8 of up to {MOST_FIELDS:,} fields."
        raise Refused(400, "invalid_form", message) from None
    made: dict[str, list[str]] = {}
    for name, text in pairs:
        made.setdefault(name, []).append(text)
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in made.items()}


def _text(body: bytes, parameters: str) -> str:
    charset = "utf-8"
    for parameter in parameters.split(";"):
        name, _, written = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = written.strip().strip('"').lower()
    if charset not in {"utf-8", "utf8", "us-ascii", "iso-8859-1", "latin-1"}:
        message = "The charset of the text is unknown here. Send UTF-8."
        raise Refused(415, "unknown_charset", message)
    try:
        return body.decode(charset)
    except UnicodeDecodeError:
        raise Refused(400, "invalid_text", "The text is not in its charset.") from None
