"""The run's context: from JSON, from nothing, and as it is."""

import pytest
from pydantic import ValidationError
from support_desk.context import Customer, customer_of

from outlast import RunContextWrapper


def test_a_context_is_taken_as_it_is() -> None:
    customer = Customer(customer_id="cust-1001")
    assert customer_of(RunContextWrapper(context=customer)) is customer


@pytest.mark.parametrize("nothing", [None, {}])
def test_a_run_without_a_context_gets_an_unknown_customer_that_can_be_written_to(
    nothing: object,
) -> None:
    ctx = RunContextWrapper(context=nothing)
    customer_of(ctx).last_order = "A-17"
    assert ctx.context == Customer(last_order="A-17")


def test_plain_json_becomes_a_customer() -> None:
    ctx = RunContextWrapper(context={"customer_id": "cust-1001", "handled_by": ["Triage"]})
    assert customer_of(ctx) == Customer(customer_id="cust-1001", handled_by=["Triage"])


def test_a_context_of_another_shape_is_refused() -> None:
    with pytest.raises(ValidationError):
        customer_of(RunContextWrapper(context={"handled_by": 3}))


def test_two_customers_do_not_share_their_history() -> None:
    Customer().handled_by.append("Triage")
    assert Customer().handled_by == []
