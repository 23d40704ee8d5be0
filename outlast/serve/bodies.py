"""What requests of the API say: their bodies and queries, and sentences about mistakes in them."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from starlette.requests import Request

from outlast.agents.durations import parse_duration
from outlast.client.deliveries import LONGEST_ID
from outlast.client.inbox import InboxCriteria, InboxEntry
from outlast.client.people.actions import CLAIM_MINUTES
from outlast.client.runs import LARGEST_PAGE, PAGE, RunFilter
from outlast.contract.names import ListedStatus
from outlast.contract.ratings import Rated
from outlast.deliveries.problems import Refused
from outlast.edges import clock
from outlast.edges.bodies import DOORS
from outlast.serve.inbox_feed import InboxFilter
from outlast.serve.routing import read_within
from outlast.serve.tokens import LIFETIME, LONGEST_LIFETIME
from outlast.serve.uploads import MOST_FILES
from outlast.temporal.visibility.scopes import RunScope
from outlast.views.records import (
    LONGEST_CLAIM_MINUTES,
    CancelMode,
    Customer,
    HoldMode,
    Json,
    JsonObject,
    Person,
    Risk,
)

LONGEST_TEXT: Final = 100_000
"""The most characters of what a colleague writes."""

LONGEST_REASON: Final = 2_000
"""The most characters of why a colleague sets something aside."""

MOST_FOUND: Final = 50
"""The most conversations that a search shows."""

MOST_AT_ONCE: Final = 200
"""The most runs, and requests, that somebody decides at once."""


class Body(BaseModel):
    """The body of a request: JSON with these fields and no others."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True)


class Query(BaseModel):
    """The query of a request: these parameters and no others, each once."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


BodyT = TypeVar("BodyT", bound=Body)
QueryT = TypeVar("QueryT", bound=Query)


# --- Conversations -------------------------------------------------------------------------------


class CustomerBody(Body):
    """The person for whom a conversation is."""

    id: str = Field(description="What your program calls this person.")
    name: str = Field(default="", description="What people call them.")
    language: str = Field(default="", description="A language tag, such as `de`.")

    @property
    def customer(self) -> Customer:
        """The person as a run records them."""
        return Customer(self.id, self.name, self.language)


class StartBody(Body):
    """Begins a conversation, which stays open."""

    agent: str = Field(description="The name of one of the desk's agents.")
    input: str | list[JsonObject] = Field(
        description="The first message: a text, or items of a Responses input."
    )
    id: str | None = Field(
        default=None,
        description="The id of the conversation. The same request with the same id is the same "
        "conversation. Default: a new one.",
    )
    tenant: str | None = Field(default=None, description="Whose conversation it is.")
    customer: CustomerBody | None = Field(
        default=None, description="For whom it is. Nobody changes it later."
    )


class MessageBody(Body):
    """A message of the customer: a text, or parts."""

    text: str | None = None
    parts: list[JsonObject] | None = Field(
        default=None,
        description="Parts of the types input_text, input_image and input_file, as in a Responses "
        "input. Images and files are data: URLs.",
    )
    message_id: str | None = Field(
        default=None,
        description="A second message with the same id is the same message. Choose one, so that a "
        "request can be repeated.",
    )
    agent: str | None = Field(
        default=None,
        description="The agent that the conversation begins with, if this is its first message.",
    )

    @model_validator(mode="after")
    def _is_one(self) -> "MessageBody":
        if (self.text is None) == (self.parts is None):
            raise ValueError("Write either `text` or `parts`.")
        return self


class TokenBody(Body):
    """Asks for a customer's token."""

    lifetime_seconds: int = Field(
        default=int(LIFETIME.total_seconds()),
        ge=1,
        le=int(LONGEST_LIFETIME.total_seconds()),
        description="How long the token opens the conversation.",
    )


class CancelBody(Body):
    """Ends a run."""

    mode: CancelMode = Field(
        default="immediate", description="`after_turn` lets the turn under way end first."
    )


class HoldBody(Body):
    """Takes a conversation over."""

    mode: HoldMode = Field(
        default="immediate",
        description="`immediate` cancels a model call under way; `after_turn` lets it end first.",
    )
    force: bool = Field(default=False, description="Take it from whoever else has it.")
    to: str | None = Field(
        default=None, description="The colleague to whom you hand over what you hold."
    )


class SayBody(Body):
    """What a person says to the customer."""

    text: str = Field(max_length=LONGEST_TEXT)
    message_id: str | None = Field(
        default=None, description="A second message with the same id is the same message."
    )
    files: list[JsonObject] = Field(
        default=[],
        max_length=MOST_FILES,
        description="Pictures and files: parts `input_image` and `input_file` of Responses input.",
    )


class ReleaseBody(Body):
    """Gives a conversation back to an agent."""

    note: str = Field(
        default="", max_length=LONGEST_TEXT, description="For the agent; not for the customer."
    )
    to: str = Field(default="", description="The agent; default: the one that was active.")


_ITEM: Final = "The index of the item in the transcript."


class SetAsideBody(Body):
    """Leaves an item out of what the model reads."""

    item: int = Field(ge=0, description=_ITEM)
    part: int | None = Field(
        default=None,
        ge=0,
        description="The index of a part of its content, such as a photo; default: all of it.",
    )
    reason: str = Field(default="", max_length=LONGEST_REASON, description="Why, for people.")


class TakeBackBody(Body):
    """Lets the model read an item again."""

    item: int = Field(ge=0, description=_ITEM)
    part: int | None = Field(
        default=None,
        ge=0,
        description="The index of the part that was set aside; default: what was set aside whole.",
    )


class FinishBody(Body):
    """What a tool waits for outside of its run."""

    token: str = Field(description="The `token` of the wait.")
    value: Json = Field(description="Any JSON that fits the `value_schema` of the wait.")
    delivery_id: str = Field(
        default="",
        max_length=LONGEST_ID,
        description="A second delivery with the same id changes nothing. Default: made of the token "
        "and the value.",
    )


class NoBody(Body):
    """Nothing."""


# --- Requests ------------------------------------------------------------------------------------

DecideType = Literal["approve", "edit", "reject", "respond", "ask_back", "withdraw"]

_FIELDS_OF: Final[dict[DecideType, frozenset[str]]] = {
    "approve": frozenset({"remember", "until"}),
    "edit": frozenset({"arguments", "message"}),
    "reject": frozenset({"message", "remember", "until"}),
    "respond": frozenset({"response"}),
    "ask_back": frozenset({"question"}),
    "withdraw": frozenset[str](),
}


class DecisionBody(Body):
    """A decision of the person who is logged in."""

    type: DecideType
    digest: str = Field(
        description="The `digest` of the request as the person saw it. The decision counts for "
        "nothing else."
    )
    message: str | None = Field(
        default=None, max_length=LONGEST_TEXT, description="The reason, for the model to read."
    )
    arguments: JsonObject | None = Field(
        default=None,
        description="Of an `edit`: all arguments, with `[redacted]` for a value that stays.",
    )
    response: Json = Field(default=None, description="Of a `respond`: the answer.")
    question: str | None = Field(
        default=None, max_length=LONGEST_TEXT, description="Of an `ask_back`, for the agent."
    )
    remember: Literal["tool", "tool_with_args"] | None = Field(
        default=None,
        description="Decide further calls of this tool by this agent, too: all, or those with the "
        "same arguments.",
    )
    until: Literal["run", "conversation"] | None = Field(
        default=None,
        description="How long `remember` holds: for this question, or (default) the conversation.",
    )

    @model_validator(mode="after")
    def _fits(self) -> "DecisionBody":
        extra = self.model_fields_set - {"type", "digest"} - _FIELDS_OF[self.type]
        if extra:
            raise ValueError(f"A decision of type {self.type} has no `{min(extra)}`.")
        needed = {"edit": "arguments", "respond": "response", "ask_back": "question"}
        name = needed.get(self.type)
        if name is not None and name not in self.model_fields_set:
            raise ValueError(f"A decision of type {self.type} needs `{name}`.")
        if self.until is not None and self.remember is None:
            raise ValueError("`until` says how long `remember` holds. Send both, or neither.")
        return self


class BulkPlanBody(Body):
    """Names conversations whose requests are decided together."""

    conversations: list[str] = Field(
        min_length=1, max_length=MOST_AT_ONCE, description="Their ids, each once."
    )


class SeenRequest(Body):
    """A request as the person saw it."""

    conversation: str
    request: str
    digest: str = Field(description="The decision counts for nothing else.")


class BulkDecisionBody(Body):
    """A decision of the person who is logged in, about several requests."""

    type: Literal["approve", "reject"]
    requests: list[SeenRequest] = Field(min_length=1, max_length=MOST_AT_ONCE)
    message: str | None = Field(
        default=None,
        max_length=LONGEST_TEXT,
        description="Of a `reject`: the reason, for the models to read.",
    )

    @model_validator(mode="after")
    def _fits(self) -> "BulkDecisionBody":
        if self.type == "approve" and self.message is not None:
            raise ValueError("A decision of type approve has no `message`.")
        return self


class ExtendBody(Body):
    """Gives a run more of a budget."""

    digest: str = Field(description="The `digest` of the request as the person saw it.")
    extend_by: int | None = Field(
        default=None,
        ge=1,
        description="How much more, in the unit of the budget; default: what the request names.",
    )


class ClaimBody(Body):
    """Keeps a request to one person."""

    minutes: int = Field(default=CLAIM_MINUTES, ge=1, le=LONGEST_CLAIM_MINUTES)
    force: bool = Field(default=False, description="Take it from whoever works on it.")
    to: str | None = Field(
        default=None, description="The colleague to whom you hand your claim over."
    )


class UnclaimBody(Body):
    """Ends a claim."""

    force: bool = Field(default=False, description="End the claim of somebody else.")


# --- Queries -------------------------------------------------------------------------------------


def _page(text: str | None) -> str | None:
    page_of(text)
    return text


def page_of(text: str | None) -> bytes | None:
    """Return the token of a page from its text.

    Raises:
        ValueError: the text is none.
    """
    if text is None:
        return None
    try:
        return base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("Send the field `next` of the page before as it came.") from None


def text_of_page(page: bytes | None) -> str | None:
    """Return the token of a page as text."""
    return None if page is None else base64.urlsafe_b64encode(page).decode()


_DUE: Final = "Only what is due by then: a length, such as 2h, or a time in ISO 8601."


def _checked_time(text: str | None) -> str | None:
    _due(text)
    return text


class _Paged(Query):
    limit: int = Field(default=PAGE, ge=1, le=LARGEST_PAGE, description="The most of a page.")
    page: str | None = Field(default=None, description="The field `next` of the page before.")

    _checked_page = field_validator("page")(_page)


class RunsQuery(_Paged):
    """Which conversations are listed; without a parameter, all."""

    status: ListedStatus | None = None
    agent: str | None = Field(default=None, description="The active agent.")
    tenant: str | None = None
    customer: str | None = Field(default=None, description="The id of the customer.")
    assignee: str | None = Field(default=None, description="The person that it is assigned to.")
    team: str | None = Field(default=None, description="The team that it is assigned to.")
    tag: str | None = Field(
        default=None, description="A tag; `@name` for what mentions a colleague."
    )
    rated: Rated | None = Field(
        default=None, description="`good` for a rating of 4 or 5, `bad` for 1 or 2."
    )
    attention: bool = Field(
        default=False,
        description="Only what needs attention: overdue, failed in the last days, unanswered, or "
        "without a worker.",
    )
    waiting: bool = Field(default=False, description="Only what waits for a person's decision.")
    group: str | None = Field(default=None, description="Only what this group may decide.")
    risk: Risk | None = None
    due: str | None = Field(default=None, description=_DUE)
    case_due: str | None = Field(
        default=None,
        description="Only what a person has to reply to or take by then: a length, such as 2h, a time "
        "in ISO 8601, or `overdue`.",
    )
    prefix: str = Field(default="", description="The beginning of the id.")
    nested: bool = Field(default=False, description="Also runs that are nested in others.")

    _checked_due = field_validator("due", "case_due")(_checked_time)

    def criteria(self, scopes: Sequence[RunScope]) -> RunFilter:
        """Return the criteria for the list of a person who sees the runs of some scopes."""
        names = {one.name for one in fields(RunFilter)} & RunsQuery.model_fields.keys()
        return RunFilter(
            **{name: getattr(self, name) for name in names},
            id_prefix=self.prefix,
            due_before=_due(self.due),
            case_due_before=_due(self.case_due),
            scopes=tuple(scopes),
        )


class SearchQuery(Query):
    """What is searched for."""

    q: str = Field(description="Words, and phrases in double quotes: all of them must occur.")
    limit: int = Field(
        default=MOST_FOUND, ge=1, le=MOST_FOUND, description="The most that is found."
    )


class InboxStreamQuery(Query):
    """Which entries of the inbox are listed; without a parameter, all."""

    mine: bool = Field(default=False, description="Only what the caller may decide or holds.")
    group: str | None = Field(default=None, description="Only what this group may decide.")
    risk: Risk | None = None
    due: str | None = Field(default=None, description=_DUE)
    held: bool = Field(default=True, description="Also conversations that a person has taken over.")

    _checked_due = field_validator("due")(_checked_time)

    def filter(self, person: Person, scopes: Sequence[RunScope]) -> InboxFilter:
        """Return what the live inbox is asked for; deadlines move, so they are no part of it."""
        mine = person if self.mine else None
        return InboxFilter(mine=mine, group=self.group or "", risk=self.risk, scopes=tuple(scopes))

    def criteria(self, person: Person, scopes: Sequence[RunScope]) -> InboxCriteria:
        """Return the criteria for the inbox of a person who sees the runs of some scopes."""
        criteria = self.filter(person, scopes).criteria
        return {**criteria, "due_before": _due(self.due), "held": self.held}

    def accepts(self, entry: InboxEntry) -> bool:
        """Whether an entry that fits the filter is due in time, and not left out as held."""
        due_before = _due(self.due)
        is_due = due_before is None or (entry.due is not None and entry.due < due_before)
        return is_due and (self.held or bool(entry.pending))


class InboxQuery(InboxStreamQuery, _Paged):
    """A page of the inbox."""

    urgent: bool = Field(
        default=False,
        description="The most urgent entries, in one page. Otherwise the newest come first.",
    )


class FromQuery(Query):
    """Where a stream begins."""

    from_: str | None = Field(
        default=None,
        alias="from",
        description="The id of the last event that the reader has; `0-0-0000` for everything. The "
        "header Last-Event-ID goes first.",
    )


def _due(text: str | None) -> datetime | None:
    if text is None:
        return None
    length = timedelta() if text == "overdue" else parse_duration(text)
    try:
        named = datetime.fromisoformat(text) if length is None else clock.now() + length
    except (ValueError, OverflowError):
        raise ValueError("Write a length, such as 2h, or a time in ISO 8601.") from None
    return named if named.tzinfo is not None else named.replace(tzinfo=UTC)


# --- Reading -------------------------------------------------------------------------------------


async def read_body(request: Request, kind: type[BodyT]) -> BodyT:
    """Return the body of a request; an empty one has every default.

    Raises:
        Refused: it is no JSON, or has other fields.
    """
    content = await read_within(request, DOORS["api"])
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content and media_type != "application/json":
        message = "Send the body as JSON, with the header `Content-Type: application/json`."
        raise Refused(415, "not_json", message)
    try:
        return kind.model_validate_json(content or b"{}")
    except ValidationError as error:
        raise Refused(400, "invalid_body", _sentence(error, kind, "The body", "field")) from None


def read_query(request: Request, kind: type[QueryT]) -> QueryT:
    """Return the query of a request.

    Raises:
        Refused: it has other parameters.
    """
    pairs = request.query_params.multi_items()
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, _ in pairs if len(request.query_params.getlist(name)) > 1)
        raise Refused(400, "invalid_query", f"The parameter {twice!r:.80} comes more than once.")
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        message = _sentence(error, kind, "The query", "parameter")
        raise Refused(400, "invalid_query", message) from None


def _sentence(error: ValidationError, kind: type[BaseModel], what: str, part: str) -> str:
    """Return the first problem as a sentence."""
    problem: ErrorDetails = error.errors(include_url=False)[0]
    name = str(problem["loc"][0]) if problem["loc"] else ""
    match problem["type"]:
        case "json_invalid":
            return f"{what} is no JSON: {problem['msg'].removeprefix('Invalid JSON: ')}."
        case "extra_forbidden":
            known = ", ".join(field.alias or name for name, field in kind.model_fields.items())
            return f"{what} has no {part} {name!r:.80}. It has: {known or 'none'}."
        case "missing":
            return f"{what} lacks the {part} {name!r}."
        case "value_error":
            reason = problem["msg"].removeprefix("Value error, ")
            return f"The {part} {name!r} does not fit. {reason}" if name else reason
        case _:
            reason = problem["msg"]
            for word in ("Input ", "List ", "String "):
                reason = reason.removeprefix(word)
            reason = reason.replace(" after validation", "")
            where = "".join(f"[{one!r}]" for one in problem["loc"][1:])
            place = f"The {part} {name!r}{where:.200}" if name else what
            return f"{place} {reason}."
