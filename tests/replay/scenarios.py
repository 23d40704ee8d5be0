"""One short run for each feature whose history has to be readable for ever.

Owns: what a scenario is, and those of agents; `outside_scenarios.py` has those of people and of what
comes from outside. A scenario is never changed once its history is released: a new behaviour is a
new scenario.
"""

import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from outlast import (
    Agent,
    Compaction,
    CustomTool,
    GuardrailFunctionOutput,
    RunConfig,
    RunContextWrapper,
    RunHandle,
    RunHooks,
    ShellTool,
    ToolContext,
    ToolExecutionConfig,
    ToolsToFinalOutputResult,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from outlast.agents.errors import DeliveryRefused, WaitTimeout
from outlast.agents.tools.definition import (
    ToolRetry,
)
from outlast.client.deliveries import finish
from outlast.extensions.handoff_filters import remove_all_tools
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError
from outlast.testing import call, custom_call, fail_after, say, shell_call
from outlast.testing.scripted_model import Step

Play: TypeAlias = Callable[[RunHandle], Awaitable[RunHandle | None]]
"""What people and programs do in a run; returns another run if that one is to be recorded."""


@function_tool
async def note(ctx: ToolContext[dict[str, Any]], text: str) -> str:
    """Note something."""
    ctx.context.setdefault("notes", []).append(text)
    return f"noted {text}"


@function_tool(fast=True)
def look_up(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"order_id": order_id, "status": "delivered"}


@function_tool(needs_approval=True)
async def refund(ctx: ToolContext[Any], amount: int) -> str:
    """Pay back."""
    return f"paid {amount} under {ctx.tool_call_id}"


@function_tool(retry=ToolRetry(attempts=1))
async def broken() -> str:
    """Fail."""
    raise ConnectionError("nobody answers")


def handed_over(ctx: RunContextWrapper[Any]) -> None:
    """Note in the context who had the conversation."""
    ctx.context["handed_over"] = True


@function_tool
async def book(ctx: ToolContext[Any], order: str) -> str:
    """Book a courier, and wait for the pickup and the invoice."""
    booking = await ctx.once("booking", f"b-{order}".upper)
    pickup = await ctx.wait_for("courier", timeout=timedelta(days=2), schema={"type": "integer"})
    try:
        invoice = await ctx.wait_for("invoice", timeout=timedelta(seconds=1))
    except WaitTimeout:
        invoice = "no invoice"
    return f"{booking}: {pickup} g, {invoice}"


@function_tool
def ask_shop(ctx: ToolContext[Any]) -> Any:
    """Ask the shop, and people if it does not reply."""
    ctx.context["asked"] = True
    return ctx.wait_for("reply", timeout=timedelta(seconds=1), ask=True)


waiting = Agent[Any](name="Waiting", tools=[book, ask_shop, note])
billing = Agent[Any](name="Billing", tools=[refund, note])
orders = Agent[Any](name="Orders", tools=[look_up, note, broken])
triage = Agent[Any](
    name="Triage", tools=[note], handoffs=[handoff(billing, on_handoff=handed_over), orders]
)
orders.handoffs.append(triage)


class Memory:
    """A session in memory, so that a recording holds no path of anybody's machine."""

    session_id = "memory"
    session_settings = None

    def __init__(self) -> None:
        self._items: list[Any] = [{"role": "user", "content": "before"}, *say("I remember")]

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return what was said, oldest first."""
        items = json.loads(json.dumps(self._items))
        return items if limit is None else items[len(items) - limit :]

    async def add_items(self, items: list[Any]) -> None:
        """Add what was said."""
        self._items.extend(items)

    async def pop_item(self) -> Any:
        """Take the newest back."""
        return self._items.pop() if self._items else None

    async def clear_session(self) -> None:
        """Forget everything."""
        self._items.clear()


def in_short(ctx: RunContextWrapper[dict[str, Any]], items: list[Any]) -> str:
    """Summarise, and note in the context how much."""
    ctx.context.setdefault("summarised", []).append(len(items))
    return f"in short, {len(items)} items"


class Counting(RunHooks[Any]):
    """Hooks that count in the context what they see."""

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Count."""
        context.context["starts"] = context.context.get("starts", 0) + 1

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Count."""
        context.context["ends"] = context.context.get("ends", 0) + 1


COUNTING = Counting()


def make_do(_given: Any) -> str:
    """Answer in place of a model that has used up its turns."""
    return "that is all I know"


def _says(word: str, texts: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=word, tripwire_triggered=word in str(texts))


@input_guardrail(run_in_parallel=False)
async def no_insults(_ctx: Any, _agent: Any, asked: Any) -> GuardrailFunctionOutput:
    """Block insults before anything else."""
    return _says("idiot", asked)


@input_guardrail
async def no_homework(_ctx: Any, _agent: Any, asked: Any) -> GuardrailFunctionOutput:
    """Block homework, beside the model."""
    return _says("homework", asked)


@output_guardrail
async def no_secrets(_ctx: Any, _agent: Any, output: Any) -> GuardrailFunctionOutput:
    """Block secrets."""
    return _says("secret", output)


def first_two(_ctx: Any, results: Any) -> ToolsToFinalOutputResult:
    """Answer with the outputs of two calls, and ask the model about those of one."""
    is_final = len(results) > 1
    return ToolsToFinalOutputResult(
        is_final_output=is_final, final_output=" and ".join(str(one.output) for one in results)
    )


compacting = Agent[Any](
    name="Compacting",
    tools=[note],
    compaction=Compaction(window=16, summarize=in_short),  # a scripted call takes 15 tokens
)
guarded = Agent[Any](
    name="Guarded",
    tools=[note],
    input_guardrails=[no_insults, no_homework],
    output_guardrails=[no_secrets],
)
judging = Agent[Any](name="Judging", tools=[note], tool_use_behavior=first_two)
ledger = Agent[Any](name="Ledger", tools=[refund, note])
middle = Agent[Any](name="Middle", tools=[ledger.as_tool("ask_ledger", "Ask about money.")])
nesting = Agent[Any](
    name="Nesting", tools=[middle.as_tool("ask_middle", "Ask."), note], handoffs=[]
)
filtering = Agent[Any](
    name="Filtering",
    tools=[note],
    handoffs=[handoff(ledger, input_filter=remove_all_tools, on_handoff=handed_over)],
)

hasty = Agent[Any](name="Hasty", tools=[ledger.as_tool("ask_ledger", "Ask.", max_turns=1)])
machine = Agent[Any](
    name="Machine",
    tools=[
        ShellTool(executor=lambda _request: "ran", needs_approval=True),
        CustomTool("sql", "Ask the database.", lambda _ctx, text: text),
    ],
)

NO_KEY = ModelError("There is no key.", code="no_api_key", retryable=False)
LONG = "a long question " * 200


async def to_the_end(handle: RunHandle) -> None:
    """Wait for the run's end."""
    await handle.result()


async def _approve(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.approve("a1", by="ann")
    await handle.result()


async def _reject_by_signal(handle: RunHandle) -> None:
    await handle.wait_for_people()
    workflow = handle.client.get_workflow_handle(handle.id)
    await workflow.signal("decide", {"request_id": "a9", "type": "approve"})
    await workflow.signal("unheard", "of")
    decision = {"request_id": "a1", "type": "reject", "message": "too much", "by": "bob"}
    await workflow.signal("decide", decision)
    await handle.result()


async def _approve_nested(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.approve("e3.e3.a1", by="ann")
    await handle.result()


async def _approve_always(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.approve("a1", by="ann", always=True)
    await handle.result()


async def _cancel_nested(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.cancel()


async def _converse(handle: RunHandle) -> None:
    for text in ("and then?", "and now?"):
        await (await handle.send(text)).answer()
    await handle.cancel("after_turn")
    await handle.result()


async def _retry(handle: RunHandle) -> None:
    await handle.wait(lambda state: state.status == "idle")
    await (await handle.retry()).answer()
    await handle.cancel("after_turn")
    await handle.result()


async def _converse_after_one(handle: RunHandle) -> None:
    await handle.wait(lambda state: state.status == "idle")
    await _converse(handle)


async def _cancel_while_waiting(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.cancel()


async def _deliver(handle: RunHandle) -> None:
    await handle.wait(lambda state: state.status == "parked")
    [wait] = await handle.pending_waits()
    for value, delivery_id in (("heavy", "d1"), (900, "d2"), (900, "d2"), (800, "d3")):
        with contextlib.suppress(DeliveryRefused):
            await finish(
                wait.token,
                value,
                client=handle.client,
                delivery_id=delivery_id,
                source="courier.example",
            )
    await handle.result()


async def _respond(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.respond("a1", "they are closed", by="ann")
    await handle.result()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run to record: its agent, its question, the replies of its model, and what people do.

    Attributes:
        steps: what the model says.
        play: what people and programs do.
        agent: the agent that is asked.
        question: the first message.
        keep_open: whether the run is a conversation.
        max_turns: how many model calls a question may take.
        settings: settings of the run that no option sets.
        options: options of `Runner.start`.
        fields: fields of the run's input that no option sets.
        worker: further options of the worker, which may keep files in a directory.
        model: the model, if it is no scripted one.
        others: further workflows whose histories are recorded: their types with their ids.
    """

    steps: tuple[Step, ...] = ()
    play: Play = to_the_end
    agent: Agent[Any] = field(default_factory=lambda: triage)
    question: str = "hello"
    keep_open: bool = False
    max_turns: int | None = 10
    settings: JsonObject = field(default_factory=dict[str, Any])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    worker: Callable[[Path], dict[str, Any]] = lambda _: {}
    model: Callable[[], Any] | None = None
    others: Callable[[RunHandle], Awaitable[dict[str, str]]] | None = None


def _many_turns(count: int) -> tuple[Step, ...]:
    return (*([call("note", f"c{at}", text=str(at))] for at in range(count)), "done")


SCENARIOS: dict[str, Scenario] = {
    "answer": Scenario(steps=("hello to you",)),
    "parallel_tools": Scenario(
        steps=([call("note", "c1", text="a"), call("note", "c2", text="b")], "done")
    ),
    "unknown_tool_and_bad_arguments": Scenario(
        steps=([call("nothing", "c1"), call("note", "c2", text=5)], "done")
    ),
    "fast_tool": Scenario(agent=orders, steps=([call("look_up", "c1", order_id="A-17")], "done")),
    "failing_tool": Scenario(agent=orders, steps=([call("broken", "c1")], "sorry")),
    "handoffs_and_tools": Scenario(
        steps=(
            [
                call("note", "c1", text="a"),
                call("transfer_to_billing", "c2"),
                call("transfer_to_orders", "c3"),
            ],
            "Billing here",
        )
    ),
    "handoffs_in_a_circle": Scenario(
        steps=([call("transfer_to_orders", "c1")], [call("transfer_to_triage", "c2")], "back")
    ),
    "approved": Scenario(
        agent=billing,
        steps=([call("refund", "c1", amount=5), call("note", "c2", text="a")], "done"),
        play=_approve,
    ),
    "rejected_by_signal": Scenario(
        agent=billing, steps=([call("refund", "c1", amount=5)], "done"), play=_reject_by_signal
    ),
    "conversation": Scenario(steps=("one", "two", "three"), keep_open=True, play=_converse),
    "retried": Scenario(
        steps=([call("note", "c1", text="a")], NO_KEY, "done"), keep_open=True, play=_retry
    ),
    "cancelled_while_waiting": Scenario(
        agent=billing, steps=([call("refund", "c1", amount=5)],), play=_cancel_while_waiting
    ),
    "too_many_turns": Scenario(steps=_many_turns(3), max_turns=2),
    "refused": Scenario(
        steps=([*say("well"), {"type": "message", "content": [{"type": "refusal"}]}],)
    ),
    "claims": Scenario(steps=_many_turns(3), question=LONG),
    "continued_as_new": Scenario(steps=_many_turns(6), settings={"roll_over_events": 40}),
    "guardrails_pass": Scenario(agent=guarded, steps=([call("note", "c1", text="a")], "done")),
    "guardrail_blocks": Scenario(agent=guarded, question="idiot", steps=("never",)),
    "guardrail_trips_beside": Scenario(
        agent=guarded, question="my homework", steps=([call("note", "c1", text="a")], "never")
    ),
    "answers_blocked": Scenario(
        agent=guarded, steps=("a secret", "two", "three"), keep_open=True, play=_converse_after_one
    ),
    "judged_outputs": Scenario(
        agent=judging,
        steps=(
            [call("note", "c1", text="a")],
            [call("note", "c2", text="b"), call("note", "c3", text="c")],
        ),
    ),
    "hooks": Scenario(
        steps=([call("note", "c1", text="a")], [call("transfer_to_billing", "h1")], "done"),
        options={"hooks": COUNTING},
    ),
    "handled": Scenario(
        steps=_many_turns(3), max_turns=2, options={"error_handlers": {"max_turns": make_do}}
    ),
    "session": Scenario(
        steps=([call("note", "c1", text="a")], "one", "two", "three"),
        keep_open=True,
        play=_converse,
        options={"session": Memory()},
    ),
    "session_while_waiting": Scenario(
        agent=billing,
        steps=([call("refund", "c1", amount=5), call("note", "c2", text="a")], "done"),
        play=_approve,
        options={"session": Memory()},
    ),
    "server_thread": Scenario(steps=_many_turns(2), options={"auto_previous_response_id": True}),
    "handoff_filter": Scenario(
        agent=filtering,
        steps=(
            [call("note", "c1", text="a"), call("transfer_to_ledger", "h1")],
            *_many_turns(4),
        ),
        settings={"roll_over_events": 40},
    ),
    "nested": Scenario(
        agent=nesting,
        steps=(
            [call("ask_middle", "o1", input="?"), call("note", "o2", text="a")],
            "from the middle",
            "done",
        ),
    ),
    "nested_twice_approved": Scenario(
        agent=nesting,
        steps=(
            [call("ask_middle", "o1", input="?")],
            [call("ask_ledger", "m1", input="?")],
            [call("refund", "n1", amount=5)],
            "paid",
            "it is paid",
            "done",
        ),
        play=_approve_nested,
    ),
    "nested_cancelled": Scenario(
        agent=nesting,
        steps=(
            [call("ask_middle", "o1", input="?")],
            [call("ask_ledger", "m1", input="?")],
            [call("refund", "n1", amount=5)],
        ),
        play=_cancel_nested,
    ),
    "nested_fails": Scenario(
        agent=hasty,
        steps=([call("ask_ledger", "o1", input="?")], [call("note", "n1", text="a")], "sorry"),
    ),
    "calls_in_other_forms": Scenario(
        agent=machine,
        steps=([shell_call("c1", "ls"), custom_call("sql", "c2", "SELECT 1")], "done"),
        play=_approve,
    ),
    "approved_always": Scenario(
        agent=billing,
        steps=([call("refund", "c1", amount=5)], [call("refund", "c2", amount=6)], "done"),
        play=_approve_always,
    ),
    "parallel_cap": Scenario(
        steps=([call("note", f"c{at}", text=str(at)) for at in range(4)], "done"),
        options={
            "run_config": RunConfig(
                tool_execution=ToolExecutionConfig(max_function_tool_concurrency=2)
            )
        },
    ),
    "waited_outside": Scenario(
        agent=waiting,
        steps=([call("book", "c1", order="7"), call("note", "c2", text="a")], "done"),
        play=_deliver,
    ),
    "waited_and_asked_people": Scenario(
        agent=waiting, steps=([call("ask_shop", "c1")], "done"), play=_respond
    ),
    "compacted": Scenario(agent=compacting, steps=_many_turns(5)),
    "compacted_and_continued": Scenario(
        agent=compacting, steps=_many_turns(7), settings={"roll_over_events": 40}
    ),
    "compacted_conversation": Scenario(
        agent=compacting, steps=("one", "two", "three"), keep_open=True, play=_converse_after_one
    ),
    "streamed_and_broken_off": Scenario(
        steps=(
            fail_after(5, ModelError("broken off", code="server_error", retryable=True), LONG),
            "hello to you",
        ),
        options={"stream": True},
    ),
}
