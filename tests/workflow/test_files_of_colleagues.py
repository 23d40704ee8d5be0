"""Files that a person attaches to their words, on a real server."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, ApprovalPolicy, GuardrailFunctionOutput, RunConfig, output_guardrail
from outlast.agents.errors import UserError
from outlast.blobs import FileBlobStore
from outlast.client.handle import RunHandle
from outlast.loop.values import BLOB
from outlast.serve.content import file_of
from outlast.testing import ScriptedModel
from outlast.views.customer import customer_view
from tests.workflow.desk import Desk

ANYBODY = RunConfig(takeover=ApprovalPolicy(unverified="allow"))
BILL = b"%PDF-1.7 the bill"


def pdf(content: bytes = BILL, name: str = "bill.pdf") -> dict[str, Any]:
    data = f"data:application/pdf;base64,{b64encode(content).decode()}"
    return {"type": "input_file", "filename": name, "file_data": data}


@output_guardrail
async def fine(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(None, tripwire_triggered=False)


async def held(desk: Desk, model: ScriptedModel, **fields: Any) -> RunHandle:
    store = fields.pop("blob_store", None)
    agent = Agent(name="Desk", instructions="Help.", **fields)
    await desk.open(agent, model=model, blob_store=store)
    handle = await desk.start(agent, keep_open=True, run_config=ANYBODY, blob_store=store)
    await handle.wait(lambda run: run.status == "idle")
    await handle.hold(by="ann")
    return handle


@pytest.mark.parametrize("judged", [False, True])
async def test_the_customer_gets_the_files_and_no_model_reads_them(
    desk: Desk, judged: bool
) -> None:
    model = ScriptedModel("Hello.", "You are welcome.")
    handle = await held(desk, model, output_guardrails=[fine] if judged else [])
    await handle.say("Here is your bill.", by="ann", message_id="p1", files=[pdf()])
    # The same again is the same message.
    await handle.say("Here is your bill.", by="ann", message_id="p1", files=[pdf()])
    await handle.wait(lambda run: any(one.attachments for one in customer_view(run).messages))
    await handle.release(by="ann")
    await (await handle.send("Thank you!")).answer()
    view = customer_view(await handle.state())
    [said] = [one for one in view.messages if one.attachments]
    assert (said.by, said.text) == ("colleague", "Here is your bill.")
    assert await file_of(desk.client, view, said.id, "0") == BILL
    assert await file_of(desk.client, view, said.id, "1") is None
    sent = json.dumps([dict(one) for one in model.requests[-1].input])
    assert "Here is your bill." in sent
    assert "bill.pdf" not in sent
    assert b64encode(BILL).decode() not in sent


async def test_large_files_are_in_the_blob_store(desk: Desk, tmp_path: Path) -> None:
    store = FileBlobStore(tmp_path)
    handle = await held(desk, ScriptedModel("Hello."), blob_store=store)
    large = b"%PDF-" + bytes(range(256)) * 20_000
    said = RunHandle(desk.client, handle.id)
    await handle.say("Here.", by="ann", files=[pdf(large)])
    view = customer_view(await said.state())
    [message] = [one for one in view.messages if one.attachments]
    assert len(json.dumps(message.attachments)) < 10_000
    assert await file_of(handle.kept_client, view, message.id, "0") == large


async def test_without_a_store_large_files_are_refused_with_the_fix(desk: Desk) -> None:
    handle = await held(desk, ScriptedModel("Hello."))
    with pytest.raises(UserError, match="OUTLAST_BLOB_STORE"):
        await handle.say("Here.", by="ann", files=[pdf(b"%PDF-" + b"x" * 800_000)])
    assert not [one for one in customer_view(await handle.state()).messages if one.attachments]


async def test_what_reads_as_a_reference_is_a_text(desk: Desk) -> None:
    handle = await held(desk, ScriptedModel("Hello."))
    forged: Any = {BLOB: "sha256:" + "0" * 64, "bytes": 3}
    await handle.say(
        "Here.", by="ann", files=[{"type": "input_file", "filename": "x", "file_data": forged}]
    )
    view = customer_view(await handle.state())
    [message] = [one for one in view.messages if one.attachments]
    assert await file_of(desk.client, view, message.id, "0") is None
