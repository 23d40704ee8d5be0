"""What people and programs send to a run: the payloads of signals and updates.

`human_actions.py` has a row for each thing that people do. What programs send is a record, too, and its
event inherits the record and adds a time.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from outlast.loop.approvals import ApprovalRequest, Decision, Person
from outlast.loop.calls import ModelReply, WaitPlace
from outlast.loop.redacted import Redacted
from outlast.loop.values import Json, JsonObject

CancelMode: TypeAlias = Literal["immediate", "after_turn"]
HoldMode: TypeAlias = Literal["immediate", "after_turn"]
CaseDeed: TypeAlias = Literal[
    "assign", "comment", "resolve", "reopen", "snooze", "tag", "link", "recount"
]

LONGEST_COMMENT: Final = 10_000
LONGEST_NAME: Final = 500
"""The most characters of a comment, and of a name, a tag or an id in a `CaseAction`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRecord:
    """The fields of a payload that say who sends it; see `Person`."""

    by: str = ""
    display: str | None = None
    groups: tuple[str, ...] = ()
    method: str | None = None
    proof: str | None = None

    @property
    def person(self) -> Person:
        """Who sends it."""
        return Person(
            subject=self.by,
            display=self.display,
            groups=self.groups,
            method=self.method,
            proof=self.proof,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAction(PersonRecord):
    """A person begins to work on an approval request, or stops.

    Attributes:
        request_id: the request.
        minutes: for how long nobody else may decide it; 0 gives it back.
        force: take it from whoever else works on it.
        to: who gets the claim, if the sender hands theirs over; empty for the sender.
    """

    request_id: str
    minutes: int = 30
    force: bool = False
    to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldAction(PersonRecord):
    """A person takes the conversation over; the agent does nothing until it is released.

    Attributes:
        mode: whether a model call under way is cancelled, so that no half answer arrives under the
            person's first words, or may finish with what it leads to.
        to: who gets the conversation, if its holder hands it over; empty for the sender.
        force: take it from whoever else has it.
    """

    mode: HoldMode = "immediate"
    to: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SayAction(PersonRecord):
    """The person who holds the conversation says something to the user.

    Attributes:
        text: what is said.
        message_id: a second message with the same id is the same message.
        files: pictures and files for the user, as parts of Responses input. No model reads them.

    Raises:
        ValueError: there is no text.
    """

    text: str
    message_id: str = ""
    files: tuple[JsonObject, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an empty text."""
        if not self.text.strip():
            raise ValueError("text must say something")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseAction(PersonRecord):
    """The conversation goes back to an agent.

    Attributes:
        note: what the model reads about it; empty for nothing.
        to: the agent that goes on; empty for the one that was active.
    """

    note: str = ""
    to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideAction(PersonRecord):
    """The model does not read an item of the transcript any more, or reads it again.

    Attributes:
        item: the index of the item in the transcript.
        part: the index of a part of its content; None for all of it.
        back: take it back, so that the model reads it again.
        reason: why, for people.

    Raises:
        ValueError: an index is negative.
    """

    item: int
    part: int | None = None
    back: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse an index that no item has."""
        if self.item < 0 or (self.part or 0) < 0:
            raise ValueError("item and part must be 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAction(PersonRecord):
    """Something about the case of a conversation: whose it is, and how it stands.

    Attributes:
        do: what is done; the fields below belong to one of these each. `recount` counts the times of
            open requests anew, because a calendar has changed.
        to: who gets it (`assign`); empty for nobody, or for whom the team chooses.
        team: the team that gets it (`assign`); empty for none.
        text: the words (`comment`), or why (`resolve`).
        comment_id: a second comment with the same id is the same comment.
        until_ms: when it comes back, in milliseconds since the epoch (`snooze`).
        add: tags that it has from now on (`tag`, `comment`), or ids of conversations (`link`).
        remove: tags or ids that it has no more.

    Raises:
        ValueError: what is done needs something that is not there, or has something too long.
    """

    do: CaseDeed
    to: str = ""
    team: str = ""
    text: str = ""
    comment_id: str = ""
    until_ms: int | None = None
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what says nothing, or too much."""
        if len(self.text) > LONGEST_COMMENT:
            raise ValueError(f"text must have at most {LONGEST_COMMENT:,} characters")
        if self.do == "comment" and not (self.text.strip() and self.comment_id):
            raise ValueError("comment needs text, and comment_id, which tells it from every other")
        if self.do == "snooze" and self.until_ms is None:
            raise ValueError("snooze needs until_ms, the time at which the conversation comes back")
        words = (*self.add, *self.remove)
        if self.do in {"tag", "link"} and not all(one.strip() for one in words or ("",)):
            raise ValueError(f"{self.do} needs words in add or remove")
        longest = max((len(one) for one in (self.to, self.team, *words)), default=0)
        if longest > LONGEST_NAME:
            raise ValueError(f"names, tags and ids must have at most {LONGEST_NAME} characters")


def fields_of(person: Person) -> dict[str, Any]:
    """Return the fields of a `PersonRecord`, or of a `Decision`, that say who sends it."""
    return {
        "by": person.subject,
        "display": person.display,
        "groups": person.groups,
        "method": person.method,
        "proof": person.proof,
    }


Action: TypeAlias = (
    Decision | ClaimAction | HoldAction | SayAction | ReleaseAction | SetAsideAction | CaseAction
)
"""Everything that a person can do in a run."""


# --- What programs send --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRecord:
    """The payload of the signal `cancel`: whether to stop at once, or after the current turn."""

    mode: CancelMode = "immediate"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRecord:
    """The payload of the update `retry`.

    `answers` is the number of the run's answers, the failed one included, so that a late request
    retries no other question.
    """

    answers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawRecord:
    """The payload of `withdraw`: the id of a message that no question has taken yet."""

    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverRecord(WaitPlace):
    """The payload of `deliver`: a value for a call that waits for it.

    Attributes:
        value: the value.
        delivery_id: a second delivery with the same id is the same delivery.
        source: who delivers it, in their own words.
        proof: its signature.

    Raises:
        ValueError: the delivery has no id: it could be taken twice.
    """

    value: Json = None
    delivery_id: str
    source: str = ""
    proof: str | None = None

    def __post_init__(self) -> None:
        """Refuse a delivery without an id."""
        if not self.delivery_id:
            raise ValueError("delivery_id must tell this delivery from every other")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachLineRecord(PersonRecord):
    """The payload of the update `attach_line`; where workers have identity keys, it needs a proof.

    Attributes:
        line: the id of the realtime line.
        label: what people read, such as `phone call`.
        owner: the token that its replies follow: see `lines.py`; empty if they have none.
    """

    line: str
    label: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReplyRecord:
    """The payload of the signal `line_reply`: the user's words, and the model's reply.

    Attributes:
        line: the id of the line.
        token: the line's next token, which shows that it comes from the line's owner.
        said: the user's items since the reply before; empty if the model began.
        reply: the reply and its plan. Its `response_id` tells it from all others.

    Raises:
        ValueError: the reply has no id: it could be taken twice.
    """

    line: str
    token: str = ""
    said: list[JsonObject] = field(default_factory=list[JsonObject])
    reply: ModelReply

    def __post_init__(self) -> None:
        """Refuse a reply without an id."""
        if not self.reply.response_id:
            raise ValueError("reply.response_id must be the provider's id of the response")


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedRecord:
    """The payload of the signal `nested`: what a nested run waits for, and its spending.

    Attributes:
        nested_id: the nested run.
        requests: the pending approval requests.
        redacted: the values that it hides from people.
        waits: the names of the deliveries that it waits for, and for nothing else.
        spent: what it and those nested in it have spent of each budget of the parent, by the
            budget's index.
        wants: the budgets of which it needs more, each with the share that it knows of.
    """

    nested_id: str
    requests: tuple[ApprovalRequest, ...] = ()
    redacted: tuple[Redacted, ...] = ()
    waits: tuple[str, ...] = ()
    spent: tuple[tuple[int, int], ...] = ()
    wants: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LendRecord:
    """The payload of the signal `lend`: a nested run's whole share of a budget of its parent."""

    index: int
    share: int


HIGHEST_SCORE: Final = 5
LONGEST_RATING: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingRecord:
    """What the customer thinks of the conversation; the newest replaces all before.

    Attributes:
        score: from 1, the worst, to 5.
        text: why, in their words.

    Raises:
        ValueError: the score is another number, or the text is too long.
    """

    score: int
    text: str = ""

    def __post_init__(self) -> None:
        """Refuse what nobody can compare."""
        if not 1 <= self.score <= HIGHEST_SCORE:
            raise ValueError(f"score must be 1 to {HIGHEST_SCORE}, not {self.score}")
        if len(self.text) > LONGEST_RATING:
            raise ValueError(f"text must have at most {LONGEST_RATING:,} characters")


# --- Between a run and a team --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamReport:
    """How a run stands with a team: the payload of the signal `report`.

    The newest report of a run replaces all before.

    Attributes:
        chain_id: the first execution of the run.
        run_id: its workflow id.
        report: the number of the report, which grows with each one.
        began_ms: when the run started, in milliseconds since the epoch. An id may be used again:
            the run that started last has it.
        gone: whether the team has nothing more to do with the conversation.
        to: for whom it is, where a person has said so, or who has taken it.
        taken: whether that person works on it.
    """

    chain_id: str
    run_id: str
    report: int
    began_ms: int = 0
    gone: bool = False
    to: str = ""
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedRecord:
    """Whose a conversation is, in the words of its team: the payload of the signal `assigned`.

    Attributes:
        team: the name of the team.
        chain_id: the first execution of the run.
        report: the report that this answers; the run takes no answer to another one.
        to: whose it is; empty while nobody has room for it.
        due_ms: until when they may take it, in milliseconds since the epoch; None for no limit.
    """

    team: str
    chain_id: str
    report: int
    to: str = ""
    due_ms: int | None = None
