"""Calls of MCP tools that take more than one attempt, with a server that is played."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.context.waits import WaitBegins, Waits
from outlast.agents.context.wrapper import ToolContext, set_waits
from outlast.agents.errors import MCPTaskEnded, WaitDropped
from outlast.agents.mcp import calls
from outlast.agents.mcp.calls import begun_tool, call_in_run, checks_noted, with_checks
from outlast.agents.mcp.replies import MCPInputRequired, MCPTask
from outlast.agents.mcp.server import MCPFault, MCPNotSent, MCPProtocolError, MCPRefusal
from outlast.agents.tools.definition import default_tool_error
from outlast.loop.calls import Arrival, OutsideWait
from outlast.loop.values import JsonObject
from outlast.testing import ScriptedModel, call, run_in_memory
from tests.conformance.views import tool_outputs
from tests.mcp_servers import Shelf, said

WORKING = MCPTask(task_id="t", poll_interval_ms=2_000)
DONE = replace(WORKING, status="completed", result=said("baked"))
FORM: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}}


def asks(*keys: str, message: str = "Who?", **request: Any) -> MCPTask:
    params = {"mode": "form", "message": message, "requestedSchema": FORM}
    one = {"method": "elicitation/create", "params": params, **request}
    return replace(WORKING, status="input_required", inputs=dict.fromkeys(keys, one))


NO_LINK = "asks people to open a link that cannot be shown"


def link(url: object) -> JsonObject:
    return {"mode": "url", "message": "Log in", "url": url}


class Kitchen(Shelf):
    """A server whose replies are played.

    Attributes:
        replies: to calls and looks, in their order; the last one stays.
        requests: what it was asked.
    """

    limit: timedelta | None = None
    cancel_error: Exception = ConnectionError("whatever")

    def __init__(self, *replies: Any) -> None:
        super().__init__(name="kitchen")
        self.replies = list(replies)
        self.requests: list[Any] = []

    @property
    def task_timeout(self) -> timedelta | None:
        return self.limit

    def _reply(self, *request: Any) -> Any:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def start_call(
        self,
        tool_name: str,
        arguments: Any,
        meta: Any = None,
        *,
        answers: JsonObject | None = None,
        state: str | None = None,
    ) -> Any:
        return self._reply("call", tool_name, answers, state)

    async def get_task(self, task_id: str, tool_name: str) -> Any:
        return self._reply("get", task_id)

    async def update_task(self, task_id: str, answers: JsonObject) -> None:
        self._reply("update", task_id, answers)

    async def cancel_task(self, task_id: str) -> None:
        self.requests.append(("cancel", task_id))
        raise self.cancel_error


@dataclass
class Playing:
    """A call, one attempt after the other.

    Attributes:
        waits: those that ended attempts.
    """

    server: Kitchen
    done: JsonObject = field(default_factory=dict[str, Any])
    arrivals: tuple[Arrival, ...] = ()
    waits: list[OutsideWait] = field(default_factory=list[OutsideWait])

    async def attempt(self, *, dropped: bool = False) -> Any:
        """Return the result, or None if the call waits."""
        context = ToolContext[Any](None, tool_name="bake", tool_call_id="c1", tool_arguments="{}")
        done = json.loads(json.dumps(self.done))
        set_waits(context, Waits(arrivals=self.arrivals, done=done, dropped=dropped))
        try:
            return await call_in_run(self.server, "bake", {}, None, context)
        except WaitBegins as begins:
            self.waits.append(begins.wait)
            self.done = json.loads(json.dumps(begins.wait.done))
            return None

    async def until(self, *replies: Any) -> OutsideWait:
        """Play attempts that wait, with these replies; return the last wait."""
        for reply in replies:
            self.server.replies = [reply]
            assert await self.attempt() is None
        return self.waits[-1]

    def give(self, value: Any = None, *, timed_out: bool = False) -> None:
        """Let something come for the present wait."""
        name = self.waits[-1].name
        arrival = Arrival(name=name, at_ms=0, value=value, timed_out=timed_out)
        self.arrivals = (*self.arrivals, arrival)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1_000_000.0]
    monkeypatch.setattr(calls.time, "time", lambda: now[0])

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    return pass_time


async def test_a_result_at_once_is_returned_at_once() -> None:
    result = said("here")
    playing = Playing(Kitchen(result))
    assert await playing.attempt() is result


async def test_a_task_ends_the_attempt_and_its_result_is_that_of_the_call(
    clock: Callable[[float], None],
) -> None:
    playing = Playing(Kitchen(WORKING))
    assert begun_tool(playing.done) is None
    wait = await playing.until(WORKING)
    assert (wait.name, wait.every_ms, wait.timeout_ms, wait.cleanup) == ("task", 2_000, None, True)
    assert begun_tool(playing.done) == "bake"
    clock(200)
    wait = await playing.until(WORKING)
    assert (wait.name, wait.every_ms) == ("task", 10_000)
    playing.server.replies = [DONE]
    assert await playing.attempt() is DONE.result
    assert playing.server.requests == [("call", "bake", None, None), ("get", "t"), ("get", "t")]


@pytest.mark.parametrize(
    "noted",
    [None, "t", 5, ["t"], {}, {"task": "t"}, {"tool": "bake"}, {"tool": 5, "task": "t"},
     {"tool": "", "task": "t"}, {"tool": "bake", "task": {}}],
)  # fmt: skip
async def test_notes_of_another_form_are_those_of_a_call_that_has_not_begun(noted: Any) -> None:
    notes = {"mcp": noted}
    assert begun_tool(notes) is None
    assert checks_noted(notes) is None
    playing = Playing(Kitchen(said("here")), done=notes)
    if not isinstance(noted, dict) or "task" not in noted:
        assert await playing.attempt() == said("here")
        return
    playing.server.replies = [DONE]
    assert await playing.attempt() is DONE.result, "a call with notes of a task begins nothing"
    assert [one[0] for one in playing.server.requests] == ["get"]


async def test_a_delivery_is_a_reason_to_look_at_once() -> None:
    playing = Playing(Kitchen(WORKING))
    await playing.until(WORKING)
    playing.give("look")
    assert (await playing.until(WORKING)).name == "task 2"
    playing.give({})
    assert (await playing.until(WORKING)).name == "task 3"


@pytest.mark.parametrize(
    ("reply", "outcome", "cancels"),
    [
        (replace(WORKING, status="failed", message="secret"), "failed", False),
        (replace(WORKING, status="cancelled"), "was cancelled by its server", False),
        (replace(WORKING, status="unknown"), "is not known to its server any more", False),
        (MCPRefusal("HTTP error 403"), "its server refuses to go on with it", True),
        (MCPProtocolError("secret"), "its server answers what nobody can read", True),
        (asks("a", method="sampling/createMessage"), "asks what only a form", True),
        (asks("a", params=link(None)), NO_LINK, True),
        (asks("a", params=link("javascript:alert(1)")), NO_LINK, True),
        (asks("a", params=link("https://bank.example@evil.example/")), NO_LINK, True),
        (asks("a", params=link("https://bank.example/\u202egpj.exe")), NO_LINK, True),
        (asks("a", params=link("https://bank.example/ a")), NO_LINK, True),
        (asks("a", params=link("https://[bank")), NO_LINK, True),
        (asks("a", params=link("https://")), NO_LINK, True),
        (asks("a", params=link("https://:80/")), NO_LINK, True),
        (asks("a", params=link("https://a.example/" + "x" * 4_000)), NO_LINK, True),
        (asks("a", params=[]), "asks what only a form", True),
        (asks(*map(str, range(21))), "asks more than people can answer", True),
        (asks("k" * 201), "asks more than people can answer", True),
        (
            asks("a", params={"message": "x", "requestedSchema": {"type": "string"}}),
            "asks by a form that cannot be shown",
            True,
        ),
        (
            asks(
                "a",
                params={"message": "x", "requestedSchema": {"type": "object", "x": "y" * 30_000}},
            ),
            "asks by a form that cannot be shown",
            True,
        ),
    ],
)
async def test_a_task_without_a_result_ends_in_words(
    reply: Any, outcome: str, cancels: bool
) -> None:
    playing = Playing(Kitchen(WORKING))
    await playing.until(WORKING)
    playing.server.replies = [reply]
    with pytest.raises(
        MCPTaskEnded, match=f"'bake' at the MCP server 'kitchen' {outcome}"
    ) as ended:
        await playing.attempt()
    context = ToolContext[Any](None, tool_name="bake", tool_call_id="c1", tool_arguments="{}")
    told = default_tool_error(context, ended.value)
    assert told.startswith("The tool bake began a task at its server and returned no result. The")
    assert outcome in told
    assert "secret" not in told
    assert (("cancel", "t") in playing.server.requests) is cancels


async def test_the_words_of_the_error_of_a_failed_task_reach_the_model() -> None:
    playing = Playing(Kitchen(WORKING))
    await playing.until(WORKING)
    playing.server.replies = [replace(WORKING, status="failed", error="The oven is cold. " * 200)]
    with pytest.raises(MCPTaskEnded) as ended:
        await playing.attempt()
    context = ToolContext[Any](None, tool_name="bake", tool_call_id="c1", tool_arguments="{}")
    told = default_tool_error(context, ended.value)
    assert "Its server answered: The oven is cold. The" in told
    assert len(told) < 2_200


@pytest.mark.parametrize("error", [ConnectionError("gone"), TimeoutError("late"), MCPFault("503")])
async def test_a_server_that_is_away_is_asked_again_for_a_day(
    error: Exception, clock: Callable[[float], None]
) -> None:
    playing = Playing(Kitchen(WORKING))
    await playing.until(WORKING, error)
    clock(23 * 3600)
    await playing.until(error)
    await playing.until(WORKING)  # it is back
    clock(23 * 3600)
    await playing.until(error)
    clock(25 * 3600)
    with pytest.raises(MCPTaskEnded, match="its server is away"):
        await playing.attempt()


async def test_a_task_outlives_its_time_to_live_by_one_look_only(
    clock: Callable[[float], None],
) -> None:
    playing = Playing(Kitchen(WORKING))
    short = replace(WORKING, ttl_ms=60_000)
    await playing.until(WORKING, short)
    clock(61)
    await playing.until(short)
    await playing.until(replace(short, ttl_ms=600_000))  # the server has changed its mind
    clock(700)
    playing.server.replies = [replace(short, ttl_ms=600_000)]
    with pytest.raises(MCPTaskEnded, match="had no result within its time to live"):
        await playing.attempt()
    assert playing.server.requests[-1] == ("cancel", "t")


async def test_a_task_may_take_as_long_as_the_program_says(
    clock: Callable[[float], None],
) -> None:
    playing = Playing(Kitchen(WORKING))
    playing.server.limit = timedelta(seconds=10)
    slow = replace(WORKING, poll_interval_ms=365 * 24 * 3600 * 1000)
    assert (await playing.until(slow)).every_ms == 10_000
    clock(10)
    playing.server.replies = [slow]
    with pytest.raises(MCPTaskEnded, match="took longer than task_timeout allows"):
        await playing.attempt()
    playing.server.replies = [DONE]  # a look comes first
    assert await playing.attempt() is DONE.result


async def test_a_dropped_call_cancels_its_task_and_looks_at_nothing() -> None:
    playing = Playing(Kitchen(WORKING))
    await playing.until(WORKING)
    with pytest.raises(MCPNotSent, match="whatever"):  # which is retried
        await playing.attempt(dropped=True)
    playing.server.cancel_error = MCPRefusal("no such task")
    with pytest.raises(WaitDropped):
        await playing.attempt(dropped=True)
    assert playing.server.requests[1:] == [("cancel", "t")] * 2


# --- Questions ---------------------------------------------------------------------------------------


async def test_people_are_asked_one_after_the_other_and_the_answers_go_back_once() -> None:
    playing = Playing(Kitchen(WORKING))
    hostile = "<b>Who</b>?\x1b[2J" + "!" * 3_000
    both = asks("name", "age", message=hostile)
    wait = await playing.until(WORKING, both)
    assert (wait.name, wait.schema, wait.on_timeout, wait.cleanup) == ("input 1", FORM, "ask", True)
    assert wait.question == f"The MCP server kitchen asks: {hostile[:2_000]}"
    playing.give({"name": "Ann"})
    assert (await playing.until(both)).name == "input 2"
    playing.give(timed_out=True)  # a person has rejected it
    assert (await playing.until(both)).name == "task"
    assert playing.server.requests[-1] == (
        "update",
        "t",
        {
            "name": {"action": "accept", "content": {"name": "Ann"}},
            "age": {"action": "decline"},
        },
    )
    assert (await playing.until(both)).name == "task"  # the server has not read them yet
    assert [one[0] for one in playing.server.requests].count("update") == 1
    assert (await playing.until(asks("more"))).name == "input 3"


@pytest.mark.parametrize(
    ("value", "action"), [({"followed": True}, "accept"), ({"followed": False}, "cancel")]
)
async def test_people_are_shown_a_link_and_the_answer_has_no_content(
    value: JsonObject, action: str
) -> None:
    playing = Playing(Kitchen(WORKING))
    consent = asks("u", params=link("HTTPS://Bank.example:8443/consent?id=7#x"))
    wait = await playing.until(WORKING, consent)
    assert wait.question == (
        "The MCP server kitchen asks: Log in\n\nOpen this link at bank.example, if you trust the "
        "server, and answer here when you have followed it: HTTPS://Bank.example:8443/consent?id=7#x"
    )
    playing.give(value)
    await playing.until(consent)
    assert playing.server.requests[-1] == ("update", "t", {"u": {"action": action}})


async def test_answers_that_do_not_arrive_are_sent_again() -> None:
    playing = Playing(Kitchen(WORKING))
    await playing.until(WORKING, asks("name"))
    playing.give({})
    playing.server.replies = [asks("name"), ConnectionError("gone")]
    assert await playing.attempt() is None
    assert playing.waits[-1].name == "task"
    await playing.until(asks("name"))
    assert [one[0] for one in playing.server.requests].count("update") == 2


async def test_answers_that_the_server_refuses_end_the_call() -> None:
    playing = Playing(Kitchen(WORKING))
    await playing.until(WORKING, asks("name"))
    playing.give({})
    playing.server.replies = [asks("name"), MCPRefusal("That is no name")]
    with pytest.raises(MCPTaskEnded, match="refuses to go on with it: That is no name"):
        await playing.attempt()


async def test_an_answer_that_nobody_needs_any_more_is_not_sent() -> None:
    playing = Playing(Kitchen(WORKING))
    await playing.until(WORKING, asks("name"))
    playing.give({})
    playing.server.replies = [DONE]
    assert await playing.attempt() is DONE.result


async def test_a_call_may_ask_before_it_begins_and_again() -> None:
    first = MCPInputRequired(inputs=asks("name").inputs, state="sealed")
    playing = Playing(Kitchen(first))
    wait = await playing.until(first)
    assert (wait.name, wait.cleanup) == ("input 1", False)
    playing.give({"name": "Ann"})
    again = replace(first, state="sealed twice")  # with the same key
    assert (await playing.until(again)).name == "input 2"
    playing.give(timed_out=True)
    assert (await playing.until(WORKING)).name == "task"
    assert playing.server.requests == [
        ("call", "bake", None, None),
        ("call", "bake", {"name": {"action": "accept", "content": {"name": "Ann"}}}, "sealed"),
        ("call", "bake", {"name": {"action": "decline"}}, "sealed twice"),
    ]


async def test_a_server_does_not_ask_for_ever() -> None:
    first = MCPInputRequired(inputs=asks("name").inputs)
    playing = Playing(Kitchen(first))
    for _ in range(20):
        await playing.until(first)
        playing.give({})
    with pytest.raises(MCPRefusal, match="did not run 'bake': it asks more than people can answer"):
        await playing.attempt()


async def test_questions_that_the_run_cannot_carry_are_not_asked() -> None:
    playing = Playing(Kitchen(MCPInputRequired(inputs=asks("name").inputs, state="s" * 70_000)))
    with pytest.raises(MCPRefusal, match="asks more than people can answer"):
        await playing.attempt()


def test_what_guardrails_said_is_noted_if_it_is_short() -> None:
    notes: JsonObject = {"mcp": {"tool": "bake", "task": "t"}, "own": 1}
    assert checks_noted(None) is None
    assert checks_noted(notes) is None
    noted = with_checks(notes, [{"name": "g"}])
    assert noted["own"] == 1
    assert checks_noted(noted) == [{"name": "g"}]
    assert checks_noted(with_checks(notes, [{"info": "x" * 30_000}])) is None


async def test_a_look_that_takes_too_long_is_made_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "LONGEST_LOOK", timedelta(milliseconds=10))

    class Slow(Kitchen):
        async def get_task(self, task_id: str, tool_name: str) -> Any:
            await asyncio.Event().wait()

    playing = Playing(Slow(WORKING))
    await playing.until(WORKING, WORKING)
    assert playing.done["mcp"]["lost"]


async def test_a_run_in_memory_looks_when_something_is_delivered() -> None:
    updated = (None,)  # the acknowledgement
    kitchen = Kitchen(WORKING, WORKING, asks("name"), asks("name"), *updated, DONE)

    def deliver(wait: Any) -> Any:
        return {"name": "Ann"} if wait.name == "input 1" else "look"

    model = ScriptedModel([call("find", "c1")], "Done.")
    agent = Agent[Any](name="A", mcp_servers=[kitchen])
    result = await run_in_memory(agent, "Hi", model=model, deliver=deliver)
    assert result.final_output == "Done."
    assert tool_outputs(result) == [[{"type": "input_text", "text": "baked"}]]
    assert [one[0] for one in kitchen.requests] == ["call", *["get"] * 3, "update", "get"]


async def test_a_server_that_is_busy_gets_the_call_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BUSY_FOR", timedelta())
    busy = MCPInputRequired(inputs={}, state="s")
    playing = Playing(Kitchen(busy, busy, DONE.result))
    assert await playing.attempt() is DONE.result
    assert playing.server.requests[-1] == ("call", "bake", {}, "s")
    playing = Playing(Kitchen(busy))
    with pytest.raises(MCPRefusal, match="'kitchen' did not run 'bake': it is busy"):
        await playing.attempt()
    assert len(playing.server.requests) == calls.MOST_TRIES + 1
