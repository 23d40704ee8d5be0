"""The command line from end to end: a real server, a worker and a model as processes, `outlast`.

Only what a person would type, in the order in which the support desk's README says it. The first of each
command is started as a person starts it, and the others are forked.
"""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outlast.client.identity import os_user
from outlast.testing.demo.desk_model import answer
from outlast.testing.demo.responses_server import ResponsesServer
from tests import forked
from tests.servers import TemporalServer

EXAMPLES = Path(__file__).parents[2] / "examples"
QUEUE = "support-desk-cli"
REFUND = "My espresso machine, order A-42, leaks. I want my money back."


class Done(NamedTuple):
    code: int | None
    out: str
    err: str


class Terminal:
    """Where somebody types."""

    def __init__(self, server: TemporalServer, home: Path) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "OPENAI_"))}
        self._home = home
        self._typed = set[str]()
        self.environment = {
            **kept,
            "TEMPORAL_ADDRESS": server.address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "OUTLAST_DATA_DIR": str(home),
            "SUPPORT_DESK_DB": str(home / "shop.db"),
            "SUPPORT_DESK_BILLING": os_user().subject,
        }

    async def start(self, module: str, *arguments: str) -> asyncio.subprocess.Process:
        typed = " ".join((module, *arguments[:1]))
        start = forked.start if typed in self._typed else forked.start_anew
        self._typed.add(typed)
        return await start(
            *("-m", module, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._home,
            env=self.environment,
        )

    async def outlast(self, *arguments: str) -> Done:
        process = await self.start("outlast.cli.entry", *arguments)
        out, err = await asyncio.wait_for(process.communicate(), 60)
        return Done(process.returncode, out.decode(), err.decode())

    async def json(self, *arguments: str) -> Any:
        done = await self.outlast(*arguments, "--json")
        assert done.code == 0, done
        return json.loads(done.out)


@pytest.fixture(scope="module")
async def terminal(
    server: TemporalServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Terminal]:
    """A terminal on a machine where the support desk's worker and its scripted model run."""
    terminal = Terminal(server, tmp_path_factory.mktemp("desk"))
    with ResponsesServer(answer) as model:
        terminal.environment |= {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "scripted"}
        async for one in with_worker(terminal):
            yield one


async def with_worker(terminal: Terminal) -> AsyncIterator[Terminal]:
    worker = await terminal.start(
        *("outlast.cli.entry", "worker", "support_desk.app", "--app-dir", str(EXAMPLES)),
        *("--task-queue", QUEUE, "--json"),
    )
    assert worker.stdout is not None
    ready = json.loads(await asyncio.wait_for(worker.stdout.readline(), 30))
    assert ready["agents"] == ["Billing", "Orders", "Triage"]
    yield terminal
    worker.terminate()
    assert (await worker.communicate(), worker.returncode)[1] == 0


@pytest.fixture
def run_id() -> str:
    return f"support-{secrets.token_hex(4)}"


async def test_a_refund_is_asked_for_shown_listed_approved_and_talked_about(
    terminal: Terminal, run_id: str
) -> None:
    asked = await terminal.outlast(
        *("run", "Triage", REFUND, "--id", run_id, "--keep-open", "--task-queue", QUEUE),
        *("--by", "cust-1001"),
    )
    assert (asked.code, asked.out) == (3, "")
    assert "Triage     hands over to Billing" in asked.err
    assert f"outlast approve {run_id} a1" in asked.err

    record = await terminal.json("show", run_id)
    assert (record["status"], record["agent"]) == ("waiting", "Billing")
    assert record["handoff_path"] == ["Triage", "Billing"]
    assert [approval["name"] for approval in record["approvals"]] == ["refund_order"]
    assert "refund_order(order_id=" in (await terminal.outlast("show", run_id)).out

    waiting: list[str] = []
    async with asyncio.timeout(30):  # visibility is a moment behind
        while run_id not in waiting:
            waiting = [row["run_id"] for row in await terminal.json("list", "--waiting")]
    assert run_id in (await terminal.outlast("list", "--agent", "Billing")).out

    seen = ("--yes", "--digest", record["approvals"][0]["digest"][:16])
    unasked = await terminal.outlast("approve", run_id)
    assert unasked.code == 2
    assert f"outlast approve {run_id} a1 {seen[1]} {seen[2]} --yes" in unasked.err
    unproved = await terminal.outlast("approve", run_id, "--by", "ann", *seen)
    assert unproved.code == 5
    assert "needs proof of who decides" in unproved.err
    approved = await terminal.json("approve", run_id, *seen)
    assert (approved["status"], approved["tool"]) == ("approved", "refund_order")

    answered = await terminal.outlast("send", run_id, "Thanks! Where is my order A-17?")
    assert answered.code == 0
    assert "Order A-17 is delivered." in answered.out

    record = await terminal.json("show", run_id)
    assert record["status"] == "idle"
    texts = [entry["text"] for entry in record["transcript"]]
    assert any("I have refunded 389.00 EUR for order A-42." in text for text in texts)

    assert (await terminal.outlast("cancel", run_id, "--after-turn")).code == 0
    late = await terminal.outlast("send", run_id, "One more thing")
    assert late.code == 4
    assert f"The run {run_id} has ended" in late.err


@pytest.mark.full
async def test_a_program_reads_json_lines_and_then_the_result(
    terminal: Terminal, run_id: str
) -> None:
    done = await terminal.outlast(
        *("run", "Triage", "Where is my order A-17?", "--id", run_id, "--task-queue", QUEUE),
        *("--context", '{"customer_id": "cust-1001"}', "--json"),
    )

    records = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert [one["name"] for one in records if one["type"] == "tool_called"] == ["look_up_order"]
    assert records[-1]["type"] == "result"
    assert records[-1]["final_output"].startswith("Order A-17 is delivered.")
    record = await terminal.json("show", run_id)
    assert record["context"]["last_order"] == "A-17"


@pytest.mark.full
async def test_a_customer_sees_no_other_customer_s_order(terminal: Terminal) -> None:
    done = await terminal.outlast(
        *("run", "Triage", "Where is my order D-7?", "--task-queue", QUEUE),
        *("--context", '{"customer_id": "cust-1001"}'),
    )

    assert done.code == 0
    assert "There is no order D-7" in done.out


@pytest.mark.full
async def test_a_run_that_somebody_cancels_tells_who_waits_for_it(
    terminal: Terminal, run_id: str
) -> None:
    other = "Please refund order D-7, the knives are blunt."
    asked = await terminal.outlast("run", "Triage", other, "--id", run_id, "--task-queue", QUEUE)
    assert asked.code == 3

    assert (await terminal.json("cancel", run_id))["cancel"] == "immediate"

    async with asyncio.timeout(30):
        while (await terminal.json("show", run_id))["status"] != "cancelled":
            pass
    again = await terminal.outlast("approve", run_id)
    assert again.code == 5
    assert "waits for no approval: it is cancelled" in again.err


@pytest.mark.full
async def test_starting_a_run_takes_no_time_and_anybody_may_join_it(
    terminal: Terminal, run_id: str
) -> None:
    question = ("run", "Triage", "Where is my order A-17?", "--id", run_id, "--task-queue", QUEUE)

    assert (await terminal.json(*question, "--detach"))["run_id"] == run_id
    joined = await terminal.outlast(*question)

    assert joined.code == 0
    assert joined.out.startswith("Order A-17 is delivered.")
