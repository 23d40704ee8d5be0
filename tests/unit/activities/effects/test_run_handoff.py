"""What a handoff has to run: its callback, the hooks, and what the next agent sees."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from outlast.activities import worker_deps
from outlast.activities.effects.run_handoff import run_handoff
from outlast.activities.errors import EffectError
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.config.run_config import RunConfig
from outlast.agents.config.settings import AS_ITEMS
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.guardrails.guardrail import GuardrailFunctionOutput, OutputGuardrail
from outlast.agents.handoffs.handoff import Handoff, handoff
from outlast.agents.handoffs.input_data import HandoffInputData
from outlast.agents.hooks import AgentHooks, RunHooks
from outlast.agents.references import RunReferences
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RunKey, RunObjectTable
from outlast.agents.tools.function_tool import function_tool
from outlast.extensions.handoff_filters import remove_all_tools
from outlast.loop.call_forms import output_item
from outlast.loop.calls import ExecutionOptions, HandoffResult
from outlast.loop.changes import Change
from outlast.loop.items import Item
from outlast.loop.values import JsonObject, Usage
from outlast.loop.view import ViewEdit
from outlast.testing import ScriptedModel, call, say
from tests.unit.activities.desk import (
    HELLO,
    Notes,
    answering,
    filter_request,
    handoff_request,
    name_of,
    raising,
    settings_of,
    worker_of,
)

SHORT = ExecutionOptions(timeout_ms=30, attempts=1)


@function_tool
async def look_up() -> str:
    """Look up."""
    return "shipped"


LOOKED = (
    Item("tool_call", call("look_up", "c1"), "A", 1),
    Item("tool_output", output_item("c1", "shipped"), "A", 1),
)
HANDING_OVER = Item("handoff_call", call("transfer_to_b", "h1"), "A", 2)
SAID = Item("message", say("One moment.")[0], "A", 2)
TRANSCRIPT = (HELLO, *LOOKED, SAID, HANDING_OVER)
"""What was said, a turn with a tool, and the turn that hands over. The transfer is position 5."""


# --- The callback ----------------------------------------------------------------------------------------


def handing_over(callback: Any) -> Any:
    """What a worker knows of an agent with one handoff."""
    entry = handoff(Agent[Any](name="B"), on_handoff=callback)
    return worker_of(Agent(name="A", handoffs=[entry]))


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_callback_gets_the_context_and_may_change_it(*, is_async: bool) -> None:
    got: list[RunContextWrapper[Notes]] = []

    def taken_over(ctx: RunContextWrapper[Notes]) -> None:
        got.append(ctx)
        ctx.context.seen.append("b")

    async def taken_over_later(ctx: RunContextWrapper[Notes]) -> None:
        taken_over(ctx)

    worker = handing_over(taken_over_later if is_async else taken_over)
    request = handoff_request(
        "transfer_to_b", context={"seen": ["a"]}, usage=Usage(requests=1), turn=2
    )
    result = await run_handoff(worker, request)
    assert result == HandoffResult(changes=(Change("append", ("seen",), ["b"]),))
    assert [(ctx.run_id, ctx.turn, ctx.usage.requests) for ctx in got] == [("support-42", 2, 1)]


async def test_a_handoff_whose_callback_has_gone_has_nothing_to_do() -> None:
    result = await run_handoff(handing_over(None), handoff_request("transfer_to_b"))
    assert result == HandoffResult()


@pytest.mark.parametrize("raised", [ConnectionError("down"), TypeError("x")])
async def test_a_callback_that_fails_is_named_and_not_repeated(raised: Exception) -> None:
    worker = handing_over(raising(raised))
    with pytest.raises(
        EffectError,
        match=f"on_handoff of 'transfer_to_b' of agent 'A' raised {type(raised).__name__}",
    ) as caught:
        await run_handoff(worker, handoff_request("transfer_to_b"))
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


async def test_a_callback_that_hangs_is_stopped_in_words() -> None:
    async def hang_on(_ctx: RunContextWrapper[Any]) -> None:
        await asyncio.Event().wait()

    with pytest.raises(EffectError, match=r"on_handoff of .* took longer than 0\.03 s") as caught:
        await run_handoff(handing_over(hang_on), handoff_request("transfer_to_b", policy=SHORT))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"agent": "Nobody"}, "has no agent"), ({"name": "transfer_to_c"}, "has no handoff")],
)
async def test_a_handoff_that_this_worker_does_not_know_another_may(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(EffectError, match=problem) as caught:
        await run_handoff(
            handing_over(print), handoff_request(**{"name": "transfer_to_b", **fields})
        )
    assert caught.value.retryable


class Reason(BaseModel):
    """Why."""

    urgency: int


def reasoned(heard: list[Any]) -> Any:
    def on_handoff(_ctx: RunContextWrapper[Any], given: Reason) -> None:
        heard.append(given)

    entry = handoff(Agent[Any](name="B"), on_handoff=on_handoff, input_type=Reason)
    return worker_of(Agent(name="A", handoffs=[entry]))


async def test_a_callback_gets_what_the_model_said() -> None:
    heard: list[Any] = []
    request = handoff_request("transfer_to_b", arguments='{"urgency": 3}')
    await run_handoff(reasoned(heard), request)
    assert heard == [Reason(urgency=3)]


@pytest.mark.parametrize("arguments", ['{"urgency": "3"}', "{}", "", "[", '{"urgency": null}'])
async def test_what_does_not_fit_ends_the_run_and_no_callback_is_called(arguments: str) -> None:
    heard: list[Any] = []
    with pytest.raises(EffectError, match="which does not fit Reason") as caught:
        await run_handoff(reasoned(heard), handoff_request("transfer_to_b", arguments=arguments))
    assert (caught.value.code, caught.value.retryable) == ("model_behavior", False)
    assert heard == []


# --- The target ------------------------------------------------------------------------------------------


def chooser(chosen: Any) -> Agent[Any]:
    async def pick(_ctx: RunContextWrapper[Any], arguments: str) -> Any:
        return chosen(arguments) if callable(chosen) else chosen

    entry = Handoff(
        tool_name="transfer_to_b", tool_description="", agent_name="B", on_invoke_handoff=pick
    )
    return Agent(name="A", handoffs=[entry])


def picking(chosen: Any, *others: Agent[Any]) -> WorkerDeps:
    return worker_of(chooser(chosen), *others)


async def test_a_handoff_may_pick_the_agent_when_it_is_called() -> None:
    def blocks(*_arguments: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    chosen = Agent[Any](name="C", model="gpt-5", output_guardrails=[OutputGuardrail(blocks)])
    result = await run_handoff(picking(chosen, chosen), handoff_request("transfer_to_b"))
    assert result == HandoffResult(
        target="C", target_model="gpt-5", required_steps=("finalize_answer", "check_output")
    )


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ("B", "chose 'B': on_invoke_handoff must return an Agent"),
        (Agent(name="C", tools=[look_up, look_up]), "`look_up` is used by multiple tools"),
    ],
)
async def test_an_agent_that_cannot_take_over_is_named(chosen: Any, problem: str) -> None:
    with pytest.raises(EffectError, match=problem) as caught:
        await run_handoff(picking(chosen), handoff_request("transfer_to_b"))
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("is_hosted", "names"), [(False, ["A (3)", "A (5)"]), (True, ["A (2)", "A (3)"])]
)
async def test_a_handoff_may_make_an_agent_which_the_run_then_has_under_a_free_name(
    names: list[str], *, is_hosted: bool
) -> None:
    """Several workers may host the run, and a number of one of them says nothing to the others."""
    made = [Agent[Any](name="A", model="gpt-5"), Agent[Any](name="A", model="o9")]

    def choose(arguments: str) -> Agent[Any]:
        return made[int(arguments)]

    registry = Registry([chooser(choose)], tell_apart=is_hosted).for_run(RunReferences())
    worker = WorkerDeps(registry=registry, models=ScriptedModel())
    for arguments, effect, name, model in [
        ("0", 3, names[0], "gpt-5"),
        ("1", 5, names[1], "o9"),
        ("0", 7, names[0], "gpt-5"),
    ]:
        request = handoff_request("transfer_to_b", arguments=arguments, effect=effect)
        result = await run_handoff(worker, request)
        assert (result.target, result.target_own_name, result.target_model) == (name, "A", model)
        assert result.target_changes is None
    assert registry.agent(names[0]) is made[0]


async def test_an_agent_that_a_handoff_made_is_that_of_its_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_deps, "RUN_OBJECTS", table := RunObjectTable())
    made, key = Agent[Any](name="C"), RunKey("default", "first-execution")
    worker = WorkerDeps(registry=Registry([chooser(made)]), models=ScriptedModel(), key=key)
    result = await run_handoff(worker, handoff_request("transfer_to_b"))
    assert (result.target, result.target_own_name) == ("C (3)", "C")
    objects = table.get(key)
    assert objects is not None
    later = worker.with_objects(key, objects, "support-42")
    assert later.registry.agent("C (3)") is made
    nested = worker.with_objects(key, objects, "support-42/ask-5")
    assert nested.registry.names == worker.registry.names == ["A"]


async def test_an_agent_that_differs_from_a_registered_one_in_data_is_recorded() -> None:
    """Any worker that has the registered agent makes it again."""
    clerk = Agent[Any](name="Clerk", instructions="Be kind.", tools=[look_up])
    worker = picking(clerk.clone(instructions="You serve Ann."), clerk)
    result = await run_handoff(worker, handoff_request("transfer_to_b"))
    assert result == HandoffResult(
        target="Clerk (3)",
        target_changes={"of": "Clerk", "instructions": "You serve Ann."},
        target_own_name="Clerk",
    )
    elsewhere = worker_of(clerk).with_recorded_agents(
        {"agents": {"Clerk (3)": result.target_changes}}
    )
    again = elsewhere.registry.agent("Clerk (3)")
    assert (again.name, again.instructions, again.tools) == ("Clerk", "You serve Ann.", [look_up])
    assert elsewhere.registry.agent("Clerk") is clerk


async def test_the_agent_that_takes_over_is_introduced_by_its_model() -> None:
    own = Agent[Any](name="B", model=ScriptedModel())
    worker = worker_of(Agent(name="A", handoffs=[handoff(own)]))
    result = await run_handoff(worker, handoff_request("transfer_to_b"))
    assert result == HandoffResult(target_model="ScriptedModel")


# --- Hooks -----------------------------------------------------------------------------------------------


class OfRun(RunHooks[Any]):
    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.heard.append(("run", from_agent.name, to_agent.name))
        context.context["run"] = True


class OfAgent(AgentHooks[Any]):
    def __init__(self, name: str, heard: list[Any]) -> None:
        self.name = name
        self.heard = heard

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        self.heard.append((self.name, agent.name, source.name))
        context.context[self.name] = True


async def test_the_runs_hooks_and_those_of_the_agent_that_hands_over_are_called() -> None:
    heard: list[Any] = []

    def on_handoff(ctx: RunContextWrapper[Any]) -> None:
        heard.append("callback")
        ctx.context["callback"] = True

    target = Agent[Any](name="B", hooks=OfAgent("B", heard))
    entry = handoff(target, on_handoff=on_handoff, input_filter=heard_filter(heard))
    source = Agent[Any](name="A", handoffs=[entry], hooks=OfAgent("A", heard))
    settings: JsonObject = {"hooks": name_of(OfRun(heard))}
    request = filter_request("transfer_to_b", *TRANSCRIPT, fresh=2, context={}, settings=settings)
    result = await run_handoff(worker_of(source), request)
    assert heard == ["callback", ("run", "A", "B"), ("A", "B", "A"), "filter"]
    changed = {change.path[0] for change in result.changes}
    assert changed == {"callback", "run", "A", "filter"}


def heard_filter(heard: list[Any]) -> Any:
    async def keep(data: HandoffInputData) -> HandoffInputData:
        heard.append("filter")
        assert data.run_context is not None
        data.run_context.context["filter"] = True
        return data

    return keep


async def test_a_hook_that_raises_is_named() -> None:
    class Broken(AgentHooks[Any]):
        async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
            raise ConnectionError

    agent = Agent[Any](name="A", handoffs=[Agent(name="B")], hooks=Broken())
    with pytest.raises(EffectError, match="A hook of 'transfer_to_b' of agent 'A' raised"):
        await run_handoff(worker_of(agent), handoff_request("transfer_to_b"))


# --- What the next agent sees ----------------------------------------------------------------------------


async def edit_by(entry: Handoff, **config: Any) -> ViewEdit | None:
    worker = worker_of(Agent(name="A", handoffs=[entry]))
    settings = settings_of(RunConfig(**config))
    request = filter_request("transfer_to_b", *TRANSCRIPT, fresh=2, settings=settings)
    return (await run_handoff(worker, request)).edit


def to_b(**options: Any) -> Handoff:
    return handoff(Agent[Any](name="B"), **options)


def nothing(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_history=(), pre_handoff_items=(), new_items=())


def only_input(data: HandoffInputData) -> HandoffInputData:
    return data.clone(pre_handoff_items=(), new_items=())


async def test_a_filter_is_given_the_conversation_in_three_parts() -> None:
    given: list[HandoffInputData] = []

    def look(data: HandoffInputData) -> HandoffInputData:
        given.append(data)
        return data

    edit = await edit_by(to_b(input_filter=look))
    (data,) = given
    assert data.input_history == "Hello"
    assert [item.type for item in data.pre_handoff_items] == [
        "tool_call_item",
        "tool_call_output_item",
    ]
    assert [item.type for item in data.new_items] == [
        "message_output_item",
        "handoff_call_item",
        "handoff_output_item",
    ]
    assert edit == ViewEdit(segments=((0, 6),), history=1), "everything is kept"


async def test_a_filter_gets_items_where_the_program_gave_items() -> None:
    given: list[HandoffInputData] = []

    def look(data: HandoffInputData) -> HandoffInputData:
        given.append(data)
        return data

    worker = worker_of(Agent(name="A", handoffs=[to_b(input_filter=look)]))
    settings = {AS_ITEMS: True}
    request = filter_request("transfer_to_b", *TRANSCRIPT, fresh=2, settings=settings)
    edit = (await run_handoff(worker, request)).edit
    assert given[0].input_history == ({"role": "user", "content": "Hello"},)
    assert edit == ViewEdit(segments=((0, 6),), history=1), "everything is kept"


async def test_a_ready_made_filter_takes_out_what_tools_said() -> None:
    edit = await edit_by(to_b(input_filter=remove_all_tools))
    assert edit is not None
    assert edit.segments == ((0, 1), (3, 4))
    assert edit.dropped == (4, 5), "they are no longer items of the run"


async def test_the_handoffs_own_filter_beats_the_runs() -> None:
    own = await edit_by(to_b(input_filter=nothing), handoff_input_filter=only_input)
    of_run = await edit_by(to_b(), handoff_input_filter=only_input)
    assert own is not None
    assert of_run is not None
    assert (own.segments, of_run.segments) == ((), ((0, 1),))


async def test_without_a_filter_the_next_agent_sees_everything() -> None:
    assert await edit_by(to_b()) is None


@pytest.mark.parametrize(
    ("of_handoff", "of_run", "nests"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
async def test_a_handoff_says_itself_whether_it_tells_a_summary(
    of_handoff: bool | None, *, of_run: bool, nests: bool
) -> None:
    edit = await edit_by(to_b(nest_handoff_history=of_handoff), nest_handoff_history=of_run)
    assert (edit is not None) is nests


async def test_a_summary_stands_between_the_runs_own_wrappers() -> None:
    edit = await edit_by(
        to_b(),
        nest_handoff_history=True,
        conversation_history_wrappers=("<so far>", "</so far>"),
    )
    assert edit is not None
    told = [segment for segment in edit.segments if isinstance(segment, dict)]
    assert "<so far>" in told[0]["content"]
    assert "shipped" in told[0]["content"]
    assert (3, 4) in edit.segments, "what was said in this turn is handed on as it is"
    assert edit.dropped == (), "the run keeps its items"


async def test_the_runs_mapper_makes_the_summary() -> None:
    def first_only(items: list[JsonObject]) -> list[JsonObject]:
        return items[:1]

    edit = await edit_by(to_b(), nest_handoff_history=True, handoff_history_mapper=first_only)
    assert edit is not None
    assert (edit.segments, edit.history) == (((0, 1),), 1)


async def test_a_filter_of_its_own_turns_the_summary_off() -> None:
    edit = await edit_by(to_b(input_filter=only_input, nest_handoff_history=True))
    assert edit is not None
    assert edit.segments == ((0, 1),)


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        ([], "returned list. It must return HandoffInputData"),
        (None, "returned NoneType"),
        (HandoffInputData(5, (), ()), "returned int as input_history"),  # pyright: ignore[reportArgumentType]
        (HandoffInputData("x", (), ({},)), "put dict into new_items"),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_what_a_filter_must_not_return_is_told(returned: Any, problem: str) -> None:
    with pytest.raises(EffectError, match=problem) as caught:
        await edit_by(to_b(input_filter=returning(returned)))
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


def returning(result: Any) -> Any:
    def give(_data: Any) -> Any:
        return result

    return give


async def test_a_filter_that_fails_is_named() -> None:
    with pytest.raises(EffectError, match="The input filter of 'transfer_to_b' of agent 'A'"):
        await edit_by(to_b(input_filter=raising(ConnectionError("down"))))


async def test_a_filter_that_has_gone_since_leaves_everything() -> None:
    """A deploy may take a filter away while the handoff is under way."""
    worker = worker_of(Agent(name="A", handoffs=[to_b()]))
    request = filter_request("transfer_to_b", *TRANSCRIPT, fresh=2)
    assert (await run_handoff(worker, request)).edit is None


async def test_a_context_that_was_left_unwritable_is_an_error_in_words() -> None:
    def spoil(ctx: RunContextWrapper[Any]) -> None:
        ctx.context["x"] = "\ud800"

    with pytest.raises(EffectError, match="cannot be written as JSON") as caught:
        await run_handoff(handing_over(spoil), handoff_request("transfer_to_b", context={}))
    assert (caught.value.code, caught.value.retryable) == ("user_error", False)


# --- A nested run whose tool has an on_stream -------------------------------------------------------------


async def told_of(**options: Any) -> tuple[list[Any], HandoffResult]:
    """Hand over in a nested run; return what was told of it, and the result."""
    told: list[Any] = []
    inner = Agent[Any](name="A", handoffs=[Agent[Any](name="B")])
    tool = inner.as_tool("ask", on_stream=told.append, **options)
    worker = worker_of(Agent[Any](name="Desk", tools=[tool]))
    settings = {**answering("ask", agent="Desk"), "nest_handoff_history": True}
    items = (*TRANSCRIPT, Item("tool_output", output_item("c2", "found"), "A", 2))
    request = filter_request("transfer_to_b", *items, fresh=3, settings=settings)
    return told, await run_handoff(worker, request)


async def test_a_handoff_is_told_with_the_outputs_of_its_turn() -> None:
    told, result = await told_of()
    assert [one["event"].name for one in told] == ["tool_output", "handoff_occured"]
    assert [one["agent"].name for one in told] == ["A", "A"]
    assert told[1]["event"].item.target_agent.name == "B"
    assert result.edit is not None


@pytest.mark.parametrize("key", ["conversation_id", "previous_response_id"])
async def test_what_the_providers_server_keeps_is_told_but_not_nested(key: str) -> None:
    told, result = await told_of(**{key: "x_1"})
    assert len(told) == 2
    assert result.edit is None
