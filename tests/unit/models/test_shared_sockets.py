"""Who shares the WebSockets of the Responses API: the runs of one provider, and nobody else."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
import pytest_asyncio
from openai import AsyncAzureOpenAI, AsyncOpenAI

from outlast import Agent, function_tool
from outlast.agents.config.model_settings import ModelSettings
from outlast.loop.values import JsonObject
from outlast.models import OpenAIConnection, OpenAIProvider, ResponsesModel
from outlast.models.defaults import defaults
from outlast.models.openai.responses_websocket import OpenAIResponsesWSModel
from outlast.models.openai.socket_connection import SocketConnection
from outlast.models.openai.sockets import PoolLimits
from outlast.ports.model import ModelError, ModelRequest
from outlast.testing import ScriptedResponsesServer, call, paced, run_in_memory, say, wait_for
from outlast.testing.socket_server import ServerSocket

HELLO: JsonObject = {"role": "user", "content": "hello"}
MORE: JsonObject = {"role": "user", "content": "And then?"}
TOOL = [call("look_up", "c1")]
OUTPUT: JsonObject = {"type": "function_call_output", "call_id": "c1", "output": "On its way."}


def asking(*items: JsonObject, run: str = "run-1", **fields: Any) -> ModelRequest:
    return ModelRequest(instructions=None, input=[HELLO, *items], run_id=run, **fields)


def chained(response_id: str | None, *, store: bool | None = False, **fields: Any) -> ModelRequest:
    return ModelRequest(
        instructions=None,
        input=[MORE],
        previous_response_id=response_id,
        settings=ModelSettings(store=store),
        **fields,
    )


def provider_of(server: ScriptedResponsesServer, key: str = "sk-a", **more: Any) -> OpenAIProvider:
    url = server.websocket_base_url
    MADE.append(OpenAIProvider(key, transport="websocket", websocket_base_url=url, **more))
    return MADE[-1]


MADE: list[OpenAIProvider] = []


@pytest_asyncio.fixture(autouse=True)
async def _close() -> AsyncGenerator[None]:
    yield
    while MADE:
        await MADE.pop().aclose()


def client_of(server: ScriptedResponsesServer, key: Any = "sk-a", **more: Any) -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, websocket_base_url=server.websocket_base_url, **more)


@asynccontextmanager
async def asking_as(client: AsyncOpenAI) -> AsyncGenerator[OpenAIResponsesWSModel]:
    model = OpenAIResponsesWSModel("gpt-test", client)
    yield model
    await model.close()
    await client.close()


def key_of(socket: ServerSocket) -> str:
    return socket.headers.get("authorization", "").removeprefix("Bearer ")


def carried(server: ScriptedResponsesServer) -> list[tuple[str, str]]:
    """The key that each request went out with, and its text."""
    keys = {socket.number: key_of(socket) for socket in server.sockets}
    return [
        (keys[frame.socket], frame.body["input"][-1]["content"])
        for frame in server.frames
        if frame.type == "response.create"
    ]


# --- Runs of one provider -------------------------------------------------------------------------


async def test_six_runs_one_after_the_other_use_one_socket() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        provider = provider_of(server)
        for run in range(6):
            await provider.get_model("gpt-test").get_response(asking(run=f"run-{run}"))
        assert len(server.sockets) == 1
        await provider.aclose()


@pytest.mark.parametrize("store", [None, False])
async def test_the_next_run_continues_a_response_that_only_its_socket_has(
    store: bool | None,
) -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        provider = provider_of(server)
        model = provider.get_model("gpt-test")
        settings = ModelSettings(store=store)
        first = await model.get_response(asking(run="run-1", settings=settings))
        await model.get_response(chained(first.response_id, store=store, run_id="run-2"))
        more = asking(*first.output, MORE, run="run-3", settings=settings)
        await model.get_response(more)
        assert server.script.requests[1].input == [HELLO, *first.output, MORE]
        assert server.script.requests[2].input == [HELLO, *first.output, MORE]
        assert len(server.sockets) == 1
        await provider.aclose()


async def test_whole_runs_with_tools_use_one_socket() -> None:
    @function_tool
    def look_up() -> str:
        return "It is on its way."

    steps = [TOOL, "It comes."] * 3
    async with ScriptedResponsesServer(*steps) as server:
        provider = provider_of(server)
        agent = Agent[Any](name="Clerk", tools=[look_up])
        for _ in range(3):
            result = await run_in_memory(agent, "Where?", model=provider.get_model("gpt-test"))
            assert result.final_output == "It comes."
        assert len(server.sockets) == 1
        await provider.aclose()


async def test_a_nested_run_leaves_its_callers_response_alone_and_the_next_one_shares_with_it() -> (
    None
):
    judge = Agent[Any](name="Judge")
    tool = judge.as_tool("ask_judge", "Ask the judge.")
    desk = Agent[Any](name="Desk", tools=[tool])
    steps = [[call("ask_judge", "c1", input="Fair?")], "Fair.", "It is fair."] * 3
    async with ScriptedResponsesServer(*steps) as server:
        provider = provider_of(server)
        for _ in range(3):
            result = await run_in_memory(desk, "Judge.", model=provider.get_model("gpt-test"))
            assert result.final_output == "It is fair."
        sent = [len(body["input"]) for body in server.received("response.create")]
        assert sent == [1, 1, 1] * 3, "the outputs alone, although another run was in between"
        assert len(server.sockets) == 2
        await provider.aclose()


async def test_a_response_that_calls_tools_keeps_its_socket_until_the_outputs_come() -> None:
    async with ScriptedResponsesServer(TOOL, "Other.", "Done.") as server:
        model = provider_of(server).get_model("gpt-test")
        first = await model.get_response(asking(run="run-1"))
        await model.get_response(asking(run="run-2"))
        await model.get_response(asking(*first.output, OUTPUT, run="run-1"))
        assert [len(body["input"]) for body in server.received()] == [1, 1, 1]
        assert len(server.sockets) == 2


@pytest.mark.parametrize(("store", "sockets"), [(None, 1), (False, 2)])
async def test_a_response_whose_outputs_do_not_come_gives_its_socket_back(
    store: bool | None, sockets: int
) -> None:
    """Only the connection has a response that is not stored, so that one waits for longer."""
    async with ScriptedResponsesServer(TOOL, "Other.") as server:
        http = OpenAIConnection(api_key="k", websocket_base_url=server.websocket_base_url)
        connection = SocketConnection(http=http, limits=PoolLimits(reserved_s=0.0))
        model = ResponsesModel("gpt-test", connection)
        await model.get_response(asking(run="run-1", settings=ModelSettings(store=store)))
        await model.get_response(asking(run="run-2"))
        assert len(server.sockets) == sockets
        await connection.aclose()
        await http.aclose()


# --- The socket with a response is busy, or gone --------------------------------------------------


async def test_a_request_waits_for_the_busy_socket_that_alone_has_its_response() -> None:
    gate = asyncio.Event()
    async with ScriptedResponsesServer("One.", wait_for(gate, "Two."), "Three.") as server:
        model = provider_of(server).get_model("gpt-test")
        first = await model.get_response(chained(None))
        second = asyncio.create_task(model.get_response(chained(first.response_id)))
        await server.until_received("response.create", 2)
        begun = asyncio.create_task(model.get_response(chained(first.response_id)))
        await asyncio.sleep(0.05)
        assert len(server.received("response.create")) == 2, "it waits"
        gate.set()
        await second
        with pytest.raises(ModelError, match="not found"):  # the provider keeps the last one only
            await begun


async def test_a_response_that_is_still_coming_is_waited_for_by_its_id() -> None:
    async with ScriptedResponsesServer(paced(0.03, "One two three."), "Two.") as server:
        model = provider_of(server).get_model("gpt-test")
        events = model.stream_response(chained(None))
        async with aclosing(events):
            begun = await anext(events)
            next_one = asyncio.create_task(
                model.get_response(chained(begun["response"]["id"], run_id="run-2"))
            )
            async for _ in events:
                pass
        await next_one
        assert len(server.sockets) == 1
        assert len(server.script.requests[1].input) == 3


async def test_a_stored_response_is_continued_elsewhere_while_its_socket_is_busy() -> None:
    gate = asyncio.Event()
    async with ScriptedResponsesServer("One.", wait_for(gate, "Two."), "Three.") as server:
        model = provider_of(server).get_model("gpt-test")
        first = await model.get_response(chained(None, store=None))
        second = asyncio.create_task(model.get_response(chained(first.response_id, store=None)))
        await server.until_received("response.create", 2)
        await model.get_response(chained(first.response_id, store=None))
        gate.set()
        await second
        assert len(server.sockets) == 2


@pytest.mark.parametrize("gone", ["dropped", "idle", "closed"])
async def test_a_response_that_is_gone_with_its_socket_is_an_error_and_never_another_answer(
    gone: str,
) -> None:
    limits = PoolLimits(idle_s=0.02) if gone == "idle" else PoolLimits()
    async with ScriptedResponsesServer("One.", "Two.") as server:
        http = OpenAIConnection(api_key="k", websocket_base_url=server.websocket_base_url)
        connection = SocketConnection(http=http, limits=limits)
        model = ResponsesModel("gpt-test", connection)
        first = await model.get_response(chained(None))
        if gone == "dropped":
            (idle,) = connection._pool()._idle
            await server.sockets[0].close(1006)
            while await idle.is_usable():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        if gone == "closed":
            await connection.aclose()
        await until(lambda: server.sockets[0].is_closed)
        with pytest.raises(ModelError, match="not found") as raised:
            await model.get_response(chained(first.response_id))
        assert not raised.value.retryable
        assert server.script.calls == 1
        await connection.aclose()
        await http.aclose()


async def test_a_request_that_waits_for_a_socket_takes_no_place_and_can_be_cancelled() -> None:
    gate = asyncio.Event()
    steps = "One.", wait_for(gate, "Two."), "Three."
    async with ScriptedResponsesServer(*steps) as server:
        http = OpenAIConnection(api_key="k", websocket_base_url=server.websocket_base_url)
        connection = SocketConnection(http=http, limits=PoolLimits(sockets=2))
        model = ResponsesModel("gpt-test", connection)
        first = await model.get_response(chained(None))
        second = asyncio.create_task(model.get_response(chained(first.response_id)))
        await server.until_received("response.create", 2)
        waiting = [
            asyncio.create_task(model.get_response(chained(first.response_id))) for _ in range(3)
        ]
        async with asyncio.timeout(5):
            await model.get_response(asking(run="another"))
        for one in waiting:
            one.cancel()
        assert all(
            isinstance(ended, asyncio.CancelledError)
            for ended in await asyncio.gather(*waiting, return_exceptions=True)
        )
        gate.set()
        await second
        await connection.aclose()
        await http.aclose()


# --- Never another's socket -----------------------------------------------------------------------


async def test_two_providers_never_share_even_with_the_same_arguments() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        one, other = provider_of(server), provider_of(server)
        for provider in (one, other, one, other):
            await provider.get_model("gpt-test").get_response(asking())
        assert len(server.sockets) == 2
        await one.aclose()
        await other.get_model("gpt-test").get_response(asking())
        assert [socket.is_closed for socket in server.sockets] == [True, False]
        await other.aclose()


async def test_tenants_at_once_with_one_run_id_keep_to_their_own_keys() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        providers = {key: provider_of(server, key) for key in ("sk-a", "sk-b", "sk-c")}

        async def converse(key: str) -> None:
            items: list[JsonObject] = [HELLO]
            for _ in range(10):
                items.append({"role": "user", "content": key})
                request = ModelRequest(instructions=None, input=[*items], run_id="same")
                response = await providers[key].get_model("gpt-test").get_response(request)
                items.extend(response.output)

        await asyncio.gather(*map(converse, providers))
        assert {key for key, _ in carried(server)} == {*providers}
        assert all(key == said for key, said in carried(server))
        assert len(server.sockets) == 3
        for provider in providers.values():
            await provider.aclose()


async def test_a_response_of_another_provider_cannot_be_continued_over_its_socket() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        victim, thief = provider_of(server, "sk-a"), provider_of(server, "sk-b")
        first = await victim.get_model("gpt-test").get_response(chained(None))
        with pytest.raises(ModelError, match="not found"):
            await thief.get_model("gpt-test").get_response(chained(first.response_id))
        await thief.get_model("gpt-test").get_response(asking(*first.output, MORE))
        assert server.received()[-1]["input"] == [HELLO, *first.output, MORE], "all of it"
        await victim.aclose()
        await thief.aclose()


async def test_a_nested_agent_with_a_provider_of_its_own_has_a_socket_of_its_own() -> None:
    async with ScriptedResponsesServer(
        [call("ask_judge", "c1", input="Fair?")], "Fair.", "It is fair."
    ) as server:
        ours, theirs = provider_of(server, "sk-a"), provider_of(server, "sk-b")
        judge = Agent[Any](name="Judge", model=theirs.get_model("gpt-test"))
        desk = Agent[Any](name="Desk", tools=[judge.as_tool("ask_judge", "Ask.")])
        await run_in_memory(desk, "Judge.", model=ours.get_model("gpt-test"))
        keys = {socket.number: key_of(socket) for socket in server.sockets}
        asked = [keys[frame.socket] for frame in server.frames if frame.type == "response.create"]
        assert asked == ["sk-a", "sk-b", "sk-a"]
        await ours.aclose()
        await theirs.aclose()


CHANGES: dict[str, Callable[[AsyncOpenAI], None]] = {
    "key": lambda client: setattr(client, "api_key", "sk-b"),
    "organization": lambda client: setattr(client, "organization", "org-b"),
    "project": lambda client: setattr(client, "project", "proj-b"),
    "header": lambda client: client._custom_headers.__setitem__("X-Tenant", "b"),  # type: ignore[index]
    "query": lambda client: client._custom_query.__setitem__("tenant", "b"),  # type: ignore[index]
    "address": lambda client: setattr(
        client, "websocket_base_url", str(client.websocket_base_url).replace("/v1", "/v2")
    ),
    "user in the address": lambda client: setattr(
        client, "websocket_base_url", str(client.websocket_base_url).replace("//", "//b:pw@")
    ),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_what_a_program_changes_in_its_client_is_said_by_a_new_socket(what: str) -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        client = client_of(server, default_headers={"X-Tenant": "a"}, default_query={"tenant": "a"})
        async with asking_as(client) as model:
            first = await model.get_response(asking())
            await model.get_response(asking(*first.output, MORE))
            assert len(server.sockets) == 1
            CHANGES[what](client)
            await model.get_response(asking(*first.output, MORE))
            assert len(server.sockets) == 2
            opened = [(one.path, one.query, one.headers) for one in server.sockets]
            assert opened[0] != opened[1]
            assert "previous_response_id" not in server.received()[-1]


async def test_a_key_that_is_changed_while_a_socket_opens_leaves_it_to_that_request_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedResponsesServer(always="Hi.") as server, asking_as(client_of(server)) as one:
        connect = SocketConnection._connect

        async def late(self: SocketConnection, *args: Any) -> Any:
            one._connection.http._own_client.api_key = "sk-b"  # type: ignore[attr-defined]
            return await connect(self, *args)

        monkeypatch.setattr(SocketConnection, "_connect", late)
        await one.get_response(asking())
        monkeypatch.setattr(SocketConnection, "_connect", connect)
        for key in ("sk-a", "sk-b"):
            one._connection.http._own_client.api_key = key  # type: ignore[attr-defined]
            await one.get_response(asking({"role": "user", "content": key}))
        assert carried(server)[1:] == [("sk-a", "sk-a"), ("sk-b", "sk-b")]


TENANT: ContextVar[str] = ContextVar("TENANT")


async def test_a_key_that_is_made_for_each_tenant_opens_a_socket_for_each() -> None:
    async def key() -> str:
        await asyncio.sleep(0)
        return TENANT.get()

    async def ask(model: ResponsesModel, tenant: str) -> None:
        TENANT.set(tenant)
        await model.get_response(asking({"role": "user", "content": tenant}))

    async with (
        ScriptedResponsesServer(always="Hi.") as server,
        asking_as(client_of(server, key)) as model,
    ):
        for _ in range(3):
            for tenant in ("sk-a", "sk-b"):
                await asyncio.create_task(ask(model, tenant))
        assert [key_of(socket) for socket in server.sockets] == ["sk-a", "sk-b"]
        tenants = [f"sk-{number % 4}" for number in range(40)]
        await asyncio.gather(*(asyncio.create_task(ask(model, tenant)) for tenant in tenants))
        assert all(key == said for key, said in carried(server))


async def test_a_token_that_is_new_for_each_request_never_reaches_a_later_one() -> None:
    tokens = iter(f"sk-{number}" for number in range(100))

    async def key() -> str:
        return next(tokens)

    async with (
        ScriptedResponsesServer(always="Hi.") as server,
        asking_as(client_of(server, key)) as model,
    ):
        for _ in range(3):
            await model.get_response(asking())
        assert len({key_of(socket) for socket in server.sockets}) == 3
        await until(lambda: all(socket.is_closed for socket in server.sockets))


async def test_a_token_of_azure_that_is_made_for_each_tenant_opens_a_socket_for_each() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        client = AsyncAzureOpenAI(
            azure_ad_token_provider=TENANT.get,
            api_version="1",
            azure_endpoint="http://127.0.0.1:1",
            websocket_base_url=server.websocket_base_url,
        )
        async with asking_as(client) as model:
            for tenant in ("a", "b", "a", "b"):
                TENANT.set(tenant)
                await model.get_response(asking({"role": "user", "content": tenant}))
        assert [key_of(socket) for socket in server.sockets] == ["a", "b"]
        assert all(key == said for key, said in carried(server))


async def test_headers_of_a_run_belong_to_the_socket() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        provider = provider_of(server)
        for tenant in ("a", "b", "a"):
            settings = ModelSettings(extra_headers={"X-Tenant": tenant})
            await provider.get_model("gpt-test").get_response(asking(settings=settings))
        assert [socket.headers["x-tenant"] for socket in server.sockets] == ["a", "b"]
        await provider.aclose()


async def test_a_key_of_the_environment_that_changes_opens_a_new_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        url = server.websocket_base_url
        provider = OpenAIProvider(transport="websocket", websocket_base_url=url)
        for key in ("sk-a", "sk-b", "sk-b"):
            monkeypatch.setenv("OPENAI_API_KEY", key)
            await provider.get_model("gpt-test").get_response(asking())
        assert [key_of(socket) for socket in server.sockets] == ["sk-a", "sk-b"]
        await provider.aclose()


async def test_a_request_that_is_cancelled_mid_stream_leaves_nothing_to_the_next() -> None:
    async with ScriptedResponsesServer(paced(0.02, "One two three four."), "Two.") as server:
        model = provider_of(server).get_model("gpt-test")
        events = model.stream_response(asking(run="victim"))
        assert (await anext(events))["type"] == "response.created"
        await events.aclose()
        answer = await model.get_response(asking(run="next"))
        assert answer.output[0]["content"][0]["text"] == "Two."
        assert len(server.sockets) == 2


async def test_many_at_once_have_a_socket_each_and_get_their_own_answers() -> None:
    async with ScriptedResponsesServer(always=echo) as server:
        model = provider_of(server).get_model("gpt-test")

        async def ask(number: int) -> None:
            said = {"role": "user", "content": f"number {number}"}
            answer = await model.get_response(asking(said, run="same"))
            assert answer.output[0]["content"][0]["text"] == f"number {number}"

        for _ in range(3):
            await asyncio.gather(*map(ask, range(12)))
        assert len(server.sockets) <= 12


async def test_a_provider_that_is_closed_and_used_again_opens_a_new_socket() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        provider = provider_of(server)
        model = provider.get_model("gpt-test")
        first = await model.get_response(asking())
        await provider.aclose()
        await model.get_response(asking(*first.output, MORE))
        assert [len(body["input"]) for body in server.received()] == [1, 3]
        assert [socket.is_closed for socket in server.sockets] == [True, False]
        await provider.aclose()
        assert all(socket.is_closed for socket in server.sockets)


async def test_a_socket_that_opens_while_its_provider_closes_is_closed_after_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        provider = provider_of(server)
        connect = SocketConnection._connect

        async def late(self: SocketConnection, *args: Any) -> Any:
            connection = await connect(self, *args)
            await provider.aclose()
            return connection

        monkeypatch.setattr(SocketConnection, "_connect", late)
        await provider.get_model("gpt-test").get_response(asking())
        monkeypatch.setattr(SocketConnection, "_connect", connect)
        await until(lambda: server.sockets[0].is_closed)
        await provider.get_model("gpt-test").get_response(asking())
        assert len(server.sockets) == 2
        await provider.aclose()


async def test_the_default_client_that_is_replaced_takes_its_sockets_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        provider = OpenAIProvider(transport="websocket")
        for key in ("sk-a", "sk-b", "sk-c"):
            client = client_of(server, key)
            monkeypatch.setattr(defaults, "client", client)
            said = {"role": "user", "content": key}
            await provider.get_model("gpt-test").get_response(asking(said))
            monkeypatch.setattr(defaults, "client", None)
            del client
            gc.collect()
        assert all(key == said for key, said in carried(server))
        assert len(server.sockets) == 3
        await provider.aclose()


async def test_two_event_loops_never_share() -> None:
    async with ScriptedResponsesServer(always="Hi.") as server:
        provider = provider_of(server)
        model = provider.get_model("gpt-test")
        first = await model.get_response(chained(None))

        async def elsewhere() -> None:
            with pytest.raises(ModelError, match="not found"):
                await model.get_response(chained(first.response_id))
            await provider.aclose()

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert len(server.sockets) == 2


def echo(request: ModelRequest) -> Any:
    return say(str(request.input[-1]["content"]))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the server has seen something that the client does on its own."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
