"""Whatever a run does, and wherever a chat is cut, its message has each text once, in whole parts."""

import asyncio
import json
import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from outlast.client.identity import person
from outlast.client.read.events import StreamedState
from outlast.loop.approvals import ApprovalTerms, Audience, reviewed
from outlast.loop.values import Json, JsonObject
from outlast.serve.access import Caller, Program, Staff
from outlast.serve.cursor import Cursor
from outlast.serve.feed import Feed
from outlast.serve.wires.answer_steps import AnswerSteps
from outlast.serve.wires.answer_stream import follow_steps
from outlast.serve.wires.decisions import SentDecision
from outlast.serve.wires.ids import RequestId
from outlast.serve.wires.steps import GoesOn
from outlast.serve.wires.ui_messages import MessageChunks, approvals_in
from outlast.views.customer import customer_view
from outlast.views.redaction import redaction_of
from tests.laws.driver import Play, said
from tests.laws.strategies import Script, examples, play_script, scripts
from tests.unit.serve.random_streams import RandomStreams
from tests.unit.serve.scripted_source import ScriptedSource, Streamed
from tests.unit.serve.use_chat import Message

ANN = Staff(person("ann", groups=["g"]), frozenset({"viewer", "decider", "operator"}))
SHOP = Program("shop")


async def read(
    shown: Sequence[Streamed],
    caller: Caller,
    message_id: str,
    *,
    live: bool = False,
    goes_on: GoesOn | None = None,
) -> list[JsonObject]:
    """Return the chunks of the answer to a message, as one process sends them."""
    source = ScriptedSource()
    steps = AnswerSteps(caller, message_id, goes_on=goes_on)
    chunks = MessageChunks("answer", steps.arguments, goes_on=goes_on is not None)
    found = list(chunks.begin())

    async def put() -> None:
        for one in shown:
            source.put(one)
            if live:
                for _ in range(4):
                    await asyncio.sleep(0)
        source.end()

    async with asyncio.timeout(20), Feed(source) as feed, feed.reader("run", Cursor()) as reader:
        putting = asyncio.create_task(put())
        async for step in follow_steps(steps, reader):
            found += chunks.take(step) if step is not None else chunks.rest({})
        await putting
    return found


def message_of(chunks: Sequence[JsonObject], *, goes_on: bool = False) -> Message:
    message = Message()
    if goes_on:  # the client has its beginning
        message.take({"type": "start-step"})
        call = {"type": "tool-input-available", "toolCallId": "", "toolName": "", "input": ""}
        message.take(call)
    for one in chunks:
        message.take(one)
    return message


def streams_of(script: Script, seed: int) -> RandomStreams:
    return RandomStreams.of(play_script(script), random.Random(seed))


@examples(150)
@given(scripts(max_moves=30), st.integers(0, 1_000))
def test_a_chat_has_each_text_once_and_every_part_is_closed(script: Script, seed: int) -> None:
    asyncio.run(compare_live_and_late(streams_of(script, seed)))


async def compare_live_and_late(streams: RandomStreams) -> None:
    for message_id in streams.kept_ids:
        late = message_of(await read(streams.late, ANN, message_id))
        live = message_of(await read(streams.live, ANN, message_id, live=True))
        for one in (late, live):
            assert one.finish
            assert all(part["state"] != "streaming" for part in one.shown)
        assert (live.texts, live.finish) == (late.texts, late.finish)
        assert comparable(live, streams) == comparable(late, streams)
        # What customers have read may disappear, where a question fails and is checked again.
        texts = {one.text for one in customer_view(streams.state).messages}
        late = message_of(await read(streams.late, SHOP, message_id))
        live = message_of(await read(streams.live, SHOP, message_id, live=True))
        assert {*late.texts} <= {*live.texts, *texts}
        assert {part["type"] for part in [*late.shown, *live.shown]} <= {"text"}


def comparable(message: Message, streams: RandomStreams) -> list[str]:
    """Return the parts without their order: a call comes when it is known what its policy hides.

    A call from before the first request of its tool is shown as it was to who read along.
    """
    hidden = redaction_of(streams.state).arguments
    found: list[str] = []
    for part in message.shown:
        names = tuple(
            one for (_, tool), given in hidden.items() if tool == part.get("name") for one in given
        )
        shown = reviewed(json.dumps(part.get("input")), names) if names else ""
        found.append(repr({**part, "input": shown} if shown else part))
    return sorted(found)


@examples(40)
@given(scripts(max_moves=25), st.integers(0, 1_000))
def test_a_chat_that_is_cut_anywhere_and_resumes_has_the_whole(script: Script, seed: int) -> None:
    asyncio.run(cut_everywhere(streams_of(script, seed)))


async def cut_everywhere(streams: RandomStreams) -> None:
    """A client that resumes begins its message anew, so the beginning has to be one, too."""
    for message_id in streams.kept_ids[:2]:
        for caller in (ANN, SHOP):
            chunks = await read(streams.live, caller, message_id, live=True)
            whole = message_of(chunks)
            for cut in range(1, len(chunks)):
                begun = message_of(chunks[:cut])
                assert not begun.finish
                assert begun.texts == whole.texts[: len(begun.texts)], "no whole text disappears"
            rest = message_of(await read(streams.late, caller, message_id))
            assert caller is SHOP or rest.texts == whole.texts
            assert rest.id == whole.id


def test_who_asks_the_next_question_was_asked_to_decide_about_the_one_before() -> None:
    terms = ApprovalTerms(audience=Audience(exclude_requester=True), unverified=True)
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."), answer_terms=terms)
    play.decided("a1", "approve", by="bob")
    play.hears("m2", "And now?", "steer", "ann")
    asyncio.run(cut_everywhere(RandomStreams.of(play, random.Random(0))))


def joined(texts: Sequence[str]) -> str:
    """Return texts as somebody reads them one below the other."""
    return "\n\n".join(texts)


def test_an_approved_answer_of_two_messages_goes_on() -> None:
    terms = ApprovalTerms(audience=Audience(subjects=("ann",)), unverified=True)
    play = Play.ready(keep_open=True)
    play.replies(said("Hello."), said("And more."), answer_terms=terms)
    play.decided("a1", "approve", by="ann")
    asyncio.run(go_on_everywhere(RandomStreams.of(play, random.Random(0))))


@examples(60)
@given(scripts(max_moves=30), st.integers(0, 1_000))
def test_an_answer_that_goes_on_anywhere_has_the_rest(script: Script, seed: int) -> None:
    asyncio.run(go_on_everywhere(streams_of(script, seed)))


async def go_on_everywhere(streams: RandomStreams) -> None:
    """After a decision an answer goes on at an event: the texts up to there and the rest are all.

    It goes on where the run began to wait, which is never between the items of a reply. Messages of
    one reply are one text to whoever saw it written, and one text each to whoever reads them later.
    """
    states = [one for one in streams.late if isinstance(one, StreamedState) and one.events]
    count = sum(len(one.events) for one in states)
    begins = [one.events[0].id for one in states]
    for message_id in streams.kept_ids[:1]:
        everything = GoesOn(0, count + 1)  # so that no request ends it
        chunks = await read(streams.late, ANN, message_id, goes_on=everything)
        whole = message_of(chunks, goes_on=True).texts
        for place in begins[:: max(1, len(begins) // 6)]:
            goes_on = GoesOn(place, count + 1)
            chunks = await read(streams.late, ANN, message_id, goes_on=goes_on)
            rest = message_of(chunks, goes_on=True)
            assert joined(whole).endswith(joined(rest.texts))
            assert rest.finish


def test_the_reason_of_a_decision_is_a_text_or_left_out_and_the_same_decision_counts_once() -> None:
    wanted = RequestId("a1", "0" * 16)
    reasons: list[tuple[Json, str | None]] = [("why", "why"), ("", None), (None, None)]
    reasons += [([], None), ({"a": []}, None)]
    for reason, kept in reasons:
        parts: list[JsonObject] = [
            {
                "state": "approval-responded",
                "approval": {"id": f"{wanted}~{answer}", "approved": False, "reason": reason},
            }
            for answer in ("answer-1", "answer-2")
        ]
        sent = approvals_in([{"role": "assistant", "parts": parts}])
        assert set(sent) == {SentDecision(wanted, "reject", kept)}
