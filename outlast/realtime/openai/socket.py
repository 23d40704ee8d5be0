"""The WebSocket of a realtime session: how it opens, and its errors."""

from collections.abc import Mapping
from typing import Any, TypedDict
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidStatus,
    InvalidURI,
    SecurityError,
)

from outlast.agents.errors import UserError
from outlast.models.failures import (
    Target,
    unsendable_key,
)
from outlast.models.openai.socket_connection import (
    socket_failures,
)
from outlast.ports.model import ModelError

DEFAULT_URL = "wss://api.openai.com/v1/realtime"

MAX_SIZE = 8 * 1024 * 1024
"""The default limit for a message from the provider, in bytes."""

_ADDRESS_FROM = "url= of the model's configuration"
_KEY_FROM = "OPENAI_API_KEY or api_key= of the model's configuration"

_CLOSE_CODES = {
    1001: "the server is going away",
    1006: "the connection was lost",
    1008: "the server refused the session",
    1009: "a message was too large",
    1011: "the server failed",
    1012: "the server restarts",
    1013: "the server is too busy",
}
"""What codes of closed WebSockets mean."""


class TransportConfig(TypedDict, total=False):
    """The settings of the WebSocket to a realtime model.

    Attributes:
        ping_interval: the seconds between pings that keep the connection open; None sends none.
        ping_timeout: the seconds without an answer to a ping after which the connection counts as
            lost; None means never.
        handshake_timeout: the seconds that opening the connection may take.
        max_size: the limit for a message from the provider in bytes, default 8 MiB; None means no
            limit. A larger message closes the connection.
    """

    ping_interval: float | None
    ping_timeout: float | None
    handshake_timeout: float
    max_size: int | None


class SameOriginConnect(connect):
    """A connection that sends its key to no other server than the first."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow a redirect on the same server; refuse any other."""
        target = super().process_redirect(exc)
        if isinstance(target, str) and urlsplit(target)[:2] != urlsplit(self.uri)[:2]:
            return SecurityError(f"a redirect to another server, {_without_query(target)}")
        return target


def socket_url(url: str | None, *, model: str, call_id: str | None) -> str:
    """Return the address of a session; a configured one is not changed, but for the `call_id`.

    Raises:
        UserError: the address is no WebSocket address.
    """
    if url is not None and not url.lower().startswith(("ws://", "wss://")):
        raise UserError(
            f"The url of a realtime model starts with wss:// or ws://, not {_without_query(url)!r}."
        )
    parts = urlsplit(url or DEFAULT_URL)
    query = parse_qs(parts.query)
    if call_id is not None and "call_id" not in query:
        added = urlencode({"call_id": call_id})
    elif url is None:
        added = urlencode({"model": model})
    else:
        return url
    return urlunsplit(parts._replace(query=f"{parts.query}&{added}" if parts.query else added))


def target_of(url: str, *, model: str, key: str | None) -> Target:
    """Return the destination of a session, for error messages."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return Target(
        base_url=f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}",
        path="realtime session",
        model=model,
        key=key,
        key_from=_KEY_FROM,
        address_from=_ADDRESS_FROM,
    )


async def open_socket(
    url: str, headers: Mapping[str, str], target: Target, config: TransportConfig
) -> ClientConnection:
    """Open the WebSocket of a session.

    Raises:
        ModelError: the provider refused the session, or cannot be reached.
        UserError: the address or a setting is invalid.
    """
    from outlast import __version__

    _check_headers(headers, target)
    options: dict[str, Any] = {"max_size": MAX_SIZE, **config}
    if "handshake_timeout" in options:
        options["open_timeout"] = options.pop("handshake_timeout")
    opening = SameOriginConnect(
        url,
        user_agent_header=f"outlast/{__version__}",
        additional_headers=dict(headers),
        **options,
    )
    with socket_failures(target):
        try:
            return await opening
        except InvalidURI as error:
            if isinstance(error.__context__, InvalidStatus):
                raise  # a redirect to another kind of address
            raise UserError(f"{target.base_url!r} is not the address of a WebSocket.") from error


def closed_failure(error: ConnectionClosed, target: Target) -> ModelError:
    """Return the failure of a session after its socket was closed."""
    frame = error.rcvd or error.sent
    code = frame.code if frame else 1006
    meaning = _CLOSE_CODES.get(code, "no reason is known")
    reason = f" Its message: {target.quote(frame.reason)}" if frame and frame.reason else ""
    return ModelError(
        f"The realtime session at {target.base_url} was closed: {meaning} (code {code}).{reason}",
        code="invalid_request" if code in (1008, 1009) else "unreachable",
        retryable=code not in (1008, 1009),
    )


def check_transport(config: TransportConfig | None) -> TransportConfig:
    """Return the settings of a socket; a `UserError` if one has no meaning."""
    unknown = sorted(set(config or ()) - TransportConfig.__optional_keys__)
    if unknown:
        raise UserError(
            f"TransportConfig has no setting {', '.join(unknown)}. It has"
            f" {', '.join(sorted(TransportConfig.__optional_keys__))}."
        )
    return config.copy() if config else {}


def _check_headers(headers: Mapping[str, str], target: Target) -> None:
    """Refuse headers that cannot be sent; the websockets library would log them."""
    for name, value in headers.items():
        if value.isascii() and value.isprintable() and name.isascii() and name.isprintable():
            continue
        if name == "Authorization":
            raise unsendable_key(target)
        raise UserError(
            f"The header {name!r} of the realtime model holds characters that no header has, such as"
            " a line break or a typographic quote."
        )


def _without_query(url: str) -> str:
    return url.partition("?")[0]
