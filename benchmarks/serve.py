"""Measures the desk with many open pages: delay, CPU, memory, and what it asks of Temporal.

    python benchmarks/serve.py [--runs 100] [--readers 5] [--speaking 10] [--waiting 1000] [--json]

`outlast serve`'s application, the worker, the readers and the Temporal server are processes of their
own, with one clock (Linux). Each reader is a connection to the API's live stream of a run. First
nothing happens; then a model in some of the runs emits 50 words per second, each of which is the time
of its emission, and the readers compare. The same again with one reader a run shows whether requests
to Temporal grow with readers. Last, the inbox is listed with many runs that wait for a person, while
nobody has it open and while somebody has. `--runs 0` measures the inbox alone.
The exit code is 1 where a limit is missed.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import uvicorn
from temporalio.client import Client

from benchmarks import inbox
from benchmarks.processes import Child
from benchmarks.streaming import AGENT, Requests, SpeakingClock
from benchmarks.surroundings import OtherPrograms, surroundings
from outlast import RunHandle, Runner
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.serve.app import desk
from outlast.serve.feed import FeedLimits
from outlast.worker import AgentWorker

QUEUE = "clocks"
QUIET_SECONDS = 5.0
SPOKEN_SECONDS = 8.0
INBOX_REPEATS = 20
OPENED_AT_ONCE = 50

LIMITS: Final = {
    "p50_ms": 60.0,
    "p95_ms": 150.0,
    "lost": 0.0,
    "repeated": 0.0,
    "requests_by_readers": 1.5,
    "inbox_ms": 300.0,
    "inbox_urgent_ms": 300.0,
    "inbox_cold_ms": 300.0,
    "inbox_cold_filter_ms": 300.0,
    "inbox_warm_ms": 300.0,
    "inbox_warm_filter_ms": 300.0,
}
ROWS: Final = {
    "p50_ms": ("from the model to the page: median, ms", "{:.0f}"),
    "p95_ms": ("the same, 95 %, ms", "{:.0f}"),
    "words": ("words that arrived", "{:,.0f}"),
    "lost": ("words that were lost", "{:,.0f}"),
    "repeated": ("words that came twice", "{:,.0f}"),
    "cpu_cores": ("CPU of the desk while they speak, cores", "{:.2f}"),
    "quiet_cpu_cores": ("CPU of the desk while nothing happens, cores", "{:.3f}"),
    "memory_mb": ("memory of the desk, MB", "{:.0f}"),
    "requests": ("requests to Temporal per second while they speak", "{:.1f}"),
    "quiet_requests": ("requests to Temporal per second while nothing happens", "{:.1f}"),
    "requests_by_readers": ("requests with all readers, compared with one reader a run", "{:.2f}"),
    "opened_s": ("until all pages are open, s", "{:.1f}"),
    "inbox_ms": ("the API's inbox, newest first: a page of 100, median, ms", "{:.0f}"),
    "inbox_urgent_ms": ("the same, most urgent first, median, ms", "{:.0f}"),
    "inbox_cold_ms": ("the page of the inbox that nobody has open, median, ms", "{:.0f}"),
    "inbox_cold_filter_ms": ("the same with a filter, median, ms", "{:.0f}"),
    "inbox_warm_ms": ("the page of the inbox that somebody has open, median, ms", "{:.0f}"),
    "inbox_warm_filter_ms": ("the same with a filter, median, ms", "{:.0f}"),
}

COLD: Final = {
    "inbox_ms": "/api/inbox",
    "inbox_urgent_ms": "/api/inbox?urgent=true",
    "inbox_cold_ms": "/inbox?show=all",
    "inbox_cold_filter_ms": "/inbox?risk=low",
}
WARM: Final = {"inbox_warm_ms": "/inbox?show=all", "inbox_warm_filter_ms": "/inbox?risk=low"}


# --- The processes that are measured -------------------------------------------------------------


async def work(address: str) -> None:
    """Carry the runs, until standard input ends."""
    client = await Client.connect(address)
    async with AgentWorker(
        client, agents=[AGENT], task_queue=QUEUE, model_provider=SpeakingClock()
    ):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def serve(address: str) -> None:
    """Serve the desk, and answer each line with what it has cost so far."""
    requests = Requests()
    client = await requests.connect(address)
    limits = FeedLimits(readers_per_person=10_000)  # all readers are of one person
    config = uvicorn.Config(
        desk(client, limits=limits), port=0, log_level="warning", access_log=False
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  nothing announces it
        await asyncio.sleep(0.01)

    def tell() -> None:
        for _ in sys.stdin:
            usage = resource.getrusage(resource.RUSAGE_SELF)
            requests.count("")
            cost = {
                "cpu_s": usage.ru_utime + usage.ru_stime,
                "memory_mb": _memory_mb(),
                "requests": sum(requests.counts.values()),
                "by_operation": dict(requests.counts),
            }
            print(json.dumps(cost), flush=True)
        os._exit(0)

    threading.Thread(target=tell, daemon=True).start()
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await serving


def _memory_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as fields:  # noqa: PTH123  in a thread
        return int(fields.read().split()[1]) * resource.getpagesize() / 1e6


_WORD = re.compile(rb"\d+\.\d{6}")


@dataclass
class Readers:
    """Connections to live streams.

    Attributes:
        lags_ms: the delay of each word that has arrived.
        repeated: how many words came twice, as the finished message has fewer.
    """

    port: int
    lags_ms: list[float] = field(default_factory=list[float])
    repeated: int = 0

    async def read(self, path: str, opened: asyncio.Semaphore, ready: asyncio.Event) -> None:
        """Read one stream, from its snapshot on."""
        async with opened:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            host = f"Host: 127.0.0.1:{self.port}"
            writer.write(f"GET {path} HTTP/1.1\r\n{host}\r\n\r\n".encode())
            kind = b""
            while kind != b"event: snapshot\n":
                kind = await reader.readline()
                assert kind, f"{path} ended before its snapshot"
        ready.set()
        seen = 0
        while line := await reader.readline():
            if line.startswith(b"event: "):
                kind = line
                continue
            now, words = time.monotonic(), _WORD.findall(line)
            if kind == b"event: text\n":
                seen += len(words)
            elif b'"kind":"message"' in line:
                # The last words come with the finished message, which has all of them.
                self.repeated += max(0, seen - len(words))
                seen, words = 0, words[seen:]
            else:
                continue
            self.lags_ms += [(now - float(word)) * 1000 for word in words]
        raise RuntimeError(f"{path} ended")


async def read(port: int, runs: int, readers: int) -> None:
    """Read every run so often, and answer each line with the delays since the one before."""
    reading = Readers(port)
    opened = asyncio.Semaphore(OPENED_AT_ONCE)
    ready = [asyncio.Event() for _ in range(runs * readers)]
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, event in enumerate(ready):
            path = f"/api/conversations/bench-{number % runs}/events"
            group.create_task(reading.read(path, opened, event))
        for event in ready:
            await event.wait()
        print(f"{time.perf_counter() - begun:.3f}", flush=True)

        def tell() -> None:
            for _ in sys.stdin:
                lags, reading.lags_ms = sorted(reading.lags_ms), []
                places = {"p50_ms": len(lags) // 2, "p95_ms": int(len(lags) * 0.95)}
                found = {row: lags[at] if lags else 0.0 for row, at in places.items()}
                counts = {"words": len(lags), "repeated": reading.repeated}
                print(json.dumps({**found, **counts}), flush=True)
            os._exit(0)

        threading.Thread(target=tell, daemon=True).start()


# --- Measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """How much there is of everything."""

    runs: int
    readers: int
    speaking: int
    waiting: int


async def start_runs(client: Client, scale: Scale) -> list[RunHandle]:
    """Start runs that stay open, and wait until each has answered."""

    async def start(number: int) -> RunHandle:
        handle = await Runner.start(
            AGENT,
            "0.1",
            id=f"bench-{number}",
            client=client,
            task_queue=QUEUE,
            keep_open=True,
            stream=True,
        )
        await handle.wait_for_answer("start")
        return handle

    return await asyncio.gather(*map(start, range(scale.runs)))


@asynccontextmanager
async def reading(port: str, runs: int, readers: int) -> AsyncGenerator[Child]:
    """Readers in a process of their own."""
    numbers = [port, str(runs), str(readers)]
    async with Child("benchmarks/serve.py", "--read", *numbers) as child:
        yield child


async def measure_readers(
    served: Child, handles: list[RunHandle], scale: Scale, readers: int
) -> dict[str, float]:
    """Measure so many readers of each run, first without and then with text."""
    async with reading(served.greeting, scale.runs, readers) as pages:
        await asyncio.sleep(1)  # opening them is over
        quiet, _ = await _cost(served, asyncio.sleep(QUIET_SECONDS))
        await pages.ask()
        spoken, memory_mb = await _cost(served, speak(handles[: scale.speaking]))
        await asyncio.sleep(1)  # the last words are on their way
        arrived = json.loads(await pages.ask())
        return {
            **arrived,
            "lost": scale.speaking * readers * SPOKEN_SECONDS * 50 - arrived["words"],
            "opened_s": float(pages.greeting),
            "memory_mb": memory_mb,
            **{row: spoken[row] for row in ("cpu_cores", "requests")},
            **{f"quiet_{row}": quiet[row] for row in ("cpu_cores", "requests")},
        }


async def speak(handles: list[RunHandle]) -> None:
    """Let the model speak in all these runs at the same time."""

    async def ask(handle: RunHandle) -> None:
        message = await handle.send(str(SPOKEN_SECONDS))
        await handle.wait_for_answer(message.id)

    await asyncio.gather(*map(ask, handles))


async def _cost(served: Child, action: Any) -> tuple[dict[str, float], float]:
    """Do something, and return what it cost the desk per second, and its memory after that."""
    before, begun = json.loads(await served.ask()), time.perf_counter()
    await action
    seconds, after = time.perf_counter() - begun, json.loads(await served.ask())
    asked = Counter[str](after["by_operation"]) - Counter[str](before["by_operation"])
    print(f"requests: {dict(asked)} in {seconds:.1f} s", file=sys.stderr)
    rate = {
        "cpu_cores": (after["cpu_s"] - before["cpu_s"]) / seconds,
        "requests": (after["requests"] - before["requests"]) / seconds,
    }
    return rate, after["memory_mb"]


async def measure_inbox(client: Client, port: str, waiting: int) -> dict[str, float]:
    """Start runs that wait for a person, and list them."""
    async with AgentWorker(client, agents=inbox.desk(), model_provider=inbox.model()):
        await inbox.start_all(client, waiting)
    found: dict[str, float] = {}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
        for row, path in COLD.items():
            found[row] = await _median_ms(http, path)
        # A page that is open has a live list, which follows the inbox.
        async with http.stream("GET", "/inbox/live") as page:
            async for line in page.aiter_lines():
                if line == "event: inbox":
                    break
            for row, path in WARM.items():
                found[row] = await _median_ms(http, path)
    return found


async def _median_ms(http: httpx2.AsyncClient, path: str) -> float:
    taken: list[float] = []
    for _ in range(INBOX_REPEATS):
        begun = time.perf_counter()
        (await http.get(path)).raise_for_status()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


async def measure(scale: Scale) -> dict[str, Any]:
    """Measure everything."""
    async with (
        EmbeddedServer(ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES) as server,
        Child("benchmarks/serve.py", "--serve", server.address) as served,
        Child("benchmarks/serve.py", "--work", server.address) as worker,
    ):
        client = await Client.connect(server.address)
        others = OtherPrograms([server.info.pid, served.pid, worker.pid])
        found, one = dict[str, float](), dict[str, float]()
        if scale.runs:
            handles = await start_runs(client, scale)
            one = await measure_readers(served, handles, scale, 1)
            found = await measure_readers(served, handles, scale, scale.readers)
            found["requests_by_readers"] = found["requests"] / one["requests"]
        other_cores = others.cores()
        if scale.waiting:
            found |= await measure_inbox(client, served.greeting, scale.waiting)
    return {
        **surroundings(),
        "scale": vars(scale),
        "other_programs_cores": other_cores,
        "found": found,
        "one_reader": one,
    }


# --- The report ----------------------------------------------------------------------------------


def table(measured: dict[str, Any]) -> str:
    """Return the results as a table in Markdown."""
    scale, found = measured["scale"], measured["found"]
    pages = scale["runs"] * scale["readers"]
    title = f"{pages:,} pages on {scale['runs']} runs, of which {scale['speaking']} speak"
    lines = [f"| {title} | outlast | at most |", "|---|---:|---:|"]
    for row, (words, form) in ROWS.items():
        if row in found:
            most = form.format(LIMITS[row]) if row in LIMITS else ""
            lines.append(f"| {words} | {form.format(found[row])} | {most} |")
    where = f"{measured['date']}; {measured['machine']}; {measured['versions']}"
    busy = measured["other_programs_cores"]
    return "\n".join([*lines, "", f"{where}; other programs kept {busy or 0:.1f} cores busy."])


def missed_limits(measured: dict[str, Any]) -> list[str]:
    """Return a sentence for each limit that is missed."""
    found = measured["found"]
    return [
        f"limit missed: {ROWS[row][0]}: {found[row]:,.2f}, at most {most:,}"
        for row, most in LIMITS.items()
        if row in found and found[row] > most
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--readers", type=int, default=5, help="of each run")
    parser.add_argument("--speaking", type=int, default=10, help="runs in which a model speaks")
    parser.add_argument("--waiting", type=int, default=1_000, help="runs in the inbox; 0 for none")
    parser.add_argument("--json", action="store_true", help="print every number instead of a table")
    for role in ("--serve", "--work"):
        parser.add_argument(role, metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--read", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
    if options.work:
        asyncio.run(work(options.work))
    if options.read:
        asyncio.run(read(*options.read))
    if options.serve or options.work or options.read:
        return 0
    scale = Scale(options.runs, options.readers, options.speaking, options.waiting)
    measured = asyncio.run(measure(scale))
    print(json.dumps(measured, indent=2) if options.json else table(measured))
    missed = missed_limits(measured)
    for sentence in missed:
        print(sentence, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
