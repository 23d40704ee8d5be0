"""The rules of the desk, talked to as the three agents of the example talk to a model."""

import json
import subprocess
import sys
from typing import Any

import openai
import pytest

from outlast.loop.items import message_of_person
from outlast.loop.phrases import EXPIRED, edited, released
from outlast.loop.values import JsonObject
from outlast.testing.demo.desk_model import HELP, NOT_DECIDED, answer, main, report
from outlast.testing.demo.responses_server import InvalidRequest
from outlast.testing.demo.story import CHANGE, PICKUP, QUESTION, REFUND, REPORT

TRIAGE = ["ask_human", "transfer_to_orders", "transfer_to_billing"]
ORDERS = [*("look_up_order", "change_address", "send_courier", "ask_human", "transfer_to_billing")]
BILLING = [
    *("look_up_order", "look_up_invoice", "refund_order", "refund_large_order", "ask_human"),
    "transfer_to_orders",
]


class Desk:
    """A conversation with the desk."""

    def __init__(self) -> None:
        self.items: list[JsonObject] = []

    def say(self, text: str) -> None:
        self.items.append({"role": "user", "content": [{"type": "input_text", "text": text}]})

    def next(self, tools: list[str]) -> JsonObject:
        """Return the next item, which is then in the conversation."""
        (item,) = answer({"input": self.items, "tools": [{"name": name} for name in tools]})
        self.items.append(item)
        return item

    def output(self, output: Any) -> None:
        call_id = self.items[-1]["call_id"]
        text = output if isinstance(output, str) else json.dumps(output)
        self.items.append({"type": "function_call_output", "call_id": call_id, "output": text})


def text_of(item: JsonObject) -> str:
    return item["content"][0]["text"]


@pytest.mark.parametrize(
    ("said", "handoff", "tools", "tool", "arguments"),
    [
        (QUESTION, "transfer_to_orders", ORDERS, "look_up_order", {"order_id": "A-17"}),
        (
            CHANGE,
            "transfer_to_orders",
            ORDERS,
            "change_address",
            {"order_id": "A-18", "new_address": "Neue Gasse 5, 01067 Dresden"},
        ),
        (
            REFUND,
            "transfer_to_billing",
            BILLING,
            "look_up_invoice",
            {"order_id": "A-42"},
        ),
        (PICKUP, "transfer_to_orders", ORDERS, "send_courier", {"order_id": "A-42"}),
        (
            "Can your courier pick up C-3?",
            "transfer_to_orders",
            ORDERS,
            "send_courier",
            {"order_id": "C-3"},
        ),
        (
            "I want my money back, 20 EUR of a-17.",
            "transfer_to_billing",
            BILLING,
            "refund_order",
            {
                "order_id": "A-17",
                "reason": "I want my money back, 20 EUR of a-17.",
                "amount": 20.0,
            },
        ),
        (
            "The invoice of A-17, please",
            "transfer_to_billing",
            BILLING,
            "look_up_invoice",
            {"order_id": "A-17"},
        ),
    ],
)
def test_a_request_goes_to_the_agent_and_the_tool_for_it(
    said: str, handoff: str, tools: list[str], tool: str, arguments: JsonObject
) -> None:
    desk = Desk()
    desk.say(said)

    assert desk.next(TRIAGE)["name"] == handoff
    desk.output('{"assistant": "..."}')
    call = desk.next(tools)

    assert call["name"] == tool
    assert json.loads(call["arguments"]) == arguments


def test_every_agent_reaches_a_person() -> None:
    for tools in (TRIAGE, ORDERS, BILLING):
        desk = Desk()
        desk.say("I want to talk to a human.")
        assert desk.next(tools)["name"] == "ask_human"


def a_refund(amount: float = 389.0) -> Desk:
    """Return a conversation in which the desk has just called refund_order."""
    desk = Desk()
    desk.say(REFUND)
    assert desk.next(BILLING)["name"] == "look_up_invoice"
    desk.output({"invoice_id": "INV-012", "paid_eur": amount + 10, "refunded_eur": 10.0})
    refund = desk.next(BILLING)
    assert (refund["name"], json.loads(refund["arguments"])) == (
        "refund_order",
        {"order_id": "A-42", "amount": amount, "reason": REFUND},
    )
    return desk


def test_the_courier_s_report_is_told() -> None:
    desk = Desk()
    desk.say(PICKUP)
    desk.next(ORDERS)
    desk.output(REPORT)

    assert text_of(desk.next(ORDERS)) == (
        "The courier has collected parcel LE-2207, 9.4 kg, at 10:24."
    )


def test_a_courier_who_has_not_reported_is_told() -> None:
    desk = Desk()
    desk.say(PICKUP)
    desk.next(ORDERS)
    desk.output("Nothing came for 'courier' in time.")

    assert text_of(desk.next(ORDERS)).endswith(
        "it was not done. Nothing came for 'courier' in time."
    )


def test_without_an_invoice_there_is_no_refund() -> None:
    desk = Desk()
    desk.say(REFUND)
    desk.next(BILLING)
    desk.output({"error": "Order A-20 has no invoice yet."})

    assert text_of(desk.next(BILLING)) == "I am sorry. Order A-20 has no invoice yet."


def test_a_refund_that_is_too_large_is_asked_for_with_the_tool_for_it() -> None:
    desk = a_refund(1480.0)
    desk.output({"error": "That is above 1000.00 EUR. Use refund_large_order: two decide."})
    call = desk.next(BILLING)
    assert (call["name"], json.loads(call["arguments"])["amount"]) == ("refund_large_order", 1480.0)
    desk.output(EXPIRED)

    assert text_of(desk.next(BILLING)) == NOT_DECIDED["refund_large_order"]


def test_an_answer_says_that_a_person_has_set_the_amount() -> None:
    desk = a_refund()
    output = json.dumps({"order_id": "A-42", "amount_eur": 350.0, "arrives": "on Monday"})
    desk.output(edited(output, '{"amount": 350}'))

    assert text_of(desk.next(BILLING)) == (
        "I have refunded 350.00 EUR for order A-42, the amount that a colleague has set. "
        "The money arrives on Monday."
    )


@pytest.mark.parametrize("name", ["refund_order", "ask_human"])
def test_what_nobody_decided_is_told_in_words_for_the_customer(name: str) -> None:
    assert report(name, EXPIRED) == NOT_DECIDED[name]
    assert report(name, "Only with a receipt.").endswith("it was not done. Only with a receipt.")


@pytest.mark.parametrize("words", ["Hello, I am Lee.", "Hello, I am Lee. May I help?"])
def test_after_a_takeover_the_desk_tells_what_the_person_has_noted(words: str) -> None:
    desk = Desk()
    desk.say("Can I talk to a human about A-42?")
    desk.next(BILLING)
    desk.output({"ticket_id": "T-1", "answer": "a colleague takes over this conversation"})
    desk.items.append(message_of_person(words))
    desk.say("Thank you!")
    desk.items.append(
        {"role": "developer", "content": released("Lee", "She keeps it.", spoke=True)}
    )
    assert text_of(desk.next(BILLING)) == "Lee has told me: She keeps it."

    desk.say("And the invoice?")
    assert json.loads(desk.next(BILLING)["arguments"]) == {"order_id": "A-42"}


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            {"order_id": "A-17", "status": "delivered", "ordered_on": "2026-02-03"},
            "Order A-17 is delivered. It was ordered on 2026-02-03.",
        ),
        ({"error": "There is no order A-17."}, "I am sorry. There is no order A-17."),
        ("The tool was too slow.", "I am sorry, it was not done. The tool was too slow."),
    ],
)
def test_an_answer_is_in_the_words_of_the_tool(output: Any, said: str) -> None:
    desk = Desk()
    desk.say("Where is A-17?")
    desk.next(ORDERS)
    desk.output(output)

    assert text_of(desk.next(ORDERS)) == said


def test_a_refund_is_reported_with_its_amount() -> None:
    desk = a_refund()
    desk.output({"order_id": "A-42", "amount_eur": 389.0, "arrives": "within five working days"})

    assert text_of(desk.next(BILLING)) == (
        "I have refunded 389.00 EUR for order A-42. The money arrives within five working days."
    )


def test_the_answer_to_a_question_completes_the_request() -> None:
    desk = Desk()
    desk.say("I need a new address for my order.")
    assert text_of(desk.next(ORDERS)).endswith("?")
    desk.say("A-18")
    assert text_of(desk.next(ORDERS)) == "What is the new address?"
    desk.say("Neue Gasse 5, 01067 Dresden.")

    assert json.loads(desk.next(ORDERS)["arguments"]) == {
        "order_id": "A-18",
        "new_address": "Neue Gasse 5, 01067 Dresden",
    }


def test_the_order_of_an_earlier_message_is_remembered() -> None:
    desk = Desk()
    desk.say("Where is A-17?")
    desk.next(ORDERS)
    desk.output({"error": "No."})
    desk.next(ORDERS)
    desk.say("Then send me the invoice.")

    assert json.loads(desk.next(BILLING)["arguments"]) == {"order_id": "A-17"}


def test_it_says_what_it_is_and_what_it_cannot_do() -> None:
    desk = Desk()
    desk.say("Write me a poem.")
    assert text_of(desk.next(TRIAGE)) == HELP
    assert "scripted stand-in" in HELP

    other = Desk()
    other.say("Refund A-42")
    assert "cannot do that here" in text_of(other.next([]))
    assert answer({"input": "Hello"})[0]["type"] == "message"


def test_calls_and_outputs_that_do_not_fit_are_refused() -> None:
    desk = Desk()
    desk.say("Where is A-17?")
    desk.next(ORDERS)
    with pytest.raises(InvalidRequest, match="No tool output found"):
        desk.next(ORDERS)
    with pytest.raises(InvalidRequest, match="No tool call found"):
        answer({"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]})


def test_a_number_that_is_no_port_is_an_error_in_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--port", "70000"]) == 1
    assert capsys.readouterr().err == "port= must be a port, from 0 to 65535, not 70000.\n"


def test_a_port_in_use_is_an_error_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "outlast.testing.demo.desk_model"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with openai.OpenAI(base_url=url, api_key="scripted") as client:
            assert client.responses.create(model="any", input="Hello").output_text == HELP

        assert main(["--port", url.split(":")[2].split("/")[0]]) == 1
        process.terminate()
    assert "Choose another port" in capsys.readouterr().err
