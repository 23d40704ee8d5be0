"""Webhooks: who may send them, and which function says what they mean for a run."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast

from starlette.datastructures import Headers

from outlast.agents.callables import call
from outlast.agents.errors import UserError
from outlast.deliveries.bodies import value_of
from outlast.deliveries.problems import Refused
from outlast.deliveries.schemes import Scheme, Verified
from outlast.edges.bodies import DOORS
from outlast.loop.values import Json, JsonObject

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEvent:
    """A webhook whose signature fits.

    Attributes:
        name: the name in its path, such as `github` for `/webhooks/github`.
        delivery_id: tells it from others; a repetition has the same one.
        value: the body as a JSON value.
        headers: the headers, by their names in lower case. Most senders do not sign them.
        body: the body as it was sent.
        parsed: the event as an object of the provider's package; None without one.
    """

    name: str
    delivery_id: str
    value: Any
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    parsed: Any = None


@dataclass(frozen=True, slots=True)
class Deliver:
    """Finish what a tool waits for: by its token, or by the run and the name of the wait.

    Attributes:
        value: any JSON value that fits the schema of the wait.
        token: of `ToolContext.wait_token`. It also counts before the call waits.
        run_id: the run, if there is no token. The call has to wait already, and one call alone.
        name: the name of the wait, if there is no token.
    """

    value: Json = None
    token: str = ""
    run_id: str = ""
    name: str = "result"

    def __post_init__(self) -> None:
        if bool(self.token) == bool(self.run_id):
            raise UserError("Deliver() needs token= or run_id=, and not both.")


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to a conversation.

    Attributes:
        run_id: the conversation.
        input: a text, or Responses items.
    """

    run_id: str
    input: str | list[JsonObject]


@dataclass(frozen=True, slots=True)
class ResponseReady:
    """Let a run's model call look now for its response in the background.

    Attributes:
        run_id: the run.
    """

    run_id: str


Outcome: TypeAlias = Deliver | Send | ResponseReady
HandleEvent: TypeAlias = Callable[
    [WebhookEvent],
    Outcome | Sequence[Outcome] | Awaitable[Outcome | Sequence[Outcome] | None] | None,
]
FunctionT = TypeVar("FunctionT", bound=HandleEvent)


class Webhooks:
    """The webhooks that a receiver takes, by the names in their paths.

    webhooks = Webhooks()

    @webhooks.on("github", github([os.environ["GITHUB_WEBHOOK_SECRET"]]))
    def merged(event: WebhookEvent) -> Deliver | None: ...
    """

    def __init__(self) -> None:
        self._handlers: dict[str, tuple[Scheme, HandleEvent]] = {}

    def __bool__(self) -> bool:
        return bool(self._handlers)

    def on(self, name: str, scheme: Scheme) -> Callable[[FunctionT], FunctionT]:
        """Return a decorator of the function that says what webhooks mean for runs.

        The function gets an event whose signature fits, and returns what to do: `Deliver`, `Send`,
        `ResponseReady`, several of them, or None to ignore the event. It may be called more than once for an event,
        since senders repeat; what it returns happens once.

        Args:
            name: the part of the path after `/webhooks/`.
            scheme: verifies the requests, such as `github(secrets)`.

        Raises:
            UserError: the name does not fit into a path, or is taken.
        """
        if not _NAME.fullmatch(name):
            raise UserError(
                f"A webhook is named by up to 64 letters, digits, - and _, not by {name!r:.80}."
            )
        if name in self._handlers:
            raise UserError(f"The webhook {name!r} has a function already.")

        def add(function: FunctionT) -> FunctionT:
            self._handlers[name] = (scheme, function)
            return function

        return add

    def scheme(self, name: str) -> Scheme:
        """Return what verifies the requests of a name.

        Raises:
            Refused: there is no such webhook.
        """
        if name not in self._handlers:
            raise Refused(404, "unknown", "There is no webhook of this name.")
        return self._handlers[name][0]

    async def outcomes(
        self, name: str, headers: Headers, body: bytes, verified: Verified
    ) -> list[Outcome]:
        """Return what a verified request means for runs.

        Raises:
            Refused: the body is not what its type says.
            Exception: any error of the function.
        """
        event = WebhookEvent(
            name=name,
            delivery_id=verified.delivery_id,
            value=value_of(headers.get("Content-Type", ""), body),
            headers=dict(headers),
            body=body,
            parsed=verified.parsed,
        )
        made: object = await call(self._handlers[name][1], event)
        many = isinstance(made, list | tuple)
        listed = cast("Sequence[object]", made if many else () if made is None else (made,))
        for one in listed:
            if not isinstance(one, Deliver | Send | ResponseReady):
                raise TypeError(
                    f"The function of the webhook {name!r} must return Deliver, Send, "
                    f"ResponseReady, a list of them or None, not {type(one).__name__}."
                )
        return cast("list[Outcome]", list(listed))


def challenge_of(body: bytes) -> str | None:
    """Return what Slack wants to read to know that the address is the application's.

    Slack signs it like any other request.
    """
    if b"url_verification" not in body[:1_000]:
        return None
    try:
        value: Any = DOORS["slack"].parse(body)
    except (ValueError, RecursionError):
        return None
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    challenge = fields.get("challenge") if fields.get("type") == "url_verification" else None
    return challenge if isinstance(challenge, str) else None
