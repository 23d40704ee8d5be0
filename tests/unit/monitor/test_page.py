"""Who may read the page of metrics."""

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.agents.errors import UserError
from outlast.otel import page, readers
from outlast.otel.page import HOST_VARIABLE, PORT_VARIABLE, TOKEN_VARIABLE, PageReader

TOKEN = "a-token-that-nobody-guesses-1"
HOST = "127.0.0.1"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def opened() -> Iterator[PageReader]:
    reader = PageReader(HOST, 0)
    yield reader
    reader.shutdown()


@pytest.fixture
def guarded(token_file: Path) -> Iterator[PageReader]:
    reader = PageReader("0.0.0.0", 0, token_file)
    yield reader
    reader.shutdown()


def ask(port: int, path: str = "/metrics", method: str = "GET", **headers: str) -> int:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        assert (b"target_info" in answer.read()) <= (answer.status == 200)
        return answer.status
    finally:
        connection.close()


def test_this_machine_reads_the_page(opened: PageReader) -> None:
    assert ask(opened.port) == 200
    assert ask(opened.port, Host="localhost") == 200
    assert ask(opened.port, "/") == 404
    assert ask(opened.port, "/metrics/../metrics") == 404
    assert ask(opened.port, method="POST") == 405


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:9464", "10.0.0.7", ""])
def test_a_page_of_another_site_does_not_read_it_under_its_name(
    opened: PageReader, host: str
) -> None:
    assert ask(opened.port, Host=host) == 421


@pytest.mark.parametrize(
    "sent",
    ["", "Bearer", f"Bearer {TOKEN}x", f"bearer {TOKEN}", TOKEN, f"Basic {TOKEN}", "Bearer é"],
)
def test_others_need_the_token(guarded: PageReader, sent: str) -> None:
    assert ask(guarded.port) == 401
    assert ask(guarded.port, Authorization=sent) == 401
    assert ask(guarded.port, Authorization=f"Bearer {TOKEN}", Host="elsewhere") == 200


def test_a_token_is_replaced_while_the_page_is_served(
    guarded: PageReader, token_file: Path
) -> None:
    token_file.write_text("another-token-that-is-long-enough", encoding="utf-8")
    assert ask(guarded.port, Authorization=f"Bearer {TOKEN}") == 401
    assert ask(guarded.port, Authorization="Bearer another-token-that-is-long-enough") == 200
    token_file.write_text("", encoding="utf-8")
    assert ask(guarded.port, Authorization="Bearer ") == 503
    token_file.unlink()
    assert ask(guarded.port, Authorization="Bearer ") == 503


def test_somebody_who_sends_nothing_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch, opened: PageReader
) -> None:
    with socket.create_connection((HOST, opened.port)) as silent:
        silent.send(b"GET /metrics HT")
        assert ask(opened.port) == 200


def test_without_a_token_nobody_else_reads_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"0\.0\.0\.0 need a token.*only this machine"):
        PageReader("0.0.0.0", 0)
    short = tmp_path / "short"
    short.write_text("x" * 23, encoding="utf-8")
    with pytest.raises(UserError, match="at least 24 letters and digits"):
        PageReader(HOST, 0, short)
    with pytest.raises(UserError, match="cannot be read"):
        PageReader(HOST, 0, tmp_path / "missing")


def test_a_port_that_is_taken_is_said(opened: PageReader) -> None:
    with pytest.raises(UserError, match=f"port {opened.port} cannot be used for metrics"):
        PageReader(HOST, opened.port)


def test_workers_have_a_page_each(
    monkeypatch: pytest.MonkeyPatch, opened: PageReader, token_file: Path
) -> None:
    """The port of the second worker of a machine is the next one."""
    monkeypatch.setenv(HOST_VARIABLE, HOST)
    monkeypatch.setenv(PORT_VARIABLE, str(opened.port - 1))
    with pytest.raises(UserError, match=f"port {opened.port} cannot"):
        page.page_from_environment(1)
    monkeypatch.setenv(PORT_VARIABLE, "0")
    monkeypatch.setenv(TOKEN_VARIABLE, str(token_file))
    served = page.page_from_environment(1)
    assert ask(served.port) == 401
    served.shutdown()
    monkeypatch.setenv(PORT_VARIABLE, "high")
    with pytest.raises(UserError, match=f"{PORT_VARIABLE}='high' must be a port"):
        page.page_from_environment()


@pytest.mark.parametrize(
    ("setting", "kinds"),
    [
        ("", ["PeriodicExportingMetricReader"]),
        ("otlp", ["PeriodicExportingMetricReader"]),
        ("none", []),
        (" Prometheus", ["PageReader"]),
        ("otlp,prometheus", ["PeriodicExportingMetricReader", "PageReader"]),
    ],
)
def test_the_environment_says_where_metrics_go(
    monkeypatch: pytest.MonkeyPatch, setting: str, kinds: list[str]
) -> None:
    monkeypatch.setenv(readers.METRICS_VARIABLE, setting)
    monkeypatch.setenv(PORT_VARIABLE, "0")
    found = readers.metric_readers()
    assert [type(one).__name__ for one in found] == kinds
    for one in found:
        one._collect = None  # nothing is to be sent
        one.shutdown()  # pyright: ignore[reportUnknownMemberType]  the package's own annotation


def test_a_page_without_its_packages_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(readers.METRICS_VARIABLE, "prometheus")
    nothing: dict[str, str] = {}
    monkeypatch.setattr(readers, "find_spec", nothing.get)
    with pytest.raises(UserError, match=r'pip install "outlast\[monitor\]"'):
        readers.metric_readers()
