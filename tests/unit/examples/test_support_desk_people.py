"""The desk's people, on a server, with the demo's script as the model."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support_desk import conversation, settings
from support_desk.app import agents, context_type
from support_desk.shop import Shop
from temporalio.client import Client
from typer.testing import CliRunner

from outlast import Person, RunHandle, Runner, RunResult
from outlast.agents.errors import DecisionRefused, UserError
from outlast.cli.app import app
from outlast.models import OpenAIProvider
from outlast.testing.demo.desk_model import NOT_DECIDED, answer
from outlast.testing.demo.responses_server import ResponsesServer
from outlast.worker import AgentWorker
from tests.servers import TemporalServer

POLICIES = Path(conversation.__file__).with_name("policies.toml")
MARA = "cust-1001"
ANN = Person(subject="ann", groups=("billing",))
BOB = Person(subject="bob", groups=("billing",))
LEE = Person(subject="lee", display="Lee", groups=("leads",))
REFUND = "Please refund order A-42, it arrived broken."
LARGE_REFUND = "Please refund order C-3, it arrived broken."
HUMAN = "Can I talk to a human?"
PATIENCE_SECONDS = 30


@dataclass(kw_only=True)
class OpenDesk:
    """The desk with its worker, its shop and its model.

    Attributes:
        client: connected to the server.
        task_queue: the worker's queue.
        shop: the database.
        requests: the bodies of the model's requests, oldest first.
    """

    client: Client
    shop: Shop
    task_queue: str = field(default_factory=lambda: f"desk-{secrets.token_hex(4)}")
    requests: list[Any] = field(default_factory=list[Any])

    async def start(self, text: str, customer_id: str = MARA) -> RunHandle:
        """Start a conversation as the application does."""
        runner = Runner.using(client=self.client, task_queue=self.task_queue)
        return await conversation.start(
            runner, f"support-{secrets.token_hex(4)}", customer_id, text
        )

    async def asked(self, text: str, customer_id: str = MARA) -> RunHandle:
        """Start a conversation, and return when it waits for people."""
        handle = await self.start(text, customer_id)
        await settled(handle)
        return handle


async def settled(handle: RunHandle) -> RunResult:
    """Wait until a conversation is answered, or waits for people."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await handle.wait_for_people()


async def until(handle: RunHandle, condition: Callable[[Any], bool]) -> RunResult:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await handle.wait(condition)


@pytest.fixture
async def open_desk(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Any]]:
    """Opens a desk, perhaps with an operators' file."""
    monkeypatch.setenv(settings.DATABASE, str(tmp_path / "shop.db"))
    client = await server.connect()
    async with AsyncExitStack() as stack:

        async def open_it(approvals: Path | None = None) -> OpenDesk:
            desk = OpenDesk(client=client, shop=Shop.open(tmp_path / "shop.db"))

            def model(body: Any) -> Any:
                desk.requests.append(body)
                return answer(body)

            model_server = stack.enter_context(ResponsesServer(model))
            provider = OpenAIProvider(base_url=model_server.base_url, api_key="scripted")
            worker = AgentWorker(
                client,
                agents=agents,
                context_types=[context_type],
                task_queue=desk.task_queue,
                model_provider=provider,
                approvals=approvals,
            )
            await stack.enter_async_context(worker)
            return desk

        yield open_it


# --- Refunds ---------------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_a_person_edits_the_amount_and_the_answer_says_what_was_paid(open_desk: Any) -> None:
    desk = await open_desk()
    handle = await desk.asked(REFUND)
    (request,) = await handle.approvals()
    assert (request.name, request.terms.risk, request.terms.effect) == (
        *("refund_order", "medium", "irreversible"),
    )

    edited = {"order_id": "A-42", "amount": 350, "reason": "broken"}
    receipt = await handle.edit(request, edited, by=ANN)

    assert (receipt.status, receipt.by) == ("edited", "ann")
    result = await settled(handle)
    assert str(result.final_output).startswith(
        "I have refunded 350.00 EUR for order A-42, the amount that a colleague has set."
    )
    assert desk.shop.look_up_order("A-42").refunded_cents == 350_00
    assert "A person changed the arguments of this call" in str(desk.requests[-1]["input"])


async def test_a_large_refund_needs_two_different_people(open_desk: Any) -> None:
    desk = await open_desk()
    handle = await desk.asked(LARGE_REFUND)
    (request,) = await handle.approvals()
    assert (request.name, request.terms.risk) == ("refund_large_order", "high")

    first = await handle.approve(request, by=ANN)
    assert (first.status, first.votes, first.votes_needed) == ("pending", 1, 2)
    with pytest.raises(DecisionRefused, match="a different person has to agree"):
        await handle.approve(request, by=ANN, idempotency_key="again")
    assert desk.shop.look_up_order("C-3").refunded_cents == 0

    second = await handle.approve(request, by=BOB)
    assert (second.status, second.votes) == ("approved", 2)
    assert "I have refunded 1480.00 EUR" in str((await settled(handle)).final_output)
    assert desk.shop.look_up_order("C-3").refunded_cents == 1480_00


async def test_an_edit_cannot_raise_a_refund_past_what_one_person_may_approve(
    open_desk: Any,
) -> None:
    desk = await open_desk()
    handle = await desk.asked("Please refund 900 EUR for order C-3, the oven is broken.")
    (request,) = await handle.approvals()
    assert request.name == "refund_order"

    edited = {"order_id": "C-3", "amount": 1480, "reason": "broken"}
    await handle.edit(request, edited, by=ANN)

    result = await settled(handle)
    assert [one.tool_name for one in result.interruptions] == ["refund_large_order"]
    assert desk.shop.look_up_order("C-3").refunded_cents == 0


async def test_whoever_asks_for_a_refund_does_not_decide_it(open_desk: Any) -> None:
    desk = await open_desk()
    handle = await desk.asked(REFUND)
    (request,) = await handle.approvals()
    colleague = Person(subject=MARA, groups=("billing",))

    with pytest.raises(DecisionRefused, match="somebody else has to decide"):
        await handle.approve(request, by=colleague)
    with pytest.raises(DecisionRefused, match="for the group billing"):
        await handle.approve(request, by=LEE)

    assert (await handle.approve(request, by=ANN)).status == "approved"
    await settled(handle)
    assert desk.shop.look_up_order("A-42").refunded_cents == 389_00


async def test_a_refund_that_nobody_decides_is_not_paid_and_the_customer_is_told(
    open_desk: Any, tmp_path: Path
) -> None:
    quick = tmp_path / "quick.toml"
    quick.write_text('[tool.refund_order]\naudience = "billing"\nexpires_in = "1s"\n', "utf-8")
    desk = await open_desk(quick)

    handle = await desk.start(REFUND)
    result = await until(handle, lambda state: len(state.answers) == 1)

    assert result.final_output == NOT_DECIDED["refund_order"]
    assert [one.status for one in (await handle.state()).approvals] == ["expired"]
    assert desk.shop.look_up_order("A-42").refunded_cents == 0
    assert "nobody decided in time" in str(desk.requests[-1]["input"])
    assert "say that nothing has been paid yet" in desk.requests[-1]["instructions"]


# --- Humans ----------------------------------------------------------------------------------------


async def test_a_customer_who_asks_for_a_human_gets_one(open_desk: Any) -> None:
    desk = await open_desk()
    handle = await desk.asked(HUMAN)
    (request,) = await handle.approvals()
    assert (request.name, request.terms.audience.groups) == ("ask_human", ("leads",))

    with pytest.raises(UserError, match="for the group leads"):
        await handle.hold(by=ANN)
    with pytest.raises(DecisionRefused, match="who approves this takes the conversation over"):
        await handle.approve(request, by=LEE)
    held = await handle.hold(by=LEE)
    assert (held.by, held.approved) == ("lee", ("a1",))
    await until(handle, lambda state: state.is_held)
    calls = len(desk.requests)

    await handle.say("Hello, this is Lee. How can I help?", by=LEE)
    reply = await handle.send("Please keep my parcel at the post office.")
    state = (await until(handle, lambda one: reply.id in one.answering)).snapshot
    assert (state.status, len(desk.requests)) == ("held", calls)
    assert state.answers[0].to == ("start",)
    assert state.items[state.answers[0].item or 0].agent == "lee"

    await handle.release(by=LEE, note="The post office keeps it for a week.")

    async with asyncio.timeout(PATIENCE_SECONDS):
        result = await reply.answer()
    assert result.final_output == "Lee has told me: The post office keeps it for a week."
    assert [one.question for one in desk.shop.tickets()] == [HUMAN]


async def test_a_customer_reads_that_no_human_is_free(open_desk: Any, tmp_path: Path) -> None:
    quick = tmp_path / "quick.toml"
    quick.write_text('[tool.ask_human]\naudience = "leads"\nexpires_in = "1s"\n', "utf-8")
    desk = await open_desk(quick)

    handle = await desk.start(HUMAN)
    result = await until(handle, lambda state: len(state.answers) == 1)

    assert result.final_output == NOT_DECIDED["ask_human"]
    assert desk.shop.tickets() == []


# --- Budgets and operators' files ------------------------------------------------------------------


async def test_a_conversation_that_has_used_its_tokens_asks_a_lead(
    open_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.TOKENS, "10")
    desk = await open_desk()
    handle = await desk.asked("Where is my order A-17?")
    (request,) = await handle.approvals()
    assert (request.kind, request.terms.audience.groups) == ("budget", ("leads",))
    assert "10 tokens" in str(request.reason)

    with pytest.raises(DecisionRefused, match="for the group leads"):
        await handle.approve(request, by=ANN)
    await handle.edit(request, {"extend_by": 50_000}, by=LEE)

    assert str((await settled(handle)).final_output).startswith("Order A-17 is delivered.")


async def test_the_operators_file_fits_the_desk_and_outranks_its_limits(open_desk: Any) -> None:
    checked = CliRunner().invoke(
        app,
        [
            *("policy", "check", str(POLICIES), "support_desk.app"),
            *("--app-dir", str(POLICIES.parents[1])),
        ],
    )
    assert checked.exit_code == 0, checked.output
    assert "2 of the group billing" in checked.output

    desk = await open_desk(POLICIES)
    handle = await desk.asked("Please refund order A-17, it is chipped.")
    (request,) = await handle.approvals()
    assert request.terms.policy == "tool.refund_order"

    await handle.approve(request, by="bob")  # named in the file, whatever the sign-in says
    assert "I have refunded 49.90 EUR" in str((await settled(handle)).final_output)
