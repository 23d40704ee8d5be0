"""Whatever a run does, and wherever its readers are cut, the real parser accepts each response."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from outlast.client.identity import person
from outlast.loop.values import JsonObject
from outlast.serve.access import Caller, Program, Staff
from outlast.serve.cursor import Cursor
from outlast.serve.feed import Feed
from outlast.serve.wires.answer_steps import AnswerSteps
from outlast.serve.wires.answer_stream import follow_steps
from outlast.serve.wires.ids import ResponseId
from outlast.serve.wires.response_events import ResponseEvents, seen_at
from outlast.serve.wires.steps import Place, Step, TextBegun, TextDone, TextHidden, TextPiece
from outlast.views.customer import customer_view
from outlast.views.redaction import redaction_of
from tests.laws.strategies import Script, examples, play_script, scripts
from tests.unit.serve.random_streams import RandomStreams
from tests.unit.serve.scripted_source import ScriptedSource, Streamed

EVENT: Any = TypeAdapter(ResponseStreamEvent)
ANN = Staff(person("ann", groups=["g"]), frozenset({"viewer", "decider", "operator"}))
SHOP = Program("shop")


async def read(
    shown: Sequence[Streamed],
    caller: Caller,
    message_id: str,
    after: int | None = None,
    *,
    live: bool = False,
) -> list[JsonObject]:
    """Return the events of the response to a message, as one process sends them."""
    source = ScriptedSource()
    steps = AnswerSteps(caller, message_id, seen=None if after is None else seen_at(after))
    events = ResponseEvents(ResponseId("run", message_id, 0), "A", is_team=caller is ANN)
    found = list(events.begin())

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
            found += events.take(step) if step is not None else ()
        await putting
    return [one for one in found if after is None or one["sequence_number"] > after]


def parsed(events: Sequence[JsonObject], *, may_disappear: bool = False) -> list[str]:
    """Return the texts that the real parser makes of events, and check their order."""
    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    numbers = [one["sequence_number"] for one in events]
    assert numbers == sorted(set(numbers)), "numbers grow"
    assert numbers[-1] < 2**53
    texts: dict[int, str] = {}
    for one in events:
        event = EVENT.validate_python(one)
        state.handle_event(event)
        match event.type:
            case "response.output_text.delta":
                texts[event.output_index] = texts.get(event.output_index, "") + event.delta
            case "response.output_text.done":
                assert event.text == texts[event.output_index], "each text once"
            case "response.output_item.done" if event.item.type == "message":
                if not event.item.content:
                    texts[event.output_index] = ""  # it was void
            case "response.completed" | "response.failed" | "response.incomplete":
                given = [
                    item.content[0].text for item in event.response.output if item.type == "message"
                ]
                shown = [text for _, text in sorted(texts.items()) if text]
                assert given == shown or (may_disappear and set(given) <= set(shown))
            case _:
                pass
    return [text for _, text in sorted(texts.items()) if text]


@examples(150)
@given(scripts(max_moves=30), st.integers(0, 1_000))
def test_every_response_is_one_that_the_real_parser_accepts(script: Script, seed: int) -> None:
    asyncio.run(compare_live_and_late(RandomStreams.of(play_script(script), random.Random(seed))))


async def compare_live_and_late(streams: RandomStreams) -> None:
    for message_id in streams.kept_ids:
        late = await read(streams.late, ANN, message_id)
        live = await read(streams.live, ANN, message_id, live=True)
        assert parsed(live) == parsed(late)
        assert live[-1]["type"] == late[-1]["type"]
        assert items_of(live, streams) == items_of(late, streams)
        # What customers have read may disappear, where a question fails and is checked again.
        late = await read(streams.late, SHOP, message_id)
        live = await read(streams.live, SHOP, message_id, live=True)
        assert set(parsed(late)) <= {*parsed(live), *all_texts(streams)}


def items_of(events: Sequence[JsonObject], streams: RandomStreams) -> list[JsonObject]:
    """Return the items of a response without their ids, which count void texts, too.

    A call from before the first request of its tool is shown as it was to who read along.
    """
    hides, response = redaction_of(streams.state), cast("JsonObject", events[-1]["response"])
    found: list[JsonObject] = []
    for one in cast("list[Any]", response["output"]):
        item = {**one, "id": ""}
        if item["type"] == "mcp_call":
            call = (item["server_label"], item["name"], item["arguments"])
            item["arguments"] = hides.call(*call)
        found.append(item)
    return found


def all_texts(streams: RandomStreams) -> set[str]:
    return {one.text for one in customer_view(streams.state).messages}


@examples(40)
@given(scripts(max_moves=25), st.integers(0, 1_000))
def test_a_client_that_comes_back_to_another_process_has_each_text_once(
    script: Script, seed: int
) -> None:
    asyncio.run(cut_everywhere(RandomStreams.of(play_script(script), random.Random(seed))))


async def cut_everywhere(streams: RandomStreams) -> None:
    for message_id in streams.kept_ids[:2]:
        for caller in (ANN, SHOP):
            whole = await read(streams.live, caller, message_id, live=True)
            for cut in range(1, len(whole)):
                before = whole[:cut]
                after = before[-1]["sequence_number"]
                rest = await read(streams.late, caller, message_id, after)
                # What customers have read may disappear, where a question fails and is checked again.
                texts = parsed([*before, *rest], may_disappear=caller is SHOP)
                assert caller is SHOP or texts == parsed(whole)


def test_what_a_customer_has_read_keeps_its_index_where_it_is_not_shown_any_more() -> None:
    """The question failed after the client had read a message of it, and is answered again."""
    live, late = (ResponseEvents(ResponseId("run", "m", 0), "A") for _ in range(2))
    first: list[Step] = [
        TextBegun(Place(1)),
        TextPiece(Place(1, 0, 3), "No.", "No."),
        TextDone(Place(2), "No."),
    ]
    read_live = [event for step in first for event in live.take(step)]
    assert list(late.take(TextHidden(Place(2)))) == []
    then = [TextBegun(Place(4)), TextPiece(Place(4, 0, 4), "Yes.", "Yes.")]
    rest, again = ([event for step in then for event in one.take(step)] for one in (live, late))
    assert again == rest
    assert {one["output_index"] for one in read_live} == {0}
    assert {one["output_index"] for one in rest} == {1}
