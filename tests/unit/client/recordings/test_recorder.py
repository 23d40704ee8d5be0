"""What a recording holds, and what it hides."""

import json
from dataclasses import replace
from typing import Any

from outlast import Agent, ApprovalPolicy, function_tool
from outlast.client.recordings import Recording, json_schema
from outlast.client.recordings.recorder import Recorder, redacted
from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.redacted import Redacted
from outlast.testing import ScriptedModel, call
from outlast.testing.run import execute, started

CARD = "4111-1111-1111-1111"


@function_tool(needs_approval=ApprovalPolicy(redact=["card", "pin"]))
def pay(card: str, pin: int, euros: int) -> str:
    """Pay."""
    return f"paid {euros} with {card}"


async def paid(*, edit: bool = False) -> tuple[Recording, Recording]:
    """Return a recording with secrets, as it is and redacted."""
    recorder = Recorder()
    model = ScriptedModel(
        [call("pay", "c1", card=CARD, pin=12, euros=5)], f"Paid with {CARD}, a card."
    )
    agent = Agent(name="Desk", tools=[pay])
    said: Any = {"name": "Ann", "card": CARD}
    run = started(agent, f"My card is {CARD}", model=model, on_event=recorder.take, context=said)

    def decide(request: ApprovalRequest) -> Decision | bool:
        wanted = {"card": "[redacted]", "pin": "[redacted]", "euros": 7}
        edited = Decision(request_id=request.id, type="edit", edited_arguments=wanted, by="ann")
        return edited if edit else True

    await execute(run, decide)
    recording = recorder.recording("e1")
    return recording, redacted(recording)


async def test_a_recording_says_what_happened_in_order():
    recording, _ = await paid()
    assert [one.kind for one in recording.entries] == [
        "message",
        "prepared",
        "model",
        "request",
        "action",
        "tool",
        "model",
        "answer",
        "end",
    ]
    assert (recording.status, recording.complete, recording.execution_id) == (
        "completed",
        True,
        "e1",
    )
    assert recording.agents == ("Desk",)
    assert CARD in recording.to_json()


async def test_redacted_values_are_nowhere_in_the_document():
    for edit in (False, True):
        whole, hidden = await paid(edit=edit)
        assert hidden.redacted
        text = hidden.to_json()
        assert CARD in whole.to_json()
        assert CARD not in text
        assert '"pin": 12' not in text.replace("\\", "")
        tool = next(one for one in hidden.entries if one.kind == "tool")
        assert json.loads(tool.arguments)["pin"] == "[redacted]"
        assert json.loads(tool.arguments)["euros"] == (7 if edit else 5)
        assert hidden.entries[-2].value == "Paid with [redacted], a card."


async def test_a_recording_of_a_nested_run_hides_what_its_parent_hides():
    recorder = Recorder()
    model = ScriptedModel(f"Your card is {CARD}.")
    run = started(Agent(name="Inner"), "Which?", model=model, on_event=recorder.take)
    await execute(run, lambda _: True)
    recorder.state = replace(recorder.state, redacted=(Redacted(text=CARD),))
    whole = recorder.recording()
    assert CARD in whole.to_json()
    hidden = redacted(whole).to_json()
    assert CARD not in hidden
    assert "Your card is [redacted]." in hidden


async def test_the_schema_describes_the_document():
    schema: Any = json_schema()
    recording, _ = await paid()
    document = recording.record()
    assert set(schema["required"]) <= document.keys() <= set(schema["properties"])
    assert schema["properties"]["version"] == {"const": 1}


async def test_nothing_private_of_a_decision_is_recorded():
    recording, _ = await paid()
    action = next(one for one in recording.entries if one.kind == "action")
    assert action.result is not None
    assert not {"proof", "seen", "args_digest"} & action.result.keys()
    assert (action.name, action.target, action.by) == ("decide", "pay", "test")
