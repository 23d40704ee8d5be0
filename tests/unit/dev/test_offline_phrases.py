"""How a tool's output becomes words."""

import json
from decimal import Decimal
from typing import Any

import pytest

from outlast.dev.offline_language import Topic
from outlast.dev.offline_phrases import deed, money, read_output, report
from outlast.dev.offline_request import Call


def told(topic: Topic | None, output: Any, order: str | None = "A-17", **arguments: Any) -> str:
    text = output if isinstance(output, str) else json.dumps(output)
    return report(topic, order, Call(name="some_tool", arguments=arguments, output=text, at=1))


@pytest.mark.parametrize(
    ("output", "state", "text"),
    [
        ("all good", "done", "all good"),
        ("Rejected by ann: too old", "rejected", "Rejected by ann: too old"),
        ("Tool execution was not approved.", "rejected", "Tool execution was not approved."),
        ("There is no such order", "failed", "There is no such order"),
        ("17", "done", "17"),
        ("[1, 2]", "done", "1, 2"),
        ("null", "done", ""),
        ('{"status": "ok"}', "done", ""),
        ('{"status": "declined", "message": "too old"}', "rejected", "too old"),
        ('{"status": "not_found"}', "failed", "not found"),
        ('{"approved": false, "reason": "denied: too old"}', "rejected", "denied: too old"),
        ('{"changed": false, "reason": "it has left"}', "failed", "it has left"),
        ('{"error": {"message": "no order"}}', "failed", "no order"),
        ('{"error": "no order"}', "failed", "no order"),
    ],
)
def test_outputs_are_told_apart(output: str, state: str, text: str):
    read = read_output(output)
    assert (read.state, read.text) == (state, text)


def test_the_status_of_an_order_is_no_outcome_of_looking_it_up():
    assert told(Topic.STATUS, {"status": "refused_by_customer"}) == (
        "Order A-17 is refused by customer."
    )


@pytest.mark.parametrize(
    ("topic", "output", "words"),
    [
        (Topic.STATUS, {"order": {"id": "A-17", "status": "shipped"}}, "Order A-17 is shipped."),
        (Topic.STATUS, {"eta": "Monday"}, "I found order A-17. Eta: Monday."),
        (
            Topic.ADDRESS,
            {"ok": True, "address": {"street": "5 Elm St", "city": "Bath"}},
            "I have changed the address of order A-17 to 5 Elm St.",
        ),
        (
            Topic.REFUND,
            {"refunded_cents": 1250, "currency": "GBP", "ledger_entry": 3},
            "I have refunded 12.50 GBP for order A-17. Ledger entry: 3.",
        ),
        (Topic.REFUND, {"refunded": True}, "I have refunded order A-17."),
        (Topic.REFUND, {"status": "pending"}, "The refund of order A-17 is pending."),
        (Topic.CANCEL, {"cancelled_at": "noon"}, "I have cancelled order A-17. Cancelled at: noon."),
        (Topic.HUMAN, {"ticket": 9}, "I have passed your request on to a person. Ticket: 9."),
        (None, {"table": 4}, "Done: some tool. Table: 4."),
        (None, "Table 4.", "About the request to some tool: Table 4."),
    ],
)  # fmt: skip
def test_the_words_use_the_output(topic: Topic | None, output: Any, words: str):
    assert told(topic, output) == words


def test_what_the_output_leaves_out_comes_from_the_arguments():
    assert told(Topic.ADDRESS, {"ok": True}, new_address="5 Elm St, Bath") == (
        "I have changed the address of order A-17 to 5 Elm St, Bath."
    )
    assert told(Topic.REFUND, {"refund_id": 7}, amount=20) == (
        "I have refunded 20.00 for order A-17. Refund id: 7."
    )


def test_values_are_written_for_people():
    record = {
        "total_eur": "49.9",
        "total_items": 3,
        "gift": False,
        "note": None,
        "items": [{"name": "Mug", "quantity": 2}, {"title": "Pot"}, {"sku": "x", "size": 3}, "bag"],
    }
    assert told(Topic.INVOICE, record) == (
        "Here is the invoice of order A-17. Total: 49.90 EUR. Total items: 3. Gift: no. "
        "Items: 2 x Mug, Pot, sku x, size 3, bag."
    )


def test_a_long_record_is_cut():
    assert told(None, {f"field_{n}": n for n in range(20)}).count(":") == 1 + 8


def test_an_order_that_nobody_named_is_your_order():
    assert deed(Topic.REFUND, None) == "refund your order"
    assert told(Topic.STATUS, {"status": "packed"}, order=None) == "Your order is packed."


def test_money_is_found_in_units_and_cents():
    assert money({"total_cents": 1999}, ("total",)) == Decimal("19.99")
    assert money({"price": 5, "total": "7.5"}, ("total", "price")) == Decimal("7.5")
    assert money({"total": "a lot", "price": True}, ("total", "price")) is None
