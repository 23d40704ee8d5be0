"""Whole runs with handoffs, in memory."""

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from outlast import (
    Agent,
    AgentHooks,
    Handoff,
    HandoffInputData,
    HandoffOutputItem,
    MessageOutputItem,
    RunContextWrapper,
    SpanError,
    SQLiteSession,
    ToolCallItem,
    UserError,
    function_tool,
    get_current_span,
    handoff,
)
from outlast.loop.approvals import ApprovalRequest
from outlast.testing import ScriptedModel, call, run_in_memory, say
from outlast.testing.span_collector import SpanCollector

# --- Several handoffs of one name ----------------------------------------------------------------


def two_ways(happened: list[str], *, vip: bool, needs_approval: bool = False) -> Agent[Any]:
    """Return an agent with two handoffs of one name to one agent, of which one is enabled."""
    desk = Agent[Any](name="Desk")

    def entry(name: str, *, is_offered: bool) -> Any:
        def is_enabled(_context: RunContextWrapper[Any], _agent: Agent[Any]) -> bool:
            return is_offered

        def on_handoff(_context: RunContextWrapper[Any]) -> None:
            happened.append(f"{name} called")

        def shown(data: HandoffInputData) -> HandoffInputData:
            happened.append(f"{name} filtered")
            return data

        return handoff(
            desk,
            tool_name_override="escalate",
            tool_description_override=f"The {name} way.",
            on_handoff=on_handoff,
            input_filter=shown,
            is_enabled=is_enabled,
            needs_approval=needs_approval,
        )

    return Agent(
        name="Triage",
        handoffs=[entry("vip", is_offered=vip), entry("standard", is_offered=not vip)],
    )


@pytest.mark.parametrize("needs_approval", [False, True])
@pytest.mark.parametrize(("vip", "way"), [(True, "vip"), (False, "standard")])
async def test_of_two_handoffs_of_one_name_the_one_that_was_offered_runs(
    *, vip: bool, way: str, needs_approval: bool
) -> None:
    happened: list[str] = []
    requests: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        return True

    triage = two_ways(happened, vip=vip, needs_approval=needs_approval)
    model = ScriptedModel([call("escalate", "h1")], "Done.")
    result = await run_in_memory(triage, "hi", model=model, decide=approve)
    assert [spec.description for spec in model.requests[0].tools] == [f"The {way} way."]
    assert result.final_output == "Done."
    assert happened == [f"{way} called", f"{way} filtered"]
    assert len(requests) == needs_approval


async def test_an_approval_is_about_the_handoff_that_was_offered() -> None:
    digests: set[str] = set()
    for vip in (True, False):
        model = ScriptedModel([call("escalate", "h1")])
        waiting = await run_in_memory(two_ways([], vip=vip, needs_approval=True), "hi", model=model)
        (request,) = (item.request for item in waiting.interruptions)
        digests.add(request.tool_digest)
    assert len(digests) == 2


# --- The place of what a filter puts in ----------------------------------------------------------


@function_tool
async def look_up(card: str) -> str:
    """Look a card up."""
    return f"found {len(card)}"


def redacted(data: HandoffInputData) -> HandoffInputData:
    """Say something first, and replace the call of the tool."""
    intro = MessageOutputItem(data.new_items[0].agent, say("Redacted:")[0])
    items = [
        ToolCallItem(item.agent, {**item.to_input_item(), "arguments": '{"card": "***"}'})
        if isinstance(item, ToolCallItem)
        else item
        for item in data.new_items
    ]
    return data.clone(new_items=(intro, *items))


def shapes(raws: Sequence[Any]) -> list[str]:
    return [
        f"{raw.get('type', raw.get('role'))} {raw.get('arguments', '')}".strip() for raw in raws
    ]


async def test_what_a_filter_puts_in_or_replaces_has_its_place_everywhere() -> None:
    session = SQLiteSession("redacted")
    desk = Agent[Any](name="Desk")
    triage = Agent(name="Triage", tools=[look_up], handoffs=[handoff(desk, input_filter=redacted)])
    replies = [call("look_up", "c1", card="4111"), call("transfer_to_desk", "h1")]
    model = ScriptedModel(replies, "Done.", "Again.")
    result = await run_in_memory(triage, "hi", model=model, session=session)
    expected = [
        "message",
        'function_call {"card": "***"}',
        "function_call {}",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert shapes([item.to_input_item() for item in result.new_items]) == expected
    assert shapes(result.to_input_list()[1:]) == expected
    assert shapes(await session.get_items())[1:] == expected
    assert shapes(model.requests[1].input)[1:] == expected[:-1]
    await run_in_memory(desk, "And?", model=model, session=session, run_id="next")
    assert shapes(model.requests[2].input)[1:-1] == expected, "nothing is dropped"
    session.close()


# --- The output of a handoff ---------------------------------------------------------------------


class Announced(Handoff):
    """A handoff with a message of its own."""

    def get_transfer_message(self, agent: Any) -> str:
        """Return what the model reads."""
        return f"{agent.name} takes over."


class Wordless(Handoff):
    """A handoff whose message is no text."""

    def get_transfer_message(self, agent: Any) -> Any:
        """Return what no model can read."""
        return {"assistant": agent.name}


@pytest.mark.parametrize("filters", [False, True])
async def test_a_handoff_with_a_message_of_its_own_says_that(*, filters: bool) -> None:
    seen: list[Any] = []

    def keep(data: HandoffInputData) -> HandoffInputData:
        seen.append(data.new_items[-1])
        return data

    desk = Agent[Any](name="Desk")
    entry = Announced(
        tool_name="to_desk",
        tool_description="",
        agent=desk,
        input_filter=keep if filters else None,
    )
    model = ScriptedModel([call("to_desk", "h1")], "Done.")
    result = await run_in_memory(Agent(name="Triage", handoffs=[entry]), "hi", model=model)
    assert model.requests[1].input[-1]["output"] == "Desk takes over."
    for item in (*seen, result.new_items[1]):
        assert isinstance(item, HandoffOutputItem)
        assert item.target_agent is desk
        assert item.to_input_item()["output"] == "Desk takes over."
    assert len(seen) == filters


async def test_a_message_that_is_no_text_ends_the_run() -> None:
    entry = Wordless(tool_name="to_desk", tool_description="", agent=Agent[Any](name="Desk"))
    model = ScriptedModel([call("to_desk", "h1")])
    with pytest.raises(UserError, match=r"get_transfer_message .* returned dict"):
        await run_in_memory(Agent(name="Triage", handoffs=[entry]), "hi", model=model)


# --- The span of a handoff -----------------------------------------------------------------------


@pytest.fixture
def collected() -> Generator[SpanCollector]:
    """Collect the spans of a test."""
    with SpanCollector() as collector:
        yield collector


class NotingHooks(AgentHooks[Any]):
    """Hooks that note in which span a handoff runs."""

    def __init__(self, spans: list[Any]) -> None:
        self._spans = spans

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        """Note the span."""
        self._spans.append(get_current_span())


@pytest.mark.parametrize("place", ["on_handoff", "input_filter"])
async def test_code_of_a_handoff_finds_the_span_of_the_handoff_and_may_set_its_error(
    collected: SpanCollector, place: str
) -> None:
    spans: list[Any] = []

    def note(in_place: str) -> None:
        span = get_current_span()
        assert span is not None
        spans.append(span)
        if in_place == place:
            span.set_error(SpanError(message="Odd.", data={"odd": in_place, "object": None}))

    def on_handoff(_context: RunContextWrapper[Any]) -> None:
        note("on_handoff")

    def keep(data: HandoffInputData) -> HandoffInputData:
        note("input_filter")
        return data

    desk = Agent[Any](name="Desk")
    entry = handoff(desk, on_handoff=on_handoff, input_filter=keep)
    triage = Agent(name="Triage", handoffs=[entry], hooks=NotingHooks(spans))
    model = ScriptedModel([call("transfer_to_desk", "h1")], "Done.")
    await run_in_memory(triage, "hi", model=model)
    (span,) = collected.spans("handoff")
    assert span.error == {"message": "Odd.", "data": {"odd": place, "object": None}}
    assert [one.span_id for one in spans] == [span.span_id] * 3
    assert [one.span_data.export() for one in spans] == [span.span_data.export()] * 3


async def test_an_error_of_a_handoffs_span_that_cannot_be_recorded_keeps_its_message(
    collected: SpanCollector,
) -> None:
    def on_handoff(_context: RunContextWrapper[Any]) -> None:
        span = get_current_span()
        assert span is not None
        span.set_error(SpanError(message="Odd.", data={"object": object()}))

    entry = handoff(Agent[Any](name="Desk"), on_handoff=on_handoff)
    model = ScriptedModel([call("transfer_to_desk", "h1")], "Done.")
    await run_in_memory(Agent(name="Triage", handoffs=[entry]), "hi", model=model)
    assert collected.spans("handoff")[0].error == {"message": "Odd.", "data": None}


# --- An agent whose answers no schema describes ---------------------------------------------------


async def test_a_run_fails_at_an_agent_without_a_strict_schema_and_not_before() -> None:
    loose = Agent[Any](name="Loose", output_type=dict[str, int])
    triage = Agent(name="Triage", handoffs=[loose])
    result = await run_in_memory(triage, "hi", model=ScriptedModel("Hello."))
    assert result.final_output == "Hello."
    model = ScriptedModel([call("transfer_to_loose", "h1")], "Never.")
    with pytest.raises(UserError, match=r"Output type dict\[str, int\]: .* accepts any keys"):
        await run_in_memory(triage, "hi", model=model)
    assert model.calls == 1
    with pytest.raises(UserError, match=r"^Agent 'Loose': "):
        await run_in_memory(loose, "hi", model=ScriptedModel("Never."))
