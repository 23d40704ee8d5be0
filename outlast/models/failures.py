"""Converts every failure of a model call to a `ModelError`.

No message ever contains an API key.
"""

import math
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import mktime_tz, parsedate_tz
from http import HTTPStatus
from types import TracebackType
from typing import Any

from outlast.agents.json_values import as_object, as_objects, as_text
from outlast.ports.model import ModelError

_LONGEST_QUOTE = 600
"""The longest quotation of a provider's error text, in characters."""

_RETRYABLE = frozenset({
    "rate_limited", "overloaded", "unreachable", "timeout", "server_error", "bad_response",
    "conversation_locked", "empty_answer",
})  # fmt: skip

_BY_STATUS: Mapping[int, str] = {
    401: "unauthorized",
    402: "quota_exceeded",
    403: "unauthorized",
    404: "not_found",
    405: "not_found",
    408: "timeout",
    409: "overloaded",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
"""Any other status below 400 is `bad_response`, below 500 `invalid_request`, else `server_error`."""

_BY_ERROR_CODE: Mapping[str, str] = {
    "billing_hard_limit_reached": "quota_exceeded",
    "budget_exceeded": "quota_exceeded",
    "conversation_locked": "conversation_locked",
    "insufficient_quota": "quota_exceeded",
    "invalid_api_key": "unauthorized",
    "model_not_found": "not_found",
    "overloaded_error": "overloaded",
    "previous_response_not_found": "response_not_found",
    "rate_limit_exceeded": "rate_limited",
    "server_error": "server_error",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "vector_store_timeout": "timeout",
    "websocket_connection_limit_reached": "overloaded",
}
"""The provider's error code takes precedence over the status, which is less specific.

So a status 400 with the code `server_error` is retried as status 500 is.
"""

_UNKNOWN_KEY_TYPE = "no_db_connection"
"""The type of error of a LiteLLM proxy without a database, with status 400, for an unknown key."""

CLIENT_KEY = "the api_key of your client"
CLIENT_ADDRESS = "the base_url of your client"
SOCKET_ADDRESS = "OPENAI_WEBSOCKET_BASE_URL or websocket_base_url="
"""Where the key and the address come from if the caller passed a client of the `openai` package."""

_SENTENCES: Mapping[str, str] = {
    "bad_response": "The model provider at {base_url} sent an invalid response.",
    "conversation_locked": "The conversation is in use by another request at {base_url}.",
    "invalid_request": "The model provider at {base_url} refused the request to {model}.",
    "not_found": "The model provider at {base_url} has no {path} or no model {model}."
    " Check the name of the model and {address_from}.",
    "overloaded": "The model provider at {base_url} is too busy for the request to {model}.",
    "quota_exceeded": "The account at {base_url} has no quota left. Check its plan and billing.",
    "rate_limited": "The model provider at {base_url} limits the rate of requests to {model}.",
    "response_not_found": "The model provider at {base_url} does not have the previous response any"
    " more, which the request to {model} goes on from.",
    "server_error": "The model provider at {base_url} failed to answer for {model}.",
    "timeout": "The model provider at {base_url} took too long to answer for {model}.",
    "unauthorized": "The model provider at {base_url} refused the API key. Check {key_from},"
    " and that the key may use {model} there.",
}


_SHORTEST_KEY = 8
"""Shorter keys are placeholders, such as those of local servers: removing them garbles words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The destination of a call, described for error messages.

    `base_url` contains no user, password or query. `key` is removed from messages.
    `key_from` and `address_from` name the settings that the key and the address come from.
    """

    base_url: str
    path: str
    model: str
    key: str | None = field(default=None, repr=False)
    key_from: str = "OPENAI_API_KEY"
    address_from: str = "OPENAI_BASE_URL"

    def quote(self, words: str) -> str:
        """Return a provider's text on one line, truncated, without the key."""
        if self.key and len(self.key) >= _SHORTEST_KEY:
            words = words.replace(self.key, "[API key]")
        line = " ".join(words.split())
        return line if len(line) <= _LONGEST_QUOTE else line[:_LONGEST_QUOTE] + "…"


def _failure(code: str, message: str, **fields: Any) -> ModelError:
    return ModelError(message, code=code, retryable=code in _RETRYABLE, **fields)


def reported_failure(
    report: object,
    target: Target,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> ModelError:
    """Return the failure for an error in the provider's own format.

    `retry-after` and `x-should-retry` of the headers are respected.
    """
    report = plain_report(_first_event(report) if isinstance(report, str) else report)
    code = _code(report, status)
    headers = headers or {}
    retryable = code in _RETRYABLE
    # A quota does not recover within minutes, whatever headers a proxy adds.
    if code != "quota_exceeded":
        advice = headers.get("x-should-retry", "").strip().lower()
        retryable = {"true": True, "false": False}.get(advice, retryable)
    return ModelError(
        _message(code, target, status, _words(report)),
        code=code,
        retryable=retryable,
        retry_after=retry_after(headers),
        status=status,
        provider_code=_named(report, "code") or _named(report, "type"),
        param=_named(report, "param"),
    )


def plain_report(report: object) -> object:
    """Return the error itself: some servers put it into a list, or under one more `error`."""
    reports = as_objects(report)
    if reports:
        report = reports[0]
    return as_object((as_object(report) or {}).get("error")) or report


def connection_failure(cause: BaseException, target: Target) -> ModelError:
    """Return the failure for a call without a complete response."""
    # Classes of the client's HTTP package, by name, to avoid importing the package.
    kind = type(cause).__name__
    if kind.endswith("Timeout"):
        return timeout_failure(target)
    if kind in {"LocalProtocolError", "UnsupportedProtocol"}:
        # Not quoted: the message may contain the header with the key.
        return request_failure(ValueError(f"its address or headers are not valid ({kind})"), target)
    if kind in {"DecodingError", "TooManyRedirects"}:
        return bad_response(target, f"{kind}: {cause}")
    root = _root(cause)
    return _failure(
        "unreachable",
        f"Cannot reach the model provider at {target.base_url}: {type(root).__name__}"
        f" ({target.quote(str(root)) or 'no details'})."
        f" Check {target.address_from}, that a server runs there, and the network, proxies and"
        " certificates on the way.",
    )


def closed_socket(target: Target, closing: str) -> ModelError:
    """Return the failure for a WebSocket that ended before the response was complete."""
    return _failure(
        "unreachable",
        f"The model provider at {target.base_url} closed the WebSocket before the response was"
        f" complete: {target.quote(closing)}.",
    )


def foreign_event(target: Target, kind: str | None) -> ModelError:
    """Return the failure for an event of another response than the one in progress."""
    return _failure(
        "bad_response",
        f"The model provider at {target.base_url} sent an event of an earlier response"
        f" ({target.quote(kind or 'without a type')}) over the WebSocket, which was closed.",
    )


def oversized_frame(target: Target, *, is_request: bool) -> ModelError:
    """Return the failure for a request or response that is too large for one WebSocket frame."""
    problem = (
        'the request is larger than the provider takes over a WebSocket. Use transport="http", or'
        " shorten the input"
        if is_request
        else "an event of the response is larger than max_size of"
        " OpenAIResponsesWebSocketOptions, which is 30 MB unless you set it. Raise it"
    )
    return _failure(
        "invalid_request", f"The WebSocket to {target.base_url} was closed, because {problem}."
    )


def timeout_failure(target: Target) -> ModelError:
    """Return the failure for a call that took longer than its settings allow."""
    return _failure("timeout", _message("timeout", target, None, None))


def request_failure(error: Exception, target: Target) -> ModelError:
    """Return the failure for a request that cannot be encoded as JSON or headers."""
    return _failure(
        "invalid_request",
        f"The request to {target.model} cannot be sent: {target.quote(str(error))}."
        " Check the items, tools and model settings for values that JSON or HTTP cannot express.",
    )


def refused_request(target: Target, problem: str, *, param: str = "") -> ModelError:
    """Return the failure for a request, or its `param`, that the provider cannot support."""
    return _failure(
        "invalid_request",
        f"{target.path} at {target.base_url} does not support this request: {target.quote(problem)}",
        param=param,
    )


def missing_key(target: Target) -> ModelError:
    """Return the failure for a call without an API key to a server that needs one."""
    return _failure(
        "no_api_key",
        f"There is no API key for the model provider at {target.base_url}. Set OPENAI_API_KEY, or"
        " OPENAI_BASE_URL to a server on this machine, which needs none. To work without a"
        " model, give the agent scripted answers: model=ScriptedModel(...) of outlast.testing.",
    )


def shared_client(target: Target) -> ModelError:
    """Return the failure for a program's client that another open event loop uses."""
    return _failure(
        "invalid_request",
        f"The client for {target.base_url} is used in another event loop, to which its connections"
        " belong. Make a client and its models in each event loop, or pass api_key and base_url"
        " instead of a client.",
    )


def unsendable_key(target: Target) -> ModelError:
    """Return the failure for a key that is invalid as a header value."""
    return _failure(
        "unauthorized",
        f"The API key for {target.base_url} holds characters that no key has, such as a line"
        " break or a typographic quote. Check OPENAI_API_KEY.",
    )


def bad_address(target: Target) -> ModelError:
    """Return the failure for a base URL that is not an HTTP URL, or not one of a WebSocket."""
    schemes, setting = "an http:// or https://", "OPENAI_BASE_URL or base_url="
    if target.address_from == SOCKET_ADDRESS:
        schemes, setting = "a ws:// or wss://", SOCKET_ADDRESS
    return _failure(
        "not_found",
        f"The address of the model provider is not {schemes} URL with a host."
        f" Check {setting} (for {target.model!r}).",
    )


def bad_response(target: Target, problem: str, *, status: int | None = None) -> ModelError:
    """Return the failure for a response that violates the API."""
    return _failure(
        "bad_response",
        f"{_message('bad_response', target, status, problem)}"
        f" Check that {target.address_from} is the base URL of {target.path}.",
        status=status,
    )


def unfinished_answer(target: Target, reason: str) -> ModelError:
    """Return the failure for an answer that ended for a reason which nobody knows."""
    return _failure(
        "bad_response",
        f"The model provider at {target.base_url} ended the answer of {target.model!r} with the"
        f" unknown finish_reason {target.quote(reason)!r}, so it may be half an answer.",
        attempts=2,
    )


def empty_answer(target: Target, *, is_cut: bool) -> ModelError:
    """Return the failure for an answer without words and calls."""
    why = (
        " It reached its token limit before the first word, in its reasoning for example: raise"
        " ModelSettings(max_tokens=), or lower the reasoning effort."
        if is_cut
        else ""
    )
    return _failure(
        "empty_answer",
        f"The model {target.model!r} at {target.base_url} answered with nothing.{why}",
        attempts=2,
    )


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return the delay that the provider requests; None if it is missing or invalid.

    Reads `retry-after-ms`, then `retry-after` as seconds or as a date; a past date means zero.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _duration(milliseconds / 1000)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is None and value is not None:
        seconds = _seconds_until(value)
    return None if seconds is None else _duration(seconds)


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_tz(date)
        return None if moment is None else max(0.0, mktime_tz(moment) - time.time())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _duration(seconds: float) -> timedelta | None:
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        return None


def wrong_redirect(target: Target, location: str, status: int) -> ModelError:
    """Return the failure for a WebSocket's handshake that is redirected to what is no WebSocket."""
    address = location.partition("?")[0]  # its query may hold secrets
    return bad_response(
        target, f"a redirect to {address}, which is no WebSocket, such as to a login", status=status
    )


def unread_handshake(error: BaseException, target: Target) -> ModelError:
    """Return the failure for a handshake's answer that is not HTTP/1.1, as load balancers give."""
    cause = str(_root(error))
    found = _HTTP_1_0.search(cause)
    if found is None:
        return bad_response(target, f"{type(error).__name__}: {error}: {cause}")
    return reported_failure(found[2].strip() or None, target, status=int(found[1]))


_HTTP_1_0 = re.compile(r"HTTP/1\.0 ([1-5][0-9]{2})\b ?(.*)")
"""The first line of an answer, as the error of the package `websockets` quotes it."""


def _root(error: BaseException) -> BaseException:
    for _ in range(10):
        deeper = error.__cause__ or error.__context__
        if deeper is None:
            break
        error = deeper
    return error


def _code(report: object, status: int | None) -> str:
    error = as_object(report) or {}
    for name in (error.get("code"), error.get("type")):
        if isinstance(name, str) and name in _BY_ERROR_CODE:
            return _BY_ERROR_CODE[name]
        if status is None:
            # Some gateways respond with status 200 and put the real status into the error.
            status = _as_status(name)
    if status == HTTPStatus.BAD_REQUEST and error.get("type") == _UNKNOWN_KEY_TYPE:
        return "unauthorized"
    if status is None:
        # An unknown error code concerns the request; without a code, the server failed.
        return "invalid_request" if as_text(error.get("code")) else "server_error"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status < 400:
        return "bad_response"
    return "invalid_request" if status < 500 else "server_error"


def _as_status(code: object) -> int | None:
    if isinstance(code, str) and code.isascii() and code.isdecimal():
        code = int(code[:4])
    return code if isinstance(code, int) and 100 <= code <= 599 else None


def _first_event(body: str) -> object:
    """Return the error in a body of server-sent events, as some proxies send it, or the body."""
    from pydantic_core import from_json

    first = body.lstrip().partition("\n")[0]
    if not first.startswith("data:"):
        return body
    try:
        event: object = from_json(first.removeprefix("data:"))
    except ValueError:
        return body
    return event if as_object(event) or as_objects(event) else body


def _message(code: str, target: Target, status: int | None, words: str | None) -> str:
    sentence = _SENTENCES[code].format(
        base_url=target.base_url,
        path=target.path,
        model=repr(target.model),
        key_from=target.key_from,
        address_from=target.address_from,
    )
    direct = target.address_from in ("OPENAI_BASE_URL", CLIENT_ADDRESS)
    if direct and code == "not_found" and target.path == "/responses":
        sentence += ' A server with only Chat Completions needs OpenAIProvider(api="chat").'
    if code == "not_found" and target.base_url.startswith("ws"):
        sentence += ' A server without WebSockets needs OpenAIProvider(transport="http").'
    if status is not None:
        sentence += f" HTTP {status}."
    return f"{sentence} Its message: {target.quote(words)}" if words else sentence


def _named(report: object, name: str) -> str:
    """Return a short field of a provider's error; empty if it has none."""
    value = (as_object(report) or {}).get(name)
    return value[:_LONGEST_QUOTE] if isinstance(value, str) else ""


def _words(report: object) -> str | None:
    if isinstance(report, str):
        return "(an HTML page)" if report.lstrip().startswith("<") else report
    error = as_object(report)
    if error is None:
        return None
    for name in ("message", "error", "detail", "error_description"):
        value = error.get(name)
        words = as_text(value) or as_text((as_object(value) or {}).get("message"))
        if words:
            return words
        problems = as_objects(value)
        if problems:
            return "; ".join(str(problem.get("msg", problem)) for problem in problems)
    return str(error) if error else None


class FailureBlock:
    """A block for one call of a server, whose errors `translate` turns into those of models.

    `translate` is a generator around the block, which is only made if there is an error: each call
    is in several such blocks, and nearly none fails.
    """

    def __init__(self, translate: Callable[["Target"], Generator[None]], target: "Target") -> None:
        self._translate, self._target = translate, target

    def __enter__(self) -> None:
        """Begin the call."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Raise the model's error in place of the call's."""
        if error is None:
            return None
        block = contextmanager(self._translate)(self._target)
        block.__enter__()
        return block.__exit__(kind, error, trace)
