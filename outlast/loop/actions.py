"""What people do in a run, as they send it: the payloads of signals and updates.

`human_actions.py` has a row for each of them.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from outlast.loop.approvals import Decision, Person

HoldMode: TypeAlias = Literal["immediate", "after_turn"]


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

    Raises:
        ValueError: there is no text.
    """

    text: str
    message_id: str = ""

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


def fields_of(person: Person) -> dict[str, Any]:
    """Return the fields of a `PersonRecord`, or of a `Decision`, that say who sends it."""
    return {
        "by": person.subject,
        "display": person.display,
        "groups": person.groups,
        "method": person.method,
        "proof": person.proof,
    }


Action: TypeAlias = Decision | ClaimAction | HoldAction | SayAction | ReleaseAction | SetAsideAction
"""Everything that a person can do in a run."""
