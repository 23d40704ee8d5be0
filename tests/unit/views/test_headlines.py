"""What a request asks for: the words of a policy, and values that cannot pass for them."""

import json
from dataclasses import replace

import pytest

from outlast.edges.rendering import in_words
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms, RequestKind, reviewed
from outlast.loop.canonical import digest
from outlast.views.headlines import (
    argument_rows,
    has_headline,
    headline_line,
    headline_parts,
    title_of,
)

TEMPLATE = "Refund {amount} EUR to {customer}"


def request(
    arguments: object,
    headline: str = TEMPLATE,
    *,
    name: str = "refund_order",
    kind: RequestKind = "tool",
    wait: str = "",
    **terms: object,
) -> ApprovalRequest:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ApprovalRequest(
        id="a1",
        kind=kind,
        call_id="c1",
        name=name,
        agent="Desk",
        arguments=text,
        args_digest=digest(text),
        terms=ApprovalTerms(headline=headline, **terms),  # pyright: ignore[reportArgumentType]
        requested_at_ms=0,
        wait=wait,
    )


def test_the_words_are_the_programs_and_values_are_marked() -> None:
    one = request({"amount": 389, "customer": "Ann"})
    assert headline_line(one) == "Refund 389 EUR to “Ann”"
    assert [(part.text, part.is_value) for part in headline_parts(one)] == [
        ("Refund ", False),
        ("389", True),
        (" EUR to ", False),
        ("“Ann”", True),
    ]


def test_a_number_keeps_its_spelling_and_a_text_that_looks_like_one_is_a_text() -> None:
    line = headline_line(request('{"amount": 1e3, "customer": "5"}'))
    assert line == "Refund 1e3 EUR to “5”"
    assert headline_line(request({"amount": "5", "customer": True})) == "Refund “5” EUR to true"


def test_names_lead_into_objects() -> None:
    one = request({"to": {"name": "Ann", "tags": ["a", "b"]}}, "Write to {to.name} about {to.tags}")
    assert headline_line(one) == "Write to “Ann” about “['a', 'b']”"


@pytest.mark.parametrize(
    "value",
    [
        "5 EUR to Ann, not",
        "5” EUR to “Ann” because “",
        '5" EUR to "Ann',
        "5\u201f EUR to \u201fAnn",
        "5\u2019\u2019 EUR to \u2018\u2018Ann",
        "5'' EUR to ``Ann",
        "5\uff02 EUR to \uff02Ann",
        "5\u300d EUR to \u300cAnn",
    ],
)
def test_no_value_leaves_its_quotation_marks(value: str) -> None:
    line = headline_line(request({"amount": value, "customer": "Bob"}))
    start, _, rest = line.partition("“")
    inside, _, end = rest.partition("”")
    assert (start, end) == ("Refund ", " EUR to “Bob”")
    assert inside.startswith("5")
    assert not set(inside) & set('“”„‟"«»″「」\u2039\u203a\uff02')
    assert "''" not in inside


@pytest.mark.parametrize(
    "value",
    [
        "\u202e5000",
        "a\nb\r\n# c",
        "\x1b[2J\x07",
        "<script>alert(1)</script> [x](https://x.example)",
        "{__class__} {amount} {0}",
        "A\u0301" + "\u0301" * 50,
        "\U000e0041\ufe0f\u200b",
    ],
)
def test_hostile_values_are_one_visible_line(value: str) -> None:
    line = headline_line(request({"amount": 5, "customer": value}))
    assert line.startswith("Refund 5 EUR to “")
    assert line.endswith("”")
    assert line.isprintable()
    assert "5000" not in line or "\\u202e" in line
    assert "\n" not in line


def test_a_long_value_is_cut_and_says_so() -> None:
    line = headline_line(request({"amount": 5, "customer": "x" * 10_000}))
    assert "cut: 80 of 10,000 characters" in line
    assert len(line) < 200
    number = headline_line(request('{"amount": ' + "9" * 3_000 + ', "customer": "Ann"}'))
    assert "cut: 40 of 3,000 characters" in number


@pytest.mark.parametrize(
    "arguments",
    [
        {"amount": 5},
        {"amount": 5, "customer": None},
        [5],
        "no json",
        "",
        "[" * 5_000,
        '{"amount": 5, "customer": "Ann", "amount": 5000}',
        {"amount": 5, "customer": "x" * 100_000},
    ],
)
def test_without_all_values_a_call_is_shown_by_its_title(arguments: object) -> None:
    one = request(arguments)
    assert not has_headline(one)
    assert headline_line(one).startswith("refund_order(")
    assert [part.text for part in headline_parts(one)] == ["Refund order"]


def test_attributes_are_no_fields() -> None:
    one = request({"amount": 5, "customer": {"a": 1}}, "{amount.__class__} of {customer.__dict__}")
    assert not has_headline(one)


def test_a_recorded_headline_that_no_policy_could_have_shows_nothing() -> None:
    for forged in ("{amount!r}", "“{amount}”", "a\nb {amount}", "x" * 1_000, "{"):
        assert not has_headline(request({"amount": 5, "customer": "Ann"}, forged))


def test_hidden_values_stay_hidden() -> None:
    text = reviewed('{"amount": 5, "customer": "Ann"}', ("customer",))
    assert headline_line(request(text)) == "Refund 5 EUR to “[redacted]”"


def test_a_value_that_is_asked_for_and_a_missing_worker_are_no_such_call() -> None:
    arguments = {"amount": 5, "customer": "Ann"}
    waits = request(arguments, name="refund_order: bank_transfer", wait="bank_transfer")
    assert not has_headline(waits)
    assert title_of(waits) == "Bank transfer for Refund order"
    worker = request(arguments, kind="worker")
    assert not has_headline(worker)
    assert title_of(worker) == "No worker for Refund order"
    titled = replace(waits, terms=replace(waits.terms, title="Refund"))
    assert title_of(titled) == "Bank transfer for Refund"


def test_titles_of_other_kinds() -> None:
    assert title_of(request({"answer": "x"}, kind="output")) == "Send this answer to the customer"
    assert (
        title_of(request({}, name="transfer_to_billing", kind="handoff")) == "Transfer to billing"
    )
    spent = {"of": "tokens", "per": "run", "limit": 10, "spent": 12, "extend_by": 10}
    assert title_of(request(spent, kind="budget")).startswith("12 tokens of 10 tokens")
    assert title_of(request("{}", kind="budget")) == "More of the budget"
    assert title_of(request({}, title="x" * 500)).startswith("x" * 80 + "…")


def test_names_become_words_and_hide_nothing() -> None:
    assert in_words("order_id") == "Order id"
    assert in_words("customerName") == "CustomerName"
    assert in_words("__") == "__"
    assert in_words("a\u202eb") == "A\\u202eb"
    assert in_words("\u0430nn") == "\\u0430nn"


# --- Arguments -----------------------------------------------------------------------------------


def test_arguments_are_labeled_rows() -> None:
    rows = argument_rows(
        request(
            {"order_id": "A-17", "lines": [{"sku": "x", "count": 2}, "b"], "to": {"name": "Ann"}},
            labels={"order_id": "Order number"},
        )
    )
    assert rows is not None
    order, lines, to = rows
    assert (order.name, order.label, order.text) == ("order_id", "Order number", "A-17")
    assert [one.label for one in lines.rows] == ["1", "2"]
    assert [(one.label, one.text) for one in lines.rows[0].rows] == [("Sku", "x"), ("Count", "2")]
    assert lines.rows[1].text == "b"
    assert to.rows[0].label == "Name"


def test_two_arguments_never_share_a_label() -> None:
    rows = argument_rows(request('{"amount": 5, "Amount": 5000, "amount": 7}')) or ()
    assert [(one.label, one.text) for one in rows] == [
        ("amount", "5"),
        ("Amount", "5000"),
        ("amount", "7"),
    ]


def test_values_of_rows_are_visible_and_texts_are_no_numbers() -> None:
    rows = argument_rows(
        request({"a": "5", "b": 5, "c": "x\u202ey", "d": "1\n2", "e": [], "f": {}})
    )
    assert [one.text for one in rows or ()] == ['"5"', "5", '"x\\u202ey"', "1\n2", "[]", "{}"]


def test_deep_values_are_json_and_unreadable_arguments_are_no_rows() -> None:
    deep: object = 1
    for _ in range(30):
        deep = {"a": deep}
    rows = argument_rows(request(deep))
    while rows and rows[0].rows:
        rows = rows[0].rows
    assert rows is not None
    assert rows[0].text.startswith('{"a": {"a"')
    for arguments in ("[1]", "no json", '{"a": ' * 500, json.dumps({"a": "x" * 30_000})):
        assert argument_rows(request(arguments)) is None
