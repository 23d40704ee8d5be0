"""Talks to the agent of somebody else: its card, and the operations of the protocol over HTTP.

Nothing that the agent says leads anywhere but to the origins that the author of the tool has named:
no redirect is followed, and no address in a message is fetched. All answers are bounded.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from outlast.a2a.protocol import (
    CARD_PATH,
    MEDIA_TYPE,
    VERSION,
    VERSION_HEADER,
    AgentCard,
    PushConfig,
    Record,
    SendMessageRequest,
    SendMessageResponse,
    Task,
)
from outlast.agents.errors import AgentsException, UserError
from outlast.agents.json_values import as_object, is_list
from outlast.edges.bodies import DOORS, BodyRefused, Door, loads
from outlast.loop.values import JsonObject

RecordT = TypeVar("RecordT", bound=Record)

Headers: TypeAlias = (
    Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
)
"""The headers of each request, such as `Authorization`, or a function that returns them."""

REQUEST_SECONDS: Final = 60.0
LONGEST_URL: Final = 2_000

_BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
NOT_FOUND: Final = -32001
UNSUPPORTED: Final = -32004
_REASONS: Final = {"TASK_NOT_FOUND": NOT_FOUND, "UNSUPPORTED_OPERATION": UNSUPPORTED}
_RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class A2AError(AgentsException):
    """The agent of somebody else does not do what it is asked, or speaks another protocol.

    Attributes:
        rpc_code: the protocol's number of the error, where the agent has sent one; else None.
        is_passing: whether the same may work later: the agent does not answer, or is busy.
    """

    code = "a2a_error"

    def __init__(
        self,
        message: str = "",
        *,
        rpc_code: int | None = None,
        is_passing: bool = False,
        run_data: Any = None,
    ) -> None:
        super().__init__(message, run_data=run_data)
        self.rpc_code = rpc_code
        self.is_passing = is_passing


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an agent takes requests, as its card says.

    Attributes:
        url: the address.
        binding: the binding of the protocol.
        tenant: what requests name as their tenant; empty for none.
        pushes: whether the agent calls back when a task changes.
    """

    url: str
    binding: str
    tenant: str = ""
    pushes: bool = False

    def record(self) -> JsonObject:
        """Return the endpoint as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, record: JsonObject) -> "Endpoint":
        """Return the endpoint of a record."""
        return cls(**record)


def origin_of(url: str) -> str:
    """Return the scheme, host and port of an address.

    Raises:
        UserError: it is no address over HTTP.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        parts, port = urlsplit(""), None
    is_plain = len(url) <= LONGEST_URL and url.isascii() and url.isprintable() and " " not in url
    if port is None or not parts.hostname or "@" in parts.netloc or not is_plain:
        raise UserError(
            f"An agent is at an address such as https://agent.example.com, not {url!r:.80}."
        )
    return f"{parts.scheme}://{parts.hostname.lower()}:{port}"


def card_url(agent: str) -> str:
    """Return the address of an agent's card: that of a JSON file, or the well-known one of a base."""
    path = urlsplit(agent).path
    return agent if path.endswith(".json") else f"{agent.rstrip('/')}{CARD_PATH}"


@dataclass(frozen=True, kw_only=True)
class RemoteAgent:
    """An agent of somebody else.

    Attributes:
        agent: the address of the agent or of its card, or the card.
        headers: the headers of each request.
        origins: where its requests may go.
    """

    agent: str | AgentCard
    headers: Headers = field(default_factory=dict[str, str])
    origins: frozenset[str]

    async def card(self) -> AgentCard:
        """Return the card.

        Raises:
            A2AError: there is none.
        """
        if isinstance(self.agent, AgentCard):
            return self.agent
        answer = await self._exchange("GET", card_url(self.agent), None, DOORS["a2a card"])
        return _read(answer, AgentCard, "card")

    async def endpoint(self) -> Endpoint:
        """Return where the agent takes requests: the first address in its card that fits.

        Raises:
            A2AError: none does.
        """
        card = await self.card()
        elsewhere: list[str] = []
        for one in card.supported_interfaces:
            is_ours = one.protocol_version.split(".")[0] == VERSION.split(".", maxsplit=1)[0]
            if not is_ours or one.protocol_binding not in _BINDINGS:
                continue
            if self._is_allowed(one.url):
                pushes = card.capabilities.push_notifications
                return Endpoint(one.url.rstrip("/"), one.protocol_binding, one.tenant, pushes)
            elsewhere.append(one.url)
        if elsewhere:
            raise A2AError(
                f"The card of the agent leads to {elsewhere[0]!r:.200}, which is elsewhere. If that is "
                "right, name its origin in origins=."
            )
        raise A2AError(
            f"The card of the agent has no address that speaks A2A {VERSION} as JSON-RPC or HTTP+JSON."
        )

    def _is_allowed(self, url: str) -> bool:
        try:
            return origin_of(url) in self.origins
        except UserError:
            return False

    # --- Operations -----------------------------------------------------------------------------

    async def send(self, at: Endpoint, request: SendMessageRequest) -> SendMessageResponse:
        """Send a message; return the task or the message that is the answer."""
        answer = await self._do(at, "SendMessage", request.record(), "POST", "/message:send")
        return _read(answer, SendMessageResponse, "answer")

    async def task(self, at: Endpoint, task_id: str) -> Task:
        """Return a task as it is."""
        path = f"/tasks/{quote(task_id, safe='')}"
        return _read(await self._do(at, "GetTask", {"id": task_id}, "GET", path), Task, "task")

    async def cancel(self, at: Endpoint, task_id: str) -> None:
        """Cancel a task."""
        path = f"/tasks/{quote(task_id, safe='')}:cancel"
        await self._do(at, "CancelTask", {"id": task_id}, "POST", path)

    async def push_to(self, at: Endpoint, config: PushConfig) -> None:
        """Let the agent call an address when a task changes."""
        path = f"/tasks/{quote(config.task_id, safe='')}/pushNotificationConfigs"
        method = "CreateTaskPushNotificationConfig"
        await self._do(at, method, config.record(), "POST", path)

    async def _do(
        self, at: Endpoint, method: str, params: JsonObject, verb: str, path: str
    ) -> JsonObject:
        if at.tenant:
            params = {**params, "tenant": at.tenant}
        if at.binding == "JSONRPC":
            body: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = await self._exchange("POST", at.url, body, DOORS["a2a answer"])
            found = answer.get("result")
            if not isinstance(found, dict):
                raise A2AError("The agent has sent no result.")
            return cast("JsonObject", found)
        tenant = f"/{quote(at.tenant, safe='')}" if at.tenant else ""
        sent = None if verb == "GET" else params
        return await self._exchange(verb, f"{at.url}{tenant}{path}", sent, DOORS["a2a answer"])

    async def _exchange(
        self, verb: str, url: str, body: JsonObject | None, door: Door
    ) -> JsonObject:
        import httpx2  # slow to import, and only workers need it

        if not self._is_allowed(url):
            raise A2AError(f"{url!r:.200} is none of the addresses that the tool may use.")
        headers = await self._headers(has_body=body is not None)
        content = None if body is None else json.dumps(body).encode()
        try:
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                http_client() as http,
                http.stream(verb, url, headers=headers, content=content) as response,
            ):
                found = await _bounded(response, door)
                return _answer(response.status_code, found)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            message = f"The agent at {url!r:.200} does not answer. {what:.200}"
            raise A2AError(message, is_passing=True) from error

    async def _headers(self, *, has_body: bool) -> dict[str, str]:
        given = self.headers() if callable(self.headers) else self.headers
        own = await given if inspect.isawaitable(given) else given
        found = {**own, VERSION_HEADER: VERSION, "Accept": f"application/json, {MEDIA_TYPE}"}
        # A compressed answer could be a thousand times as large as what was read of it.
        found["Accept-Encoding"] = "identity"
        return found | ({"Content-Type": "application/json"} if has_body else {})


def http_client() -> Any:
    """Return what sends requests. It follows no redirects."""
    import httpx2

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(REQUEST_SECONDS, connect=10.0), follow_redirects=False
    )


async def _bounded(response: Any, door: Door) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise A2AError("The agent compresses its answer, although it was asked not to.")
    try:
        return await door.read(response.aiter_bytes())
    except BodyRefused as error:
        raise A2AError(str(error)) from None


def _answer(status: int, content: bytes) -> JsonObject:
    """Return the JSON object of an answer.

    Raises:
        A2AError: it is none, or says that something went wrong.
    """
    try:
        fields = as_object(loads(content)) if content else {}
    except (ValueError, RecursionError):
        fields = None
    if (said := as_object((fields or {}).get("error"))) is not None:
        code = _code_of(said)
        is_passing = status in _RETRIED or code == -32603
        message = f"The agent refuses: {str(said.get('message'))[:500]!r}"
        raise A2AError(message, rpc_code=code, is_passing=is_passing)
    if status >= 300 or fields is None:
        what = f"the status {status}" if status >= 300 else "no JSON"
        raise A2AError(f"The agent answers with {what}.", is_passing=status in _RETRIED)
    return fields


def _code_of(error: JsonObject) -> int | None:
    """Return the number of an error in JSON-RPC; over HTTP+JSON, its details have the name."""
    details: Any = error.get("details")
    for one in details if is_list(details) else ():
        reason = (as_object(one) or {}).get("reason")
        if reason in _REASONS:
            return _REASONS[str(reason)]
    number = error.get("code")
    return number if isinstance(number, int) else None


def _read(answer: JsonObject, kind: type[RecordT], what: str) -> RecordT:
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_context=False, include_input=False)
        place = ".".join(map(str, first["loc"]))
        message = (
            f"The {what} of the agent is none of A2A {VERSION}: {place:.200}: {first['msg']:.200}."
        )
        raise A2AError(message) from None


async def fetch_card(agent: str, *, headers: Headers | None = None) -> AgentCard:
    """Return the card of an agent of somebody else.

    It is the agent's own word: read it before you build on it.

    Args:
        agent: the address of the agent, whose card is at `/.well-known/agent-card.json` below it, or
            that of a card.
        headers: the headers of the request, or a function that returns them.

    Raises:
        UserError: `agent` is no address.
        A2AError: there is no card at it.
    """
    origins = frozenset({origin_of(agent)})
    return await RemoteAgent(agent=agent, headers=headers or {}, origins=origins).card()


def allowed_origins(agent: str | AgentCard, further: Collection[str]) -> frozenset[str]:
    """Return where requests for an agent may go: to its own origin, and to further ones.

    Raises:
        UserError: one is no address.
    """
    own = [agent] if isinstance(agent, str) else []
    return frozenset(map(origin_of, [*own, *further]))
