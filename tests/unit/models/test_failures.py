import time
from datetime import timedelta
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.models import ChatCompletionsModel, OpenAIConnection, ResponsesModel
from outlast.models.failures import Target, retry_after
from outlast.ports.model import ModelError, ModelRequest
from tests.laws.strategies import examples
from tests.unit.models.conftest import KEY, over_http
from tests.unit.models.model_server import ModelServer
from tests.unit.models.streams import collect_until_failure

ASK = ModelRequest(instructions=None, input=[{"role": "user", "content": "hello"}])


async def fail(model: ResponsesModel | ChatCompletionsModel) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.get_response(ASK)
    return caught.value


def error(code: str | None = None, message: str = "No.", **fields: object) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "type": "some_error", **fields}}


TABLE = [
    (400, error(), "invalid_request", False),
    (400, error("context_length_exceeded"), "invalid_request", False),
    (400, error("conversation_locked"), "conversation_locked", True),
    (400, error("server_error"), "server_error", True),
    (400, error("billing_hard_limit_reached"), "quota_exceeded", False),
    (400, error("400", type="no_db_connection"), "unauthorized", False),
    (401, error("invalid_api_key"), "unauthorized", False),
    (402, error(), "quota_exceeded", False),
    (403, error(), "unauthorized", False),
    (403, error("model_not_found"), "not_found", False),
    (404, error("model_not_found"), "not_found", False),
    (404, b"<html>nothing</html>", "not_found", False),
    (405, b"", "not_found", False),
    (408, error(), "timeout", True),
    (409, error(), "overloaded", True),
    (409, error("conversation_locked"), "conversation_locked", True),
    (413, error(), "invalid_request", False),
    (418, b"", "invalid_request", False),
    (422, {"detail": [{"loc": ["body"], "msg": "Field required"}]}, "invalid_request", False),
    (429, error("rate_limit_exceeded"), "rate_limited", True),
    (429, error(), "rate_limited", True),
    (429, error("insufficient_quota"), "quota_exceeded", False),
    (429, error(type="insufficient_quota"), "quota_exceeded", False),
    (429, error("429", type="budget_exceeded"), "quota_exceeded", False),
    (500, error("server_error"), "server_error", True),
    (500, b"", "server_error", True),
    (502, b"<html>bad gateway</html>", "server_error", True),
    (503, error("slow_down"), "overloaded", True),
    (503, b"", "overloaded", True),
    (503, error("503", type="no_db_connection"), "overloaded", True),
    (504, b"", "timeout", True),
    (529, error(type="overloaded_error"), "overloaded", True),
    (304, b"", "bad_response", True),
]


@over_http
@pytest.mark.parametrize(("status", "body", "code", "retryable"), TABLE)
async def test_every_status_has_its_code(
    model: ResponsesModel,
    server: ModelServer,
    status: int,
    body: object,
    code: str,
    retryable: bool,
) -> None:
    server.answer(body, status=status)
    failure = await fail(model)
    assert (failure.code, failure.retryable, failure.status) == (code, retryable, status)
    assert len(server.requests) == 1, "the client must not retry"


@over_http
@pytest.mark.parametrize(("status", "body", "code", "retryable"), TABLE)
async def test_a_stream_that_is_refused_fails_by_the_same_table(
    model: ResponsesModel,
    server: ModelServer,
    status: int,
    body: object,
    code: str,
    retryable: bool,
) -> None:
    server.answer(body, status=status)
    said, failure = await collect_until_failure(model.stream_response(ASK))
    assert said == []
    assert (failure.code, failure.retryable, failure.status) == (code, retryable, status)
    assert len(server.requests) == 1, "the client must not retry"


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (400, error(message="Unknown parameter: 'x'."), "Unknown parameter: 'x'."),
        (401, error(), "Check OPENAI_API_KEY"),
        (402, error(), "plan and billing"),
        (403, error(message="Country not supported."), "Country not supported."),
        (404, error(), "'gpt-test'"),
        (404, error(), "OPENAI_BASE_URL"),
        (404, error(), 'OpenAIProvider(api="chat")'),
        (404, {"error": "model 'gpt-test' not found, try pulling it"}, "try pulling it"),
        (404, {"detail": "Not Found"}, "Its message: Not Found"),
        (404, b"404 page not found", "Its message: 404 page not found"),
        (422, {"detail": [{"loc": ["body"], "msg": "Field required"}]}, "Field required"),
        (429, error(message="Limit 3 / min."), "Limit 3 / min."),
        (500, {"message": {"message": "Deep."}}, "Deep."),
        (500, {"error": {"reason": "odd"}}, "odd"),
        (502, b"  <html>a page</html>", "(an HTML page)"),
        (503, [1, 2], "too busy"),
        (500, b'data: {"error": {"message": "Late."}}\n\ndata: [DONE]\n\n', "Its message: Late."),
        (500, b'data: {"error": "Late."}', "Its message: Late."),
        (500, b'data: {"detail": "Late."}', "Its message: Late."),
        (500, b"data: [DONE]", "Its message: data: [DONE]"),
        (500, b"data: 7", "Its message: data: 7"),
    ],
)
async def test_the_message_says_what_to_check_and_what_the_provider_says(
    model: ResponsesModel, server: ModelServer, status: int, body: object, says: str
) -> None:
    server.answer(body, status=status)
    failure = await fail(model)
    assert says in failure.message
    assert f"HTTP {status}" in failure.message
    assert str(failure) == failure.message
    assert server.base_url in failure.message


async def test_the_code_of_an_error_that_comes_as_an_event_counts(
    model: ResponsesModel, server: ModelServer
) -> None:
    event = b'data: {"error": {"code": "invalid_api_key", "message": "Who?"}}\n\n'
    server.answer(event, status=500, content_type="text/event-stream")
    _, failure = await collect_until_failure(model.stream_response(ASK))
    assert (failure.code, failure.retryable) == ("unauthorized", False)


@pytest.mark.parametrize(
    ("code", "expected", "retryable"),
    [
        ("429", "rate_limited", True),
        ("500", "server_error", True),
        ("529", "overloaded", True),
        ("400", "invalid_request", False),
        ("1113", "invalid_request", False),
        ("\u0664\u0662\u0669", "invalid_request", False),
        (99, "server_error", True),
    ],
)
@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_a_status_in_an_error_in_the_middle_of_a_stream_counts(
    connection: OpenAIConnection,
    server: ModelServer,
    api: str,
    code: object,
    expected: str,
    retryable: bool,
) -> None:
    """A LiteLLM proxy sends the status of its own server's error as digits."""
    kind = ResponsesModel if api == "responses" else ChatCompletionsModel
    started: dict[str, Any] = {"type": "response.created", "choices": []}
    server.stream([started, {"error": {"code": code, "message": "Broken off."}}])
    _, failure = await collect_until_failure(kind("m", connection).stream_response(ASK))
    assert (failure.code, failure.retryable) == (expected, retryable)
    assert "Broken off." in failure.message


async def test_the_hint_at_chat_completions_is_not_given_to_who_uses_them(
    chat: ChatCompletionsModel, server: ModelServer
) -> None:
    server.answer(error(), status=404)
    failure = await fail(chat)
    assert "api=" not in failure.message
    assert "/chat/completions" in failure.message
    assert "'chat-test'" in failure.message


async def test_a_long_answer_of_many_lines_is_quoted_short_and_on_one_line(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.answer(error(message="no\n" * 5000), status=400)
    failure = await fail(model)
    assert "\n" not in failure.message
    assert len(failure.message) < 1000


@over_http
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
async def test_no_message_repeats_the_key(
    model: ResponsesModel, server: ModelServer, status: int
) -> None:
    server.answer(error(message=f"Incorrect API key provided: {KEY}."), status=status)
    failure = await fail(model)
    assert KEY not in failure.message
    assert "[API key]" in failure.message
    assert failure.__cause__ is None
    assert failure.__context__ is None or failure.__suppress_context__


@pytest.mark.parametrize(
    ("status", "header", "retryable"),
    [
        (400, "true", True),
        (401, "true", True),
        (429, "false", False),
        (500, "false", False),
        (500, " TRUE ", True),
        (500, "perhaps", True),
        (400, "perhaps", False),
    ],
)
async def test_the_provider_may_say_itself_whether_to_retry(
    model: ResponsesModel, server: ModelServer, status: int, header: str, retryable: bool
) -> None:
    server.answer(error(), status=status, headers={"x-should-retry": header})
    assert (await fail(model)).retryable is retryable


async def test_no_header_makes_a_used_up_quota_worth_a_retry(
    model: ResponsesModel, server: ModelServer
) -> None:
    headers = {"x-should-retry": "true"}
    server.answer(error("insufficient_quota"), status=429, headers=headers)
    assert not (await fail(model)).retryable


@over_http
async def test_the_time_to_wait_arrives_with_the_failure(
    model: ResponsesModel, server: ModelServer
) -> None:
    server.answer(error(), status=429, headers={"retry-after": "7"})
    assert (await fail(model)).retry_after == timedelta(seconds=7)
    server.answer(error(), status=503)
    assert (await fail(model)).retry_after is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "0"}, timedelta(0)),
        ({"retry-after": " 1.5 "}, timedelta(seconds=1.5)),
        ({"retry-after": "86400"}, timedelta(days=1)),
        ({"retry-after-ms": "250"}, timedelta(milliseconds=250)),
        ({"retry-after-ms": "250", "retry-after": "9"}, timedelta(milliseconds=250)),
        ({"retry-after-ms": "soon", "retry-after": "9"}, timedelta(seconds=9)),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, timedelta(0)),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Wed, 99 Oct 99999 99:99:99 +9999"}, None),
    ],
)
def test_the_time_to_wait_is_read_from_every_form_and_never_raises(
    headers: dict[str, str], expected: timedelta | None
) -> None:
    assert retry_after(headers) == expected


def test_the_time_to_wait_may_be_a_date() -> None:
    wait = retry_after({"retry-after": formatdate(time.time() + 100, usegmt=True)})
    assert wait is not None
    assert timedelta(seconds=95) < wait <= timedelta(seconds=100)


NEARLY = st.text(alphabet="0123456789.eE+-:, WedOctGMT_\u0663\x00", max_size=40)


@examples(50)
@given(NEARLY, NEARLY)
def test_any_garbage_in_the_headers_is_no_time_or_a_time_to_wait(ms: str, after: str) -> None:
    wait = retry_after({"retry-after-ms": ms, "retry-after": after})
    assert wait is None or wait >= timedelta(0)


@pytest.mark.parametrize(
    ("body", "code", "retryable"),
    [
        ({"error": {"code": 429, "message": "Slow."}}, "rate_limited", True),
        ({"error": {"code": 502, "message": "Upstream."}}, "server_error", True),
        ({"error": {"code": 401, "message": "Who?"}}, "unauthorized", False),
        ({"error": {"code": "invalid_thing", "message": "No."}}, "invalid_request", False),
        ({"error": {"message": "Hm."}}, "server_error", True),
        ({"error": "Hm."}, "server_error", True),
    ],
)
@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_an_error_in_an_answer_that_claims_success_is_an_error(
    connection: OpenAIConnection,
    server: ModelServer,
    api: str,
    body: object,
    code: str,
    retryable: bool,
) -> None:
    kind = ResponsesModel if api == "responses" else ChatCompletionsModel
    server.answer(body)
    failure = await fail(kind("m", connection))
    assert (failure.code, failure.retryable) == (code, retryable)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html>Welcome</html>", "text/html"),
        (b"", "application/json"),
        (b'{"output": [', "application/json"),
        (b'{"output": NaN}', "application/json"),
        (b"\xff\xfe", "application/octet-stream"),
    ],
)
@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_an_answer_that_is_no_json_is_a_bad_response(
    connection: OpenAIConnection, server: ModelServer, api: str, body: bytes, content_type: str
) -> None:
    kind = ResponsesModel if api == "responses" else ChatCompletionsModel
    server.answer(body, content_type=content_type)
    failure = await fail(kind("m", connection))
    assert (failure.code, failure.retryable, failure.status) == ("bad_response", True, 200)
    assert content_type in failure.message
    assert "OPENAI_BASE_URL" in failure.message


def test_a_target_does_not_show_its_key() -> None:
    assert KEY not in repr(Target(base_url="http://x", path="/y", model="m", key=KEY))


@pytest.mark.parametrize("key", ["a", "x", "dummy", "EMPTY"])
def test_a_placeholder_for_a_key_does_not_garble_messages(key: str) -> None:
    target = Target(base_url="http://localhost", path="/v1", model="m", key=key)
    assert target.quote("fatal: extra dummy EMPTY") == "fatal: extra dummy EMPTY"
