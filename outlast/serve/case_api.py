"""What colleagues do with a conversation, in our HTTP API: whose it is, and how it stands."""

from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from pydantic import Field, field_validator

from outlast.agents.durations import parse_duration
from outlast.agents.errors import UserError
from outlast.client.people.cases import CaseReceipt
from outlast.client.transport.run_address import no_such_run
from outlast.deliveries.problems import Refused
from outlast.serve.access import redaction_for
from outlast.serve.bodies import Body, NoBody
from outlast.serve.endpoints import get, post
from outlast.serve.records import CaseReceiptView, View
from outlast.serve.routing import DeskRequest
from outlast.views.records import LONGEST_COMMENT, LONGEST_NAME

_RUN: Final = "/api/conversations/{run_id}"
_WORDS: Final = 100
"""The most tags or links of one request."""

_NO_TIME: Final = "Write a length, such as 2h, or a time with a zone in ISO 8601."
WITHIN: Final = "The calendar whose hours a length counts; empty for all hours."


class AssignBody(Body):
    """Says whose a conversation is; nobody's without a person and a team."""

    to: str = Field(
        default="", max_length=LONGEST_NAME, description="The person; empty for nobody."
    )
    team: str = Field(default="", max_length=LONGEST_NAME, description="The team; empty for none.")


class CommentBody(Body):
    """Something for colleagues: neither the customer nor the model reads it."""

    text: str = Field(max_length=LONGEST_COMMENT, description="`@name` mentions a colleague.")
    comment_id: str | None = Field(
        default=None,
        max_length=LONGEST_NAME,
        description="A second comment with the same id is the same comment.",
    )


class ResolveBody(Body):
    """Says that nothing is left to do."""

    why: str = Field(default="", max_length=LONGEST_COMMENT, description="Why, for colleagues.")


class SnoozeBody(Body):
    """Puts a conversation off."""

    until: str = Field(description=f"When it comes back. {_NO_TIME}")
    within: str = Field(default="", max_length=LONGEST_NAME, description=WITHIN)

    @field_validator("until")
    @classmethod
    def _is_time(cls, text: str) -> str:
        snooze_end(text)
        return text


class TagBody(Body):
    """Changes the tags of a conversation."""

    tags: list[str] = Field(default=[], max_length=_WORDS, description="Tags to add.")
    remove: list[str] = Field(default=[], max_length=_WORDS, description="Tags to take away.")


class LinkBody(Body):
    """Links conversations about the same."""

    conversations: list[str] = Field(
        default=[], max_length=_WORDS, description="The ids of other conversations."
    )
    remove: list[str] = Field(
        default=[], max_length=_WORDS, description="Ids to which the conversation has no link more."
    )


class SavedReplyView(View):
    """A text that colleagues write often, for the customer of a conversation."""

    name: str = Field(description="Its name in the operators' file.")
    title: str = Field(description="What people call it.")
    text: str = Field(description="With the name of the customer.")


class SavedReplies(View):
    """The saved replies of the operators' file, in its order."""

    replies: list[SavedReplyView]


def saved_replies(asked: DeskRequest, customer: str) -> SavedReplies:
    """Return the saved replies for a customer."""
    return SavedReplies(
        replies=[
            SavedReplyView(name=one.name, title=one.label, text=one.for_customer(customer))
            for one in asked.desk.replies
        ]
    )


def snooze_end(text: str) -> datetime | timedelta:
    """Return when a conversation comes back: a length from now, or a time with a zone.

    Raises:
        ValueError: the text is neither.
    """
    length = parse_duration(text)
    if length is not None:
        return length
    try:
        named = datetime.fromisoformat(text.strip())
        if named.tzinfo is not None:
            return named.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(_NO_TIME)


async def check_linked(asked: DeskRequest, run_ids: Iterable[str]) -> None:
    """Check that the caller sees the conversations that they link.

    Raises:
        RunNotFound: they do not see one: the same error as of no run.
    """
    named = tuple(dict.fromkeys(run_ids))
    seen = await asked.seen(named)
    for run_id in named:
        if run_id not in seen:
            raise no_such_run(run_id, asked.desk.client.namespace)


T = TypeVar("T")


async def acted(act: Awaitable[T]) -> T:
    """Return the outcome of what a person does; what does not fit the run's state is a conflict."""
    try:
        return await act
    except UserError as error:
        if type(error) is not UserError:
            raise
        raise Refused(409, "refused", str(error)) from None


async def _receipt(act: Awaitable[CaseReceipt]) -> CaseReceiptView:
    return CaseReceiptView.of(await acted(act))


@get(f"{_RUN}/replies", "view_run")
async def _replies(asked: DeskRequest) -> SavedReplies:
    """List the texts that colleagues write often, for the customer of a conversation."""
    state = await asked.handle.state()
    name = state.customer.name or state.customer.id
    return saved_replies(asked, redaction_for(asked.caller, state).text(name))


@post(f"{_RUN}/assign", "assign")
async def _assign(asked: DeskRequest, body: AssignBody) -> CaseReceiptView:
    """Assign a conversation to a person, to a team, or to nobody."""
    return await _receipt(
        asked.handle.assign(body.to.strip() or None, by=asked.person, team=body.team.strip())
    )


@post(f"{_RUN}/comment", "comment")
async def _comment(asked: DeskRequest, body: CommentBody) -> CaseReceiptView:
    """Write something for colleagues, which no customer and no model reads."""
    return await _receipt(
        asked.handle.comment(body.text, by=asked.person, comment_id=body.comment_id)
    )


@post(f"{_RUN}/resolve", "resolve")
async def _resolve(asked: DeskRequest, body: ResolveBody) -> CaseReceiptView:
    """Say that nothing is left to do; a word of the customer reopens the conversation."""
    return await _receipt(asked.handle.resolve(by=asked.person, why=body.why))


@post(f"{_RUN}/reopen", "reopen")
async def _reopen(asked: DeskRequest, _body: NoBody) -> CaseReceiptView:
    """Open a conversation again that was resolved, or bring back one that was put off."""
    return await _receipt(asked.handle.reopen(by=asked.person))


@post(f"{_RUN}/recount", "recount")
async def _recount(asked: DeskRequest, _body: NoBody) -> CaseReceiptView:
    """Count the times of open requests anew, because the hours of a calendar have changed."""
    return await _receipt(asked.handle.recount(by=asked.person))


@post(f"{_RUN}/snooze", "snooze")
async def _snooze(asked: DeskRequest, body: SnoozeBody) -> CaseReceiptView:
    """Put a conversation off; it comes back then, or with the customer's next word."""
    end, within = snooze_end(body.until), body.within.strip() or None
    return await _receipt(asked.handle.snooze(end, by=asked.person, within=within))


@post(f"{_RUN}/tag", "tag")
async def _tag(asked: DeskRequest, body: TagBody) -> CaseReceiptView:
    """Add tags, by which people find the conversation, and take others away."""
    return await _receipt(asked.handle.tag(*body.tags, by=asked.person, remove=tuple(body.remove)))


@post(f"{_RUN}/link", "link")
async def _link(asked: DeskRequest, body: LinkBody) -> CaseReceiptView:
    """Link other conversations about the same, and take links back."""
    await check_linked(asked, body.conversations)
    return await _receipt(
        asked.handle.link(*body.conversations, by=asked.person, remove=tuple(body.remove))
    )
