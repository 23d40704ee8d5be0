import socketserver
import threading
from pathlib import Path

import pytest

from outlast.agents.errors import ServerUnavailable
from outlast.cli.server_lookup import connect, run_link
from outlast.dev import EmbeddedServer


async def test_the_embedded_server_that_runs_is_found(server: EmbeddedServer) -> None:
    connection = await connect()

    assert connection.client.service_client.config.target_host == server.address
    assert connection.client.namespace == "default"
    assert connection.link("a b") == f"{server.ui_url}/namespaces/default/workflows/a%20b"


async def test_what_is_configured_comes_before_the_embedded_server(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")

    with pytest.raises(ServerUnavailable, match=r"Nobody answers at 127\.0\.0\.1:1\."):
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
