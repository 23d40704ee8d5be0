"""Model calls that go to the server without the `openai` client."""

import asyncio
import gc
import gzip
import json
import ssl
import zlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from outlast.agents.config.model_settings import ModelSettings
from outlast.loop.values import JsonObject
from outlast.models import OpenAIConnection, ResponsesModel
from outlast.models.openai.http_session import is_direct
from outlast.ports.model import ModelError, ModelRequest
from tests.unit.models.conftest import KEY, over_http
from tests.unit.models.model_server import ModelServer
from tests.unit.models.responses_api import HELLO, ask, message, response
from tests.unit.models.streams import collect

ANSWER: JsonObject = {"id": "resp_1", "output": [message("hi")]}
LAST: JsonObject = {"type": "response.completed", "response": response(message("hi"))}


@pytest_asyncio.fixture
async def fresh(server: ModelServer) -> AsyncGenerator[ResponsesModel]:
    """A model whose connections no other test has used."""
    connection = OpenAIConnection(api_key=KEY, base_url=server.base_url)
    yield ResponsesModel("m", connection)
    await connection.aclose()


@pytest.mark.parametrize(
    "settings",
    [
        ModelSettings(),
        ModelSettings(timeout=timedelta(seconds=30)),
        ModelSettings(extra_headers={"X-Note": "one", "user-agent": "mine", "Accept": "text/x"}),
        ModelSettings(extra_query={"api-version": "2", "list": ["a", "b"]}),
    ],
)
async def test_a_request_is_the_one_that_the_client_would_send(
    connection: OpenAIConnection,
    of_client: OpenAIConnection,
    server: ModelServer,
    settings: ModelSettings,
) -> None:
    for one in (connection, of_client):
        server.answer(ANSWER)
        request = ModelRequest(instructions="Go.", input=HELLO, settings=settings)
        await ResponsesModel("m", one).get_response(request)
    ours, theirs = server.requests
    different = {"accept-encoding", "connection", "host"}
    assert {name: text for name, text in ours.headers.items() if name not in different} == {
        name: text for name, text in theirs.headers.items() if name not in different
    }
    assert (ours.path, ours.query, ours.body) == (theirs.path, theirs.query, theirs.body)


async def test_the_headers_of_the_environment_and_the_account_are_sent(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: desk")
    connection = OpenAIConnection(
        api_key=KEY, base_url=server.base_url, organization="org-1", project="proj-1"
    )
    server.answer(ANSWER)
    await ResponsesModel("m", connection).get_response(ask())
    await connection.aclose()
    headers = server.request.headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["x-team"] == "desk"
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")


@over_http
@pytest.mark.breaks_rules("item-fields", "text-nul")
@pytest.mark.parametrize("text", ["\0", '\u2028 \x7f \\ "', "€ 😀 \uffff", "x" * 3_000_000])
async def test_hostile_text_arrives_as_it_is(
    model: ResponsesModel, server: ModelServer, text: str
) -> None:
    server.answer(response(message(text)))
    answer = await model.get_response(
        ModelRequest(instructions=text, input=[{"role": "user", "content": text, text[:9]: [None]}])
    )
    assert server.request.body["instructions"] == text
    assert server.request.body["input"] == [{"role": "user", "content": text, text[:9]: [None]}]
    assert answer.output == [message(text)]


async def test_many_calls_at_once_use_their_connections_again(
    model: ResponsesModel, server: ModelServer
) -> None:
    for _ in range(3):
        for number in range(200):
            server.stream([LAST]) if number % 2 else server.stream([LAST, {"type": "x"}])
        streams = (collect(model.stream_response(ask())) for _ in range(200))
        assert all(len(events) == 1 for events in await asyncio.gather(*streams))
        for _ in range(100):
            server.answer(ANSWER)
        await asyncio.gather(*(model.get_response(ask()) for _ in range(100)))
    assert len(server.requests) == 900
    # A slow machine may replace some that were idle for too long.
    assert server.connections <= 300


@over_http
async def test_a_connection_that_the_server_closed_meanwhile_costs_no_attempt(
    model: ResponsesModel, server: ModelServer
) -> None:
    for _ in range(5):
        server.answer(ANSWER, close=True)
        await model.get_response(ask())
        await asyncio.sleep(0.01)
    assert len(server.requests) == 5


async def test_a_cancelled_call_closes_its_connection(
    fresh: ResponsesModel, server: ModelServer
) -> None:
    began = server.hang()
    call = asyncio.create_task(fresh.get_response(ask()))
    await began.wait()
    call.cancel()
    async with asyncio.timeout(5):
        await server.left.wait()


async def test_a_stream_that_is_left_closes_its_connection(
    fresh: ResponsesModel, server: ModelServer
) -> None:
    server.stream([{"type": "response.output_text.delta", "delta": "h"}], hang=True)
    async with aclosing(fresh.stream_response(ask())) as events:
        await anext(events)
    async with asyncio.timeout(5):
        await server.left.wait()


async def test_a_time_out_closes_its_connection(fresh: ResponsesModel, server: ModelServer) -> None:
    server.hang()
    # Long enough for the connection: a call that ends before has none to close.
    settings = ModelSettings(timeout=timedelta(milliseconds=500))
    with pytest.raises(ModelError) as caught:
        await fresh.get_response(ModelRequest(instructions=None, input=HELLO, settings=settings))
    assert caught.value.code == "timeout"
    async with asyncio.timeout(30):
        await server.left.wait()


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_redirect_is_followed(
    fresh: ResponsesModel, server: ModelServer, *, streamed: bool
) -> None:
    for _ in range(2):  # the second is for the client, which follows
        server.answer(b"", status=307, headers={"location": "/v1/elsewhere"})
    if streamed:
        server.stream([LAST])
        assert len(await collect(fresh.stream_response(ask()))) == 1
    else:
        server.answer(ANSWER)
        await fresh.get_response(ask())
    assert [request.path for request in server.requests][2:] == ["/v1/elsewhere"]
    assert server.requests[2].body == server.requests[0].body


@pytest.mark.parametrize("status", [304, 307])
async def test_a_redirect_to_nowhere_is_a_bad_response(
    fresh: ResponsesModel, server: ModelServer, status: int
) -> None:
    server.answer(b"", status=status)
    with pytest.raises(ModelError) as caught:
        await fresh.get_response(ask())
    assert (caught.value.code, caught.value.status) == ("bad_response", status)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_answer_is_read(
    fresh: ResponsesModel, server: ModelServer, encoding: str
) -> None:
    data = json.dumps(response(message("hi"))).encode()
    packed = gzip.compress(data) if encoding == "gzip" else zlib.compress(data)
    server.answer(packed, headers={"content-encoding": encoding})
    assert (await fresh.get_response(ask())).output == [message("hi")]
    assert encoding in server.request.headers["accept-encoding"]


@pytest.mark.parametrize(
    ("base_url", "direct"),
    [
        ("https://api.openai.com/v1", True),
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000/v1", True),
        ("https://user:secret@models.example/v1", False),
        ("https://models.example/v1?version=2", False),
        ("https://modèles.example/v1", False),
        ("wss://models.example/v1", False),
    ],
)
def test_only_plain_addresses_are_called_directly(
    base_url: str, monkeypatch: pytest.MonkeyPatch, *, direct: bool
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert is_direct(base_url, trust_env=True) is direct
    for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        with monkeypatch.context() as proxied:
            proxied.setenv(name, "http://127.0.0.1:1")
            assert not is_direct(base_url, trust_env=True)
            assert is_direct(base_url, trust_env=False) is direct


async def test_a_proxy_of_the_environment_is_used(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
    connection = OpenAIConnection(api_key=KEY, base_url="http://models.example/v1")
    server.answer(ANSWER)
    await ResponsesModel("m", connection).get_response(ask())
    await connection.aclose()
    assert server.request.headers["host"] == "models.example"


async def test_certificates_of_the_environment_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file, certificate_file = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file, key_file)
    async with ModelServer(context) as server:
        base_url = server.base_url.replace("http:", "https:").replace("127.0.0.1", "localhost")
        for trusted in (False, True):
            if trusted:
                monkeypatch.setenv("SSL_CERT_FILE", str(certificate_file))
            connection = OpenAIConnection(api_key=KEY, base_url=base_url)
            model = ResponsesModel("m", connection)
            server.answer(ANSWER)
            server.stream([LAST])
            if trusted:
                await model.get_response(ask())
                assert len(await collect(model.stream_response(ask()))) == 1
            else:
                with pytest.raises(ModelError, match="certificate") as caught:
                    await model.get_response(ask())
                assert caught.value.code == "unreachable"
                server.reset()
            await connection.aclose()


@pytest.mark.parametrize("closed", [False, True])
def test_a_connection_that_nobody_closes_is_not_logged(
    caplog: pytest.LogCaptureFixture, *, closed: bool
) -> None:
    async def call() -> OpenAIConnection:
        async with ModelServer() as server:
            connection = OpenAIConnection(api_key=KEY, base_url=server.base_url)
            server.answer(ANSWER)
            await ResponsesModel("m", connection).get_response(ask())
            if closed:
                await connection.aclose()
            return connection

    left = asyncio.run(call())
    del left
    gc.collect()
    assert caplog.records == []


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Write a key and a certificate for `localhost`, and return their files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    begin = datetime.now(UTC)  # noqa: TID251  certificates have real dates
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - timedelta(days=1))
        .not_valid_after(begin + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_file, certificate_file = folder / "key.pem", folder / "certificate.pem"
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return key_file, certificate_file
