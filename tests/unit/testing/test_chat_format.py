"""Examples for fine-tuning: what today's agents would read, and what the model replied then."""

import json
from typing import Any

from outlast import Agent, ApprovalPolicy, ModelSettings, WebSearchTool, function_tool
from outlast.client.recordings import Recording
from outlast.client.recordings.recorder import redacted
from outlast.testing import ScriptedModel, call, chat_examples, record_in_memory

CARD = "4111-1111-1111-1111"


@function_tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: 40 EUR"


@function_tool(needs_approval=ApprovalPolicy(redact=["card", "pin"]))
def pay(card: str, pin: int) -> str:
    """Pay."""
    return f"paid with {card}"


@function_tool(name_override="pay", needs_approval=ApprovalPolicy(redact=["card", "pin"]))
def pay_by_text(card: str, pin: str) -> str:
    """Pay."""
    return f"paid with {card}"


def desk(instructions: str = "Route.") -> Agent[Any]:
    billing = Agent(name="Billing", instructions="Bill.", tools=[pay])
    return Agent(
        name="Triage",
        instructions=instructions,
        tools=[look_up],
        handoffs=[billing],
        model_settings=ModelSettings(parallel_tool_calls=False),
    )


async def recorded(agent: Agent[Any] | None = None) -> Recording:
    model = ScriptedModel(
        [call("look_up", "c1", order_id="A-1")],
        [call("transfer_to_billing", "c2")],
        [call("pay", "c3", card=CARD, pin=12)],
        f"Paid with {CARD}.",
    )
    said = f"Pay A-1 with {CARD}"
    return await record_in_memory(agent or desk(), said, model=model, decide=lambda _: True)


async def test_each_agent_has_an_example_with_its_instructions_and_tools():
    made = await chat_examples(await recorded(), desk("Route well."), redact=False)
    assert made.skipped == ()
    first, second = made.examples
    assert first["parallel_tool_calls"] is False
    assert [one["function"]["name"] for one in first["tools"]] == ["look_up", "transfer_to_billing"]
    assert [one["function"]["name"] for one in second["tools"]] == ["pay"]
    assert first["messages"][0] == {"role": "system", "content": "Route well."}
    assert second["messages"][0] == {"role": "system", "content": "Bill."}
    assert [one["role"] for one in first["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert first["messages"][3] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "A-1: 40 EUR",
    }
    assert second["messages"][-1] == {"role": "assistant", "content": f"Paid with {CARD}."}
    json.dumps(made.examples)


async def test_each_reply_is_trained_once():
    made = await chat_examples(await recorded(), desk(), redact=False)
    first, second = (
        [
            (one.get("weight", 1), bool(one.get("tool_calls")))
            for one in example["messages"]
            if one["role"] == "assistant"
        ]
        for example in made.examples
    )
    assert first == [(1, True), (1, True)]
    assert second == [(0, True), (0, True), (1, True), (1, False)]


async def test_every_call_has_its_output():
    for example in (await chat_examples(await recorded(), desk())).examples:
        calls = [c["id"] for m in example["messages"][:-1] for c in m.get("tool_calls", ())]
        outputs = [m["tool_call_id"] for m in example["messages"] if m["role"] == "tool"]
        assert outputs == calls


async def test_redacted_values_are_in_no_example():
    made = await chat_examples(await recorded(), desk())
    text = json.dumps(made.examples).replace("\\", "")
    assert CARD not in text
    assert '"pin": 12' not in text
    assert "Paid with [redacted]." in text
    assert CARD in json.dumps(
        (await chat_examples(await recorded(), desk(), redact=False)).examples
    )


def weights(example: dict[str, Any]) -> list[int]:
    return [one.get("weight", 1) for one in example["messages"] if one["role"] == "assistant"]


async def test_what_is_redacted_is_not_learned():
    made = await chat_examples(await recorded(), desk())
    assert [weights(one) for one in made.examples] == [[1, 1], [0, 0, 0, 0]]
    exported = redacted(await recorded())
    texts = Agent(name="Billing", tools=[pay_by_text])
    made = await chat_examples(exported, [Agent(name="Triage", tools=[look_up], handoffs=[texts])])
    assert [weights(one) for one in made.examples] == [[1, 1], [0, 0, 0, 0]], made.skipped


async def test_a_call_that_could_not_run_is_not_learned():
    desk = Agent(name="Desk", tools=[look_up])
    unreadable = {**call("look_up", "c2"), "arguments": '{"order_id": '}
    model = ScriptedModel(
        [call("look_up", "c1", order=1)], [unreadable], [call("gone", "c3")], "I cannot."
    )
    made = await chat_examples(await record_in_memory(desk, "Look", model=model), desk)
    (example,) = made.examples
    assert weights(example) == [0, 0, 0, 1]


async def test_a_run_that_goes_another_way_today_teaches_nothing():
    made = await chat_examples(await recorded(), Agent(name="Triage", tools=[look_up]))
    assert made.examples == ()
    assert "a handoff to Billing" in " ".join(made.skipped)


async def test_what_the_format_cannot_carry_is_named():
    searching = Agent(name="Desk", tools=[WebSearchTool()])
    recording = await record_in_memory(searching, "Hello", model=ScriptedModel("Hi."))
    made = await chat_examples(recording, searching)
    assert made.examples == ()
    assert made.skipped == ("in-memory, question 1, Desk: the provider runs the tools web_search.",)
    part = {"type": "input_file", "file_id": "f1"}
    asked: Any = [{"role": "user", "content": [part]}]
    plain = Agent(name="Desk")
    recording = await record_in_memory(plain, asked, model=ScriptedModel("Hi."))
    made = await chat_examples(recording, plain)
    assert made.skipped == ("in-memory, question 1, Desk: a message holds a part of type 'file'.",)
