import asyncio
import io
import socket
import socketserver
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console
from temporalio.client import Client

from outlast.agents.errors import ServerUnavailable
from outlast.agents.hosts import LOOPBACK, problem_of_port
from outlast.blobs import FileBlobStore, large_content
from outlast.cli import server as module
from outlast.cli.server import connect, hint_without_worker, pollers, run_link
from outlast.client.transport.connection import connect as connect_client
from outlast.dev import EmbeddedServer
from outlast.temporal.proofs.keys import KEY_FILE, identity_keys
from outlast.testing import ScriptedModel
from tests.eventually import eventually
from tests.unit.cli.conftest import Open


@pytest.mark.smoke
async def test_the_embedded_server_that_runs_is_found(server: EmbeddedServer) -> None:
    connection = await connect()

    assert connection.client.service_client.config.target_host == server.address
    assert connection.client.namespace == "default"
    assert connection.link("a b") == f"{server.ui_url}/namespaces/default/workflows/a%20b"


async def test_what_is_configured_comes_before_the_embedded_server(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")

    with pytest.raises(ServerUnavailable, match=r"No Temporal server answers at 127\.0\.0\.1:1\."):
        await connect()


async def test_what_is_named_comes_before_what_is_configured(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")

    connection = await connect(server.address, "other")

    assert connection.client.namespace == "other"
    assert connection.ui_url == server.ui_url


async def test_a_server_elsewhere_has_no_link(server: EmbeddedServer, nowhere: Path) -> None:
    connection = await connect(server.address)

    assert connection.link("support-42") is None


async def test_where_no_server_runs_the_error_says_how_to_start_one(nowhere: Path) -> None:
    with pytest.raises(ServerUnavailable, match="outlast dev"):
        await connect()


def test_a_link_survives_any_id() -> None:
    assert (
        run_link("http://ui", "my ns", "a/b?c")
        == "http://ui/namespaces/my%20ns/workflows/a%2Fb%3Fc"
    )


async def test_what_answers_and_is_no_temporal_server_is_told_in_its_own_words(
    nowhere: Path,
) -> None:
    # Accepts every connection, and hangs up.
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as listener:
        serving = threading.Thread(target=listener.serve_forever)
        serving.start()
        address = f"127.0.0.1:{listener.server_address[1]}"
        try:
            with pytest.raises(ServerUnavailable, match=f"No Temporal server answers at {address}"):
                await connect(address)
        finally:
            listener.shutdown()
            serving.join()


def test_a_port_is_taken_while_somebody_listens_and_answers() -> None:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        port = listener.getsockname()[1]

        assert problem_of_port(port)
        assert module.answers(f"{LOOPBACK}:{port}")

    assert problem_of_port(port) is None
    assert not module.answers(f"{LOOPBACK}:{port}")


def test_an_address_that_is_none_does_not_answer() -> None:
    assert not module.answers("nonsense")


async def test_a_worker_is_seen_by_its_identity(client: Client, open_desk: Open) -> None:
    queue = await open_desk(ScriptedModel())

    seen: list[str] = []
    async with asyncio.timeout(10):
        while client.identity not in seen:
            seen = await pollers(client, queue)


async def test_nobody_waits_on_an_unknown_queue(client: Client) -> None:
    assert await pollers(client, "nobody-is-here") == []


@pytest.mark.parametrize(
    ("queue", "hint"),
    [
        ("nobody-is-here", "outlast worker MODULE"),
        ("outlast-local-desk-1-Triage", "Run it again, in another terminal"),
    ],
)
async def test_people_who_wait_for_nobody_are_told(
    client: Client, monkeypatch: pytest.MonkeyPatch, queue: str, hint: str
) -> None:
    monkeypatch.setattr(module, "HINT_AFTER", timedelta(0))
    said = io.StringIO()

    async with hint_without_worker(client, queue, Console(file=said, width=200)):
        await eventually(lambda: hint in said.getvalue())


async def test_a_short_wait_gives_no_hint(client: Client) -> None:
    said = io.StringIO()

    async with hint_without_worker(client, "nobody-is-here", Console(file=said)):
        pass

    assert said.getvalue() == ""


async def test_the_server_of_another_project_is_not_used(
    server: EmbeddedServer, home: Path, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.client.transport.connection.DEFAULT_ADDRESS", server.address)

    with pytest.raises(ServerUnavailable) as caught:
        await connect()

    assert f"the one at {server.address} belongs to {home}." in caught.value.message
    assert f"with --address {server.address}, TEMPORAL_ADDRESS" in caught.value.message
    assert (await connect(server.address)).client.namespace == "default"


async def test_a_program_finds_the_server_of_its_project_at_any_port_with_its_key(
    server: EmbeddedServer, home: Path
) -> None:
    for named in (None, server.address, server.address.replace(LOOPBACK, "localhost")):
        client = await connect_client(named)
        assert client.service_client.config.target_host == server.address
        assert (await identity_keys(client)).source == str(home / KEY_FILE)
        assert large_content(client=client).store == FileBlobStore(home / "blobs")
        named_later = FileBlobStore(home / "other")
        assert large_content(named_later, client=client).store == named_later


async def test_a_client_that_a_program_connects_by_the_name_of_this_machine_signs_too(
    server: EmbeddedServer, home: Path
) -> None:
    client = await Client.connect(server.address.replace(LOOPBACK, "localhost"))
    assert (await identity_keys(client)).source == str(home / KEY_FILE)


async def test_a_program_does_not_use_the_server_of_another_project(
    server: EmbeddedServer, home: Path, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.client.transport.connection.DEFAULT_ADDRESS", server.address)
    with pytest.raises(ServerUnavailable, match=f"belongs to {home}"):
        await connect_client()
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    client = await connect_client()
    assert large_content(client=client).store is None, (
        "its large content is not in this project's folder"
    )


async def test_a_server_of_nobody_at_the_default_address_is_used(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EmbeddedServer(ui_port=None) as own:
        monkeypatch.setattr("outlast.client.transport.connection.DEFAULT_ADDRESS", own.address)

        assert (await connect()).client.service_client.config.target_host == own.address
        assert (await connect(None, "missing")).client.namespace == "missing"
