"""The steps of an answer, which the wires write each in its own way."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from outlast.serve.cursor import checksum
from outlast.views.records import ApprovalRequest, Failure, Item


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a step is in the answer.

    Attributes:
        event: the number of the next event of the run, counted from the first one of the answer.
        voids: how many texts the client has had that became void.
        offset: the characters of the text in progress, with this step.
    """

    event: int = 0
    voids: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TextBegun:
    """A message begins."""

    place: Place


@dataclass(frozen=True, slots=True)
class TextPiece:
    """More of the message; `whole` is all of it up to here."""

    place: Place
    text: str
    whole: str


@dataclass(frozen=True, slots=True)
class TextVoid:
    """The message is void: it has to disappear."""

    place: Place


@dataclass(frozen=True, slots=True)
class TextHidden:
    """A message that customers do not see; a client may have read it before its question failed."""

    place: Place


@dataclass(frozen=True, slots=True)
class TextDone:
    """The message is complete, or cut off by a limit of tokens."""

    place: Place
    text: str
    is_cut_short: bool = False


@dataclass(frozen=True, slots=True)
class Reasoned:
    """The model's reasoning, for the team."""

    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool is called, for the team."""

    place: Place
    call_id: str
    item: Item


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """A call has its output, for the team, without what policies hide.

    Attributes:
        place: the place.
        call_id: the id of the call for clients.
        call: the call; None if no reply has made it.
        arguments: its arguments, as people may see them.
        item: the output.
        request: the request to approve it; None without one.
    """

    place: Place
    call_id: str
    call: Item | None
    arguments: str
    item: Item
    request: ApprovalRequest | None


@dataclass(frozen=True, slots=True)
class RequestChanged:
    """A request is new, or has changed, for those of the team who may decide."""

    place: Place
    request: ApprovalRequest


_FAILED: Final = "The question could not be answered."
_ENDED: Final = "The conversation ended before the message was answered."

Reason: TypeAlias = Literal["answered", "failed", "cancelled", "ended", "asks"]


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is over.

    Attributes:
        place: the place.
        reason: `asks`: the caller has to decide the requests before it goes on.
        failure: why there is no answer.
        requests: what the caller has to decide.
        next_event: the number of the event from which the rest of the answer goes on.
        is_cut_short: whether a limit of tokens cut the answer off.
    """

    place: Place
    reason: Reason
    failure: Failure | None = None
    requests: tuple[ApprovalRequest, ...] = ()
    next_event: int = 0
    is_cut_short: bool = False

    def words(self, *, is_team: bool) -> str:
        """Return why there is no answer, for the customer or for the team."""
        if is_team and self.failure is not None:
            return f"{self.failure.message} ({self.failure.code})"
        return _ENDED if self.reason == "ended" else _FAILED


Step: TypeAlias = (
    TextBegun
    | TextPiece
    | TextVoid
    | TextHidden
    | TextDone
    | Reasoned
    | ToolCalled
    | ToolAnswered
    | RequestChanged
    | Finished
)


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a client has read an answer.

    Attributes:
        place: the place of the last step.
        kind: what that step was: `text` of a message in progress, the `void` of one, the `finish`,
            or something else.
        check: the checksum of the message in progress.
    """

    place: Place
    kind: Literal["text", "void", "finish", "other"]
    check: int = 0


@dataclass(frozen=True, slots=True)
class GoesOn:
    """Where an answer goes on after decisions.

    Attributes:
        event: the number of the first event since the run began to wait for them.
        decided: the number of the event after them: before it, nobody is asked again.
    """

    event: int
    decided: int


def text_check(text: str) -> int:
    """Return the checksum of a text: 15 bits."""
    return checksum(text) & 0x7FFF
