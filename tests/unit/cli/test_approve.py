import getpass
import json

import pytest
from temporalio.client import Client

from outlast.cli import approve as module
from outlast.client.handle import RunHandle
from outlast.client.runner import Runner
from outlast.testing import ScriptedModel, call
from tests.unit.cli.conftest import Invoke, Open

REFUND = [call("refund", "c1", order_id="A-42")]


async def waiting_run(client: Client, queue: str, run_id: str) -> RunHandle:
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    return handle


async def test_the_only_request_needs_no_name(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel(REFUND, "Refunded."))
    handle = await waiting_run(client, queue, run_id)

    done = await cli("approve", run_id, "--by", "ann")

    assert done.exit_code == 0
    assert done.stdout.startswith(f"approved a1 of {run_id}, by ann.")
    assert 'arguments  │ {"order_id": "A-42"}' in done.stderr
    state = (await handle.result(), await handle.state())[1]
    (request,) = state.approvals
    assert request.status == "approved"
    assert request.decision is not None
    assert request.decision.by == "ann"
    assert request.decision.args_digest == request.args_digest


@pytest.mark.smoke
async def test_a_rejection_tells_the_model_why(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    model = ScriptedModel(REFUND, "We repair it.")
    handle = await waiting_run(client, await open_desk(model), run_id)

    done = await cli("reject", run_id, "a1", "--message", "Offer a repair.", "--json")

    assert json.loads(done.stdout) == {
        "run_id": run_id,
        "approval": "a1",
        "status": "rejected",
        "by": getpass.getuser(),
        "tool": "refund",
        "arguments": '{"order_id": "A-42"}',
    }
    await handle.result()
    assert model.requests[-1].input[-1]["output"] == "Offer a repair."


async def test_of_several_requests_one_has_to_be_named(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    two = [*REFUND, call("refund", "c2", order_id="A-17")]
    handle = await waiting_run(client, await open_desk(ScriptedModel(two, "Done.")), run_id)

    unnamed = await cli("approve", run_id)
    unknown = await cli("approve", run_id, "a9")
    named = await cli("approve", run_id, "a2")

    assert unnamed.exit_code == 2
    assert (
        f"waits for 2 approvals: a1, a2. Say which: `outlast approve {run_id} a1`" in unnamed.stderr
    )
    assert unknown.exit_code == 5
    assert "has no approval 'a9'. Waiting: a1, a2." in unknown.stderr
    assert named.exit_code == 0
    assert [request.id for request in await handle.approvals()] == ["a1"]
    await handle.cancel()


@pytest.mark.smoke
async def test_a_decision_that_comes_too_late_is_refused(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    two = [*REFUND, call("refund", "c2", order_id="A-17")]
    handle = await waiting_run(client, await open_desk(ScriptedModel(two)), run_id)
    await handle.approve("a1", by="ann")

    late = await cli("reject", run_id, "a1", "--by", "bob")

    assert late.exit_code == 5
    assert "Approval a1 is already approved by ann." in late.stderr
    await handle.cancel()


async def test_a_run_that_waits_for_nothing_says_so(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("Hi."))
    await Runner.run("Helper", "Hi", id=run_id, client=client, task_queue=queue)

    nothing = await cli("approve", run_id)
    nobody = await cli("approve", "never-was")

    assert nothing.exit_code == 5
    assert "waits for no approval; it is completed" in nothing.stderr
    assert nobody.exit_code == 4


async def test_a_conversation_is_completed_after_its_turn(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    queue = await open_desk(ScriptedModel("Hi."))
    handle = await Runner.start(
        "Helper", "Hi", id=run_id, client=client, task_queue=queue, keep_open=True
    )
    await handle.wait(lambda state: state.phase == "idle")

    done = await cli("cancel", run_id, "--after-turn")

    assert done.stdout == f"Asked {run_id} to stop after its turn.\n"
    assert (await handle.result()).status == "completed"
    assert (await cli("cancel", run_id)).exit_code == 4


async def test_a_run_is_cancelled_at_once(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle = await waiting_run(client, await open_desk(ScriptedModel(REFUND)), run_id)

    done = await cli("cancel", run_id, "--json")

    assert json.loads(done.stdout) == {"run_id": run_id, "cancel": "immediate"}
    result = await handle.wait(lambda state: state.phase == "closed")
    assert result.status == "cancelled"


async def test_a_machine_without_user_names_decides_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(module.getpass, "getuser", nobody)

    assert module._user() is None
