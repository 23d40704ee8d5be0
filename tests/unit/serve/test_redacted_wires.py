"""What a policy redacts is hidden from the team on each wire, and not from the customer."""

import asyncio
import json
import random
from typing import Any

import pytest

from outlast.client.identity import person
from outlast.loop.approvals import ApprovalTerms
from outlast.serve import live
from outlast.serve.access import Caller, Program, Staff
from outlast.serve.wires.ag_ui_view import Live, Said, view_of_team
from outlast.serve.wires.answer_steps import AnswerSteps
from outlast.serve.wires.steps import GoesOn, TextBegun, TextPiece, TextVoid
from outlast.views.redaction import redaction_of_texts
from outlast.views.run import snapshot_of
from tests.laws.driver import Play, gated, said, thought
from tests.unit.serve import test_response_laws, test_vercel_laws
from tests.unit.serve.played import PlayedRuns, desk_of
from tests.unit.serve.random_streams import RandomStreams
from tests.unit.serve.scripted_source import COMPLETED, Streamed, delta

SECRET = "DE89370400440532013000"
OTTO = Staff(person("otto", groups=["g"]), frozenset({"operator"}))
SHOP = Program("shop")


def played() -> Play:
    """A payment to a hidden account, which the question, the output and the answer repeat."""
    play = Play.ready(keep_open=True)
    terms = ApprovalTerms(redact=("iban",))
    play.replies(thought(), gated("pay", "c1", json.dumps({"iban": SECRET}), terms=terms))
    play.decided("a1", by="ann")
    play.returns("c1", f"paid to {SECRET}")
    play.replies(said(f"Paid to {SECRET}, done."))
    return play


def wire(name: str, shown: list[Streamed], caller: Caller, *, is_live: bool) -> list[Any]:
    module: Any = {"vercel": test_vercel_laws, "responses": test_response_laws}[name]
    return asyncio.run(module.read(shown, caller, "start", live=is_live))


@pytest.mark.parametrize("name", ["vercel", "responses"])
@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_team_reads_no_hidden_value_however_its_text_is_cut(
    name: str, is_live: bool, seed: int
) -> None:
    streams = RandomStreams.of(played(), random.Random(seed))
    sent = json.dumps(wire(name, streams.live, OTTO, is_live=is_live))
    assert SECRET not in sent
    whole = "".join(
        str(one.get("delta"))
        for one in json.loads(sent)
        if "text" in one["type"] and "delta" in one
    )
    assert whole.endswith("Paid to [redacted], done."), "in one piece, and the rest of the text"
    assert not any(SECRET[:length] in whole for length in range(6, len(SECRET))), "nor a part of it"
    assert "paid to [redacted]" in sent


@pytest.mark.parametrize("name", ["vercel", "responses"])
def test_the_customer_reads_their_own_value(name: str) -> None:
    streams = RandomStreams.of(played(), random.Random(1))
    assert f"Paid to {SECRET}, done." in json.dumps(wire(name, streams.late, SHOP, is_live=False))


def test_a_text_that_began_before_a_policy_hid_its_value_is_void() -> None:
    """The reply with the call says the value first: whoever read along gets the text anew."""
    play = Play.ready(keep_open=True)
    terms = ApprovalTerms(redact=("iban",))
    call = gated("pay", "c1", json.dumps({"iban": SECRET}), terms=terms)
    play.replies(said(f"I pay to {SECRET} now."), call)
    play.decided("a1", by="ann")
    play.returns("c1", "paid")
    play.replies(said("Done."))
    streams = RandomStreams.of(play, random.Random(3))
    begun = [delta("I pay to "), delta(SECRET[:5])]
    at = next(at for at, one in enumerate(streams.late) if one == COMPLETED)
    cut = [*streams.late[: at - 1], *begun, *streams.late[at:]]
    chunks = wire("vercel", cut, OTTO, is_live=True)
    assert "DE893" in json.dumps(chunks), "nobody knew that it is to be hidden"
    shown = test_vercel_laws.message_of(chunks)
    assert shown.texts == ["I pay to [redacted] now.", "Done."]


def test_a_text_never_goes_on_with_the_rest_of_another() -> None:
    """The state is newer than the text that is read: its policy hides what the text began with."""
    steps = AnswerSteps(OTTO, "start", goes_on=GoesOn(0, 1))
    assert [*steps._show(f"To {SECRET[:5]}", 0)]
    void, begun, piece = steps._show("To [redacted], now.", 0)
    assert (type(void), type(begun)) == (TextVoid, TextBegun)
    assert isinstance(piece, TextPiece)
    assert piece.text == "To [redacted], now."


def test_ag_ui_hides_values_in_a_text_in_progress() -> None:
    view = view_of_team(snapshot_of(played().state))
    for text, expected in (
        (f"To {SECRET[:5]}", "To "),
        (f"To {SECRET[:9]}", "To [redacted]"),
        (f"To {SECRET}", "To [redacted]"),
        (f"To {SECRET}. Now", "To [redacted]. Now"),
    ):
        part = view.with_live(Live(9, text))[-1]
        assert isinstance(part, Said)
        assert part.text == expected


async def test_the_api_sends_a_message_with_a_hidden_value_when_it_is_whole() -> None:
    play = played()
    texts = [delta(f"Paid to {SECRET}, "), delta("done.")]
    runs = PlayedRuns({"run": play}, {"run": texts})
    desk = desk_of(runs, ()).state.desk
    found: list[str] = []
    async with desk.feed, asyncio.timeout(10):
        events: Any = live._staff_events(desk, OTTO, "run", None)
        async for event in events:
            found.append(event.data)
            if event.event == "snapshot":
                play.hears("m2", "Thanks.")
                runs.tell()
            if "Thanks." in event.data:
                break
        await events.aclose()
    assert SECRET not in "".join(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Hello", "Hello"),
        ("Hello abc", "Hello "),
        ("Hello abcdef", "Hello [redacted]"),
        ("Hello abcdex", "Hello abcdex"),
        ("abcdefabc", "[redacted]"),
    ],
)
def test_the_end_of_a_draft_that_may_be_hidden_waits(text: str, expected: str) -> None:
    assert redaction_of_texts(["abcdef"]).draft(text) == expected
