"""Whole conversations with the offline model, played by a small support desk without a network."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.dev.offline_request import read_request
from outlast.dev.offline_rules import CallTool, Reply, SayText, respond

Json = dict[str, Any]
Shop = dict[str, Callable[[Json], str]]

TEXT: Json = {"type": "string"}
NUMBER_OR_NULL: Json = {"anyOf": [{"type": "number"}, {"type": "null"}]}
TEXT_OR_NULL: Json = {"type": ["string", "null"]}


def function(name: str, description: str, **properties: Json) -> Json:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "name": name,
        "description": description,
        "strict": True,
        "parameters": parameters,
    }


LOOK_UP = function(
    "look_up_order", "Look up an order: its status, address, total and refunds.", order_id=TEXT
)
CHANGE = function(
    "change_address", "Change where an order is sent.", order_id=TEXT, new_address=TEXT
)
INVOICE = function("look_up_invoice", "Look up the invoice of an order.", order_id=TEXT)
REFUND = function(
    "refund_order",
    "Refund an order, wholly or in part.",
    order_id=TEXT,
    amount=NUMBER_OR_NULL,
    reason=TEXT_OR_NULL,
)
TO_TRIAGE = function("transfer_to_triage", "The front desk, which knows who does what.")
TO_ORDERS = function("transfer_to_orders", "Order status, tracking and delivery addresses.")
TO_BILLING = function("transfer_to_billing", "Invoices, payments and refunds.")

DESK: dict[str, list[Json]] = {
    "triage": [TO_ORDERS, TO_BILLING],
    "orders": [LOOK_UP, CHANGE, TO_TRIAGE, TO_BILLING],
    "billing": [LOOK_UP, INVOICE, REFUND, TO_TRIAGE, TO_ORDERS],
}


def order_record(arguments: Json) -> str:
    fields = {"order_id": arguments["order_id"], "status": "in_transit", "total_cents": 4990}
    return json.dumps({**fields, "currency": "EUR"})


def refund_record(arguments: Json) -> str:
    return json.dumps({"refund_id": 7, "amount": arguments["amount"] or 49.9, "currency": "EUR"})


SHOP: Shop = {
    "look_up_order": order_record,
    "change_address": lambda a: json.dumps({"changed": True, "address": a["new_address"]}),
    "look_up_invoice": lambda _: json.dumps({"number": "2025-1", "total_eur": 49.9, "paid": True}),
    "refund_order": refund_record,
}


class Conversation:
    """Runs the agents' loop: every call is answered, a handoff changes the agent."""

    def __init__(
        self,
        agent: str = "triage",
        desk: dict[str, list[Json]] = DESK,
        shop: Shop = SHOP,
        **settings: Any,
    ) -> None:
        self.agent = agent
        self.desk = desk
        self.shop = shop
        self.settings = settings
        self.items: list[Json] = []
        self.log: list[str] = []

    def say(self, *messages: str) -> str:
        """Send messages and return the answer; the calls on the way are in `log`."""
        self.items += [{"role": "user", "content": message} for message in messages]
        self.log = []
        for _ in range(20):
            replies = self.next_replies()
            if isinstance(replies[0], SayText):
                assert len(replies) == 1
                part = {"type": "output_text", "text": replies[0].text}
                self.items.append({"type": "message", "role": "assistant", "content": [part]})
                return replies[0].text
            self.perform([reply for reply in replies if isinstance(reply, CallTool)])
        raise AssertionError(f"no end in sight: {self.log}")

    def next_replies(self) -> list[Reply]:
        body = {"model": "any", "input": self.items, "tools": self.desk[self.agent]}
        return respond(read_request({**body, **self.settings}))

    def perform(self, calls: list[CallTool]) -> None:
        outputs: list[Json] = []
        for call in calls:
            call_id = f"call_{len(self.items)}"
            words = " ".join(str(value) for value in call.arguments.values() if value is not None)
            self.log.append(f"{self.agent}: {call.name} {words}".strip())
            item = {"type": "function_call", "call_id": call_id, "name": call.name}
            self.items.append({**item, "arguments": json.dumps(call.arguments)})
            output = self.output(call)
            outputs.append({"type": "function_call_output", "call_id": call_id, "output": output})
        self.items += outputs

    def output(self, call: CallTool) -> str:
        if call.name.startswith("transfer_to_"):
            self.agent = call.name.removeprefix("transfer_to_")
            return json.dumps({"assistant": self.agent})
        return self.shop[call.name](call.arguments)


ONE_MESSAGE: list[tuple[str, list[str], str]] = [
    (
        "Where is my order A-17?",
        ["triage: transfer_to_orders", "orders: look_up_order A-17"],
        "Order A-17 is in transit. Total: 49.90 EUR.",
    ),
    (
        "Where are orders 1042 and 1043?",
        [
            "triage: transfer_to_orders",
            "orders: look_up_order 1042",
            "orders: look_up_order 1043",
        ],
        "Order 1042 is in transit. Total: 49.90 EUR. Order 1043 is in transit. Total: 49.90 EUR.",
    ),
    (
        "Please refund 20 EUR of order 1042, it arrived broken",
        ["triage: transfer_to_billing", "billing: refund_order 1042 20 it arrived broken"],
        "I have refunded 20.00 EUR for order 1042. Refund id: 7.",
    ),
    (
        "Change the address of A-17 to 5 Elm St, Bath",
        ["triage: transfer_to_orders", "orders: change_address A-17 5 Elm St, Bath"],
        "I have changed the address of order A-17 to 5 Elm St, Bath.",
    ),
    (
        "Send me the invoice for A-17",
        ["triage: transfer_to_billing", "billing: look_up_invoice A-17"],
        "Here is the invoice of order A-17. Number: 2025-1. Total: 49.90 EUR. Paid: yes.",
    ),
    (
        "Refund #1042 and change the address of A-17 to 5 Elm St, Bath. Where is B-2?",
        [
            "triage: transfer_to_billing",
            "billing: refund_order 1042",
            "billing: transfer_to_orders",
            "orders: change_address A-17 5 Elm St, Bath",
            "orders: look_up_order B-2",
        ],
        (
            "I have refunded 49.90 EUR for order 1042. Refund id: 7. "
            "I have changed the address of order A-17 to 5 Elm St, Bath. "
            "Order B-2 is in transit. Total: 49.90 EUR."
        ),
    ),
    (
        "Where is A-17? Refund it and change its address to 5 Elm St, Bath",
        [
            "triage: transfer_to_orders",
            "orders: look_up_order A-17",
            "orders: transfer_to_billing",
            "billing: refund_order A-17",
            "billing: transfer_to_orders",
            "orders: change_address A-17 5 Elm St, Bath",
        ],
        (
            "Order A-17 is in transit. Total: 49.90 EUR. "
            "I have refunded 49.90 EUR for order A-17. Refund id: 7. "
            "I have changed the address of order A-17 to 5 Elm St, Bath."
        ),
    ),
    ("I want to talk to a human", [], "I am sorry, I cannot pass you on to a person here."),
    (
        "Cancel A-17 and send me its invoice",
        [
            "triage: transfer_to_orders",
            "orders: transfer_to_billing",
            "billing: look_up_invoice A-17",
            "billing: transfer_to_orders",
        ],
        (
            "Here is the invoice of order A-17. Number: 2025-1. Total: 49.90 EUR. Paid: yes. "
            "I am sorry, I cannot cancel order A-17 here."
        ),
    ),
    ("Thanks, bye", [], "You are welcome. Have a good day!"),
    (
        "Hello!",
        [],
        (
            "Hello! I can help with the status of an order, a change of address, a refund and an "
            "invoice. What can I do for you?"
        ),
    ),
]


@pytest.mark.parametrize(
    ("message", "calls", "answer"), ONE_MESSAGE, ids=[message for message, _, _ in ONE_MESSAGE]
)
def test_a_message_is_worked_off_and_answered(message: str, calls: list[str], answer: str):
    conversation = Conversation()
    assert conversation.say(message) == answer
    assert conversation.log == calls


def test_what_is_missing_is_asked_for_by_who_needs_it():
    conversation = Conversation()
    assert conversation.say("I want a refund") == (
        "To refund your order, I need the order number. Which order is it?"
    )
    assert conversation.log == ["triage: transfer_to_billing"]
    assert conversation.say("A-17").startswith("I have refunded 49.90 EUR for order A-17.")
    assert conversation.log == ["billing: refund_order A-17"]
    assert conversation.say("thank you") == "You are welcome. Have a good day!"
    assert conversation.log == []


def test_two_missing_things_are_asked_for_one_after_the_other():
    conversation = Conversation()
    assert conversation.say("change my address").endswith("Which order is it?")
    assert conversation.say("it is 1042").endswith("I need the new address. What is it?")
    answer = conversation.say("12 Oak Avenue, Berlin")
    assert answer == "I have changed the address of order 1042 to 12 Oak Avenue, Berlin."
    assert conversation.log == ["orders: change_address 1042 12 Oak Avenue, Berlin"]


def test_an_answer_with_two_orders_makes_two_calls():
    conversation = Conversation("billing")
    conversation.say("I want a refund")
    conversation.say("A-17 and B-2")
    assert conversation.log == ["billing: refund_order A-17", "billing: refund_order B-2"]


def test_what_was_asked_before_a_question_stays_open():
    conversation = Conversation("orders")
    question = conversation.say("Where is my order? And refund A-17.")
    assert question == "To look up your order, I need the order number. Which order is it?"
    conversation.say("1042")
    assert conversation.log == [
        "orders: look_up_order 1042",
        "orders: transfer_to_billing",
        "billing: refund_order A-17",
    ]


def test_a_new_request_replaces_an_open_question():
    conversation = Conversation("billing")
    conversation.say("I want a refund")
    conversation.say("Never mind, where is A-17?")
    assert conversation.log == ["billing: look_up_order A-17"]


def test_it_means_the_order_spoken_of_last():
    conversation = Conversation()
    conversation.say("Where is A-17?")
    conversation.say("Then refund it, please.")
    assert conversation.log == ["orders: transfer_to_billing", "billing: refund_order A-17"]


def test_it_is_not_guessed_among_two_orders():
    conversation = Conversation("billing")
    conversation.say("Where are A-17 and B-2?")
    assert conversation.say("Refund it").endswith("Which order is it?")


def test_an_order_alone_asks_for_its_status():
    conversation = Conversation()
    assert conversation.say("A-17").startswith("Order A-17 is in transit.")


def test_a_message_that_arrives_during_a_call_is_answered_too():
    conversation = Conversation("orders")
    conversation.items.append({"role": "user", "content": "Where is A-17?"})
    replies = conversation.next_replies()
    conversation.perform([reply for reply in replies if isinstance(reply, CallTool)])
    answer = conversation.say("And where is B-2?")
    assert conversation.log == ["orders: look_up_order B-2"]
    assert "Order A-17 is" in answer
    assert "Order B-2 is" in answer


def test_the_same_question_later_is_looked_up_again():
    conversation = Conversation("orders")
    conversation.say("Where is A-17?")
    conversation.say("Where is A-17 now?")
    assert conversation.log == ["orders: look_up_order A-17"]


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (
            "The call was rejected by ann: send a photo first.",
            (
                "I am sorry, the request to refund order A-17 was rejected: The call was rejected by "
                "ann: send a photo first."
            ),
        ),
        (
            "Please send a photo first.",
            "About the request to refund order A-17: Please send a photo first.",
        ),
        (
            '{"status": "rejected", "reason": "too late"}',
            "I am sorry, the request to refund order A-17 was rejected: too late.",
        ),
        (
            '{"error": "There is no order A-17."}',
            "I am sorry, I could not refund order A-17: There is no order A-17.",
        ),
        (
            "An error occurred while running the tool: shop closed",
            (
                "I am sorry, I could not refund order A-17: An error occurred while running the tool: "
                "shop closed."
            ),
        ),
        ("", "About the request to refund order A-17."),
    ],
)
def test_a_refusal_or_an_error_is_passed_on_and_not_tried_again(output: str, answer: str):
    conversation = Conversation("billing", shop={**SHOP, "refund_order": lambda _: output})
    assert conversation.say("Refund A-17") == answer
    assert conversation.log == ["billing: refund_order A-17"]


def test_parallel_calls_can_be_switched_off():
    conversation = Conversation("orders", parallel_tool_calls=False)
    conversation.items.append({"role": "user", "content": "Where are A-17 and B-2?"})
    assert conversation.next_replies() == [
        CallTool(name="look_up_order", arguments={"order_id": "A-17"})
    ]


def test_without_tools_it_only_talks():
    conversation = Conversation(tool_choice="none")
    answer = conversation.say("Where is A-17?")
    assert answer == "I am sorry, I cannot look up order A-17 here."


def test_a_required_amount_is_looked_up_first():
    amount = {"type": "integer", "description": "in cents"}
    refund = function("issue_refund", "Pay money back.", order=TEXT, amount_cents=amount)
    conversation = Conversation(
        "desk", {"desk": [LOOK_UP, refund]}, {**SHOP, "issue_refund": lambda _: "Refunded."}
    )
    answer = conversation.say("Refund order 1042")
    assert conversation.log == ["desk: look_up_order 1042", "desk: issue_refund 1042 4990"]
    assert answer == "About the request to refund order 1042: Refunded."


def test_a_required_amount_that_nobody_knows_is_asked_for():
    refund = function("issue_refund", "Pay money back.", order=TEXT, amount={"type": "number"})
    conversation = Conversation("desk", {"desk": [refund]}, {"issue_refund": lambda _: "Refunded."})
    assert conversation.say("Refund order 1042").endswith("I need the amount. How much is it?")
    conversation.say("12.50 euros")
    assert conversation.log == ["desk: issue_refund 1042 12.5"]


def test_an_unknown_required_argument_is_asked_for_by_name():
    invoice = function("get_invoice", "Get an invoice.", order_id=TEXT, vat_number=TEXT)
    conversation = Conversation("desk", {"desk": [invoice]}, {})
    answer = conversation.say("Invoice of A-17")
    assert answer.endswith("I need one more thing: vat number. Can you tell me?")


def test_words_decide_and_not_the_names_of_the_demo():
    desk = {
        "reception": [
            function("transfer_to_parcels", "Shipping: where a delivery is."),
            function("handoff_to_money", "Payments, refunds, invoices."),
            function("escalate", "Escalate to a human colleague.", summary=TEXT),
        ],
        "parcels": [function("trackShipment", "Find a parcel.", orderNumber=TEXT)],
    }
    shop: Shop = {
        "trackShipment": lambda a: f"{a['orderNumber']} is in Kiel",
        "escalate": lambda _: "A colleague will write to you.",
    }
    conversation = Conversation("reception", desk, shop)
    assert conversation.say("I must speak with a person!") == (
        "About the request to pass you on to a person: A colleague will write to you."
    )
    assert conversation.log == ["reception: escalate I must speak with a person!"]
    assert conversation.say("Where is order 99?").endswith("99 is in Kiel.")
    assert conversation.log == ["reception: transfer_to_parcels", "parcels: trackShipment 99"]


def test_somebody_who_routes_is_the_last_resort():
    desk = {
        "orders": [LOOK_UP, TO_TRIAGE],
        "triage": [TO_ORDERS, TO_BILLING],
        "billing": [REFUND, TO_TRIAGE],
    }
    conversation = Conversation("orders", desk)
    conversation.say("Refund A-17")
    assert conversation.log == [
        "orders: transfer_to_triage",
        "triage: transfer_to_billing",
        "billing: refund_order A-17",
    ]


def test_agents_that_send_each_other_the_customer_stop():
    here = function("transfer_to_there", "Refunds.")
    there = function("transfer_to_here", "Refunds.")
    conversation = Conversation("here", {"here": [here], "there": [there]})
    answer = conversation.say("Refund A-17")
    assert answer == "I am sorry, I cannot refund order A-17 here."
    assert conversation.log == ["here: transfer_to_there", "there: transfer_to_here"]


def test_a_text_that_comes_with_a_call_is_no_answer():
    call = {"type": "function_call", "call_id": "c", "name": "look_up_order"}
    conversation = Conversation("orders")
    conversation.items = [
        {"role": "user", "content": "Where is A-17? And where is B-2?"},
        {"role": "assistant", "content": "Let me see."},
        {**call, "arguments": '{"order_id": "A-17"}'},
        {"type": "function_call_output", "call_id": "c", "output": "shipped"},
    ]
    assert conversation.next_replies() == [
        CallTool(name="look_up_order", arguments={"order_id": "B-2"})
    ]


def test_outputs_of_other_tools_are_reported_as_they_are():
    call = {"type": "function_call", "call_id": "c", "name": "book_table", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": '{"table": 4}'}
    conversation = Conversation("orders")
    conversation.items = [{"role": "user", "content": "A table, please"}, call, output]
    assert conversation.next_replies() == [SayText(text="Done: book table. Table: 4.")]


def test_nothing_to_answer_is_answered_anyhow():
    conversation = Conversation("desk", {"desk": []})
    assert conversation.next_replies() == [
        SayText(
            text="I am an offline stand-in and understand simple requests only. I have no tools "
            "to work with."
        )
    ]


WISHES = st.sampled_from(
    [
        *("Where is", "refund", "the invoice of", "change the address of", "cancel", "a human"),
        *("A-17", "1042", "order 7", "order", "it", "$20", "because it broke", "to 5 Elm St, Bath"),
        *("and", ",", ".", "?", "thanks", "hello", "never mind"),
    ]
)


@settings(max_examples=150)
@given(
    messages=st.lists(st.lists(WISHES, max_size=8).map(" ".join), min_size=1, max_size=4),
    agent=st.sampled_from(sorted(DESK)),
    output=st.sampled_from(["", "null", "[]", '{"error": "no"}', "rejected", '{"status": "ok"}']),
)
def test_every_conversation_ends_and_no_call_is_made_twice(
    messages: list[str], agent: str, output: str
):
    conversation = Conversation(agent, shop=dict.fromkeys(SHOP, lambda _: output))
    for message in messages:
        assert conversation.say(message)
        calls = [entry.split(": ")[1] for entry in conversation.log]
        work = [call for call in calls if not call.startswith("transfer_to_")]
        assert len(work) == len(set(work))
        assert len(calls) <= 3 * len(work) + 3
