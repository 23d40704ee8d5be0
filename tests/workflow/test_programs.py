"""Programs side by side on one machine: each carries its own runs, with its own agents."""

import contextlib
import os
import signal
from asyncio import gather, sleep, timeout
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests import forked

ROOT = Path(__file__).parents[2]

SECONDS_PER_PROGRAM = 90

START = """
import asyncio, sys
from pathlib import Path
from outlast import Agent, Runner, function_tool
from outlast.testing import ScriptedModel, call, say

def note(name, line):
    with Path(name).open("a") as file:
        file.write(line + "\\n")
"""

AN_AGENT_PER_REQUEST = """
async def answer(user):
    @function_tool
    async def greet() -> str:
        arrived.append(user)
        while len(arrived) < 3:  # so that all of them are at work at once
            await asyncio.sleep(0.01)
        return f"Hello {user}"

    def reply(request):
        last = request.input[-1]
        text = last.get("output")
        return say(f"{request.instructions} {text}") if text else [call("greet", "c1")]

    agent = Agent(
        name="Support", instructions=f"For {user}:", tools=[greet], model=ScriptedModel(always=reply)
    )
    if user == "cy":
        stream = Runner.run_streamed(agent, "Hi")
        async for _ in stream.stream_events():
            pass
        return stream.final_output
    return (await Runner.run(agent, "Hi")).final_output

arrived = []

async def main():
    for line in await asyncio.gather(answer("ann"), answer("bob"), answer("cy")):
        print(line)

asyncio.run(main())
"""

WHO_ARE_YOU = """
me = sys.argv[1]

async def main():
    agent = Agent(name="Assistant", model=ScriptedModel(always=f"I am {me}"))
    first = await Runner.run(agent, "Who are you?")
    note("ready", me)
    while len(Path("ready").read_text().split()) < int(sys.argv[2]):
        await asyncio.sleep(0.01)
    answers = await asyncio.gather(*(Runner.run(agent, "And who are you?") for _ in range(8)))
    print({one.final_output for one in (first, *answers)})

asyncio.run(main())
"""

LEAVES_A_RUN = """
@function_tool
async def work() -> str:
    note("ledger", sys.argv[1])
    while not Path("door").exists():
        await asyncio.sleep(0.01)
    return "done"

async def main():
    replies = lambda request: say("Done.") if len(request.input) > 1 else [call("work", "c1")]
    agent = Agent(name="Assistant", model=ScriptedModel(always=replies), tools=[work])
    if sys.argv[1] == "start":
        await Runner.start(agent, "Work", id="left-42")
        await asyncio.Event().wait()
    if sys.argv[1] == "again":
        handle = await Runner.attach("left-42", agent=agent)
        print((await handle.result()).final_output)
    print((await Runner.run(agent, "Hello again, and then")).final_output)

asyncio.run(main())
"""

REFUND = """
@function_tool(needs_approval=True)
async def refund(order: str) -> str:
    note("ledger", f"{sys.argv[0]} {order}")
    return f"refunded {order}"

def reply(request):
    outputs = [one["output"] for one in request.input if one.get("type") == "function_call_output"]
    return say(outputs[0]) if outputs else [call("refund", "c1", order="A-17")]

def clerk():
    return Agent(name="Clerk", model=ScriptedModel(always=reply), tools=[refund])
"""

ASKS = (
    REFUND
    + """
async def main():
    result = await Runner.run(clerk(), "Refund A-17")
    Path("state.json").write_text(result.to_state().to_string())
    if "stay" in sys.argv:
        note("waiting", "yes")
        await asyncio.Event().wait()
    print(len(result.interruptions))

asyncio.run(main())
"""
)

DECIDES = (
    REFUND
    + """
from outlast import RunState

async def main():
    agent = clerk()
    state = await RunState.from_string(agent, Path("state.json").read_text())
    for one in state.get_interruptions():
        state.approve(one)
    print((await Runner.run(agent, state)).final_output)

asyncio.run(main())
"""
)

ASKS_AGAIN = (
    REFUND
    + """
async def main():
    result = await Runner.run(clerk(), "Refund A-17", id="refund-17")
    print(result.final_output or "It waits.")

asyncio.run(main())
"""
)

DECIDES_WITHOUT_WORKER = """
async def main():
    run = await Runner.attach("refund-17")
    (request,) = await run.approvals()
    deciding = asyncio.create_task(run.approve(request.id, args_digest=request.args_digest))
    while not (await run.check()).raw_description.HasField("pending_workflow_task"):
        await asyncio.sleep(0.01)
    note("sent", "yes")
    receipt = await deciding
    print("kept" if receipt.is_kept else receipt.status)

asyncio.run(main())
"""

JOINS = """
@function_tool
async def work() -> str:
    note("ledger", sys.argv[0])
    while not Path("door").exists():
        await asyncio.sleep(0.01)
    return "done"

def reply(request):
    return say("Done.") if len(request.input) > 1 else [call("work", "c1")]

async def main():
    agent = Agent(name="Assistant", model=ScriptedModel(always=reply), tools=[work])
    print((await Runner.run(agent, "Work", id="joined-42")).final_output)

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def program(home: Path, name: str, text: str, *arguments: str) -> AsyncGenerator[Process]:
    """Run a program of a file; it is gone afterwards."""
    (home / name).write_text(START + text)
    ours = ("TEMPORAL_", "OUTLAST_", "OPENAI_", "XDG_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {
        "XDG_DATA_HOME": str(home / "data"),
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }
    if "OUTLAST_TEMPORAL_CLI" in os.environ:
        environment["OUTLAST_TEMPORAL_CLI"] = os.environ["OUTLAST_TEMPORAL_CLI"]
    process = await forked.start(
        name, *arguments, cwd=home, env=environment, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def output_of(home: Path, name: str, text: str, *arguments: str) -> list[str]:
    """Return what a program prints; it must end well and say nothing on the side."""
    async with program(home, name, text, *arguments) as process:
        async with timeout(SECONDS_PER_PROGRAM):
            out, err = await process.communicate()
        assert (process.returncode, err.decode()) == (0, "")
        return out.decode().splitlines()


def _is_written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


async def exists(path: Path, process: Process) -> None:
    """Wait until a program has written a file."""
    async with timeout(SECONDS_PER_PROGRAM):
        while not _is_written(path):
            assert process.returncode is None, "the program has ended"
            await sleep(0.01)


async def killed(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


@pytest.mark.full
async def test_an_agent_per_request_is_the_agent_of_its_request(tmp_path: Path):
    assert await output_of(tmp_path, "requests.py", AN_AGENT_PER_REQUEST) == [
        f"For {user}: Hello {user}" for user in ("ann", "bob", "cy")
    ]


async def test_programs_with_an_agent_of_one_name_answer_their_own_questions(tmp_path: Path):
    names = ["one.py", "two.py", "two.py"]  # the last is the same program, with other arguments
    programs = [
        output_of(tmp_path, name, WHO_ARE_YOU, f"{number}", "3")
        for number, name in enumerate(names)
    ]
    assert await gather(*programs) == [[f"{{'I am {number}'}}"] for number in range(3)]


@pytest.mark.full
async def test_a_run_that_is_left_is_found_by_its_own_program_and_no_other(tmp_path: Path):
    ledger = tmp_path / "ledger"
    async with program(tmp_path, "one.py", LEAVES_A_RUN, "start") as process:
        await exists(ledger, process)
        await killed(process)
    (tmp_path / "door").touch()
    assert await output_of(tmp_path, "two.py", LEAVES_A_RUN, "other") == ["Done."]
    assert sorted(ledger.read_text().split()) == ["other", "start"]
    assert await output_of(tmp_path, "one.py", LEAVES_A_RUN, "again") == ["Done.", "Done."]
    assert sorted(ledger.read_text().split()) == ["again", "again", "other", "start"]


@pytest.mark.full
async def test_another_program_decides_and_carries_the_run_on(tmp_path: Path):
    assert await output_of(tmp_path, "asks.py", ASKS) == ["1"]
    assert await output_of(tmp_path, "decides.py", DECIDES) == ["refunded A-17"]
    assert (tmp_path / "ledger").read_text() == "decides.py A-17\n"


@pytest.mark.full
async def test_a_decision_that_is_sent_while_no_program_runs_counts_when_it_runs_again(
    tmp_path: Path,
):
    assert await output_of(tmp_path, "asks.py", ASKS_AGAIN) == ["It waits."]
    async with program(tmp_path, "decides.py", DECIDES_WITHOUT_WORKER) as process:
        await exists(tmp_path / "sent", process)
        assert await output_of(tmp_path, "asks.py", ASKS_AGAIN) == ["refunded A-17"]
        # On a slow machine the other program takes longer than the server waits.
        assert (await process.communicate())[0] in {b"approved\n", b"kept\n"}
    assert (tmp_path / "ledger").read_text() == "asks.py A-17\n"


@pytest.mark.full
async def test_a_decision_outlasts_the_program_that_sent_it_while_no_other_ran(tmp_path: Path):
    assert await output_of(tmp_path, "asks.py", ASKS_AGAIN) == ["It waits."]
    assert await output_of(tmp_path, "decides.py", DECIDES_WITHOUT_WORKER) == ["kept"]
    assert await output_of(tmp_path, "asks.py", ASKS_AGAIN) == ["refunded A-17"]
    assert (tmp_path / "ledger").read_text() == "asks.py A-17\n"


@pytest.mark.full
async def test_a_program_that_still_waits_carries_its_run_on_when_another_has_decided(
    tmp_path: Path,
):
    async with program(tmp_path, "asks.py", ASKS, "stay") as process:
        await exists(tmp_path / "waiting", process)
        assert await output_of(tmp_path, "decides.py", DECIDES) == ["refunded A-17"]
    assert (tmp_path / "ledger").read_text() == "asks.py A-17\n"


@pytest.mark.full
async def test_who_joins_a_run_of_another_program_carries_it_once_that_is_killed(tmp_path: Path):
    ledger = tmp_path / "ledger"
    async with (
        program(tmp_path, "one.py", JOINS) as one,
        program(tmp_path, "two.py", JOINS) as two,
    ):
        await exists(ledger, one)
        first = ledger.read_text().strip()
        carrier, other = (one, two) if first == "one.py" else (two, one)
        await killed(carrier)
        (tmp_path / "door").touch()
        async with timeout(SECONDS_PER_PROGRAM):
            out, err = await other.communicate()
        assert (out.decode(), err.decode()) == ("Done.\n", "")
    assert sorted(ledger.read_text().split()) == ["one.py", "two.py"]
