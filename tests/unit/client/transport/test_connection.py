"""Finding the server: what the environment says, and what is said when nobody answers."""

import logging
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesResponse
from temporalio.api.workflowservice.v1 import DescribeNamespaceResponse
from temporalio.client import Client
from temporalio.service import GrpcCompression, KeepAliveConfig, RPCError, RPCStatusCode

from outlast.agents.errors import ServerUnavailable, UserError
from outlast.client.transport.connection import add_search_attributes, connect, is_configured
from outlast.contract import names
from outlast.temporal.payloads.key_order import OrderedPayloadConverter


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ADDRESS", "NAMESPACE", "PROFILE", "API_KEY", "TLS"):
        monkeypatch.delenv(f"TEMPORAL_{name}", raising=False)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "data"))


class Connected:
    """Takes down how a client was connected."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    async def connect(self, **options: Any) -> Any:
        self.options = options
        return self

    namespace = "default"

    @property
    def workflow_service(self) -> Any:
        return self

    async def describe_namespace(self, _request: Any) -> DescribeNamespaceResponse:
        return DescribeNamespaceResponse()


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Connected:
    recorder = Connected()
    monkeypatch.setattr(Client, "connect", recorder.connect)
    return recorder


PROFILE = '[profile.default]\naddress = "desk:7233"\nnamespace = "support"\n'


def test_nothing_is_configured_by_itself() -> None:
    assert not is_configured()


def test_an_address_in_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "desk:7233")
    assert is_configured()


def test_a_profile_counts(tmp_path: Path) -> None:
    (tmp_path / "temporal.toml").write_text(PROFILE)
    assert is_configured()


def test_a_profile_that_cannot_be_read_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "temporal.toml").write_text("[profile.default\n")
    with pytest.raises(UserError, match="Temporal's client configuration cannot be read"):
        is_configured()


async def test_the_default_is_a_server_on_this_machine(connected: Connected) -> None:
    client: Any = await connect()
    assert client is connected
    converter = connected.options.pop("data_converter")
    assert connected.options == {
        "target_host": "localhost:7233",
        "grpc_compression": GrpcCompression.NONE,
        "connect_timeout": timedelta(seconds=5),
        "keep_alive_config": KeepAliveConfig(interval_millis=15_000, timeout_millis=10_000),
    }
    assert converter.payload_converter_class is OrderedPayloadConverter


async def test_what_is_configured_is_used(connected: Connected, tmp_path: Path) -> None:
    (tmp_path / "temporal.toml").write_text(PROFILE)
    await connect()
    assert connected.options["target_host"] == "desk:7233"
    assert connected.options["namespace"] == "support"


async def test_what_is_said_beats_what_is_configured(connected: Connected, tmp_path: Path) -> None:
    (tmp_path / "temporal.toml").write_text(PROFILE)
    await connect("other:1", "orders")
    assert connected.options["target_host"] == "other:1"
    assert connected.options["namespace"] == "orders"


@pytest.mark.parametrize(
    ("address", "is_here"),
    [("127.0.0.1:7233", True), ("[::1]:7233", True), ("desk:7233", False), ("10.0.0.7:1", False)],
)
async def test_messages_are_compressed_unless_the_server_is_here(
    connected: Connected, address: str, *, is_here: bool
) -> None:
    await connect(address)
    assert ("grpc_compression" in connected.options) is is_here


@pytest.mark.parametrize("address", ["127.0.0.1:1", "not an address", "desk.invalid:7233"])
async def test_where_nobody_answers_the_error_says_how_to_start_a_server(address: str) -> None:
    with pytest.raises(ServerUnavailable, match=f"No Temporal server answers at {address}") as one:
        await connect(address)
    assert "`outlast dev`" in one.value.message
    assert "TEMPORAL_ADDRESS" in one.value.message


async def test_why_nobody_answers_is_told_without_the_engines_own_words() -> None:
    with pytest.raises(ServerUnavailable, match="1:1: Connection refused") as one:
        await connect("127.0.0.1:1")
    assert one.value.__cause__ is None
    assert one.value.__suppress_context__


class OperatorService:
    """A server's register of search attributes."""

    def __init__(self, refusal: RPCError | None = None, **existing: Any) -> None:
        self.refusal = refusal
        self.existing = existing
        self.added: list[str] = []

    async def list_search_attributes(self, _request: Any) -> ListSearchAttributesResponse:
        return ListSearchAttributesResponse(custom_attributes=self.existing)

    async def add_search_attributes(self, request: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.added = sorted(request.search_attributes)

    async def count_workflows(self, _query: str) -> None:
        """Find nothing: every attribute is known."""


def client_of(service: OperatorService) -> Any:
    return SimpleNamespace(
        namespace="default", operator_service=service, count_workflows=service.count_workflows
    )


async def test_missing_search_attributes_are_added() -> None:
    service = OperatorService()
    assert await add_search_attributes(client_of(service))
    assert service.added == sorted(names.SEARCH_ATTRIBUTES)


@pytest.mark.parametrize(
    "service",
    [
        OperatorService(RPCError("not allowed", RPCStatusCode.PERMISSION_DENIED, b"")),
        OperatorService(OutlastStatus=1),
    ],
    ids=["refused", "of another type"],
)
async def test_where_they_cannot_be_added_runs_work_without_and_an_operator_is_told(
    service: OperatorService, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert not await add_search_attributes(client_of(service))
    assert "Runs will not be searchable" in caplog.text
    assert "search-attribute create" in caplog.text
