"""Tools that wait for something outside, in tests of programs."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from outlast import (
    Agent,
    DeliveryRefused,
    ToolContext,
    UserError,
    WaitTimeout,
    function_tool,
)
from outlast.client import PendingWait
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.testing import (
    NOTHING_COMES,
    ScriptedModel,
    WaitBegins,
    call,
    delivered,
    run_in_memory,
)

TWO_DAYS = timedelta(days=2)


@dataclass
class Pickup:
    """What a courier reports."""

    parcel: str


@function_tool
async def book(ctx: ToolContext[Any], order: str) -> str:
    """Book a courier."""
    number = await ctx.once("booking", lambda: f"b-{order}")
    pickup = await ctx.wait_for("courier", timeout=TWO_DAYS, schema=Pickup)
    return f"{number}: {pickup.parcel}"


@function_tool
def approve_abroad(ctx: ToolContext[Any]) -> Any:
    """Let another office decide, or nobody."""
    return ctx.wait_for("office", timeout=TWO_DAYS, default="no")


@function_tool
async def ask_office(ctx: ToolContext[Any]) -> str:
    """Ask another office, and then people."""
    return f"They say {await ctx.wait_for('office', timeout=TWO_DAYS, ask=True)}"


def desk(*tools: Any) -> Agent[Any]:
    return Agent(name="Desk", tools=list(tools))


def script(*names: str) -> ScriptedModel:
    calls = [
        call(name, f"c{at}", **({"order": "7"} if name == "book" else {}))
        for at, name in enumerate(names, 1)
    ]
    return ScriptedModel(calls, "done")


def output(model: ScriptedModel, at: int = -1) -> Any:
    return model.requests[1].input[at]["output"]


# --- Whole runs ----------------------------------------------------------------------------------


async def test_a_value_comes_for_each_wait() -> None:
    model = script("book", "approve_abroad")
    values = {"courier": Pickup("p1"), "office": "yes"}
    result = await run_in_memory(desk(book, approve_abroad), "hi", model=model, deliver=values)
    assert (result.status, result.pending_waits) == ("completed", ())
    assert (output(model, -2), output(model)) == ("b-7: p1", "yes")


async def test_a_callback_delivers_by_what_waits() -> None:
    seen: list[PendingWait] = []

    async def deliver(wait: PendingWait) -> Pickup:
        seen.append(wait)
        return Pickup(wait.call_id)

    model = script("book")
    await run_in_memory(desk(book), "hi", model=model, deliver=deliver)
    [wait] = seen
    assert wait.until is not None
    assert (wait.tool, wait.name, wait.until - wait.since) == ("book", "courier", TWO_DAYS)
    assert output(model) == "b-7: c1"


async def test_a_run_that_is_parked_returns_and_resumes() -> None:
    model = script("book")
    parked = await run_in_memory(desk(book), "hi", model=model)
    assert (parked.status, parked.final_output) == ("parked", None)
    assert [one.name for one in parked.pending_waits] == ["courier"]
    unrelated = {"somebody else": 1}
    parked = await run_in_memory(desk(book), parked.to_state(), model=model, deliver=unrelated)
    assert parked.status == "parked"
    values = {"courier": {"parcel": "p2"}}
    result = await run_in_memory(desk(book), parked.to_state(), model=model, deliver=values)
    assert (result.final_output, output(model)) == ("done", "b-7: p2")


async def test_a_value_that_does_not_fit_is_refused_as_on_a_server() -> None:
    with pytest.raises(DeliveryRefused, match="'courier' does not fit"):
        await run_in_memory(desk(book), "hi", model=script("book"), deliver={"courier": 5})
    with pytest.raises(UserError, match="the value must be JSON"):
        await run_in_memory(desk(book), "hi", model=script("book"), deliver={"courier": object()})


async def test_nothing_comes_in_time() -> None:
    model = script("book", "approve_abroad")
    values = {"courier": NOTHING_COMES, "office": NOTHING_COMES}
    await run_in_memory(desk(book, approve_abroad), "hi", model=model, deliver=values)
    assert "The tool book" in output(model, -2)
    assert output(model) == "no"


async def test_a_wait_without_a_deadline_does_not_end() -> None:
    @function_tool
    async def forever(ctx: ToolContext[Any]) -> str:
        """Wait."""
        return await ctx.wait_for(timeout=None)

    nothing = {"result": NOTHING_COMES}
    with pytest.raises(UserError, match="no deadline"):
        await run_in_memory(desk(forever), "hi", model=script("forever"), deliver=nothing)


async def test_people_are_asked_when_nothing_comes() -> None:
    def decide(request: ApprovalRequest) -> Decision:
        return Decision(request_id=request.id, type="respond", response="maybe", by="ann")

    model = script("ask_office")
    nothing = {"office": NOTHING_COMES}
    agent = desk(ask_office)
    waiting = await run_in_memory(agent, "hi", model=model, deliver=nothing)
    assert (waiting.status, len(waiting.interruptions)) == ("waiting", 1)
    await run_in_memory(agent, waiting.to_state(), model=model, decide=decide, deliver=nothing)
    assert output(model) == "They say maybe"


async def test_a_nested_run_that_is_parked_gets_its_value() -> None:
    helper = Agent[Any](name="Helper", tools=[book])
    main = Agent[Any](name="Main", tools=[helper.as_tool("help", "Help.")])
    model = ScriptedModel(
        [call("help", "h1", input="7")], [call("book", "c1", order="7")], "booked", "done"
    )
    parked = await run_in_memory(main, "hi", model=model)
    assert parked.status == "parked"
    assert parked.pending_waits == ()  # they are the nested run's
    values = {"courier": {"parcel": "p3"}}
    result = await run_in_memory(main, parked.to_state(), model=model, deliver=values)
    assert result.final_output == "done"
    assert model.requests[2].input[-1]["output"] == "b-7: p3"


# --- One tool ------------------------------------------------------------------------------------


def context() -> ToolContext[Any]:
    return ToolContext(None, tool_name="book", tool_call_id="c1", tool_arguments="{}")


async def test_a_tool_is_tested_without_a_run() -> None:
    ctx = context()
    with pytest.raises(WaitBegins) as began:
        await book.on_invoke_tool(ctx, '{"order": "7"}')
    assert (began.value.wait.name, began.value.wait.done) == ("courier", {"booking": "b-7"})
    delivered(ctx, Pickup("p1"), name="courier")
    assert await book.on_invoke_tool(ctx, '{"order": "7"}') == "b-7: p1"
    delivered(ctx, {"parcel": "p2"}, name="courier")
    assert await book.on_invoke_tool(ctx, '{"order": "7"}') == "b-7: p2"


async def test_a_tool_for_which_nothing_comes_is_tested_without_a_run() -> None:
    async def plain(ctx: ToolContext[Any]) -> str:
        try:
            return await ctx.wait_for(timeout=TWO_DAYS)
        except WaitTimeout:
            return "nothing"

    ctx = context()
    delivered(ctx, NOTHING_COMES)
    assert await plain(ctx) == "nothing"
    with pytest.raises(UserError, match="the value must be JSON"):
        delivered(ctx, object())


async def test_a_signed_wait_takes_what_the_test_delivers():
    @function_tool
    async def ship(ctx: ToolContext[Any]) -> str:
        """Ship what is paid."""
        return f"paid {await ctx.wait_for('bank', timeout=TWO_DAYS, signed=True)}"

    model = script("ship")
    result = await run_in_memory(desk(ship), "Hi", model=model, deliver={"bank": 5})
    assert result.final_output == "done"
    assert "paid 5" in str(model.requests[1].input[-1])
    context = ToolContext(None, tool_name="ship", tool_call_id="c1", tool_arguments="{}")
    delivered(context, 7, name="bank")
    assert await ship.on_invoke_tool(context, "{}") == "paid 7"


async def test_a_signed_wait_is_awaited_and_nobody_is_asked_in_its_place():
    @function_tool
    async def ship(ctx: ToolContext[Any]) -> Any:
        """Ship what is paid."""
        with pytest.raises(UserError, match="pass ask= or signed=, not both"):
            ctx.wait_for("bank", timeout=TWO_DAYS, ask=True, signed=True)
        return ctx.wait_for("bank", timeout=TWO_DAYS, signed=True)

    ship.failure_error_function = None
    with pytest.raises(UserError, match=r"every=, cleanup= or signed= must be awaited"):
        await run_in_memory(desk(ship), "Hi", model=script("ship"))


async def test_two_calls_with_one_id_in_one_reply_share_no_wait():
    """Some models give several calls one id: each has one of its own here."""
    twice = [call("book", "c1", order="7"), call("book", "c1", order="8")]
    parked = await run_in_memory(desk(book), "Hi", model=ScriptedModel(twice, "done"))
    assert [one.call_id for one in parked.pending_waits] == ["c1", "c0"]
    same = ScriptedModel([call("book", "c1", order="7"), call("book", "c1", order="7")], "done")
    parked = await run_in_memory(desk(book), "Hi", model=same)
    assert [one.call_id for one in parked.pending_waits] == ["c1"]
    values = {"courier": Pickup("p1")}
    result = await run_in_memory(desk(book), parked.to_state(), model=same, deliver=values)
    assert result.final_output == "done"


async def test_two_calls_with_ids_of_their_own_have_waits_of_their_own():
    model = ScriptedModel([call("book", "c1", order="7"), call("book", "c2", order="7")], "done")
    parked = await run_in_memory(desk(book), "Hi", model=model)
    tokens = [one.token for one in parked.pending_waits]
    assert len(set(tokens)) == 2
    came = {tokens[0]: Pickup("p1"), tokens[1]: Pickup("p2")}
    await run_in_memory(
        desk(book), parked.to_state(), model=model, deliver=lambda wait: came[wait.token]
    )
    told = {one["call_id"]: one["output"] for one in model.requests[1].input if "output" in one}
    assert told == {"c1": "b-7: p1", "c2": "b-7: p2"}


# --- Tools that look for themselves --------------------------------------------------------------


def farm(done_after: int, **options: Any) -> tuple[Any, list[int]]:
    """Return a tool that looks until a film is done, and the numbers of its looks."""
    looks: list[int] = []

    @function_tool
    async def render(ctx: ToolContext[Any]) -> str:
        """Render a film."""
        looks.append(len(looks) + 1)
        if len(looks) > done_after:
            return "the film"
        try:
            found = await ctx.wait_for("film", every=timedelta(minutes=1), **options)
        except WaitTimeout:
            return "no film"
        return f"delivered {found}"

    return render, looks


async def outcome(tool: Any, **options: Any) -> Any:
    model = script("render")
    await run_in_memory(desk(tool), "Hi", model=model, **options)
    return model.requests[1].input[-1]["output"]


NOTHING = {"film": NOTHING_COMES}


async def test_a_tool_looks_for_itself_until_what_it_waits_for_is_done():
    tool, looks = farm(30, timeout=timedelta(hours=6))
    assert await outcome(tool, deliver=NOTHING) == "the film"
    assert looks == list(range(1, 32))


async def test_the_time_between_looks_counts_and_ends_the_wait():
    tool, looks = farm(1_000, timeout=timedelta(minutes=10))
    assert await outcome(tool, deliver=NOTHING) == "no film"
    assert len(looks) == 11, "at once, after each of nine minutes, and when the time is over"


async def test_a_delivery_is_a_reason_to_run_again_and_ends_the_wait():
    tool, looks = farm(1_000, timeout=None)
    assert await outcome(tool, deliver={"film": "it"}) == "delivered it"
    assert len(looks) == 2


async def test_a_tool_that_looks_for_ever_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("outlast.testing.in_memory.MOST_LOOKS", 20)
    tool, looks = farm(10_000, timeout=None)
    with pytest.raises(UserError, match=r"'film': the tool 'render' has looked 20 times and still"):
        await outcome(tool, deliver=NOTHING)
    assert len(looks) == 21


async def test_a_run_that_was_parked_goes_on_at_the_time_of_its_clock():
    tool, looks = farm(1_000, timeout=timedelta(minutes=10))
    model = script("render")
    parked = await run_in_memory(desk(tool), "Hi", model=model)
    assert (parked.status, looks) == ("parked", [1])
    await run_in_memory(desk(tool), parked.to_state(), model=model, deliver=NOTHING)
    assert (model.requests[1].input[-1]["output"], len(looks)) == ("no film", 11)


async def test_a_nested_run_looks_for_itself_too():
    tool, looks = farm(5, timeout=timedelta(hours=1))
    helper = Agent[Any](name="Helper", tools=[tool])
    main = Agent[Any](name="Main", tools=[helper.as_tool("help", "Help.")])
    model = ScriptedModel([call("help", "h1", input="7")], [call("render", "c1")], "made", "done")
    result = await run_in_memory(main, "Hi", model=model, deliver=NOTHING)
    assert (result.final_output, len(looks)) == ("done", 6)
