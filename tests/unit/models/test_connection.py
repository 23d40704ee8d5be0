import asyncio
from datetime import timedelta

import pytest
from openai import AsyncOpenAI

from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.hosts import free_port
from outlast.loop.values import JsonObject
from outlast.models import ChatCompletionsModel, OpenAIConnection, ResponsesModel
from outlast.ports.model import ModelError, ModelRequest
from tests.unit.models.conftest import KEY, over_both, over_http
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import message
from tests.unit.models.streams import collect, collect_until_failure

ASK = ModelRequest(instructions=None, input=[{"role": "user", "content": "hello"}])
ANSWER: JsonObject = {"id": "resp_1", "output": [message("hi")]}


async def fail(connection: OpenAIConnection, request: ModelRequest = ASK) -> ModelError:
    try:
        with pytest.raises(ModelError) as caught:
            await ResponsesModel("m", connection).get_response(request)
        return caught.value
    finally:
        await connection.aclose()


async def test_a_refused_connection_names_the_address_and_what_to_check() -> None:
    base_url = f"http://127.0.0.1:{free_port()}/v1"
    failure = await fail(OpenAIConnection(base_url=base_url))
    assert (failure.code, failure.retryable, failure.status) == ("unreachable", True, None)
    assert base_url in failure.message
    assert "ConnectionRefusedError" in failure.message
    assert "OPENAI_BASE_URL" in failure.message


async def test_a_base_url_that_is_none_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "not a url")
    failure = await fail(OpenAIConnection(api_key=KEY))
    assert not failure.retryable
    assert "Check OPENAI_BASE_URL" in failure.message


@over_both
async def test_a_connection_dropped_without_an_answer_is_unreachable(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.drop()
    with pytest.raises(ModelError) as caught:
        await model.get_response(ASK)
    assert (caught.value.code, caught.value.retryable) == ("unreachable", True)
    assert len(server.requests) == 1, "the client must not retry"


@over_both
async def test_a_server_that_says_nothing_is_a_time_out(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.hang()
    settings = ModelSettings(timeout=timedelta(milliseconds=50))
    request = ModelRequest(instructions=None, input=ASK.input, settings=settings)
    with pytest.raises(ModelError) as caught:
        await model.get_response(request)
    assert (caught.value.code, caught.value.retryable) == ("timeout", True)
    server.hang()
    said, failure = await collect_until_failure(model.stream_response(request))
    assert (said, failure.code) == ([], "timeout")


@over_http
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_breaks_off_is_unreachable(
    model: ResponsesModel, server: ModelServer, status: int
) -> None:
    server.answer({"output": []}, status=status, cut=True)
    with pytest.raises(ModelError) as caught:
        await model.get_response(ASK)
    assert (caught.value.code, caught.value.retryable) == ("unreachable", True)
    server.answer({"output": []}, status=500, cut=True)
    said, failure = await collect_until_failure(model.stream_response(ASK))
    assert (said, failure.code) == ([], "unreachable")


async def test_the_clients_own_time_out_counts_where_the_settings_name_none(
    server: ModelServer,
) -> None:
    async with AsyncOpenAI(api_key=KEY, base_url=server.base_url, timeout=0.05) as client:
        model = ResponsesModel("m", OpenAIConnection(client=client))
        server.hang()
        with pytest.raises(ModelError) as caught:
            await model.get_response(ASK)
        assert caught.value.code == "timeout"
        server.answer({"error": "x"}, status=500, hang=True)
        said, failure = await collect_until_failure(model.stream_response(ASK))
        assert (said, failure.code) == ([], "timeout")


@over_http
@pytest.mark.parametrize(
    ("status", "headers"),
    [(200, {"content-encoding": "gzip"}), (307, {"location": "/v1/responses"})],
)
async def test_an_answer_that_no_client_can_read_is_a_bad_response(
    model: ResponsesModel, server: ModelServer, status: int, headers: dict[str, str]
) -> None:
    for _ in range(25):
        server.answer(ANSWER, status=status, headers=headers)
    with pytest.raises(ModelError) as caught:
        await model.get_response(ASK)
    assert (caught.value.code, caught.value.retryable) == ("bad_response", True)


@over_http
async def test_a_server_that_keeps_a_finished_stream_open_holds_nobody_up(
    model: ResponsesModel, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.models.openai.connection._DRAIN_SECONDS", 0.02)
    server.stream([{"type": "response.completed", "response": ANSWER}], hang=True)
    assert len(await collect(model.stream_response(ASK))) == 1


@over_both
async def test_a_cancelled_call_ends_as_cancelled(
    model: ResponsesModel, server: ModelServer
) -> None:
    asked = server.hang()
    call = asyncio.create_task(model.get_response(ASK))
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_missing_key_fails_the_call_and_says_what_to_set() -> None:
    failure = await fail(OpenAIConnection())
    assert (failure.code, failure.retryable) == ("no_api_key", False)
    for name in ("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        assert name in failure.message
    assert "model=ScriptedModel(...)" in failure.message


async def test_a_missing_key_fails_the_stream_too() -> None:
    model = ResponsesModel("m", OpenAIConnection(api_key="  "))
    said, failure = await collect_until_failure(model.stream_response(ASK))
    assert (said, failure.code) == ([], "no_api_key")


async def test_key_and_address_come_from_the_environment_at_the_first_call(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = OpenAIConnection()
    monkeypatch.setenv("OPENAI_API_KEY", " sk-from-env\n")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    server.answer(ANSWER)
    await ResponsesModel("m", connection).get_response(ASK)
    await connection.aclose()
    assert server.request.headers["authorization"] == "Bearer sk-from-env"


async def test_what_is_given_beats_the_environment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-env")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://host.invalid")
    connection = OpenAIConnection(api_key=KEY, base_url=server.base_url)
    server.answer(ANSWER)
    await ResponsesModel("m", connection).get_response(ASK)
    await connection.aclose()
    assert server.request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_on_this_machine_needs_no_key(server: ModelServer, host: str) -> None:
    connection = OpenAIConnection(base_url=f"http://{host}:{server.port}/v1")
    server.answer(ANSWER)
    await ResponsesModel("m", connection).get_response(ASK)
    await connection.aclose()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "base_url", ["http://127.0.0.1.example.com", "http://10.0.0.1", "http://models:80"]
)
async def test_a_server_elsewhere_needs_a_key(base_url: str) -> None:
    assert (await fail(OpenAIConnection(base_url=base_url))).code == "no_api_key"


async def test_no_proxy_stands_between_here_and_a_server_on_this_machine(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    connection = OpenAIConnection(base_url=server.base_url)
    server.answer(ANSWER)
    await ResponsesModel("m", connection).get_response(ASK)
    await connection.aclose()


@pytest.mark.parametrize(
    "base_url",
    [
        "localhost:8000/v1",
        "ftp://host/v1",
        "http://",
        "http://host:port/v1",
        "http://[::1/v1",
        "http://two words/v1",
        "http://host:99999/v1",
        "http://\u202e.com/v1",
        "x",
    ],
)
async def test_an_address_that_is_none_is_told_and_not_retried(base_url: str) -> None:
    failure = await fail(OpenAIConnection(api_key=KEY, base_url=base_url))
    assert (failure.code, failure.retryable) == ("not_found", False)
    assert "OPENAI_BASE_URL" in failure.message


async def test_what_is_secret_in_an_address_is_not_repeated() -> None:
    base_url = f"http://user:hunter2@127.0.0.1:{free_port()}/v1?token=hunter2"
    failure = await fail(OpenAIConnection(base_url=base_url))
    assert failure.code == "unreachable"
    assert "hunter2" not in failure.message


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk-“quoted”"])
async def test_a_key_that_no_header_can_hold_is_told_without_repeating_it(key: str) -> None:
    failure = await fail(OpenAIConnection(api_key=key))
    assert (failure.code, failure.retryable) == ("unauthorized", False)
    assert "sk-" not in failure.message


@over_both
@pytest.mark.parametrize("value", ["two\nlines", "bad\r\nx: y"])
async def test_a_header_that_cannot_be_sent_is_an_invalid_request(
    model: ResponsesModel, server: ModelServer, value: str
) -> None:
    settings = ModelSettings(extra_headers={"x-note": value})
    with pytest.raises(ModelError) as caught:
        await model.get_response(
            ModelRequest(instructions=None, input=ASK.input, settings=settings)
        )
    assert (caught.value.code, caught.value.retryable) == ("invalid_request", False)
    assert KEY not in caught.value.message
    assert server.requests == []


@over_both
@pytest.mark.breaks_rules("content-shape", "text-encodable")
@pytest.mark.parametrize("value", [object(), float("nan"), "\ud800"])
async def test_an_item_that_json_cannot_express_is_an_invalid_request(
    model: ResponsesModel, server: ModelServer, value: object
) -> None:
    request = ModelRequest(instructions=None, input=[{"role": "user", "content": value}])
    with pytest.raises(ModelError) as caught:
        await model.get_response(request)
    assert (caught.value.code, caught.value.retryable) == ("invalid_request", False)
    assert server.requests == []


async def test_many_first_calls_at_once_open_one_client(server: ModelServer) -> None:
    connection = OpenAIConnection(base_url=server.base_url)
    target = connection.target("/responses", "m")
    clients = await asyncio.gather(*(connection._client(target) for _ in range(20)))
    await connection.aclose()
    assert len({id(client) for client in clients}) == 1


async def test_each_event_loop_gets_a_client_of_its_own(server: ModelServer) -> None:
    connection = OpenAIConnection(base_url=server.base_url)

    async def one_call() -> None:
        await ResponsesModel("m", connection).get_response(ASK)
        await connection.aclose()

    async def one_call_left_open() -> None:
        await ResponsesModel("m", connection).get_response(ASK)
        client = await connection._client(connection.target("/responses", "m"))
        await client.close()

    for call in (one_call_left_open, one_call, one_call):
        server.answer(ANSWER)
        await asyncio.to_thread(asyncio.run, call())
    assert len(server.requests) == 3


async def test_a_closed_connection_opens_again_for_the_next_call(server: ModelServer) -> None:
    connection = OpenAIConnection(base_url=server.base_url)
    for _ in range(2):
        server.answer(ANSWER)
        await ResponsesModel("m", connection).get_response(ASK)
        await connection.aclose()
        await connection.aclose()
    assert len(server.requests) == 2


async def test_a_failed_opening_is_tried_again_by_the_next_call(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = OpenAIConnection(base_url=server.base_url)
    with monkeypatch.context() as broken:
        broken.setattr("openai.AsyncOpenAI", _Unbuildable)
        with pytest.raises(ModelError, match="no more files") as caught:
            await ResponsesModel("m", connection).get_response(ASK)
    assert (caught.value.code, caught.value.retryable) == ("unreachable", True)
    server.answer(ANSWER)
    await ResponsesModel("m", connection).get_response(ASK)
    await connection.aclose()


class _Unbuildable:
    def __init__(self, **_: object) -> None:
        raise OSError("no more files")


async def test_a_client_of_the_callers_own_is_used_and_never_retried_or_closed(
    server: ModelServer,
) -> None:
    client = AsyncOpenAI(api_key="sk-own-8822", base_url=server.base_url, max_retries=5)
    connection = OpenAIConnection(client=client)
    model = ResponsesModel("m", connection)
    message = {"error": {"message": "sk-own-8822 is busy"}}
    server.answer(message, status=503)
    with pytest.raises(ModelError) as caught:
        await model.get_response(ASK)
    assert caught.value.code == "overloaded"
    assert "sk-own" not in caught.value.message
    assert server.base_url in caught.value.message
    await connection.aclose()
    server.answer(ANSWER)
    await model.get_response(ASK)
    assert len(server.requests) == 2
    await client.close()


@pytest.mark.parametrize("chat", [False, True])
async def test_a_refused_key_is_found_before_the_first_call(
    connection: OpenAIConnection, server: ModelServer, chat: bool
) -> None:
    server.answer({"error": {"message": "Incorrect API key"}}, status=401)
    kind = ChatCompletionsModel if chat else ResponsesModel

    with pytest.raises(ModelError, match=r"refused the API key\. Check OPENAI_API_KEY") as caught:
        await kind("m", connection).check_access()

    assert caught.value.code == "unauthorized"
    assert server.request.path == "/v1/models"


async def test_a_key_that_a_litellm_proxy_does_not_know_is_found_before_the_first_call(
    connection: OpenAIConnection, server: ModelServer
) -> None:
    unknown = {"message": "No connected db.", "type": "no_db_connection", "code": "400"}
    server.answer({"error": unknown}, status=400)

    with pytest.raises(ModelError, match=r"refused the API key\. Check OPENAI_API_KEY") as caught:
        await ResponsesModel("m", connection).check_access()

    assert (caught.value.code, caught.value.status) == ("unauthorized", 400)


@pytest.mark.parametrize("status", [200, 400, 403, 404, 500])
async def test_only_a_refused_key_counts(
    connection: OpenAIConnection, server: ModelServer, status: int
) -> None:
    server.answer({}, status=status)

    assert await ResponsesModel("m", connection).check_access() == server.base_url


async def test_a_server_that_does_not_answer_may_do_so_later(
    connection: OpenAIConnection, server: ModelServer
) -> None:
    server.drop()

    assert await ResponsesModel("m", connection).check_access() == server.base_url


async def test_a_missing_key_is_found_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    elsewhere = OpenAIConnection(base_url="https://models.example/v1")

    with pytest.raises(ModelError, match=r"no API key for .*https://models\.example/v1") as caught:
        await ResponsesModel("m", elsewhere).check_access()

    assert caught.value.code == "no_api_key"


async def test_no_key_is_checked_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, server: ModelServer
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    local = OpenAIConnection(base_url=server.base_url)

    assert await ResponsesModel("m", local).check_access() == server.base_url
    assert server.requests == []
    await local.aclose()
