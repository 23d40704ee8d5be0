"""The Responses API over WebSocket: what is sent again, what is not, and every way to fail."""

import asyncio
import datetime as dt
import json
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from openai import AsyncOpenAI
from websockets.asyncio.server import ServerConnection, serve

from outlast import Agent, function_tool
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.hosts import free_port
from outlast.loop.values import JsonObject
from outlast.models import OpenAIConnection, OpenAIProvider, ResponsesModel
from outlast.models.openai.socket_connection import SocketConnection
from outlast.models.openai.sockets import DEFAULT_LIMITS, PoolLimits
from outlast.ports.model import ModelError, ModelRequest, ModelResponse
from outlast.testing import call, paced, run_in_memory, say, wait_for
from outlast.testing.responses_server import ScriptedResponsesServer
from tests.unit.models.conftest import KEY
from tests.unit.models.responses_api import message, response
from tests.unit.models.socket_model_server import SocketModelServer
from tests.unit.models.streams import collect, collect_until_failure
from tests.unit.models.test_failures import TABLE

ASK = ModelRequest(instructions=None, input=[{"role": "user", "content": "hello"}])
MORE: JsonObject = {"role": "user", "content": "And then?"}


@asynccontextmanager
async def model_of(
    server: ScriptedResponsesServer | SocketModelServer,
    *,
    limits: PoolLimits = DEFAULT_LIMITS,
    **options: Any,
) -> AsyncGenerator[ResponsesModel]:
    """A model with sockets of its own."""
    http = OpenAIConnection(api_key=KEY, websocket_base_url=server.websocket_base_url)
    sockets = SocketConnection(http=http, limits=limits, options=options)
    yield ResponsesModel("gpt-test", sockets)
    await sockets.aclose()
    await http.aclose()


def asking(*items: JsonObject, run_id: str | None = "run-1", **fields: Any) -> ModelRequest:
    return ModelRequest(
        instructions="Be kind.", input=[*ASK.input, *items], run_id=run_id, **fields
    )


async def fail(model: ResponsesModel, request: ModelRequest = ASK) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.get_response(request)
    return caught.value


def created(server: ScriptedResponsesServer) -> list[JsonObject]:
    return server.received("response.create")


# --- Only new items, or the whole request ---------------------------------------------------------


@pytest.mark.parametrize("store", [None, False])
async def test_the_next_request_of_a_run_sends_only_what_is_new(store: bool | None) -> None:
    settings = ModelSettings(store=store)
    async with (
        ScriptedResponsesServer("One.", "Two.", "Three.") as server,
        model_of(server) as model,
    ):
        first = await model.get_response(asking(settings=settings))
        second = await model.get_response(asking(*first.output, MORE, settings=settings))
        last = asking(*first.output, MORE, *second.output, MORE, settings=settings)
        await collect(model.stream_response(last))
        assert [one["input"] for one in created(server)] == [[*ASK.input], [MORE], [MORE]]
        ids = [one.get("previous_response_id") for one in created(server)]
        assert ids == [None, first.response_id, second.response_id]
        assert [one["instructions"] for one in created(server)] == ["Be kind."] * 3
        assert server.script.requests[-1].input == last.input, "the server has the conversation"
        assert len(server.sockets) == 1


def continued(first: ModelResponse) -> Sequence[JsonObject]:
    return [*first.output, MORE]


OTHERWISE: dict[str, tuple[Callable[[ModelResponse], Sequence[JsonObject]], dict[str, Any]]] = {
    "a changed item": (lambda first: [{**first.output[0], "content": "hm"}, MORE], {}),
    "no new item": (lambda first: first.output, {}),
    "a dropped item": (lambda _: [MORE], {}),
    "a conversation": (continued, {"conversation_id": "conv_1"}),
    "another model": (continued, {"settings": ModelSettings(extra_args={"model": "o"})}),
    "another route": (continued, {"settings": ModelSettings(extra_query={"a": "b"})}),
}


@pytest.mark.parametrize("case", OTHERWISE)
async def test_a_request_that_does_not_go_on_from_the_response_is_sent_whole(
    case: str,
) -> None:
    later, fields = OTHERWISE[case]
    async with ScriptedResponsesServer("One.", "Two.") as server, model_of(server) as model:
        first = await model.get_response(asking())
        request = asking(*later(first), **fields)
        await model.get_response(request)
        assert created(server)[1]["input"] == request.input
        assert "previous_response_id" not in created(server)[1]


async def test_a_response_that_was_cut_short_is_not_continued(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    over_sockets = ResponsesModel("gpt-test", sockets)
    socket_server.answer(response(message("hi"), status="incomplete"))
    socket_server.answer(response(message("ho")))
    first = await over_sockets.get_response(asking())
    request = asking(*first.output, MORE)
    await over_sockets.get_response(request)
    assert socket_server.requests[1].body["input"] == request.input
    assert socket_server.connections == 1


async def test_a_response_named_by_the_caller_stays_so() -> None:
    async with ScriptedResponsesServer("One.", "Two.") as server, model_of(server) as model:
        first = await model.get_response(asking())
        chained = ModelRequest(
            instructions=None, input=[MORE], run_id="run-1", previous_response_id=first.response_id
        )
        await model.get_response(chained)
        assert created(server)[1]["previous_response_id"] == first.response_id
        assert created(server)[1]["input"] == [MORE]


# --- A fresh socket in the same attempt -----------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_forgotten_response_brings_the_whole_request_in_the_same_attempt(
    stream: bool,
) -> None:
    async with ScriptedResponsesServer("One.", "Two.") as server, model_of(server) as model:
        first = await model.get_response(asking())
        server.forget_responses()
        request = asking(*first.output, MORE)
        if stream:
            kinds = [event["type"] for event in await collect(model.stream_response(request))]
            assert (kinds[0], kinds.count("error")) == ("response.created", 0)
        else:
            await model.get_response(request)
        assert [one["input"] for one in created(server)[1:]] == [[MORE], request.input]
        assert len(server.sockets) == 2
        assert server.script.calls == 2, "the model answered once"


async def test_a_socket_at_its_limit_brings_the_whole_request_in_the_same_attempt() -> None:
    async with ScriptedResponsesServer("One.", "Two.") as server, model_of(server) as model:
        server.reach_limit()
        first = await model.get_response(asking())
        server.reach_limit()
        await model.get_response(asking(*first.output, MORE))
        assert len(server.sockets) == 3
        assert server.script.calls == 2


LOST = {"code": "previous_response_not_found", "message": "Not found."}


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", **LOST},
        {"type": "error", "status": 400, "error": LOST},
        {"type": "error", "error": {"type": "invalid_request_error", "error": LOST}},
        {"type": "response.failed", "response": response(status="failed", error=LOST)},
    ],
)
async def test_the_code_is_found_wherever_the_provider_puts_it(
    sockets: SocketConnection, socket_server: SocketModelServer, error: JsonObject
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    socket_server.answer(response(message("hi")))
    first = await model.get_response(asking())
    socket_server.stream([error])
    socket_server.answer(response(message("ho")))
    assert (await model.get_response(asking(*first.output, MORE))).output == [message("ho")]
    assert [len(one.body["input"]) for one in socket_server.requests] == [1, 1, 3]


async def test_a_server_that_continues_nothing_gets_whole_requests_from_then_on(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    socket_server.answer(response(message("hi")))
    first = await model.get_response(asking())
    error = {"code": "unknown_parameter", "message": "Unknown: previous_response_id."}
    socket_server.answer({"error": error}, status=400)
    socket_server.answer(response({**message("ho"), "id": "msg_2"}))
    second = await model.get_response(asking(*first.output, MORE))
    socket_server.answer(response(message("hm")))
    await model.get_response(asking(*first.output, MORE, *second.output, MORE))
    assert [len(one.body["input"]) for one in socket_server.requests] == [1, 1, 3, 5]


async def test_a_whole_request_that_is_refused_is_not_sent_again(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    socket_server.answer({"error": {"code": "invalid_prompt", "message": "No."}}, status=400)
    failure = await fail(model, asking())
    assert (failure.code, failure.retryable) == ("invalid_request", False)
    assert len(socket_server.requests) == 1


async def test_a_limit_that_is_reached_twice_is_left_to_the_engine(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    limit = {"error": {"code": "websocket_connection_limit_reached", "message": "60 minutes."}}
    socket_server.answer(limit, status=400)
    socket_server.answer(limit, status=400)
    failure = await fail(ResponsesModel("gpt-test", sockets), asking())
    assert (failure.code, failure.retryable) == ("overloaded", True)
    assert len(socket_server.requests) == 2


async def test_a_response_that_is_lost_after_its_beginning_may_be_tried_again(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    socket_server.answer(response(message("hi")))
    first = await model.get_response(asking())
    socket_server.stream([{"type": "response.created"}, {"type": "error", "error": LOST}])
    said, failure = await collect_until_failure(model.stream_response(asking(*first.output, MORE)))
    assert (len(said), failure.retryable) == (1, True)
    assert len(socket_server.requests) == 2


# --- The server ends the connection ---------------------------------------------------------------


@pytest.mark.parametrize("code", [1000, 1001, 1006, 1011, 1012, 1013])
@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        ("after", "response.create"),
        ("before", "response.created"),
        ("after", "response.created"),
        ("after", "response.output_text.delta"),
        ("before", "response.completed"),
    ],
)
async def test_a_connection_that_ends_before_the_response_is_tried_again_whole(
    stage: str, kind: str, code: int
) -> None:
    async with ScriptedResponsesServer("One.", "Two.", "Two.") as server, model_of(server) as model:
        first = await model.get_response(asking())
        (server.close_after if stage == "after" else server.close_before)(kind, code)
        request = asking(*first.output, MORE)
        failure = await fail(model, request)
        assert (failure.code, failure.retryable) == ("unreachable", True)
        assert server.websocket_base_url in failure.message
        again = await model.get_response(request)  # as the engine does
        assert "Two." in str(again.output)
        assert created(server)[-1]["input"] == request.input
        assert len(server.sockets) == 2


@pytest.mark.parametrize("code", [1000, 1006, 1012])
async def test_a_connection_that_ends_after_the_response_costs_nothing(code: int) -> None:
    async with ScriptedResponsesServer("One.", "Two.") as server, model_of(server) as model:
        server.close_after("response.completed", code)
        first = await model.get_response(asking())
        await asyncio.sleep(0.05)
        request = asking(*first.output, MORE)
        await model.get_response(request)
        assert created(server)[1]["input"] == request.input
        assert len(server.sockets) == 2


async def test_events_between_two_responses_are_dropped(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    last = {"type": "response.completed", "response": response(message("hi"))}
    for sent in range(2):
        socket_server.stream([last, {"type": "rate_limits.updated"}, {"type": "error"}])
        (event,) = await collect(model.stream_response(asking()))
        assert event["type"] == "response.completed"
        await socket_server.until_sent("error", sent + 1)
    assert socket_server.connections == 1


def answering(*texts: str) -> Callable[[ModelRequest], Any]:
    """Answers question after question; a test may do something before each."""
    rest = list(texts)
    return lambda _: say(rest.pop(0))


async def repeat(server: ScriptedResponsesServer, *kinds: str) -> None:
    """Send the last events of these kinds once more, as some gateways do."""
    for kind in kinds:
        await server.sockets[-1].send(server.sent(kind)[-1])


async def until_read(server: ScriptedResponsesServer) -> None:
    """Wait until the client has read all that was sent: it answers a ping in its turn."""
    connection: Any = server.sockets[-1]
    await (await connection._connection.ping())


TAIL = ("response.output_item.done", "response.completed")


@pytest.mark.parametrize("kinds", [TAIL[1:], TAIL, ("response.created", *TAIL)])
async def test_a_last_event_that_comes_again_between_two_questions_answers_none(
    kinds: tuple[str, ...],
) -> None:
    async with (
        ScriptedResponsesServer(always=answering("One.", "Two.")) as server,
        model_of(server) as model,
    ):
        first = await model.get_response(asking())
        await repeat(server, *kinds)
        await until_read(server)
        second = await model.get_response(asking(*first.output, MORE))
        assert second.output[0]["content"][0]["text"] == "Two."
        assert len(server.sockets) == 2, "such a socket is not used again"
        assert len(created(server)) == 2


@pytest.mark.parametrize("kinds", [TAIL[:1], TAIL[1:], TAIL])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_last_event_that_comes_again_after_the_next_question_answers_none(
    kinds: tuple[str, ...], stream: bool
) -> None:
    async def reply(request: ModelRequest) -> Any:
        if len(created(server)) == 2:
            await repeat(server, *kinds)  # when the question has come, and before the answer
        return say(f"Answer {len(created(server))}.")

    async with ScriptedResponsesServer(always=reply) as server, model_of(server) as model:
        first = await model.get_response(asking())
        request = asking(*first.output, MORE)
        if stream:
            said, failure = await collect_until_failure(model.stream_response(request))
            assert said == []
        else:
            failure = await fail(model, request)
        assert (failure.code, failure.retryable) == ("bad_response", True)
        assert "an event of an earlier response" in failure.message
        assert (await model.get_response(request)).output[0]["content"][0]["text"] == "Answer 3."
        assert len(server.sockets) == 2, "such a socket is not used again"


async def test_a_last_event_that_comes_again_within_the_next_answer_fails_it(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    socket_server.answer(response(message("hi")))
    first = await model.get_response(asking())
    begun = {"type": "response.created", "response": {"id": "resp_of_its_own"}}
    again = {
        "type": "response.completed",
        "response": response(message("hi"), id=first.response_id),
    }
    socket_server.stream([begun, again])
    said, failure = await collect_until_failure(model.stream_response(asking(*first.output, MORE)))
    assert (said, failure.retryable) == ([begun], True)


@pytest.mark.smoke
async def test_tools_run_once_where_last_events_come_again() -> None:
    ran: list[str] = []

    @function_tool
    def pay(order: str) -> str:
        ran.append(order)
        return "paid"

    async def reply(request: ModelRequest) -> Any:
        paid = sum(item.get("type") == "function_call_output" for item in request.input)
        if paid and paid not in repeated:
            repeated.append(paid)
            await repeat(server, *TAIL)
        return say("Done.") if paid == 3 else [call("pay", f"c{paid}", order=f"A-{paid}")]

    repeated: list[int] = []
    agent = Agent(name="Desk", tools=[pay])
    async with ScriptedResponsesServer(always=reply) as server, model_of(server) as model:
        result = await run_in_memory(agent, "Pay.", model=model)
    assert result.final_output == "Done."
    assert ran == ["A-0", "A-1", "A-2"]
    assert repeated == [1, 2, 3]


# --- Errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "body", "code", "retryable"), TABLE)
async def test_error_events_have_the_codes_of_the_same_statuses_over_http(
    sockets: SocketConnection,
    socket_server: SocketModelServer,
    status: int,
    body: object,
    code: str,
    retryable: bool,
) -> None:
    socket_server.answer(body, status=status)
    failure = await fail(ResponsesModel("gpt-test", sockets))
    assert (failure.code, failure.retryable, failure.status) == (code, retryable, status)
    assert len(socket_server.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable"), [row for row in TABLE if row[0] != 304]
)
async def test_refused_handshakes_have_the_codes_of_the_same_statuses_over_http(
    sockets: SocketConnection,
    socket_server: SocketModelServer,
    status: int,
    body: object,
    code: str,
    retryable: bool,
) -> None:
    text = body.decode() if isinstance(body, bytes) else body
    socket_server.refuse_connection(status, text)
    failure = await fail(ResponsesModel("gpt-test", sockets))
    assert (failure.code, failure.retryable, failure.status) == (code, retryable, status)
    assert socket_server.requests == []


async def test_a_refused_key_is_told_without_repeating_it(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    refusal = {"error": {"code": "invalid_api_key", "message": f"Incorrect API key: {KEY}."}}
    socket_server.refuse_connection(401, refusal)
    failure = await fail(model)
    assert "Check OPENAI_API_KEY" in failure.message
    assert KEY not in failure.message
    socket_server.refuse_connection(401, refusal)
    with pytest.raises(ModelError, match="refused the API key"):
        await model.check_access()
    socket_server.refuse_connection(503)
    assert await model.check_access() == socket_server.websocket_base_url
    assert await model.check_access() == socket_server.websocket_base_url
    socket_server.answer(response(message("hi")))
    await model.get_response(ASK)
    assert socket_server.connections == 1, "the checked connection serves the first call"


async def test_the_provider_says_when_to_come_back(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    slow: JsonObject = {"code": "rate_limit_exceeded", "headers": {"Retry-After": "7"}}
    socket_server.answer({"error": slow}, status=429)
    assert (await fail(model)).retry_after == timedelta(seconds=7)
    socket_server.refuse_connection(429, headers={"retry-after": "8"})
    assert (await fail(model)).retry_after == timedelta(seconds=8)


async def test_a_server_without_websockets_is_told(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    socket_server.refuse_connection(404)
    failure = await fail(ResponsesModel("gpt-test", sockets))
    assert 'OpenAIProvider(transport="http")' in failure.message
    assert "OPENAI_WEBSOCKET_BASE_URL" in failure.message


@pytest.mark.parametrize(
    "frame", ["not json", "[1]", '"x"', b"\xff\xfe", b"\x00", '{"a": NaN}', ""]
)
async def test_a_frame_that_is_no_event_is_a_bad_response(
    sockets: SocketConnection, socket_server: SocketModelServer, frame: str | bytes
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    socket_server.stream([frame])
    failure = await fail(model)
    assert (failure.code, failure.retryable) == ("bad_response", True)
    socket_server.answer(response(message("hi")))
    await model.get_response(ASK)
    assert socket_server.connections == 2, "such a socket is not used again"


async def test_unknown_events_are_passed_on(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    last: JsonObject = {"type": "response.completed", "response": response(message("hi"))}
    events: list[JsonObject] = [{"type": "x.y.delta", "z": 1}, {"type": "surprise"}, last]
    socket_server.stream(events)
    assert await collect(model.stream_response(ASK)) == events
    socket_server.stream(events)
    assert (await model.get_response(ASK)).output == [message("hi")]


async def test_items_that_come_only_on_the_way_are_kept(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    done = {"type": "response.output_item.done", "item": message("hi")}
    socket_server.stream([done, {"type": "response.completed", "response": response()}])
    answer = await ResponsesModel("gpt-test", sockets).get_response(ASK)
    assert answer.output == [message("hi")]


async def test_a_refused_connection_names_the_address_and_what_to_check() -> None:
    url = f"ws://127.0.0.1:{free_port()}/v1"
    http = OpenAIConnection(websocket_base_url=url)
    failure = await fail(ResponsesModel("m", SocketConnection(http=http)))
    await http.aclose()
    assert (failure.code, failure.retryable) == ("unreachable", True)
    for part in (url, "ConnectionRefusedError", "OPENAI_WEBSOCKET_BASE_URL"):
        assert part in failure.message


@pytest.mark.parametrize(
    ("url", "code"),
    [("127.0.0.1:80/v1", "not_found"), ("ftp://x/v1", "not_found"), ("wss://x/v1", "no_api_key")],
)
async def test_an_address_or_key_that_is_missing_is_told_and_not_tried(url: str, code: str) -> None:
    http = OpenAIConnection(api_key=None if code == "no_api_key" else KEY, websocket_base_url=url)
    failure = await fail(ResponsesModel("m", SocketConnection(http=http)))
    assert (failure.code, failure.retryable) == (code, False)


async def test_a_server_that_speaks_something_else_is_a_failure_that_may_pass() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        http = OpenAIConnection(websocket_base_url=f"http://127.0.0.1:{port}")
        failure = await fail(ResponsesModel("m", SocketConnection(http=http)))
        await http.aclose()
    assert failure.code in {"bad_response", "unreachable"}
    assert failure.retryable


async def test_frames_that_are_too_large_say_what_to_change() -> None:
    async with ScriptedResponsesServer("x" * 5000, "Two.") as server:
        async with model_of(server, max_size=2000) as model:
            failure = await fail(model)
            assert (failure.code, failure.retryable) == ("invalid_request", False)
            assert "max_size" in failure.message
        async with model_of(server) as model:
            server.close_after("response.create", 1009, reason="too big")
            failure = await fail(model)
            assert (failure.code, failure.retryable) == ("invalid_request", False)
            assert 'transport="http"' in failure.message


async def test_the_clients_own_time_out_counts_where_the_settings_name_none(
    socket_server: SocketModelServer,
) -> None:
    url = socket_server.websocket_base_url
    async with AsyncOpenAI(api_key=KEY, websocket_base_url=url, timeout=0.1) as client:
        sockets = SocketConnection(http=OpenAIConnection(client=client))
        socket_server.hang()
        assert (await fail(ResponsesModel("m", sockets))).code == "timeout"
        await sockets.aclose()


async def test_a_call_that_is_cancelled_closes_its_connection() -> None:
    slow = paced(0.05, "One two three four five.")
    async with ScriptedResponsesServer(slow) as server, model_of(server) as model:
        events = model.stream_response(asking())
        assert (await anext(events))["type"] == "response.created"
        await events.aclose()
        await asyncio.sleep(0.2)
        assert server.sockets[0].is_closed
        assert server.sent("response.completed") == []


# --- The pool -------------------------------------------------------------------------------------


async def test_two_requests_of_one_run_at_once_have_a_socket_each() -> None:
    gate = asyncio.Event()
    steps = [wait_for(gate, "One."), wait_for(gate, "Two."), "Three."]
    async with ScriptedResponsesServer(*steps) as server, model_of(server) as model:
        calls = [asyncio.create_task(model.get_response(asking())) for _ in range(2)]
        await server.until_received("response.create", 2)
        gate.set()
        first, second = await asyncio.gather(*calls)
        assert len(server.sockets) == 2
        assert first.output != second.output
        await model.get_response(asking(*first.output, MORE))
        assert created(server)[2]["previous_response_id"] == first.response_id


async def test_a_full_pool_makes_further_requests_wait_until_their_time_out() -> None:
    gate = asyncio.Event()
    limits = PoolLimits(sockets=1)
    async with (
        ScriptedResponsesServer(wait_for(gate, "One."), "Two.") as server,
        model_of(server, limits=limits) as model,
    ):
        first = asyncio.create_task(model.get_response(asking()))
        await server.until_received("response.create")
        settings = ModelSettings(timeout=timedelta(milliseconds=50))
        failure = await fail(model, asking(run_id="run-2", settings=settings))
        assert (failure.code, failure.retryable) == ("timeout", True)
        second = asyncio.create_task(model.get_response(asking(run_id="run-2")))
        await asyncio.sleep(0.02)
        assert len(created(server)) == 1
        gate.set()
        await asyncio.gather(first, second)
        assert len(server.sockets) == 1, "the free socket serves the other run"


@pytest.mark.breaks_rules("call-answered")
async def test_a_full_pool_gives_up_the_socket_that_was_used_least_recently() -> None:
    limits = PoolLimits(sockets=2)
    async with (
        ScriptedResponsesServer(always=[call("look_up", "c1")]) as server,
        model_of(server, limits=limits) as model,
    ):
        replies = {run: await model.get_response(asking(run_id=run)) for run in ("a", "b")}
        more = asking(*replies["a"].output, MORE, run_id="a")
        await model.get_response(more)
        await model.get_response(asking(run_id="c"))  # takes the socket of b
        assert len(server.sockets) == 2
        assert [one.get("previous_response_id") is not None for one in created(server)] == [
            False,
            False,
            True,
            False,
        ]
        await model.get_response(asking(run_id="d", settings=ModelSettings(extra_query={"x": "y"})))
        assert len(server.sockets) == 3, "another route needs a connection of its own"


@pytest.mark.parametrize("limits", [PoolLimits(idle_s=0.05), PoolLimits(age_s=0.05)])
async def test_idle_and_old_connections_are_closed(limits: PoolLimits) -> None:
    async with (
        ScriptedResponsesServer("One.", "Two.") as server,
        model_of(server, limits=limits) as model,
    ):
        first = await model.get_response(asking())
        await asyncio.sleep(0.15)
        assert server.sockets[0].is_closed
        request = asking(*first.output, MORE)
        await model.get_response(request)
        assert created(server)[1]["input"] == request.input


async def test_a_connection_that_grew_old_during_its_response_is_not_used_again() -> None:
    async with (
        ScriptedResponsesServer(paced(0.03, "One two three."), "Two.") as server,
        model_of(server, limits=PoolLimits(age_s=0.05)) as model,
    ):
        await model.get_response(asking())
        await model.get_response(asking())
        assert len(server.sockets) == 2


async def test_each_event_loop_has_sockets_of_its_own() -> None:
    async with ScriptedResponsesServer(always="Yes.") as server, model_of(server) as model:
        await model.get_response(asking())

        async def elsewhere() -> None:
            await model.get_response(asking())
            await cast("SocketConnection", model._connection).aclose()

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert len(server.sockets) == 2
        await asyncio.sleep(0.05)
        assert [socket.is_closed for socket in server.sockets] == [True, True], "both are closed"
        await model.get_response(asking())
        assert len(server.sockets) == 3


async def test_a_run_sends_only_the_outputs_of_its_tools() -> None:
    @function_tool
    def look_up(order: str) -> str:
        """Look up an order."""
        return f"{order} is on its way"

    steps = [call("look_up", "c1", order="A")], [call("look_up", "c2", order="B")], "Both are."
    async with ScriptedResponsesServer(*steps) as server:
        url = server.websocket_base_url
        provider = OpenAIProvider(api_key=KEY, transport="websocket", websocket_base_url=url)
        agent = Agent[None](name="Clerk", instructions="Be kind.", tools=[look_up])
        result = await run_in_memory(agent, "Where are they?", model=provider.get_model("gpt-test"))
        await provider.aclose()
        assert result.final_output == "Both are."
        sent = [[item.get("call_id") for item in one["input"]] for one in created(server)]
        assert sent == [[None], ["c1"], ["c2"]]
        assert len(server.sockets) == 1


async def test_a_text_may_hold_the_words_that_numbers_may_not(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    socket_server.answer(response(message("hi")))
    item = {"role": "user", "content": "NaN, Infinity and “quotes” 😀"}
    await ResponsesModel("gpt-test", sockets).get_response(asking(item))
    assert socket_server.request.body["input"][-1] == item


async def test_closing_ends_a_request_in_progress_and_a_later_one_opens_anew() -> None:
    gate = asyncio.Event()
    steps = wait_for(gate, "One."), "Two."
    async with ScriptedResponsesServer(*steps) as server, model_of(server) as model:
        request = asyncio.create_task(fail(model))
        await server.until_received("response.create")
        await cast("SocketConnection", model._connection).aclose()
        failure = await request
        assert (failure.code, failure.retryable) == ("unreachable", True)
        await model.get_response(ASK)
        assert len(server.sockets) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_is_cancelled_leaves_its_place_to_others(stream: bool) -> None:
    async with (
        ScriptedResponsesServer(wait_for(asyncio.Event(), "One."), "Two.") as server,
        model_of(server, limits=PoolLimits(sockets=1)) as model,
    ):
        call = collect(model.stream_response(ASK)) if stream else model.get_response(ASK)
        request: asyncio.Task[object] = asyncio.ensure_future(call)
        await server.until_received("response.create")
        waiting = asyncio.create_task(model.get_response(ASK))
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        async with asyncio.timeout(5):
            await waiting
        assert server.sockets[0].is_closed


async def test_a_background_response_is_refused_before_anything_is_sent(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    settings = ModelSettings(extra_body={"background": True})
    failure = await fail(ResponsesModel("gpt-test", sockets), asking(settings=settings))
    assert (failure.code, failure.retryable) == ("invalid_request", False)
    assert "background" in failure.message
    assert socket_server.requests == []


# --- TLS and proxies ------------------------------------------------------------------------------


def certificate(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1 with its key, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)  # noqa: TID251  a certificate has a date
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = folder / "certificate.pem"
    path.write_bytes(built.public_bytes(pem) + key.private_bytes(pem, form, secret))
    return path


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_certificates_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_trusted: bool
) -> None:
    async def answer(socket: ServerConnection) -> None:
        async for _ in socket:
            answered.append(response(message("hi"), id=f"resp_{len(answered)}"))
            last = {"type": "response.completed", "response": answered[-1]}
            await socket.send(json.dumps(last))

    answered: list[JsonObject] = []

    path = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
    async with serve(answer, "127.0.0.1", 0, ssl=tls) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        http = OpenAIConnection(websocket_base_url=f"wss://127.0.0.1:{port}/v1")
        sockets = SocketConnection(http=http)
        model = ResponsesModel("gpt-test", sockets)
        if is_trusted:
            for _ in range(2):
                assert (await model.get_response(asking())).output == [message("hi")]
        else:
            failure = await fail(model)
            assert (failure.code, failure.retryable) == ("unreachable", True)
            assert "CERTIFICATE_VERIFY_FAILED" in failure.message
        await sockets.aclose()
        await http.aclose()


async def test_a_proxy_that_refuses_is_a_failure_that_may_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        http = OpenAIConnection(api_key=KEY, websocket_base_url="wss://models.example/v1")
        failure = await fail(ResponsesModel("m", SocketConnection(http=http)))
        await http.aclose()
    assert (failure.code, failure.retryable) == ("unreachable", True)
    assert "407" in failure.message


async def test_no_proxy_stands_between_here_and_a_server_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, socket_server: SocketModelServer
) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    socket_server.answer(response(message("hi")))
    http = OpenAIConnection(websocket_base_url=socket_server.websocket_base_url)
    sockets = SocketConnection(http=http)
    assert (await ResponsesModel("m", sockets).get_response(ASK)).output == [message("hi")]
    await sockets.aclose()
    await http.aclose()


async def test_a_redirect_to_another_server_is_not_followed(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    elsewhere = f"ws://127.0.0.1:{free_port()}/v1/responses"
    socket_server.refuse_connection(307, headers={"location": elsewhere})
    failure = await fail(ResponsesModel("gpt-test", sockets))
    assert (failure.code, failure.retryable) == ("bad_response", True)
    assert "redirect" in failure.message


@pytest.mark.parametrize("location", ["https://login.example/in?key=1", "http://127.0.0.1:1/"])
async def test_a_redirect_to_what_is_no_websocket_is_no_fault_of_the_address(
    sockets: SocketConnection, socket_server: SocketModelServer, location: str
) -> None:
    socket_server.refuse_connection(302, headers={"location": location})
    failure = await fail(ResponsesModel("gpt-test", sockets))
    assert (failure.code, failure.status, failure.retryable) == ("bad_response", 302, True)
    assert f"HTTP 302. Its message: a redirect to {location.partition('?')[0]}" in failure.message


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (b"HTTP/1.0 503 Service Unavailable\r\n\r\n", "overloaded", "HTTP 503. Its message: Serv"),
        (b"HTTP/1.0 302 Found\r\nlocation: /in\r\n\r\n", "bad_response", "HTTP 302."),
        (b"HTTP/1.0 429 \r\n\r\n", "rate_limited", "HTTP 429."),
        (b"220 mail server ready\r\n\r\n", "bad_response", "220 mail server ready"),
        (b"HTTP/1.1 503 X\r\ncontent-length: 9999999\r\n\r\n", "bad_response", "body too large"),
    ],
)
async def test_an_answer_to_the_handshake_that_is_not_of_http_1_1_says_what_it_says(
    answer: bytes, code: str, message: str
) -> None:
    async def serve_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve_once, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        http = OpenAIConnection(api_key=KEY, websocket_base_url=url)
        failure = await fail(ResponsesModel("m", SocketConnection(http=http)))
        await http.aclose()
    assert (failure.code, failure.retryable) == (code, True)
    assert message in failure.message


async def test_a_last_event_without_a_response_is_a_bad_response(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    socket_server.stream([{"type": "response.completed", "response": 7}])
    assert (await fail(ResponsesModel("gpt-test", sockets))).code == "bad_response"


async def test_an_input_that_is_a_text_goes_out_as_it_is(
    sockets: SocketConnection, socket_server: SocketModelServer
) -> None:
    socket_server.answer(response(message("hi")))
    settings = ModelSettings(extra_body={"input": "hello"})
    await ResponsesModel("gpt-test", sockets).get_response(asking(settings=settings))
    assert socket_server.request.body["input"] == "hello"


ODD: list[Any] = [7, 0, -1, True, 1.5, "x", "", None, [], ["x"], {}, {"error": 7}, {"code": []}]


@pytest.mark.parametrize("field", ["code", "error", "status", "headers", "message", "response"])
@pytest.mark.parametrize("kind", ["error", "response.failed", "response.completed"])
async def test_whatever_stands_in_an_event_is_a_failure_of_the_model(
    sockets: SocketConnection, socket_server: SocketModelServer, kind: str, field: str
) -> None:
    model = ResponsesModel("gpt-test", sockets)
    for value in ODD:
        for event in (
            {"type": kind, field: value},
            {"type": kind, "error": {"message": "No.", field: value}},
            {"type": kind, "response": {"id": "r", "output": value, "error": {field: value}}},
        ):
            socket_server.answer(response(message("hi")))
            first = await model.get_response(asking())
            socket_server.stream([event])
            socket_server.stream([event])  # a refused continuation is sent whole
            with suppress(ModelError):  # and nothing else
                await model.get_response(asking(*first.output, MORE))
            socket_server.reset()
