"""Scripts as users write them, in processes of their own: nothing configured, killed, run again."""

import asyncio
import contextlib
import os
import re
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowExecutionDescription

from tests import forked
from tests.servers import TemporalServer

ROOT = Path(__file__).parents[2]

SECONDS_PER_SCRIPT = 60

COMPLAINT = re.compile(
    r"Traceback|Exception ignored|Unclosed|destroyed but|never (retrieved|awaited)"
)
"""What Python and packages say at the end of a script in which something failed or is open."""

START = """
import asyncio
from pathlib import Path
from outlast import Agent, Runner, UserError, function_tool
from outlast.testing import ScriptedModel, call, say

@function_tool
def look_up(order: str) -> str:
    return f"{order} is on its way"

def helper():
    steps = [call("look_up", "c1", order="A-17")], "It is on its way."
    return Agent(name="Helper", model=ScriptedModel(*steps), tools=[look_up])
"""

ASK = """
async def main():
    result = await Runner.run(helper(), "Where is A-17?", id="support-42")
    print(result.final_output, result.turns)

asyncio.run(main())
"""

ASK_SYNC = """
print(Runner.run_sync(helper(), "Where is A-17?", id="sync-42").final_output)
print(Runner.run_sync(helper(), "And again?", id="sync-43").final_output)
"""

START_BY_NAME = """
async def main():
    handle = await Runner.start("Nobody here", "Hello", id="nobody-42")
    again = await Runner.attach("nobody-42")
    state = await again.state()
    print(handle, state.status, state.turns)

asyncio.run(main())
"""

REFUND = """
from datetime import timedelta
from outlast import RunConfig, ToolContext

def note(name, line):
    with Path(name).open("a") as file:
        file.write(line + "\\n")

@function_tool
async def refund(ctx: ToolContext, order: str) -> str:
    note("ledger", f"{ctx.idempotency_key} {order} attempt {ctx.attempt}")
    while not Path("door").exists():
        await asyncio.sleep(0.01)
    return f"refunded {order}"

def reply(request):
    outputs = [one["output"] for one in request.input if one.get("type") == "function_call_output"]
    note("asked", str(len(request.input)))
    return say(outputs[0]) if outputs else [call("refund", "c1", order="A-17")]

async def main():
    agent = Agent(name="Clerk", model=ScriptedModel(always=reply), tools=[refund])
    config = RunConfig(heartbeat_timeout=timedelta(seconds=2))
    result = await Runner.run(agent, "Refund A-17", id="support-42", run_config=config)
    print(result.final_output)

asyncio.run(main())
"""

ASK_FORKED = """
import os

def ask(question):
    return Runner.run_sync(helper(), "Where is A-17?", id=question).final_output

print(ask("parent-42"), flush=True)
child = os.fork()
if child == 0:
    try:
        print(ask("child-42"), flush=True)
    except UserError as error:
        print(str(error).split(",")[0], flush=True)
    raise SystemExit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

OBSERVED = """
import threading
from outlast import add_trace_processor
from outlast.tracing import BatchTraceProcessor, TracingExporter, TracingProcessor

class Names(TracingProcessor):
    names = []
    def on_trace_start(self, trace): self.names.append("trace")
    def on_trace_end(self, trace): self.names.append("/trace")
    def on_span_start(self, span): self.names.append(span.span_data.type)
    def on_span_end(self, span): self.names.append("/" + span.span_data.type)
    def force_flush(self): pass
    def shutdown(self): print("shut down")

class Hangs(Names):
    def hang(self, *_): threading.Event().wait()
    on_trace_start = on_trace_end = on_span_start = on_span_end = shutdown = force_flush = hang

class Exporter(TracingExporter):
    def export(self, items): threading.Event().wait()

for one in (Names(), Hangs(), BatchTraceProcessor(Exporter(), schedule_delay=0)):
    add_trace_processor(one)
for question in ("observed-42", "observed-43"):
    print(Runner.run_sync(helper(), "Where is A-17?", id=question).final_output)
    print(*Names.names)
    Names.names.clear()
"""

LOSE_THE_SERVER = """
import os, signal
from outlast.dev import running_server

async def main():
    home = Path("data/outlast")
    for question in ("server-42", "server-43"):
        result = await Runner.run(helper(), "Where is A-17?", id=question)
        print(result.final_output)
        os.kill(running_server(home).pid, signal.SIGKILL)
        while running_server(home) is not None:
            await asyncio.sleep(0.01)

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def script(
    text: str, home: Path, *, address: str | None = None, anew: bool = False
) -> AsyncGenerator[Process]:
    """Run a script in a directory of its own; it is gone afterwards.

    Args:
        text: what it does.
        home: its directory.
        address: the server that the environment names.
        anew: whether it loads its packages itself.
    """
    ours = ("TEMPORAL_", "OUTLAST_", "OPENAI_", "XDG_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # No profile file of the machine's user counts either.
    environment |= {
        "XDG_DATA_HOME": str(home / "data"),
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }
    if "OUTLAST_TEMPORAL_CLI" in os.environ:
        environment["OUTLAST_TEMPORAL_CLI"] = os.environ["OUTLAST_TEMPORAL_CLI"]
    if address is not None:
        environment["TEMPORAL_ADDRESS"] = address
    start = forked.start_anew if anew else forked.start
    process = await start("-c", START + text, cwd=home, env=environment, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def output_of(
    text: str, home: Path, *, address: str | None = None, anew: bool = False
) -> list[str]:
    """Return what a script prints; it must end well and leave nothing open."""
    async with script(text, home, address=address, anew=anew) as process:
        async with asyncio.timeout(SECONDS_PER_SCRIPT):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        assert not COMPLAINT.search(err.decode()), err.decode()
        lines = out.decode().splitlines()
        return [line for line in lines if "temporalio_sdk_core" not in line]  # the engine's log


def _is_written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


async def exists(path: Path, process: Process) -> None:
    """Wait until a process has written a file."""
    async with asyncio.timeout(SECONDS_PER_SCRIPT):
        while not _is_written(path):
            assert process.returncode is None, "the script has ended"
            await asyncio.sleep(0.01)


@pytest.mark.smoke
async def test_a_script_that_configures_nothing_gets_its_answer(tmp_path: Path):
    assert await output_of(ASK, tmp_path, anew=True) == ["It is on its way. 2"]
    assert (tmp_path / "data" / "outlast" / "temporal.db").exists()


async def test_a_script_killed_in_a_tool_call_goes_on_when_it_is_run_again(tmp_path: Path):
    async with script(REFUND, tmp_path) as process:
        await exists(tmp_path / "ledger", process)
        process.send_signal(signal.SIGKILL)
        await process.wait()
    (tmp_path / "door").touch()
    assert await output_of(REFUND, tmp_path) == ["refunded A-17"]
    first, second = (tmp_path / "ledger").read_text().splitlines()
    key = first.removesuffix(" A-17 attempt 1")
    assert re.fullmatch("support-42@[0-9a-f]{12}:c1", key)
    assert second == f"{key} A-17 attempt 2", "so that whoever keeps the money takes it once"
    assert (tmp_path / "asked").read_text().split() == ["1", "3"], "no model call was repeated"
    assert await output_of(REFUND, tmp_path) == ["refunded A-17"]
    assert len((tmp_path / "ledger").read_text().splitlines()) == 2


@pytest.mark.full
async def test_a_script_that_stood_still_in_a_tool_call_makes_it_all_the_same(
    tmp_path: Path, server: TemporalServer, client: Client
):
    async with script(REFUND, tmp_path, address=server.address) as process:
        await exists(tmp_path / "ledger", process)
        process.send_signal(signal.SIGSTOP)
        workflow = client.get_workflow_handle("support-42")
        async with asyncio.timeout(SECONDS_PER_SCRIPT):
            while not _waits_for_its_last_attempt(await workflow.describe()):  # noqa: ASYNC110  a server calls nobody
                await asyncio.sleep(0.1)
        (tmp_path / "door").touch()
        process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(SECONDS_PER_SCRIPT):
            out, _ = await process.communicate()
    assert out.decode() == "refunded A-17\n"


def _waits_for_its_last_attempt(run: WorkflowExecutionDescription) -> bool:
    """Whether an attempt could have begun two seconds ago at least, and timed out in one."""
    pending = run.raw_description.pending_activities
    assert pending, "its attempts have been used up"
    return pending[0].attempt == 3 and time.time() > pending[0].scheduled_time.ToSeconds() + 3


@pytest.mark.full
async def test_a_program_whose_server_was_killed_starts_it_again(tmp_path: Path):
    assert await output_of(LOSE_THE_SERVER, tmp_path) == ["It is on its way."] * 2
    assert await output_of(LOSE_THE_SERVER, tmp_path) == ["It is on its way."] * 2


@pytest.mark.full
async def test_a_program_without_an_event_loop_asks_twice(tmp_path: Path, server: TemporalServer):
    answers = await output_of(ASK_SYNC, tmp_path, address=server.address)
    assert answers == ["It is on its way."] * 2
    database = tmp_path / "data" / "outlast" / "temporal.db"
    assert not database.exists(), "the environment names a server, so none is started"


@pytest.mark.full
async def test_a_program_without_an_event_loop_asks_twice_on_its_own_server(tmp_path: Path):
    assert await output_of(ASK_SYNC, tmp_path) == ["It is on its way."] * 2


@pytest.mark.full
async def test_a_script_reads_what_its_processor_got_and_ends_beside_one_that_hangs(
    tmp_path: Path, server: TemporalServer
):
    told = (
        "trace task agent turn generation /generation function /function /turn "
        "turn generation /generation /turn /agent /task /trace"
    )
    lines = await output_of(OBSERVED, tmp_path, address=server.address)
    assert lines == ["It is on its way.", told, "It is on its way.", told, "shut down"]


@pytest.mark.full
async def test_a_process_that_was_forked_from_a_program_is_told_how_to_start(
    tmp_path: Path, server: TemporalServer
):
    answer, refusal, code = await output_of(ASK_FORKED, tmp_path, address=server.address)
    assert (answer, code) == ("It is on its way.", "7")
    assert refusal == "This process was forked from one that has run agents"


@pytest.mark.full
async def test_a_run_of_an_agent_elsewhere_is_started_and_not_waited_for(
    tmp_path: Path, server: TemporalServer
):
    lines = await output_of(START_BY_NAME, tmp_path, address=server.address)
    assert lines == ["RunHandle('nobody-42') running 0"]


@pytest.mark.full
async def test_a_script_without_its_server_says_what_is_missing(tmp_path: Path):
    async with script(ASK, tmp_path, address="127.0.0.1:1") as process:
        async with asyncio.timeout(SECONDS_PER_SCRIPT):
            _, err = await process.communicate()
    last = err.decode().splitlines()[-1]
    assert "ServerUnavailable: No Temporal server answers at 127.0.0.1:1" in last
    assert process.returncode == 1
