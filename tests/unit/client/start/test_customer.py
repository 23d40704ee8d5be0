from typing import Any

import pytest

from outlast import Customer
from outlast.agents.config.run_config import as_run_config
from outlast.agents.errors import UserError
from outlast.client.start.customer import as_customer
from outlast.client.start.options import run_input
from outlast.contract import records


@pytest.mark.parametrize(
    ("given", "is_taken_as"),
    [
        (None, None),
        ("c-17", Customer("c-17")),
        (Customer("c-17", "Maria", "de"), Customer("c-17", "Maria", "de")),
        (Customer("c-17", language="zh-Hant-TW"), Customer("c-17", language="zh-Hant-TW")),
    ],
)
def test_a_customer_is_an_id_or_more(given: Any, is_taken_as: Customer | None) -> None:
    assert as_customer(given) == is_taken_as


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "id is empty"),
        ("  ", "id is empty"),
        (Customer(name="Maria"), "id is empty"),
        (17, "an id or a Customer, not 17"),
        ({"id": "c-17"}, "an id or a Customer"),
        (Customer(17), "id must be a string"),  # pyright: ignore[reportArgumentType]
        (Customer("c", name=None), "name must be a string"),  # pyright: ignore[reportArgumentType]
        ("c" * 201, "201 characters"),
        ("c\0", "cannot be printed"),
        ("c\n17", "cannot be printed"),
        ("\ud800", "cannot be printed"),
        (Customer("c", "Ma\u202eria"), "cannot be printed"),
        (Customer("c", language="German, please"), "no language tag"),
    ],
)
def test_a_customer_that_makes_no_sense_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        as_customer(given)


def test_a_start_records_for_whom_it_is_and_who_wrote_it() -> None:
    record = run_input("Desk", "Hello", customer=Customer("c-17", "Maria"), author="ann")
    read = records.read(records.RunInput, records.write(record))
    assert records.customer_of(read.settings) == Customer("c-17", "Maria")
    message = records.first_message_of(read, 0)
    assert message is not None
    assert message.authors == ("ann",)


@pytest.mark.parametrize("author", ["", " ", 7])
def test_an_author_has_a_name(author: Any) -> None:
    with pytest.raises(UserError, match="author="):
        run_input("Desk", "Hello", author=author)


@pytest.mark.parametrize("name", ["customer", "author", "tenant"])
def test_whose_a_run_is_is_no_setting(name: str) -> None:
    with pytest.raises(UserError, match=f"Pass it to Runner.run itself.*{name}="):
        as_run_config({name: "ann"})
