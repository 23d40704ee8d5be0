"""What the offline model reads out of a customer's words."""

from decimal import Decimal

import pytest

from outlast.dev.offline_language import (
    Details,
    Topic,
    is_farewell,
    is_greeting,
    read_details,
    read_goals,
)

ASKS: list[tuple[str, list[tuple[Topic, str | None]]]] = [
    ("Where is my order A-17?", [(Topic.STATUS, "A-17")]),
    ("where's order 1042", [(Topic.STATUS, "1042")]),
    ("What is the status of #1042?", [(Topic.STATUS, "1042")]),
    ("Has a-17 shipped yet?", [(Topic.STATUS, "A-17")]),
    ("When will order no. 1042 arrive?", [(Topic.STATUS, "1042")]),
    ("I have a question about my order 1042", [(Topic.STATUS, "1042")]),
    ("Where are orders 1042 and 1043?", [(Topic.STATUS, "1042"), (Topic.STATUS, "1043")]),
    ("Where are A-17, B-2 and C-3?", [(Topic.STATUS, o) for o in ("A-17", "B-2", "C-3")]),
    ("Has my refund for A-17 been processed?", [(Topic.STATUS, "A-17")]),
    ("I don't want a refund, I want to know when A-17 arrives", [(Topic.STATUS, "A-17")]),
    ("Refund order 1042, please", [(Topic.REFUND, "1042")]),
    ("A-17 arrived broken. I want my money back.", [(Topic.REFUND, "A-17")]),
    ("I want my 10 euros back for A-17", [(Topic.REFUND, "A-17")]),
    ("I ordered 3 mugs 2 weeks ago, order 1042. Refund it", [(Topic.REFUND, "1042")]),
    ("my order 2 weeks ago never came, refund me", [(Topic.REFUND, None)]),
    ("Send me the invoice for A-17", [(Topic.INVOICE, "A-17")]),
    ("I need a receipt", [(Topic.INVOICE, None)]),
    ("Change the address of A-17 to 5 Elm St, Bath", [(Topic.ADDRESS, "A-17")]),
    ("I moved to 12 Hill Road, York. Please update order A-17.", [(Topic.ADDRESS, "A-17")]),
    ("Could you ship A-17 to 99 New Road, Leeds instead?", [(Topic.ADDRESS, "A-17")]),
    ("Which address does A-17 go to?", [(Topic.STATUS, "A-17")]),
    ("Cancel my order A-17", [(Topic.CANCEL, "A-17")]),
    ("Do not cancel A-17! Where is it?", [(Topic.STATUS, "A-17")]),
    ("I want to talk to a person about A-17", [(Topic.HUMAN, "A-17")]),
    ("Get me a real human", [(Topic.HUMAN, None)]),
    (
        "Where is A-17? And I need the invoice for B-2, then refund 1042.",
        [(Topic.STATUS, "A-17"), (Topic.INVOICE, "B-2"), (Topic.REFUND, "1042")],
    ),
    (
        "Refund #1042 because the invoice was wrong and send me the invoice for #1043",
        [(Topic.REFUND, "1042"), (Topic.INVOICE, "1043")],
    ),
    (
        "Please refund order 1042, and change the address of A-17 to 5 Elm St. Apt B-4, Bath. Bye",
        [(Topic.REFUND, "1042"), (Topic.ADDRESS, "A-17")],
    ),
    ("Thanks, that's all!", []),
    ("Hello", []),
    ("A-17", []),
    ("", []),
]


@pytest.mark.parametrize(("text", "wanted"), ASKS, ids=[text for text, _ in ASKS])
def test_goals_are_read_in_the_order_of_the_words(
    text: str, wanted: list[tuple[Topic, str | None]]
):
    goals = read_goals(text, at=4)
    assert [(goal.topic, goal.order) for goal in goals] == wanted
    assert all(goal.at == 4 and goal.words == text for goal in goals)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("Change the address of A-17 to 5 Elm St. Apt B-4, Springfield. Thanks!",
         "5 Elm St. Apt B-4, Springfield"),
        ("Please send A-17 to 12 Oak Ave, Berlin and refund 1042", "12 Oak Ave, Berlin"),
        ("The address for A-17 is wrong, it should be 8 Mill Lane, Bath.", "8 Mill Lane, Bath"),
        ("My address should be 8 Mill Lane, Bath please", "8 Mill Lane, Bath"),
        ("new address: Hauptstr. 5, 10115 Berlin", "Hauptstr. 5, 10115 Berlin"),
        ("My address is now 12 Hill Road; thanks", "12 Hill Road"),
        ("Update the address of order 1042 to my new place", None),
        ("Change the address of order 1042", None),
    ],
)  # fmt: skip
def test_a_new_address_ends_where_the_next_wish_begins(text: str, address: str | None):
    assert read_goals(text, at=0)[0].address == address


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("refund $20 of A-17", "20"),
        ("refund 20.50 EUR of order 1042", "20.50"),
        ("refund 49,90 € please", "49.90"),
        ("refund €1,200.50", "1200.50"),
        ("refund 1.200 euros", "1200"),
        ("refund order 1042", None),
        ("refund order 1042, it was 2 days late", None),
    ],
)
def test_an_amount_needs_a_currency(text: str, amount: str | None):
    assert read_goals(text, at=0)[0].amount == (Decimal(amount) if amount else None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Refund A-17 because it arrived broken, and where is B-2?", "it arrived broken"),
        ("Refund A-17, it came late", "it came late"),
        ("A-17 never arrived, I want my money back", "never arrived"),
        ("Refund A-17. Reason: wrong size.", "wrong size"),
        ("Refund A-17 as it was too small", "it was too small"),
        ("Refund A-17 please", None),
    ],
)
def test_a_reason_is_taken_from_the_customer(text: str, reason: str | None):
    goal = next(goal for goal in read_goals(text, at=0) if goal.topic is Topic.REFUND)
    assert goal.reason == reason


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A-17", Details(orders=("A-17",))),
        ("it's #1042", Details(orders=("1042",))),
        ("1042", Details(number="1042")),
        ("It is 1042, thanks", Details(number="1042")),
        ("12 Oak Avenue, Berlin", Details(address="12 Oak Avenue, Berlin")),
        ("It's 12 Oak Avenue, Berlin.", Details(address="12 Oak Avenue, Berlin")),
        ("Hauptstr. 5, Berlin", Details(address="Hauptstr. 5, Berlin")),
        ("$20", Details(amount=Decimal(20), number="20")),
        ("A-17 and B-2", Details(orders=("A-17", "B-2"))),
        ("no idea", Details()),
    ],
)
def test_details_are_read_from_an_answer(text: str, wanted: Details):
    assert read_details(text) == wanted
    assert bool(read_details(text)) == (wanted != Details())


def test_small_talk_is_recognized():
    assert is_farewell("Thanks, bye!")
    assert not is_farewell("Where is it?")
    assert is_greeting("Hello there")
    assert not is_greeting("Where is it? hi")
