"""The human action that CONTRIBUTING.md adds: a person advises the agent, as update and as signal."""

import asyncio
import sys

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError

from outlast import Agent, ApprovalPolicy, Audience, RunConfig, Runner
from outlast.client.audit import audit_run
from outlast.testing import ScriptedModel
from outlast.worker import AgentWorker

QUEUE = "new-action"
agent = Agent(name="Clerk")


def read_by(model: ScriptedModel) -> list[str]:
    """The advice in the model's newest request."""
    return [one["content"] for one in model.requests[-1].input if one.get("role") == "developer"]


async def main() -> None:
    client = await Client.connect(sys.argv[1])
    model = ScriptedModel(always="I see.")
    leads = ApprovalPolicy(audience=Audience(groups=["leads"]), unverified="allow")
    async with AgentWorker(client, agents=[agent], task_queue=QUEUE, model_provider=model):
        handle = await Runner.start(
            agent,
            "Hello",
            client=client,
            task_queue=QUEUE,
            keep_open=True,
            run_config=RunConfig(takeover=leads),
        )
        await handle.wait(lambda run: run.status == "idle")
        workflow = client.get_workflow_handle(handle.id)

        advice = {"by": "ann", "groups": ["leads"], "text": "Offer a refund."}
        receipt = await workflow.execute_update("advise", advice)
        assert (receipt["status"], receipt["agent"]) == ("idle", "Clerk"), receipt
        await workflow.signal("advise", {**advice, "text": "Be brief."})
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await workflow.execute_update("advise", {"by": "zoe", "text": "Shout."})
        assert "Taking over the conversation" in str(refused.value.cause)
        await workflow.signal("advise", {"by": "zoe", "text": "Shout."})

        sent = await handle.send("My order is late.")
        await sent.answer()
        assert read_by(model) == ["Offer a refund.", "Be brief."], model.requests[-1].input
        (ignored,) = (await audit_run(client, handle.id)).records
        assert (ignored.by, ignored.note[:13]) == ("zoe", "advice by zoe"), ignored
        await handle.cancel()


asyncio.run(main())
