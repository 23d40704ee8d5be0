"""Measures what one model call over HTTP costs a process, and other ways to send it.

    python benchmarks/model_call.py [--rounds 12] [--tls] [--streamed] [--uvloop] [--json]

The calls of one round take turns in this process; the model server is a process of its own. Each
number is the median CPU of a call, and each ratio is the median of the ratios within the rounds.
The floor is the call of `floor.py`. With `--tls`, the server has a certificate of its own, trusted
through a file. With `--streamed`, the replies are streams of about ten events.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from benchmarks.floor import TOOL
from benchmarks.model_server import question
from benchmarks.processes import Child
from benchmarks.surroundings import surroundings
from benchmarks.worker import NOTE
from outlast.agents.config.model_settings import ModelSettings
from outlast.loop.values import JsonObject
from outlast.models import OpenAIProvider
from outlast.ports.model import ModelRequest, ToolSpec

HERE = Path(__file__).parent
SIZES = (2, 16, 100, 200)
CALLS = 25
"""How many calls of a kind are measured together."""

FLOOR = "the floor: client.post"
OURS = "outlast"

Call: TypeAlias = Callable[[list[JsonObject]], Awaitable[object]]


@dataclass(frozen=True)
class Server:
    """The model server, and the file of the certificate that it has."""

    base_url: str
    certificate_file: str | None


def conversation(size: int) -> list[JsonObject]:
    """Return the input of a model call: a question, calls, and results of 1 KB."""
    items: list[JsonObject] = [{"role": "user", "content": question(1000)}]
    for number in range(size):
        call_id = f"call_{number:024x}"
        ids = {"id": f"fc_{number:050x}", "call_id": call_id, "status": "completed"}
        arguments = json.dumps({"number": number})
        items.append({"type": "function_call", **ids, "name": "note", "arguments": arguments})
        output = f"{number:04d} {NOTE}"[:1024]
        items.append({"type": "function_call_output", "call_id": call_id, "output": output})
    return items[:size]


def body_of(items: list[JsonObject], *, streamed: bool) -> JsonObject:
    """Return the body of the floor's request."""
    body = {
        "model": "benchmark",
        "instructions": "You keep notes.",
        "input": items,
        "tools": [TOOL],
        "tool_choice": "auto",
    }
    return {**body, "stream": True} if streamed else body


@asynccontextmanager
async def ways(server: Server, *, streamed: bool) -> AsyncGenerator[Mapping[str, Call]]:
    """Yield the ways to send a request."""
    import httpx2
    from aiohttp import ClientSession, TCPConnector
    from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient
    from pydantic_core import from_json, to_json

    key: dict[str, Any] = {"api_key": "none", "base_url": server.base_url, "max_retries": 0}
    certificates = httpx2.create_ssl_context()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        client = await enter(AsyncOpenAI(**key))
        by_aiohttp = await enter(AsyncOpenAI(**key, http_client=DefaultAioHttpClient()))
        session = await enter(ClientSession(connector=TCPConnector(ssl=certificates)))
        provider = OpenAIProvider("none", server.base_url)
        stack.push_async_callback(provider.aclose)
        own = OpenAIProvider(openai_client=client)
        spec = ToolSpec(name="note", description="Keep a note.", parameters=TOOL["parameters"])

        async def post(
            items: list[JsonObject], client: AsyncOpenAI = client, *, encoded: bool = False
        ) -> object:
            body = body_of(items, streamed=streamed)
            sent: dict[str, Any] = {"content": to_json(body)} if encoded else {"body": body}
            if streamed:
                events = await client.post(
                    "/responses",
                    cast_to=object,
                    stream=True,
                    stream_cls=AsyncStream[object],
                    **sent,
                )
                return [event async for event in events]
            response = await client.post("/responses", cast_to=httpx2.Response, **sent)
            return from_json(response.content)

        async def ask(items: list[JsonObject], provider: OpenAIProvider = provider) -> object:
            request = ModelRequest(
                instructions="You keep notes.",
                input=items,
                tools=[spec],
                settings=ModelSettings(tool_choice="auto"),
                run_id="run",
            )
            model = provider.get_model("benchmark")
            if streamed:
                return [event async for event in model.stream_response(request)]
            return await model.get_response(request)

        async def by_transport(items: list[JsonObject], client: AsyncOpenAI = client) -> object:
            request = httpx2.Request(
                "POST",
                f"{server.base_url}/responses",
                headers=headers,
                content=to_json(body_of(items, streamed=streamed)),
                extensions={"timeout": {"connect": 5, "read": 600, "write": 600, "pool": 600}},
            )
            transport: Any = getattr(getattr(client, "_client"), "_transport")  # noqa: B009
            response = await transport.handle_async_request(request)
            return from_json(await response.aread())

        async def by_session(items: list[JsonObject]) -> object:
            data = to_json(body_of(items, streamed=streamed))
            address = f"{server.base_url}/responses"
            async with session.post(address, data=data, headers=headers) as response:
                content = await response.read()
            return None if streamed else from_json(content)

        headers = {
            name: text for name, text in client.default_headers.items() if isinstance(text, str)
        }
        every: dict[str, Call] = {
            FLOOR: post,
            OURS: ask,
            "outlast, with a client of the program": lambda items: ask(items, own),
            "the client, with bytes": lambda items: post(items, encoded=True),
            "the client, with its aiohttp transport": lambda items: post(items, by_aiohttp),
            "both": lambda items: post(items, by_aiohttp, encoded=True),
            "the client's transport alone": by_transport,
            "its aiohttp transport alone": lambda items: by_transport(items, by_aiohttp),
            "aiohttp": by_session,
        }
        if streamed:
            del every["the client's transport alone"], every["its aiohttp transport alone"]
        yield every


async def measure(server: Server, rounds: int, *, streamed: bool) -> dict[str, Any]:
    """Measure every way at every size."""
    numbers: dict[str, dict[int, list[float]]] = {}
    async with ways(server, streamed=streamed) as every:
        for size in SIZES:
            items = conversation(size)
            for name, call in every.items():
                numbers.setdefault(name, {})[size] = []
                await call(items)  # connections open, packages loaded
            for number in range(rounds):
                names = list(every)[:: 1 if number % 2 == 0 else -1]
                for name in names:
                    start = time.process_time()
                    for _ in range(CALLS):
                        await every[name](items)
                    spent = (time.process_time() - start) / CALLS * 1000
                    numbers[name][size].append(spent)
    return {
        name: {
            size: {
                "ms": median(spent),
                "ratio": median(
                    one / floor for one, floor in zip(spent, numbers[FLOOR][size], strict=True)
                ),
            }
            for size, spent in of_size.items()
        }
        for name, of_size in numbers.items()
    }


@asynccontextmanager
async def serving(*, tls: bool) -> AsyncGenerator[Server]:
    """Run the model server, and yield it."""
    with tempfile.TemporaryDirectory() as folder:
        arguments: list[str] = []
        if tls:
            arguments = [f"{folder}/key.pem", f"{folder}/certificate.pem"]
            command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
            command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
            command += ["-addext", "subjectAltName=DNS:localhost"]
            command += ["-keyout", arguments[0], "-out", arguments[1]]
            await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
            os.environ["SSL_CERT_FILE"] = arguments[1]
        async with Child(str(HERE / "model_server.py"), *arguments) as child:
            yield Server(child.greeting, arguments[1] if tls else None)


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure with the options of the command line."""
    async with serving(tls=options.tls) as server:
        measured = await measure(server, options.rounds, streamed=options.streamed)
    about = {name: getattr(options, name) for name in ("rounds", "tls", "streamed", "uvloop")}
    return {**surroundings(), **about, "ways": measured}


def table(measured: dict[str, Any]) -> str:
    """Return the medians as a table in Markdown."""
    lines = [
        "| CPU of a call, ms (to the floor) | " + " | ".join(f"{n} items" for n in SIZES) + " |",
        "|---|" + "---:|" * len(SIZES),
    ]
    for name, of_size in measured["ways"].items():
        cells = [f"{of_size[size]['ms']:.2f} ({of_size[size]['ratio']:.2f})" for size in SIZES]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    how = [name for name in ("tls", "streamed", "uvloop") if measured[name]]
    where = f"{measured['date']}; {measured['machine']}; {measured['versions']}"
    lines += ["", f"{where}; {', '.join([*how, ''])}medians of {measured['rounds']} rounds."]
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--tls", action="store_true", help="encrypt the connections")
    parser.add_argument("--streamed", action="store_true", help="ask for streams")
    parser.add_argument("--uvloop", action="store_true", help="use uvloop, if it is installed")
    parser.add_argument("--json", action="store_true", help="print every number instead of a table")
    options = parser.parse_args()
    if options.uvloop:
        import uvloop

        measured = uvloop.run(run(options))
    else:
        measured = asyncio.run(run(options))
    print(json.dumps(measured, indent=2) if options.json else table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
