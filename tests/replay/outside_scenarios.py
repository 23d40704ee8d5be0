"""Scenarios of people, programs and engines: what reaches a run from outside while it works.

Owns: one scenario for each effect, human action and kind of event that `scenarios.py` does not
have. They follow the same rule: what is released is never changed.
"""

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow

from outlast import (
    Agent,
    ApprovalPolicy,
    Budget,
    Calendar,
    Escalation,
    ModelSettings,
    ReplyTimes,
    RunConfig,
    RunHandle,
    ToolContext,
    function_tool,
)
from outlast.activities.approvals.gate import tool_digest
from outlast.agents.errors import AgentsException, WaitDropped
from outlast.blobs import FileBlobStore
from outlast.client.forks import fork_run, read_fork_points
from outlast.client.teams import Team
from outlast.contract import names
from outlast.extensions.temporal_tools import workflow_tool
from outlast.loop.approvals import Person
from outlast.loop.values import Usage
from outlast.ports.model import ModelError, ModelRequest, ModelResponse
from outlast.ports.notifier import Notification, Notifier, NotifierRejected
from outlast.realtime.line_run import LineRun
from outlast.testing import call, say
from outlast.views.run import RunSnapshot, loop_state
from tests.laws.driver import gated, reply_of, said, tool
from tests.replay.scenarios import Scenario, billing, note, orders, refund

ANN = Person(subject="ann", groups=("billing",))
BOB = Person(subject="bob", groups=("billing",))
LEA = Person(subject="lea", groups=("leads",))
TARGETS = RunConfig(
    takeover=ApprovalPolicy(unverified="allow"),
    reply_times=ReplyTimes(first=2, next=9, warn=1, within="support-hours", away="Back at {time}."),
)
ANYBODY = RunConfig(takeover=ApprovalPolicy(unverified="allow"))


# --- People --------------------------------------------------------------------------------------


@function_tool(
    needs_approval=ApprovalPolicy(
        audience="billing",
        quorum=2,
        unverified="allow",
        escalate=[Escalation(after=timedelta(seconds=1), to="leads")],
    )
)
async def pay(ctx: ToolContext[Any], amount: int) -> str:
    """Pay money out."""
    return f"paid {amount} under {ctx.tool_call_id}"


paying = Agent[Any](name="Paying", tools=[pay])


async def _decide_together(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.claim("a1", by=ANN, minutes=5)
    await handle.unclaim("a1", by=ANN)
    await handle.wait(lambda state: any(one.escalated for one in state.approvals))
    await handle.edit("a1", {"amount": 4}, by=ANN)
    await handle.approve("a1", by=LEA)
    await handle.result()


async def _take_over(handle: RunHandle) -> None:
    await handle.wait(lambda state: state.status == "idle")
    await handle.hold(by=ANN)
    sent = await handle.send("A human, please.")
    await handle.wait(lambda state: len(state.items) > 2)
    await handle.say("I am Ann.", by=ANN, message_id="p1")
    await sent.answer()
    await handle.release(by=ANN, note="They are in a hurry.", to="Orders")
    await (await handle.send("Thank you.")).answer()
    await handle.cancel("after_turn")
    await handle.result()


REFUSED = ModelError(
    "The model provider refused the request. HTTP 400. Its message: It was flagged.",
    code="invalid_request",
    retryable=False,
    status=400,
)


async def _case(handle: RunHandle) -> None:
    """Assign, comment, tag and link it, put it off, resolve it, and write once more."""
    await handle.wait(lambda state: state.status == "idle")
    team = Team(handle.client, "billing", task_queue=handle.id)
    await team.on_duty("bob")
    await team.assign_by(by=ANN, return_after=timedelta(seconds=1))
    await handle.assign(by=ANN, team="billing")
    await handle.wait(lambda state: loop_state(state).case.to == "bob")
    await team.on_duty("cid")
    await handle.wait(lambda state: loop_state(state).case.to == "cid")
    await handle.assign("bob", by=ANN, team="billing")
    await handle.comment("Look at this.", by=ANN, comment_id="c1")
    await handle.tag("vip", by=ANN)
    await handle.link("support-7", by=ANN)
    await handle.snooze(timedelta(seconds=1), by=ANN)
    await handle.wait(lambda state: state.status == "idle")
    await handle.hold(by=ANN)
    await handle.resolve(by=ANN, why="paid")
    await handle.reopen(by=ANN)
    await handle.resolve(by=ANN)
    await (await handle.send("One more thing.")).answer()
    await handle.rate(4, "Quick.")
    await handle.cancel(mode="after_turn")
    await handle.client.get_workflow_handle(names.team_id("billing")).terminate()


async def _team_of(_handle: RunHandle) -> dict[str, str]:
    return {names.WORKFLOW_TEAM: names.team_id("billing")}


HOURS = Calendar("support-hours", zone="Europe/Berlin", hours={"mon-sun": "0:00-24:00"})


@function_tool(
    needs_approval=ApprovalPolicy(
        audience="billing",
        unverified="allow",
        expires_in=timedelta(hours=8),
        remind_every=timedelta(hours=4),
        on_expiry="escalate",
        escalate=[Escalation(after=timedelta(hours=2), to="leads")],
        within=HOURS,
    )
)
async def pay_back() -> str:
    """Pay money back."""
    return "paid back"


async def _reply_late(handle: RunHandle) -> None:
    """Let a customer wait for longer than the reply may take, and reply."""
    await handle.wait(lambda state: state.status == "idle")
    await handle.hold(by=ANN)
    await handle.send("Where is it?")
    await handle.wait(lambda state: bool((one := loop_state(state).case.reply) and one.late))
    await handle.say("It is on its way.", by=ANN)
    await handle.release(by=ANN)
    await handle.cancel(mode="after_turn")
    await handle.result()


def _is_counted(state: RunSnapshot) -> bool:
    hours = state.approvals[0].terms.hours
    return hours is not None and hours.from_ms is not None


async def _count_anew(handle: RunHandle) -> None:
    """Let the times of a request be counted anew, and decide it."""
    await handle.wait_for_people()
    await handle.recount(by=ANN)
    await handle.wait(_is_counted)
    await handle.approve("a1", by=ANN)
    await handle.result()


async def _set_aside(handle: RunHandle) -> None:
    await handle.wait(lambda state: state.status == "idle")
    await handle.take_back(0, by=ANN)
    await handle.set_aside(1, by=ANN, reason="It is wrong.")
    await (await handle.send("Thank you.")).answer()
    await handle.cancel("after_turn")
    await handle.result()


async def _take_over_by_signals(handle: RunHandle) -> None:
    """Do as the Temporal UI does: nothing is refused, and what does not count is noted."""
    await handle.wait_for_people()
    run = handle.client.get_workflow_handle(handle.id)
    await run.signal("claim", {"request_id": "a1", "by": "ann", "minutes": 30})
    await run.signal("hold", {"by": "ann", "mode": "after_turn"})
    await run.signal("say", {"by": "ann", "text": "I am Ann."})
    await run.signal("release", {"by": "ann", "note": "Done."})
    await run.signal("release", {"by": "bob"})
    await run.signal("say", "no record")
    await run.signal("decide", {"request_id": "a1", "type": "approve", "by": "ann"})
    await run.signal("cancel", {"mode": "after_turn"})
    await handle.result()


class Ear(Notifier):
    """Hears of requests, and refuses to hear of their end."""

    name = "ear"

    async def notify(self, notice: Notification) -> None:
        """Take a notice.

        Raises:
            NotifierRejected: it is about the end of a request.
        """
        if notice.event == "cancelled":
            raise NotifierRejected("nobody is here any more")


async def _hear_and_cancel(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.wait(lambda state: not loop_state(state).pending)
    await handle.cancel()
    with contextlib.suppress(AgentsException):
        await handle.result()


async def _notices_of(handle: RunHandle) -> dict[str, str]:
    execution = (await handle.client.get_workflow_handle(handle.id).describe()).run_id
    return {names.WORKFLOW_NOTICES: names.notices_id(str(execution))}


# --- Messages and values -------------------------------------------------------------------------


async def _send_and_withdraw(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await (await handle.send("first", mode="queue")).withdraw()
    await (await handle.send("second", mode="interrupt")).answer()
    await handle.cancel("after_turn")
    await handle.result()


@function_tool
async def order_courier(ctx: ToolContext[Any]) -> str:
    """Order a courier, and cancel the order if nobody waits for it any more."""
    try:
        return str(await ctx.wait_for("courier", timeout=None, cleanup=True))
    except WaitDropped:
        return "the order is cancelled"


sending = Agent[Any](name="Sending", tools=[order_courier])


async def _drop_the_call(handle: RunHandle) -> None:
    await handle.wait(lambda state: state.status == "parked")
    await handle.cancel()


# --- Models --------------------------------------------------------------------------------------


class SlowThinker:
    """A model whose first response is there at the second look, and whose second one never is."""

    def __init__(self) -> None:
        """Begin with no response."""
        self.begun = 0
        self.looks = 0

    def get_model(self, _name: str | None) -> "SlowThinker":
        """Return itself, for every name."""
        return self

    async def aclose(self) -> None:
        """Close nothing."""

    async def get_response(self, _request: ModelRequest) -> ModelResponse:
        """Refuse to answer at once.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError

    async def stream_response(self, _request: ModelRequest) -> Any:
        """Refuse to answer at once.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError

    async def begin_response(self, _request: ModelRequest) -> str:
        """Begin a response."""
        self.begun += 1
        return f"resp_{self.begun}"

    async def read_response(self, response_id: str, _request: ModelRequest) -> ModelResponse | None:
        """Return the first response at the second look."""
        self.looks += 1
        if response_id != "resp_1" or self.looks < 2:
            return None
        return ModelResponse(
            output=say("I have thought."), usage=Usage(requests=1), response_id=response_id
        )

    async def cancel_response(self, response_id: str) -> None:
        """Stop a response."""


thinking = Agent[Any](name="Thinking", model_settings=ModelSettings(background=True))


async def _think_and_cancel(handle: RunHandle) -> None:
    await handle.wait(lambda state: state.status == "idle")
    await handle.send("And now?")
    await handle.wait(
        lambda state: any(getattr(one, "begun", None) for one in loop_state(state).pending)
    )
    await handle.cancel()


@function_tool
async def read_page(number: int) -> str:
    """Read a long page."""
    return f"{number:04}" * 10_000


async def _speak(handle: RunHandle) -> None:
    """Speak on a line: a tool, a request, an answer; then another line takes over, and ends."""
    heard = [{"role": "user", "content": "Where is my order?"}]
    line = LineRun(handle, "phone call")
    await line.attach()
    looked_up = tool("look_up", "c1", '{"order_id": "A-17"}')
    await line.reply(heard, reply_of(looked_up, response_id="r1"))
    await handle.wait(lambda state: len(state.items) == 3 and loop_state(state).phase == "thinking")
    await line.reply([], reply_of(said("It is there."), response_id="r2"))
    await handle.wait(lambda state: len(state.answers) == 1)
    planned = gated("refund", "c2", '{"amount": 5}', tool_digest=tool_digest("Speaking", refund))
    await line.reply(heard, reply_of(planned, response_id="r3"))
    await handle.wait_for_people()
    await line.hang_up()
    await handle.approve("a1", by="ann")
    await handle.wait(lambda state: len(state.answers) == 2)
    await handle.cancel("after_turn")
    await handle.result()


speaking = Agent[Any](name="Speaking", tools=[*orders.tools[:1], refund])


# --- Nested runs, forks, other workflows, other workers --------------------------------------------


spending = Agent[Any](name="Spending", tools=[note])
lending = Agent[Any](name="Lending", tools=[spending.as_tool("ask_spending", "Ask.", max_turns=20)])


async def _approve_the_budget(handle: RunHandle) -> None:
    await handle.wait_for_people()
    await handle.approve("a1", by="ann")
    await handle.result()


async def _fork(handle: RunHandle) -> RunHandle:
    await handle.result()
    points = [one async for one in read_fork_points(handle.client, handle.id)]
    at = next(one.number for one in points if one.obstacle is None)
    made = await fork_run(handle.client, handle.id, at=at, name="b", instructions="Be brief.")
    await made.result()
    return made


@dataclass
class Printed:
    """What was printed."""

    title: str


@workflow.defn(sandboxed=False)
class PrintPoster:
    """Print posters."""

    @workflow.run
    async def run(self, title: str) -> Printed:
        """Print a poster.

        Args:
            title: what it says.
        """
        return Printed(title)


printing = Agent[Any](name="Printing", tools=[workflow_tool(PrintPoster.run)])


async def _errand_of(handle: RunHandle) -> dict[str, str]:
    async for one in handle.past():
        for made in loop_state(one.state).calls:
            if made.done:
                return {names.WORKFLOW_ERRAND: str(made.done["errand"])}
    raise LookupError("the run has executed nothing")


@function_tool(needs_approval=True)
async def pack() -> str:
    """Pack an order."""
    return "packed"


packing = Agent[Any](name="Packing", tools=[pack])


async def _lack_the_tool(handle: RunHandle) -> None:
    """Take the tool from the worker, as another version of it would, and give it back."""
    await handle.wait_for_people()
    packing.tools.remove(pack)
    try:
        await handle.approve("a1", by="ann")
        await handle.wait(lambda state: state.status == "blocked")
    finally:
        packing.tools.append(pack)
    await handle.result()


SCENARIOS: dict[str, Scenario] = {
    "decided_by_two": Scenario(
        agent=paying, steps=([call("pay", "c1", amount=5)], "done"), play=_decide_together
    ),
    "taken_over": Scenario(
        steps=("hello", "you are welcome"),
        keep_open=True,
        play=_take_over,
        options={"run_config": ANYBODY},
    ),
    "case": Scenario(
        steps=("hello", "you are welcome"),
        keep_open=True,
        play=_case,
        options={"run_config": ANYBODY},
        others=_team_of,
    ),
    "hours": Scenario(
        agent=Agent[Any](name="Hourly", tools=[pay_back]),
        steps=([call("pay_back", "c1")], "done"),
        play=_count_anew,
        options={"run_config": ANYBODY},
    ),
    "reply_times": Scenario(
        steps=("hello",),
        keep_open=True,
        play=_reply_late,
        options={"run_config": TARGETS},
        worker=lambda _: {"calendars": [HOURS], "notifiers": [Ear()]},
    ),
    "set_aside": Scenario(
        steps=(REFUSED, "hello", "you are welcome"),
        keep_open=True,
        play=_set_aside,
        options={"run_config": ANYBODY},
    ),
    "taken_over_by_signals": Scenario(
        agent=billing,
        steps=([call("refund", "c1", amount=5)], "done", "done"),
        keep_open=True,
        play=_take_over_by_signals,
        options={"run_config": ANYBODY},
    ),
    "notified": Scenario(
        agent=billing,
        steps=([call("refund", "c1", amount=5)],),
        play=_hear_and_cancel,
        worker=lambda _: {"notifiers": [Ear()]},
        others=_notices_of,
    ),
    "withdrawn_and_interrupted": Scenario(
        agent=billing,
        steps=([call("refund", "c1", amount=5)], "done", "done"),
        keep_open=True,
        play=_send_and_withdraw,
    ),
    "cleaned_up": Scenario(
        agent=sending, steps=([call("order_courier", "c1")],), play=_drop_the_call
    ),
    "thought_in_the_background": Scenario(
        agent=thinking, keep_open=True, model=SlowThinker, play=_think_and_cancel
    ),
    "stored_outside": Scenario(
        agent=Agent[Any](name="Reading", tools=[read_page]),
        steps=(
            *([call("read_page", f"c{turn}-{at}", number=at) for at in range(14)] for turn in "ab"),
            "read",
        ),
        worker=lambda folder: {"blob_store": FileBlobStore(folder)},
    ),
    "spoken": Scenario(
        agent=speaking,
        steps=("it is paid",),
        keep_open=True,
        play=_speak,
        fields={"awaits_line": True, "input": ""},
    ),
    "lent": Scenario(
        agent=lending,
        steps=(
            [call("ask_spending", "c1", input="?")],
            *([call("note", f"n{at}", text="a")] for at in range(2)),
            *("done",) * 2,
        ),
        play=_approve_the_budget,
        options={"run_config": RunConfig(budgets=[Budget(model_calls=3)])},
    ),
    "forked": Scenario(steps=([call("note", "c1", text="a")], "done", "done"), play=_fork),
    "executed_a_workflow": Scenario(
        agent=printing,
        steps=([call("print_poster", "c1", title="Tour")], "done"),
        worker=lambda _: {"workflows": [PrintPoster]},
        others=_errand_of,
    ),
    "blocked": Scenario(agent=packing, steps=([call("pack", "c1")], "done"), play=_lack_the_tool),
}
