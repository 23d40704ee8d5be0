import asyncio
import json
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy, Audience
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.identity import os_user
from outlast.client.start.runner import Runner
from outlast.dev import EmbeddedServer
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from tests.unit.cli.conftest import Invoke, Open

LOOK_UP = [call("look_up", "c1", order_id="A-17")]
REFUND = [call("refund", "c1", order_id="A-42")]


@pytest.mark.smoke
async def test_the_answer_is_all_there_is_on_standard_output(
    cli: Invoke, open_desk: Open, server: EmbeddedServer, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(LOOK_UP, "It is on its way."))

    done = await cli("run", "Helper", "Where is A-17?", "--id", run_id, "--task-queue", queue)

    assert done.exit_code == 0
    assert done.stdout == "It is on its way.\n"
    lines = done.stderr.splitlines()
    assert lines[0] == f"run {run_id}  {server.ui_url}/namespaces/default/workflows/{run_id}"
    assert "user       Where is A-17?" in lines
    assert 'Helper     → look_up(order_id="A-17")' in lines
    assert "Helper     ← A-17 is on its way" in lines


@pytest.mark.smoke
async def test_a_run_that_waits_says_how_to_decide_and_has_its_own_exit_code(
    cli: Invoke, open_desk: Open, client: Client, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(REFUND, "Refunded."))
    arguments = ("run", "Helper", "Refund A-42", "--id", run_id, "--task-queue", queue)

    done = await cli(*arguments)

    assert (done.exit_code, done.stdout) == (3, "")
    assert f"outlast approve {run_id} a1" in done.stderr

    await RunHandle(client, run_id).approve("a1", by="ann")
    joined = await cli(*arguments)

    assert (joined.exit_code, joined.stdout) == (0, "Refunded.\n")
    assert "ann        approved a1" in joined.stderr


async def test_a_failed_run_says_why_and_exits_with_1(cli: Invoke, open_desk: Open) -> None:
    queue = await open_desk(ScriptedModel())

    done = await cli("run", "Helper", "Where?", "--task-queue", queue)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-2].startswith("error: ")
    assert done.stderr.count("no step for model call") == 1


async def test_an_agent_that_no_worker_knows_is_said(cli: Invoke, open_desk: Open) -> None:
    queue = await open_desk(ScriptedModel())

    done = await cli("run", "Nobody", "Where?", "--task-queue", queue)

    assert done.exit_code == 1
    assert "has no agent 'Nobody'. It has: 'Helper'" in done.stderr


@pytest.mark.smoke
async def test_json_lines_are_the_events_and_then_the_result(
    cli: Invoke, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(LOOK_UP, "It is on its way."))

    done = await cli("run", "Helper", "Where?", "--id", run_id, "--task-queue", queue, "--json")

    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stderr == ""
    assert records[0]["type"] == "agent_updated"
    assert {record["type"] for record in records} >= {"tool_called", "tool_output", "status"}
    assert records[-1]["type"] == "result"
    assert records[-1]["run_id"] == run_id
    assert records[-1]["status"] == "completed"
    assert records[-1]["final_output"] == "It is on its way."


async def test_detach_returns_the_id_at_once(
    cli: Invoke, client: Client, server: EmbeddedServer, run_id: str
) -> None:
    done = await cli(
        *("run", "Helper", "Hi", "--id", run_id, "--task-queue", "nobody-is-here", "--detach")
    )
    joined = await cli(
        *("run", "Helper", "Hi", "--id", run_id, "--task-queue", "nobody-is-here", "-d", "--json")
    )

    assert (done.exit_code, done.stdout) == (0, f"{run_id}\n")
    assert json.loads(joined.stdout) == {
        "run_id": run_id,
        "ui": f"{server.ui_url}/namespaces/default/workflows/{run_id}",
    }
    await client.get_workflow_handle(run_id).terminate()


async def test_an_id_that_another_question_has_is_refused(
    cli: Invoke, client: Client, run_id: str
) -> None:
    await Runner.start("Helper", "One", id=run_id, client=client, task_queue="nobody-is-here")

    done = await cli("run", "Helper", "Another", "--id", run_id, "--task-queue", "nobody-is-here")

    assert done.exit_code == 2
    assert "is in use by a run that was started with another agent or input" in done.stderr
    await client.get_workflow_handle(run_id).terminate()


async def test_the_context_and_the_bound_travel_with_the_run(
    cli: Invoke, open_desk: Open, client: Client, run_id: str
) -> None:
    more = [call("look_up", f"c{number}", order_id="A-17") for number in range(3)]
    queue = await open_desk(ScriptedModel(*([one] for one in more)))

    done = await cli(
        *("run", "Helper", "Hi", "--id", run_id, "--task-queue", queue),
        *("--context", '{"customer": "Mara"}', "--max-turns", "2"),
    )

    state = await RunHandle(client, run_id).state()
    assert done.exit_code == 1
    assert state.context == {"customer": "Mara"}
    assert state.turns == 2


async def test_a_context_that_is_not_json_is_a_wrong_argument(cli: Invoke) -> None:
    done = await cli("run", "Helper", "Hi", "--context", "{customer: Mara}")

    assert done.exit_code == 2
    assert "--context is not JSON: line 1, column 2: " in done.stderr


async def test_a_conversation_goes_on(
    cli: Invoke, open_desk: Open, client: Client, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("One.", LOOK_UP, "Two.", "Three.", REFUND))
    await cli("run", "Helper", "First", "--id", run_id, "--task-queue", queue, "--keep-open")

    second = await cli("send", run_id, "Second")
    third = await cli("send", run_id, "Third", "--json")
    detached = await cli("send", run_id, "Fourth", "--detach", "--json")

    assert (second.exit_code, second.stdout) == (0, "Two.\n")
    assert "First" not in second.stderr
    assert json.loads(third.stdout.splitlines()[-1])["final_output"] == "Three."
    message_id = json.loads(detached.stdout)["message_id"]
    state = await RunHandle(client, run_id).state()
    assert any(
        message_id in ids
        for ids in (loop_state(state).question.answering, [m.id for m in state.unread])
    )
    await RunHandle(client, run_id).cancel()


async def test_a_message_whose_answer_needs_a_person_waits_for_them(
    cli: Invoke, open_desk: Open, client: Client, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("One.", REFUND))
    await cli("run", "Helper", "First", "--id", run_id, "--task-queue", queue, "--keep-open")

    done = await cli("send", run_id, "Refund A-42")

    assert done.exit_code == 3
    assert f"outlast approve {run_id} a1" in done.stderr
    await RunHandle(client, run_id).cancel()


OTHERS = ApprovalPolicy(audience=Audience(exclude_requester=True), unverified="allow")


@function_tool(needs_approval=OTHERS)
def pay_out(order_id: str) -> str:
    """Pay the price of an order out."""
    return f"{order_id} is paid out"


@pytest.mark.parametrize("command", ["run", "send"])
async def test_who_asks_on_the_command_line_does_not_decide_about_it(
    cli: Invoke, open_desk: Open, client: Client, run_id: str, command: str
) -> None:
    script = [[call("pay_out", "c1", order_id="A-42")], "Paid."]
    if command == "send":
        script.insert(0, "Hello.")
    model = ScriptedModel(*script)
    queue = await open_desk(model, Agent[Any](name="Helper", tools=[pay_out]))
    asked = (command, run_id, "Pay")
    if command == "run":
        asked = ("run", "Helper", "Pay", "--id", run_id, "--task-queue", queue)
    else:
        start = Runner.start(
            "Helper", "Hi", id=run_id, keep_open=True, client=client, task_queue=queue
        )
        await (await start).wait_for_answer("start")

    assert (await cli(*asked)).exit_code == 3
    own = await cli("approve", run_id, "a1")

    assert own.exit_code == 5
    assert f"{os_user().subject} asked for this, so somebody else has to decide" in own.stderr
    await RunHandle(client, run_id).approve("a1", by="ann")
    await RunHandle(client, run_id).cancel("after_turn")


async def test_a_run_is_for_the_customer_whom_the_command_names(
    cli: Invoke, client: Client, run_id: str
) -> None:
    asked = ("run", "Helper", "Hi", "--id", run_id, "--task-queue", "nobody-is-here", "--detach")
    assert (await cli(*asked, "--by", "ann", "--customer", "c-1")).exit_code == 0
    assert (await cli(*asked, "--by", "bob", "--customer", "c-1")).exit_code == 0, "the same run"
    other = await cli(*asked, "--by", "ann", "--customer", "c-2")
    assert other.exit_code == 2
    assert "another tenant or customer" in other.stderr
    await client.get_workflow_handle(run_id).terminate()


async def test_a_message_to_a_run_that_has_ended_or_never_was_is_refused(
    cli: Invoke, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("One."))
    await cli("run", "Helper", "First", "--id", run_id, "--task-queue", queue)

    ended = await cli("send", run_id, "Second")
    never = await cli("send", "never-was", "Second")

    assert (ended.exit_code, never.exit_code) == (4, 4)
    assert f"The run {run_id} has ended" in ended.stderr
    assert "There is no run 'never-was'" in never.stderr


async def test_a_cancelled_run_has_its_own_exit_code(
    cli: Invoke, open_desk: Open, client: Client, run_id: str
) -> None:
    entered = asyncio.Event()

    async def hang(_request: object) -> list[dict[str, object]]:
        entered.set()
        await asyncio.Event().wait()
        return []

    queue = await open_desk(ScriptedModel(hang))
    waiting = asyncio.ensure_future(
        cli("run", "Helper", "Hi", "--id", run_id, "--task-queue", queue)
    )
    await entered.wait()
    await RunHandle(client, run_id).cancel()

    done = await waiting

    assert done.exit_code == 7
    assert f"error: The run {run_id} was cancelled." in done.stderr


@pytest.mark.parametrize("command", [("run", "Helper", "Hi"), ("send", "r", "Hi")])
async def test_without_a_server_the_error_says_how_to_start_one(
    cli: Invoke, nowhere: object, command: tuple[str, ...]
) -> None:
    done = await cli(*command)

    assert done.exit_code == 6
    assert "outlast dev" in done.stderr


NO_KEY = ModelError("There is no key.", code="no_api_key", retryable=False)


@pytest.mark.smoke
async def test_a_failed_question_of_a_conversation_says_what_to_do_and_can_be_retried(
    cli: Invoke, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(NO_KEY, "Hello."))
    arguments = ("run", "Helper", "Hi", "--id", run_id, "--keep-open", "--task-queue", queue)
    for _ in range(2):  # the same command joins the run, and says the same
        failed = await cli(*arguments)

        assert failed.exit_code == 1
        *_, error, hint = failed.stderr.splitlines()
        assert error == "error: There is no key."
        assert f"`outlast retry {run_id}` asks the question again" in hint
        assert f"`outlast send {run_id} ...` asks another one." in hint

    done = await cli("retry", run_id)

    assert (done.exit_code, done.stdout) == (0, "Hello.\n")
    assert "There is no key" not in done.stderr
    again = await cli("retry", run_id)
    assert again.exit_code == 2
    assert "nothing to retry" in again.stderr


async def test_a_failed_run_that_has_closed_can_be_retried(
    cli: Invoke, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(LOOK_UP, NO_KEY, NO_KEY, "On its way."))
    arguments = ("run", "Helper", "Where is A-17?", "--id", run_id, "--task-queue", queue)
    failed = await cli(*arguments)
    assert failed.exit_code == 1
    assert f"`outlast retry {run_id}` asks the question again, from the step" in failed.stderr

    still = await cli("retry", run_id)
    assert (still.exit_code, still.stdout) == (1, "")
    assert "error: There is no key." in still.stderr

    done = await cli("retry", run_id)
    assert (done.exit_code, done.stdout) == (0, "On its way.\n")


async def test_a_retry_need_not_be_waited_for(cli: Invoke, open_desk: Open, run_id: str) -> None:
    queue = await open_desk(ScriptedModel(NO_KEY, "Hello.", NO_KEY, "Hello."))
    arguments = ("--id", run_id, "--keep-open", "--task-queue", queue)
    await cli("run", "Helper", "Hi", *arguments)

    done = await cli("retry", run_id, "--detach", "--json")

    record = json.loads(done.stdout)
    assert record["run_id"] == run_id
    assert record["message_id"]
    assert (await cli("retry", "no-such-run")).exit_code == 4


async def test_a_run_without_turns_left_says_that_another_id_is_needed(
    cli: Invoke, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(LOOK_UP))
    arguments = ("--id", run_id, "--max-turns", "1", "--task-queue", queue)

    done = await cli("run", "Helper", "Hi", *arguments)

    assert done.stderr.splitlines()[-1] == "Another --id starts a new run."
