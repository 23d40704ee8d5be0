"""People's clicks on the buttons in Slack, as decisions of the runs."""

import asyncio
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias, cast
from urllib.parse import parse_qs

from slack_sdk.signature import SignatureVerifier

from outlast.agents.errors import AgentsException, UserError
from outlast.agents.json_values import as_object
from outlast.agents.logs import get_logger
from outlast.edges.bodies import DOORS
from outlast.edges.rendering import excerpt
from outlast.notifications.endpoints import LONGEST_BODY, HttpReply, header, plain
from outlast.notifications.requests import Requests, find_referred
from outlast.notifications.signatures import TOLERANCE, SeenIds, check_secret
from outlast.notifications.slack_api import API_URL, SlackApi
from outlast.notifications.slack_blocks import APPROVE, REJECT, escaped, read_value
from outlast.views.acts import decision_about
from outlast.views.records import DecisionType, JsonObject

SubjectOf: TypeAlias = Mapping[str, str] | Callable[[str], str | Awaitable[str | None] | None]
GroupsOf: TypeAlias = (
    Mapping[str, Collection[str]] | Callable[[str], Collection[str] | Awaitable[Collection[str]]]
)

DECIDE_SECONDS: Final = 30.0
"""How long a decision may take to reach its run."""

_TYPES: Final[dict[str, DecisionType]] = {APPROVE: "approve", REJECT: "reject"}

logger: Final = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Workspace:
    """The workspace of a token, as Slack names it.

    The ids of its users are those of no other one: two workspaces may have the same.

    Attributes:
        team: its id.
        enterprise: the id of the organization that it belongs to; empty for none.
    """

    team: str
    enterprise: str = ""

    def has_sent(self, payload: JsonObject) -> bool:
        """Whether an interaction is of this workspace, or organization, and of one of its users."""
        team, user = _fields(payload, "team"), str(_fields(payload, "user").get("team_id") or "")
        team_id, own = str(team.get("id") or ""), {self.team, self.enterprise} - {""}
        organization = team.get("enterprise_id") or _fields(payload, "enterprise").get("id")
        is_organization = bool(self.enterprise) and organization == self.enterprise
        is_here = team_id in own or is_organization
        return is_here and (user in own or (is_organization and user == team_id != ""))


class SlackApp:
    """Receives clicks from Slack, and sends them to the runs as decisions.

    Slack says which of its users has clicked. `subject` says who that is; nobody else may decide.
    Being in the channel is no authority: the run checks the person against the request's audience,
    and the person reads its refusal. Users of another workspace than the token's, such as guests of
    a shared channel, decide nothing: their ids may be those of other people here.

    Clicks arrive at `handle`, as signed HTTP requests, or through a `SlackSocket`.

    Args:
        requests: sends the decisions, such as `RunRequests(client)`.
        token: the bot's token, `xoxb-...`, for answers that only the person sees.
        subject: the person for an id of a Slack user: a dict, or a function that may be async;
            None for a user who may not decide.
        groups: the groups for a person; a dict, or a function that may be async.
        signing_secret: the app's signing secret. Without it, `handle` refuses every request.
        api_url: the address of Slack's API.
    """

    def __init__(
        self,
        requests: Requests,
        token: str,
        *,
        subject: SubjectOf,
        groups: GroupsOf | None = None,
        signing_secret: str | None = None,
        api_url: str = API_URL,
    ) -> None:
        for name, value in (("subject", subject), ("groups", groups or {})):
            if not isinstance(value, Mapping) and not callable(value):
                raise UserError(f"{name}= must be a dict or a function, not {value!r}.")
        self._requests = requests
        self._api = SlackApi(token, api_url)
        self._subject = subject
        self._groups: GroupsOf = groups or {}
        self._verifier = (
            None
            if signing_secret is None
            else SignatureVerifier(check_secret(signing_secret, "signing_secret"))
        )
        self._workspace: Workspace | None = None
        self._seen = SeenIds(2 * TOLERANCE + timedelta(minutes=1))
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(
        self, method: str, path: str, query: str, body: bytes, headers: Mapping[str, str]
    ) -> HttpReply:
        """Answer a request of Slack at once; the decision follows in the background.

        Args:
            method: the HTTP method.
            path: the path, which does not matter.
            query: the query, which does not matter.
            body: the raw body, before anything has parsed it.
            headers: the headers.
        """
        del path, query
        if method.upper() != "POST":
            return plain(405, "Slack sends POST requests here.", Allow="POST")
        if len(body) > LONGEST_BODY:
            return plain(413, "The request is too large.")
        if problem := self._problem_of_request(body, headers):
            logger.warning("A request to the Slack app is refused: %s", problem)
            return plain(401, f"The request is refused: {problem}.")
        self.start_decisions(_payload_of(body))
        return plain(200)

    def _problem_of_request(self, body: bytes, headers: Mapping[str, str]) -> str | None:
        if self._verifier is None:
            return "the app has no signing secret"
        try:
            is_valid = self._verifier.is_valid_request(body, headers)
        except (ValueError, TypeError):  # a timestamp, text or signature that is none
            is_valid = False
        if not is_valid:
            return "its signature does not match, or it is older than five minutes"
        signature = header(headers, "X-Slack-Signature") or ""
        return None if self._seen.add(signature) else "it was sent before"

    def start_decisions(self, payload: JsonObject) -> None:
        """Start sending the decisions of a verified interaction."""
        if payload.get("type") != "block_actions":
            return
        actions: Any = payload.get("actions")
        for one in cast("list[Any]", actions) if isinstance(actions, list) else []:
            action = as_object(one) or {}
            if str(action.get("action_id")) in _TYPES:
                self._begin(self._decide(payload, action))

    async def aclose(self) -> None:
        """Wait for the decisions under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, payload: JsonObject, action: JsonObject) -> None:
        try:
            async with asyncio.timeout(DECIDE_SECONDS):
                outcome = await self._sent(payload, action)
        except AgentsException as error:
            outcome = f"Not decided: {error}"
        except Exception:  # a person reads the outcome, and never an error's details
            logger.exception("A decision from Slack was not sent")
            outcome = "Your decision could not be sent. Try again in a moment."
        await self._say(payload, outcome)

    async def _sent(self, payload: JsonObject, action: JsonObject) -> str:
        user = _fields(payload, "user")
        user_id = str(user.get("id") or "")
        if not (await self._own_workspace()).has_sent(payload):
            return "Not decided: your Slack account belongs to another workspace than this app."
        subject = await _resolved(self._subject, user_id)
        if not user_id or not isinstance(subject, str) or not subject:
            return "Not decided: your Slack account belongs to nobody who may decide here."
        value = read_value(action.get("value"))
        if value is None:
            return "Not decided: this button is not valid any more. Use the newest message."
        request = await find_referred(self._requests, value)
        if request is None:
            return "Not decided: the run has no such request; it may be of an earlier run."
        if request.digest != value.digest:
            return "Not decided: the call or its policy has changed since. Use the newest message."
        groups: Any = await _resolved(self._groups, subject) or ()
        decision = decision_about(
            request,
            _TYPES[str(action["action_id"])],
            by=subject,
            display=str(user.get("name") or user.get("username") or "")[:200] or None,
            groups=tuple(map(str, groups)),
            method="slack",
            channel="slack",
            idempotency_key=_key_of(payload, action),
        )
        await self._requests.decide(value.run_id, decision)
        return f"Your decision ({decision.type}) has arrived."

    async def _own_workspace(self) -> Workspace:
        if self._workspace is None:
            told = await self._api.write("auth.test", {})
            team, enterprise = told.get("team_id"), told.get("enterprise_id")
            self._workspace = Workspace(str(team or ""), str(enterprise or ""))
        return self._workspace

    async def _say(self, payload: JsonObject, text: str) -> None:
        """Show a text to the person who clicked, and to nobody else."""
        place = _fields(payload, "channel").get("id") or _fields(payload, "container").get(
            "channel_id"
        )
        user_id = _fields(payload, "user").get("id")
        if not isinstance(place, str) or not isinstance(user_id, str):
            return
        try:
            await self._api.write(
                "chat.postEphemeral",
                {"channel": place, "user": user_id, "text": escaped(excerpt(text, 600))},
            )
        except Exception as error:  # noqa: BLE001  the decision itself has been handled
            logger.warning("Slack did not show a person the outcome of a decision: %s", error)


def _payload_of(body: bytes) -> JsonObject:
    try:
        form = parse_qs(body.decode(), max_num_fields=20)
        return as_object(DOORS["slack"].parse(form.get("payload", [""])[0])) or {}
    except (ValueError, RecursionError):
        return {}


def _key_of(payload: JsonObject, action: JsonObject) -> str | None:
    """Return the idempotency key of a click, the same in every process that gets the click."""
    trigger = payload.get("trigger_id")
    if not isinstance(trigger, str) or not trigger:
        return None
    click = json.dumps([trigger, action.get("action_id"), action.get("action_ts")])
    return f"slack-{hashlib.sha256(click.encode()).hexdigest()[:32]}"


def _fields(payload: JsonObject, name: str) -> JsonObject:
    return as_object(payload.get(name)) or {}


async def _resolved(source: SubjectOf | GroupsOf, key: str) -> Any:
    table = cast("Any", source)
    found: Any = table.get(key) if isinstance(source, Mapping) else table(key)
    return await found if inspect.isawaitable(found) else found
