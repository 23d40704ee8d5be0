import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.tools.function_tool import function_tool
from outlast.blobs import FileBlobStore, use_blob_store
from outlast.cli.report import Report, show_report
from outlast.client.handle import RunHandle
from outlast.client.identity import os_user
from outlast.client.moments import run_events
from outlast.client.start.runner import Runner
from outlast.edges.clock import now_ms
from outlast.edges.rendering import DIGEST_SHOWN
from outlast.loop.approvals import ApprovalRequest, Decision, Remembered
from outlast.loop.effects import RunTool
from outlast.loop.items import Item, Message
from outlast.loop.start import Budget, Start
from outlast.loop.state import Hold, Ignored, LoopState
from outlast.loop.values import Failure, JsonObject
from outlast.ports.model import ModelError
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import snapshot_of
from outlast.worker import AgentWorker
from tests.unit.cli.conftest import Invoke, Open


@pytest.mark.smoke
async def test_a_run_is_shown_for_people_and_for_programs(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("It is here."))
    await Runner.run("Helper", "Where?", id=run_id, client=client, task_queue=queue)

    shown = await cli("show", run_id)
    record = json.loads((await cli("show", run_id, "--json")).stdout)

    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == run_id
    lines = [line[9:] for line in shown.stdout.splitlines()]
    assert lines[-3:-1] == ["0    user       Where?", "1    Helper     It is here."], (
        "with their numbers"
    )
    assert (record["status"], record["final_output"]) == ("completed", "It is here.")
    assert [entry["text"] for entry in record["transcript"]] == ["Where?", "It is here."]


async def test_a_run_that_is_not_there_is_not_found(cli: Invoke, client: Client) -> None:
    assert (await cli("show", "never-was")).exit_code == 4


async def test_showing_needs_no_worker(cli: Invoke, client: Client, run_id: str) -> None:
    await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue="nobody-is-here")

    done = await cli("show", run_id)

    assert done.exit_code == 0
    assert "status     running" in done.stdout
    assert "no worker  No worker polls the task queue 'nobody-is-here', so" in done.stdout
    assert json.loads((await cli("show", run_id, "--json")).stdout)["has_worker"] is False
    await client.get_workflow_handle(run_id).terminate()
    assert "status     terminated" in (await cli("show", run_id)).stdout
    assert RunHandle(client, run_id).id == run_id


async def test_a_run_whose_model_fails_shows_the_reason(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    busy = ModelError("The service is busy.", code="model_call_failed", retryable=True)
    queue = await open_desk(ScriptedModel(always=busy))
    handle = await Runner.start("Helper", "Hi", id=run_id, client=client, task_queue=queue)

    async def failed_attempt() -> str | None:
        shown = (await cli("show", run_id)).stdout
        return next((line for line in shown.splitlines() if "failing" in line), None)

    async with asyncio.timeout(20):
        while (line := await failed_attempt()) is None:
            pass
    record = json.loads((await cli("show", run_id, "--json")).stdout)
    await handle.cancel()

    assert line.startswith("  failing    Attempt ")
    assert " of the model call of Helper failed: " in line
    assert "The service is busy." in line
    assert record["has_worker"] is True
    assert record["retries"][0]["activity"] == "call_model"


async def test_a_run_that_was_terminated_asks_nobody(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-42")]))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    assert f"outlast approve {run_id}" in (await cli("show", run_id)).stdout
    await client.get_workflow_handle(run_id).terminate()

    shown = (await cli("show", run_id)).stdout
    told = (await cli("tail", run_id)).stdout

    assert "status     terminated" in shown
    assert "approve" not in shown
    assert told.splitlines()[-1].split()[1:] == ["outlast", "terminated"]


STATE = LoopState(
    run_id="support-42",
    agent="Billing",
    phase="acting",
    handoff_path=("Triage", "Billing"),
    context={"customer": "Mara"},
    items=(
        Item("input", {"role": "user", "content": "Refund A-42"}),
        Item("tool_call", call("refund", "c1", order_id="A-42"), "Billing", 1),
        Item("tool_output", {"call_id": "c1", "output": '{"ok":true}'}, "Billing", 1),
        Item("message", say("Line one.\nLine two.")[0], "Billing", 2),
    ),
    pending=(
        RunTool(
            effect=7,
            agent="Billing",
            name="look_up",
            call_id="c2",
            arguments="{}",
            turn=2,
            run_id="r",
        ),
    ),
    inbox=(Message("m-1", ()),),
    ignored=(Ignored(1, "signal x", "No such signal."),),
    failure=Failure(code="model_refusal", message="I will not."),
    approvals=(
        ApprovalRequest(
            id="a1",
            call_id="c3",
            name="refund",
            agent="Billing",
            arguments="{}",
            args_digest="d",
            requested_at_ms=1,
        ),
    ),
)


AT_MS = 1_800_000_000_000
SHOWN = {"message_input", "tool_called", "tool_output", "message_output_created"}


def report(ui: str | None = "http://ui/support-42") -> Report:
    return Report(
        run_id="support-42",
        state=snapshot_of(STATE),
        status="running",
        task_queue="q",
        events=40,
        ui=ui,
        entries=tuple(one for one in run_events(AT_MS, LoopState(), STATE) if one.type in SHOWN),
        requests=STATE.approvals,
    )


def test_everything_a_person_needs_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(report(), last=50)

    shown = capsys.readouterr().out
    for line in (
        "  status     running",
        "  agents     Triage → Billing",
        "  used       0 model calls, 0 tokens, 40 events in the history",
        '  context    {"customer": "Mara"}',
        "  failure    I will not. (model_refusal)",
        "  doing      look_up()",
        "  unread     message m-1",
        "  ignored    signal x: No such signal.",
        "  UI         http://ui/support-42",
        'Billing    → refund(order_id="A-42")',
        'Billing    ← {"ok": true}',
        f"  outlast approve support-42 a1 --digest {STATE.approvals[0].digest[:DIGEST_SHOWN]}",
    ):
        assert f"{line}\n" in shown


def test_people_see_budgets_what_is_remembered_and_who_has_the_conversation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    decision = Decision(request_id="a1", type="approve", by="ann", remember=True)
    state = replace(
        STATE,
        start=Start(
            started_at_ms=now_ms() - 5_000,
            budgets=(
                Budget(of="tokens", limit=50_000),
                Budget(of="cost_micros", limit=2_000_000, per="question", agent="Billing"),
                Budget(of="seconds", limit=60),
            ),
        ),
        extended=((0, 10_000),),
        hold=Hold(by="ann", at_ms=AT_MS),
        remembered=(
            Remembered(agent="Billing", name="refund", decision=decision),
            Remembered(agent="Billing", name="pay", decision=decision, args_digest="d", question=0),
        ),
    )

    show_report(replace(report(), state=snapshot_of(state), status="held"), last=0)

    shown, same = capsys.readouterr().out, "with the same arguments"
    for line in (
        "  status     held: a person has the conversation",
        "  held by    ann, since 2027-01-15T08:00:00.000+00:00",
        "  budget     0 used of 60,000 tokens per run, 10,000 of them added by people",
        "  budget     $0.00 used of $2.00 per question of Billing",
        "  budget     5 used of 60 seconds per run",
        "  remembers  approve further calls of refund by Billing, by ann",
        f"  remembers  approve further calls of pay by Billing {same}, for this question, by ann",
    ):
        assert f"{line}\n" in shown
    show_report(replace(report(), state=snapshot_of(replace(state, outcome="completed"))), last=0)
    ended = capsys.readouterr().out
    assert "seconds" not in ended
    assert "held by" not in ended


def test_only_the_newest_entries_are_shown_where_fewer_are_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_report(report(), last=1)
    shown = capsys.readouterr().out

    assert "(3 earlier entries; see --last)" in shown
    assert "Refund A-42" not in shown
    assert "Line two." in shown


def test_no_entries_are_no_entries(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(report(ui=None), last=0)
    shown = capsys.readouterr().out

    assert "(4 earlier entries; see --last)" in shown
    assert "Line two." not in shown
    assert "UI" not in shown
    assert report().record(0)["transcript"] == []


def test_the_record_holds_the_same_for_programs() -> None:
    record = report().record(2)

    assert record["run_id"] == "support-42"
    assert record["status"] == "running"
    assert record["history_events"] == 40
    assert record["running"] == [{"effect": 7, "what": "look_up()"}]
    assert [approval["id"] for approval in record["approvals"]] == ["a1"]
    assert len(record["transcript"]) == 2


def payer() -> Agent[Any]:
    """Return an agent whose payments need two people."""

    @function_tool(needs_approval=ApprovalPolicy(quorum=2, unverified="allow"))
    def pay(amount: int) -> str:
        """Pay money."""
        return f"{amount} EUR"

    return Agent[Any](name="Payer", instructions="Pay.", tools=[pay])


async def test_what_people_have_changed_is_shown_as_it_is_now(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel([call("pay", "c1", amount=500)]), payer())
    handle = await Runner.start("Payer", "Pay", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    await handle.edit("a1", {"amount": 99_999}, by=os_user())

    shown = (await cli("show", run_id)).stdout
    record = json.loads((await cli("show", run_id, "--json")).stdout)

    assert '"amount": 99999' in shown
    assert '"amount": 500' not in shown.partition("waits for a person")[2]
    assert "  votes      1 of 2, each by another person\n" in shown
    (approval,) = record["approvals"]
    assert (approval["arguments"], len(approval["votes"])) == ('{"amount": 99999}', 1)


IBAN = "DE02120300000000202051"


async def test_a_redacted_value_is_on_no_screen(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    @function_tool(needs_approval=ApprovalPolicy(redact=["iban", "names"]))
    def pay(iban: str, amount: int, names: list[str]) -> str:
        """Pay money."""
        return f"{amount} EUR to {iban}"

    agent = Agent[Any](name="Payer", instructions="Pay.", tools=[pay])
    made = call("pay", "c1", iban=IBAN, amount=5, names=["Mara Vogel"])
    queue = await open_desk(ScriptedModel([*say(f"To {IBAN}."), made], f"{IBAN} has it."), agent)
    question, context = f"Pay 5 EUR to {IBAN}", {"customer": {"iban": IBAN}}
    handle = await Runner.start(
        "Payer", question, id=run_id, client=client, task_queue=queue, context=context
    )
    await handle.wait(lambda state: state.status == "waiting")

    screens = [(await cli("inbox", "show", run_id, *form)).stdout for form in ((), ("--json",))]
    screens += await read_screens(cli, client, run_id)
    await handle.approve("a1", by=os_user())
    await handle.result()
    screens += await read_screens(cli, client, run_id)
    screens += [(await cli("tail", run_id, *form)).stdout for form in ((), ("--json",))]

    for hidden in (IBAN, "Mara Vogel"):
        assert [screen for screen in screens if hidden in screen] == []
    assert sum("[redacted]" in screen for screen in screens) >= 13


async def read_screens(cli: Invoke, client: Client, run_id: str) -> list[str]:
    """Return a run as the command line and the Temporal UI show it."""
    workflow = client.get_workflow_handle(run_id)
    queries = ("transcript", "state", "approvals", "__temporal_workflow_metadata")
    return [
        *[(await cli("show", run_id, *form)).stdout for form in ((), ("--json",))],
        *[str(await workflow.query(name)) for name in queries],
        await read_summaries(client, run_id),
    ]


async def read_summaries(client: Client, run_id: str) -> str:
    """Return the lines of a run in the timeline of the Temporal UI."""
    history = await client.get_workflow_handle(run_id).fetch_history()
    after = history.events[1:]  # the first has the question, which nobody has redacted yet
    summaries = [event.user_metadata.summary.data.decode() for event in after]
    return "\n".join(summaries)


async def test_people_and_programs_see_the_same_number_of_model_calls(
    cli: Invoke, open_desk: Open, run_id: str
) -> None:
    failure = ModelError("There is no key.", code="no_api_key", retryable=False)
    queue = await open_desk(ScriptedModel([call("look_up", "c1", order_id="A")], failure))
    await cli("run", "Helper", "Hi", "--id", run_id, "--keep-open", "--task-queue", queue)

    people = (await cli("show", run_id)).stdout
    record = json.loads((await cli("show", run_id, "--json")).stdout)

    assert record["usage"]["requests"] == 1
    assert "  used       1 model call, " in people
    assert f"  next       `outlast retry {run_id}` asks the question again" in people


async def test_content_that_the_store_has_lost_is_named(
    cli: Invoke, client: Client, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_BLOB_STORE", f"file://{tmp_path}")
    other = await Client.connect(client.service_client.config.target_host)
    use_blob_store(other, FileBlobStore(tmp_path))
    said: list[JsonObject] = [{"role": "user", "content": "x" * 100_000}]
    model = ScriptedModel("It is here.")
    async with AgentWorker(
        other, agents=[Agent[Any](name="Helper")], task_queue=run_id, model_provider=model
    ):
        await Runner.run("Helper", said, id=run_id, client=other, task_queue=run_id)
    assert "lost " not in (await cli("show", run_id)).stdout
    await asyncio.to_thread(shutil.rmtree, tmp_path)
    shown = await cli("show", run_id)
    assert shown.exit_code == 0
    assert "lost       item 1 (input): sha256:" in shown.stdout
    (lost,) = json.loads((await cli("show", run_id, "--json")).stdout)["lost_content"]
    assert lost.startswith("item 1 (input): sha256:")
