"""The desk of the page "build another desk": 150 lines of public names, as a process of its own."""

import ast
import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from outlast import Agent, ApprovalPolicy, function_tool
from outlast.contract.identity import new_shared_key
from outlast.testing import ScriptedModel, call, say
from tests import forked
from tests.workflow.desk import Desk

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = EXAMPLES / "another_desk" / "desk.py"
PATIENCE_SECONDS = 20
GROUP = ApprovalPolicy(audience="support", redact=["iban"])


class Screen:
    """What a person types at the desk, and what they read."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[str] = []

    def types(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    async def reads(self, *words: str) -> str:
        """Read on until a line has all of these words, and return it."""
        assert self.process.stdout is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while line := (await self.process.stdout.readline()).decode():
                    self.seen.append(line)
                    if all(word in line for word in words):
                        return line
        raise AssertionError(f"{words} did not appear: {''.join(self.seen)}")


@asynccontextmanager
async def at_the_desk(desk: Desk, who: str, *groups: str) -> AsyncGenerator[Screen]:
    process = await forked.start_anew(
        *("-m", "another_desk.desk", who, "--groups", *groups),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=EXAMPLES,
        env={
            **os.environ,
            "TEMPORAL_ADDRESS": desk.client.service_client.config.target_host,
            "TEMPORAL_NAMESPACE": desk.client.namespace,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "PYTHONUNBUFFERED": "1",
        },
    )
    screen = Screen(process)
    yield screen
    screen.types("quit")
    await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert process.returncode == 0


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk and the workers trust one key."""
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())


async def test_it_lists_shows_decides_takes_over_and_follows(desk: Desk) -> None:
    @function_tool(needs_approval=GROUP)
    def refund(order: str, iban: str) -> str:
        """Refund an order."""
        return f"{order} is refunded"

    agent = Agent(name="Clerk", tools=[refund])
    model = ScriptedModel(
        [call("refund", "c1", order="A-17", iban="DE4217")],
        say("It is refunded."),
        say("Good bye."),
    )
    await desk.open(agent, model=model)
    run = await desk.start(agent, "Refund A-17.", keep_open=True)
    await run.wait(lambda now: now.status == "waiting")

    async with at_the_desk(desk, "eve", "sales") as eve, at_the_desk(desk, "ann", "support") as ann:
        eve.types(f"show {run.id}")
        await eve.reads("not for you", "eve may not do this")

        ann.types("list")  # visibility is a moment behind
        while run.id not in (line := await ann.reads("")):
            ann.types("list")
        assert "refund" in line
        ann.types(f"approve {run.id} a1")
        await ann.reads("Not done: Look at it first")
        ann.types(f"show {run.id}")
        await ann.reads("call: refund (a1)")
        assert "[redacted]" in await ann.reads("iban")
        await ann.reads("for: the group support")
        ann.types(f"follow {run.id}")
        await ann.reads(run.id, "waiting")
        ann.types(f"approve {run.id} a1")
        await ann.reads("pproved")
        await ann.reads("assistant: It is refunded.")
        await ann.reads(run.id, "idle")

        ann.types(f"take {run.id}")
        await ann.reads(f"You have {run.id}.")
        eve.types(f"say {run.id} I am eve.")
        await eve.reads("Not done: ann has the conversation")
        ann.types(f"say {run.id} This is Ann. Anything else?")
        await ann.reads("colleague: This is Ann. Anything else?")
        ann.types(f"give {run.id} They are happy.")
        await ann.reads("Clerk goes on.")
        ann.types(f"show {run.id}-other")
        await ann.reads("Not done:", f"{run.id}-other")
        ann.types("dance")
        await ann.reads("list", "what waits for you")
        assert "DE4217" not in "".join(ann.seen + eve.seen)


def test_it_is_short_and_imports_public_names_only() -> None:
    source = PROGRAM.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 150
    tree = ast.parse(source)
    modules = {one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    ours = {one for one in modules if one and one.split(".")[0] == "outlast"}
    index = (EXAMPLES.parent / "docs/reference/api/index.md").read_text(encoding="utf-8")
    assert [one for one in sorted(ours) if f"| `{one}` |" not in index] == []
    assert sys.modules["outlast"].__name__ in ours
