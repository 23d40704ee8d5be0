"""What the figures count of the events of a run: each once, whatever is read again."""

from typing import Any

from outlast.loop.events import Event
from outlast.search.documents import Document
from outlast.search.occurrences import Occurrence, OccurrenceReader
from tests.laws.driver import Play, play_in, said
from tests.unit.search.documents import document


class Read(Play):
    """A run whose events a reader takes from its first one on."""

    def __init__(self, **fields: Any) -> None:
        self.reader = OccurrenceReader()
        super().__init__(**fields)

    def take(self, event: Event) -> Any:
        """Take an event."""
        if not self.events:
            self.reader.take(None, self.state)
        commands = super().take(event)
        self.reader.take(event, self.state)
        return commands

    @property
    def found(self) -> list[tuple[str, int, str]]:
        """What was found: the kind, the value and the team."""
        return [(one.kind, one.value, one.team) for one in self.reader.found]


def resting() -> Read:
    play = Read.ready(keep_open=True)
    play.replies(said("Hello."))
    return play


def test_a_reply_counts_from_the_word_of_the_customer_who_waits_for_a_person() -> None:
    play = resting()
    play.case("assign", team="billing")
    play.holds()
    play.says("Good day.")  # nobody waited
    play.hears("m2", "Are you there?")
    play.passes(90_000)
    play.hears("m3", "Hello?")
    play.says("I am.")
    play.says("What is it?")
    takeover, reply = play.found
    assert (takeover[0], takeover[2]) == ("takeover", "billing")
    assert (reply[0], reply[2]) == ("reply", "billing")
    assert 90_000 <= reply[1] < 100_000
    play.hears("m4", "My order.")
    play.releases()
    assert len(play.found) == 2  # the agent goes on


def test_the_newest_rating_counts_and_the_same_again_is_none() -> None:
    play = resting()
    play.rates(1, "Rude.")
    play.rates(4)
    play.rates(4)
    assert play.found == [("rating", 4, "")]


def test_a_reader_that_begins_while_a_customer_waits_counts_from_its_first_state() -> None:
    play = resting()
    play.holds()
    play.hears("m2", "Are you there?")
    later = OccurrenceReader()
    later.take(None, play.state)
    play.passes(60_000)
    event_before = len(play.events)
    play.says("I am.")
    later.take(play.events[event_before], play.state)
    [reply] = later.found
    assert reply.kind == "reply"
    assert reply.value >= 60_000


def test_who_takes_over_from_a_colleague_counts_too_and_nobody_does_not() -> None:
    play = resting()
    play.holds()
    play.holds("bob", force=True)
    assert [kind for kind, *_ in play.found] == ["takeover", "takeover"]
    play.cancelled()
    assert len(play.found) == 2


def test_a_decision_counts_with_the_time_from_its_request() -> None:
    play = play_in("waiting")
    request = play.state.pending_approvals[0]
    reader = OccurrenceReader()
    reader.take(None, play.state)
    play.passes(30_000)
    before = len(play.events)
    play.decided(request.id)
    for event in play.events[before:]:
        reader.take(event, play.state)
    [decision] = reader.found
    assert (decision.kind, decision.key) == ("decision", request.id)
    assert decision.value >= 30_000


def test_a_document_keeps_what_earlier_ones_of_its_execution_counted() -> None:
    old, new = Occurrence("takeover", 1, "1"), Occurrence("rating", 2, value=4)
    first = document(occurrences=(old, Occurrence("rating", 1, value=1)))
    assert document(occurrences=(new,)).after(first).occurrences == (old, new)
    other = document(execution_id="another", occurrences=(new,))
    assert other.after(first).occurrences == (new,)
    assert Document.decoded(first.encoded()) == first
