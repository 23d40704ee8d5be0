"""The tools: what a model reads, who may see what, what needs a person, and dying in mid-call."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support_desk import policies, tools
from support_desk.context import Customer
from support_desk.shop import Shop

from outlast import Agent, ToolContext, Wait
from outlast.agents.tools.definition import (
    FunctionTool,
)

EXAMPLES = Path(tools.__file__).parents[1]
EVERY_TOOL = [
    tools.look_up_order,
    tools.look_up_invoice,
    tools.change_address,
    tools.refund_order,
    tools.refund_large_order,
    tools.send_courier,
    tools.ask_human,
]


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop that the tools of the test work on."""
    monkeypatch.setenv("SUPPORT_DESK_DB", str(tmp_path / "shop.db"))
    monkeypatch.delenv("SUPPORT_DESK_REFUND_LIMIT", raising=False)
    monkeypatch.delenv("SUPPORT_DESK_TOOL_DELAY_SECONDS", raising=False)
    return Shop.open(tmp_path / "shop.db")


def a_call(customer: Customer | None = None, key: str = "key-1") -> ToolContext[Customer]:
    return ToolContext(
        context=customer or Customer(),
        tool_name="any",
        tool_call_id="call-1",
        tool_arguments="{}",
        agent=Agent[Customer](name="Any"),
        idempotency_key=key,
    )


async def invoke(
    tool: FunctionTool, ctx: ToolContext[Customer] | None = None, **arguments: Any
) -> dict[str, Any]:
    return await tool.on_invoke_tool(ctx or a_call(), json.dumps(arguments))


def needs_person(ctx: ToolContext[Customer] | None = None, **arguments: Any) -> bool:
    assert tools.refund_order.needs_approval is policies.refund
    assert policies.refund.when is policies.is_above_limit
    return policies.is_above_limit(ctx or a_call(), arguments, "call-1")


class TestWhatTheModelIsTold:
    @pytest.mark.parametrize(
        ("tool", "parameters"),
        [
            (tools.look_up_order, {"order_id"}),
            (tools.look_up_invoice, {"order_id"}),
            (tools.change_address, {"order_id", "new_address"}),
            (tools.send_courier, {"order_id"}),
            (tools.refund_order, {"order_id", "amount", "reason"}),
            (tools.refund_large_order, {"order_id", "amount", "reason"}),
            (tools.ask_human, {"question"}),
        ],
    )
    def test_each_parameter_is_described(self, tool: FunctionTool, parameters: set[str]) -> None:
        properties = tool.params_json_schema["properties"]
        assert set(properties) == parameters
        assert all(properties[name].get("description") for name in parameters)

    def test_tools_have_the_names_of_their_functions_and_a_description(self) -> None:
        assert [tool.name for tool in EVERY_TOOL] == [
            "look_up_order",
            "look_up_invoice",
            "change_address",
            "refund_order",
            "refund_large_order",
            "send_courier",
            "ask_human",
        ]
        assert all(len(tool.description) > 20 for tool in EVERY_TOOL)

    def test_each_tool_says_what_it_changes_and_only_reading_is_fast(self) -> None:
        assert {tool.name: (tool.effect, tool.fast) for tool in EVERY_TOOL} == {
            "look_up_order": ("read", True),
            "look_up_invoice": ("read", True),
            "change_address": ("reversible", None),
            "send_courier": ("reversible", None),
            "refund_order": ("irreversible", None),
            "refund_large_order": ("irreversible", None),
            "ask_human": ("reversible", None),
        }

    def test_people_decide_about_refunds_and_come_when_they_are_wanted(self) -> None:
        assert {tool.name for tool in EVERY_TOOL if tool.needs_approval} == {
            *("refund_order", "refund_large_order", "ask_human"),
        }


class TestLookingUp:
    async def test_an_order_is_told_with_amounts_in_euros(self) -> None:
        assert await invoke(tools.look_up_order, order_id="a-17") == {
            "order_id": "A-17",
            "status": "delivered",
            "customer": "Mara Lindholm",
            "ordered_on": "2026-02-03",
            "articles": ["1 x Tea pot, stoneware", "2 x Tea cup, stoneware"],
            "address": "Mara Lindholm, Ringstrasse 8, 04109 Leipzig",
            "total_eur": 49.9,
            "paid_eur": 49.9,
            "refunded_eur": 0.0,
        }

    async def test_an_invoice_is_told_with_amounts_in_euros(self) -> None:
        assert await invoke(tools.look_up_invoice, order_id="B-4") == {
            "invoice_id": "INV-044",
            "order_id": "B-4",
            "issued_on": "2026-02-17",
            "total_eur": 79.0,
            "paid_eur": 0.0,
            "due_eur": 79.0,
            "refunded_eur": 0.0,
        }

    @pytest.mark.parametrize("tool", [tools.look_up_order, tools.look_up_invoice])
    async def test_an_unknown_order_is_an_answer_and_not_a_failure(
        self, tool: FunctionTool
    ) -> None:
        answer = await invoke(tool, order_id="A-99")
        assert answer == {"error": "There is no order A-99: please check the number."}

    async def test_a_missing_invoice_is_an_answer(self) -> None:
        answer = await invoke(tools.look_up_invoice, order_id="A-20")
        assert "has no invoice yet" in answer["error"]

    async def test_a_broken_database_is_a_failure_that_retries_may_mend(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SUPPORT_DESK_DB", str(tmp_path))
        with pytest.raises(sqlite3.OperationalError):
            await invoke(tools.look_up_order, order_id="A-17")


class TestWhoMaySeeWhat:
    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            (tools.look_up_order, {}),
            (tools.look_up_invoice, {}),
            (tools.change_address, {"new_address": "Elsewhere 1"}),
            (tools.send_courier, {}),
            (tools.refund_order, {"amount": 1, "reason": "broken"}),
        ],
    )
    async def test_another_customer_s_order_does_not_exist(
        self, tool: FunctionTool, arguments: dict[str, Any], shop: Shop
    ) -> None:
        customer = Customer(customer_id="cust-1001")
        answer = await invoke(tool, a_call(customer), order_id="D-7", **arguments)
        assert answer == {"error": "There is no order D-7: please check the number."}
        assert shop.ledger() == []
        assert customer.last_order is None

    async def test_an_unknown_customer_is_known_by_the_first_order_and_kept_to_it(self) -> None:
        customer = Customer()
        await invoke(tools.look_up_order, a_call(customer), order_id="A-17")
        assert (customer.customer_id, customer.name) == ("cust-1001", "Mara Lindholm")
        assert customer.last_order == "A-17"
        others = await invoke(tools.look_up_order, a_call(customer), order_id="D-7")
        assert "no order D-7" in others["error"]
        own = await invoke(tools.look_up_order, a_call(customer), order_id="A-18")
        assert own["order_id"] == "A-18"
        assert customer.last_order == "A-18"

    async def test_a_name_that_the_application_knows_is_kept(self) -> None:
        customer = Customer(name="Ms Lindholm")
        await invoke(tools.look_up_order, a_call(customer), order_id="A-17")
        assert customer.name == "Ms Lindholm"


class TestEffects:
    async def test_an_address_is_changed_under_the_call_s_key(self, shop: Shop) -> None:
        answer = await invoke(
            tools.change_address, a_call(key="run/7"), order_id="A-18", new_address="Neu 5, Dresden"
        )
        assert answer == {"order_id": "A-18", "new_address": "Neu 5, Dresden"}
        assert [(entry.key, entry.effect) for entry in shop.ledger()] == [
            ("run/7", "address_change")
        ]

    async def test_an_address_that_is_final_is_an_answer(self, shop: Shop) -> None:
        answer = await invoke(tools.change_address, order_id="B-4", new_address="Neu 5, Dresden")
        assert "B-4 is shipped already" in answer["error"]
        assert shop.ledger() == []

    async def test_a_courier_is_booked_once_and_the_call_waits_for_the_report(
        self, shop: Shop
    ) -> None:
        ctx = a_call(key="run/9")
        for _ in range(2):  # as when the worker dies between the booking and the wait's record
            waiting: Any = await invoke(tools.send_courier, ctx, order_id="A-42")
            assert isinstance(waiting, Wait)
        (entry,) = shop.ledger()
        assert (entry.key, entry.effect) == ("run/9", "pickup")
        assert entry.result["report_to"] == ctx.wait_token("courier")

    async def test_a_courier_that_the_shop_refuses_is_an_answer_and_not_waited_for(
        self, shop: Shop
    ) -> None:
        answer = await invoke(tools.send_courier, order_id="A-18")
        assert answer == {
            "error": "Order A-18 is packed: a courier collects only what was delivered."
        }
        assert shop.ledger() == []

    async def test_a_refund_is_made_under_the_call_s_key(self, shop: Shop) -> None:
        answer = await invoke(
            tools.refund_order, a_call(key="run/8"), order_id="A-17", amount=8.5, reason="chipped"
        )
        assert answer == {
            "refund_id": "R-1",
            "order_id": "A-17",
            "amount_eur": 8.5,
            "refunded_in_all_eur": 8.5,
            "arrives": "within five working days",
        }
        (entry,) = shop.ledger()
        assert (entry.key, entry.arguments["amount_cents"]) == ("run/8", 850)

    async def test_a_refund_above_what_one_person_may_approve_needs_the_other_tool(
        self, shop: Shop
    ) -> None:
        shop.refund("C-3", 900_00, "broken", key="k1")
        arguments: dict[str, Any] = {"order_id": "C-3", "amount": 100.01, "reason": "broken"}

        answer = await invoke(tools.refund_order, **arguments)
        assert answer["error"] == (
            "The refunds of order C-3 would come to 1000.01 EUR, which is above 1000.00 EUR. "
            "Use refund_large_order: two colleagues decide about it."
        )
        assert len(shop.ledger()) == 1

        answer = await invoke(tools.refund_large_order, **arguments)
        assert answer["refunded_in_all_eur"] == 1000.01

    async def test_a_refund_up_to_the_limit_is_reported_again_and_not_refused(
        self, shop: Shop
    ) -> None:
        arguments: dict[str, Any] = {"order_id": "C-3", "amount": 1000, "reason": "broken"}
        first = await invoke(tools.refund_order, **arguments)
        assert first["refunded_in_all_eur"] == 1000
        assert await invoke(tools.refund_order, **arguments) == first
        assert len(shop.ledger()) == 1

    @pytest.mark.parametrize(
        ("amount", "said"),
        [
            (60, "49.90 EUR is the most"),
            (0, "above zero"),
            (-3, "above zero, not -3.00 EUR"),
            (0.001, "fraction of a cent"),
        ],
    )
    async def test_a_refund_that_the_shop_refuses_is_an_answer(
        self, shop: Shop, amount: float, said: str
    ) -> None:
        answer = await invoke(tools.refund_order, order_id="A-17", amount=amount, reason="broken")
        assert said in answer["error"]
        assert shop.ledger() == []

    async def test_a_question_becomes_a_ticket_of_this_customer(self, shop: Shop) -> None:
        customer = Customer(customer_id="cust-1001")
        answer = await invoke(tools.ask_human, a_call(customer), question="Is the pan safe?")
        assert answer["ticket_id"] == "T-1"
        (ticket,) = shop.tickets()
        assert (ticket.customer_id, ticket.question) == ("cust-1001", "Is the pan safe?")

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            (tools.change_address, {"order_id": "A-18", "new_address": "Neu 5, Dresden"}),
            (tools.refund_order, {"order_id": "A-17", "amount": 49.9, "reason": "broken"}),
            (tools.refund_large_order, {"order_id": "C-3", "amount": 1480, "reason": "broken"}),
            (tools.ask_human, {"question": "Is the pan safe?"}),
        ],
    )
    async def test_a_repeated_call_answers_the_same_and_does_nothing(
        self, shop: Shop, tool: FunctionTool, arguments: dict[str, Any]
    ) -> None:
        first = await invoke(tool, **arguments)
        assert await invoke(tool, **arguments) == first
        assert len(shop.ledger()) == 1


class TestWhatNeedsAPerson:
    @pytest.mark.parametrize(
        ("order_id", "amount", "person"),
        [
            ("A-17", 49.9, False),
            ("A-42", 100, False),
            ("A-42", 100.01, True),
            ("a-42", 389, True),
            ("A-42", "250.5", True),
        ],
    )
    def test_a_refund_above_the_limit_does(
        self, order_id: str, amount: float | str | None, person: bool
    ) -> None:
        assert needs_person(order_id=order_id, amount=amount, reason="broken") is person

    def test_a_refund_that_needs_two_people_does_not_because_the_tool_refuses_it(self) -> None:
        assert needs_person(order_id="C-3", amount=1000, reason="broken")
        assert not needs_person(order_id="C-3", amount=1000.01, reason="broken")
        assert policies.large_refund.when is None
        assert policies.large_refund.quorum == 2

    def test_what_was_refunded_before_counts(self, shop: Shop) -> None:
        shop.refund("A-42", 60_00, "broken", key="k1")
        assert not needs_person(order_id="A-42", amount=40, reason="broken")
        assert needs_person(order_id="A-42", amount=40.01, reason="broken")

    def test_the_limit_can_be_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SUPPORT_DESK_REFUND_LIMIT", "0")
        assert needs_person(order_id="A-17", amount=0.01, reason="broken")

    @pytest.mark.parametrize(
        ("order_id", "amount"),
        [("A-99", 500), ("A-42", 500), ("B-4", 500), ("A-42", -500), ("A-42", 0.001)],
    )
    def test_a_refund_that_the_shop_refuses_anyway_does_not(
        self, order_id: str, amount: float
    ) -> None:
        assert not needs_person(order_id=order_id, amount=amount, reason="broken")

    def test_another_customer_s_order_does_not_because_it_is_refused(self) -> None:
        ctx = a_call(Customer(customer_id="cust-1001"))
        assert not needs_person(ctx, order_id="D-7", amount=132, reason="broken")

    def test_the_question_leaves_the_context_as_it_was(self) -> None:
        ctx = a_call()
        needs_person(ctx, order_id="A-42", amount=389, reason="broken")
        assert ctx.context == Customer()

    def test_arguments_that_make_no_sense_fail_so_that_a_person_is_asked(self) -> None:
        with pytest.raises(KeyError):
            needs_person(reason="broken")
        with pytest.raises(ValueError, match="a lot"):
            needs_person(order_id="A-42", amount="a lot", reason="broken")


class TestDyingInMidCall:
    """A worker that is killed on either side of the commit, and the attempt after it."""

    ARGUMENTS = json.dumps({"order_id": "A-17", "amount": 49.9, "reason": "broken"})
    SCRIPT = """if True:
        import asyncio, sys
        from outlast import Agent, ToolContext
        from support_desk.context import Customer
        from support_desk.tools import refund_order
        ctx = ToolContext(
            context=Customer(), tool_name="refund_order", tool_call_id="call-1",
            tool_arguments=sys.argv[1], agent=Agent(name="Billing"), idempotency_key="key-1",
        )
        asyncio.run(refund_order.on_invoke_tool(ctx, sys.argv[1]))
    """

    def kill_when(self, condition: Callable[[], bool], path: Path, delay_seconds: float) -> None:
        """Call the tool in another process and kill that once the condition holds."""
        process = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT, self.ARGUMENTS],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(["examples", "."]),
                "SUPPORT_DESK_DB": str(path),
                "SUPPORT_DESK_TOOL_DELAY_SECONDS": str(delay_seconds),
            },
            cwd=EXAMPLES.parent,
        )
        try:
            while not condition():
                assert process.poll() is None, "the tool returned before the condition held"
                time.sleep(0.01)
        finally:
            process.kill()
            assert process.wait(timeout=10) == -signal.SIGKILL

    async def test_killed_before_the_commit_the_next_attempt_makes_the_refund(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The tool opens the shop, looks the order up, and waits.
        path = tmp_path / "another.db"
        self.kill_when(path.exists, path, delay_seconds=120)
        monkeypatch.setenv("SUPPORT_DESK_DB", str(path))
        shop = Shop.open(path)
        assert shop.ledger() == []
        answer = await tools.refund_order.on_invoke_tool(a_call(), self.ARGUMENTS)
        assert answer["amount_eur"] == 49.9
        assert [entry.key for entry in shop.ledger()] == ["key-1"]

    @pytest.mark.full
    async def test_killed_after_the_commit_the_next_attempt_only_reports_it(
        self, shop: Shop
    ) -> None:
        self.kill_when(lambda: bool(shop.ledger()), shop.path, delay_seconds=2)
        before = shop.ledger()
        answer = await tools.refund_order.on_invoke_tool(a_call(), self.ARGUMENTS)
        assert (answer["refund_id"], answer["amount_eur"]) == ("R-1", 49.9)
        assert shop.ledger() == before
        assert shop.look_up_order("A-17").refunded_cents == 4990
