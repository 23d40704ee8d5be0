import asyncio
import json
import os
import socket
import stat
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from outlast.agents.errors import ServerUnavailable
from outlast.cli import doctor as module
from outlast.cli.caller import Caller
from outlast.cli.doctor import Finding
from outlast.dev import EmbeddedServer
from outlast.testing import ScriptedModel
from tests.servers import server_for_tests
from tests.unit.cli.conftest import Invoke, Open


async def test_a_machine_that_has_what_it_needs_is_fine(
    cli: Invoke, server: EmbeddedServer
) -> None:
    done = await cli("doctor")

    assert done.exit_code == 0
    assert f"ok       server             answers at {server.address}" in done.stdout
    assert "optional model " in done.stdout
    assert "missing" not in done.stdout


async def test_what_is_missing_is_told_and_exits_with_1(cli: Invoke, nowhere: Path) -> None:
    done = await cli("doctor", "--address", "127.0.0.1:1", "--json")

    findings = {one["what"]: one for one in json.loads(done.stdout)}
    assert done.exit_code == 1
    assert findings["server"]["level"] == "missing"
    assert findings["Python"]["level"] == "ok"


def a_tool(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(("found", "level"), [((3, 11, 0), "ok"), ((3, 10, 9), "missing")])
def test_an_old_python_is_not_enough(found: tuple[int, ...], level: str) -> None:
    finding = module.python(found)

    assert finding.level == level
    assert ".".join(map(str, found)) in finding.detail


def test_packages_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.extra("cli").level == "ok"

    monkeypatch.setitem(module._EXTRAS, "cli", ("rich", "no-such-package"))
    finding = module.extra("cli")

    assert finding.level == "optional"
    assert finding.detail == 'lacks no-such-package: pip install "outlast[cli]"'


def test_the_tool_s_version_is_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = a_tool(tmp_path / "temporal", "echo temporal version 9")
    monkeypatch.setattr(module, "find_temporal_cli", lambda: tool)

    assert module.temporal_cli().detail == f"temporal version 9 ({tool})"


def test_a_tool_that_is_missing_or_broken_is_told_with_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = a_tool(tmp_path / "temporal", "exit 3")

    def missing() -> Path:
        raise ServerUnavailable("Get it with pip.")

    for find, said in ((missing, "Get it with pip."), (lambda: broken, "--upgrade")):
        monkeypatch.setattr(module, "find_temporal_cli", find)
        finding = module.temporal_cli()
        assert finding.level == "optional"
        assert said in finding.detail


def test_a_data_directory_may_be_made_later(tmp_path: Path) -> None:
    assert module.data_dir(tmp_path).level == "ok"
    assert "(not made yet)" in module.data_dir(tmp_path / "a" / "b").detail


def test_a_data_directory_that_others_can_write_to_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    finding = module.data_dir(tmp_path)

    assert finding.level == "optional"
    assert "is not used, because others can write to it (mode 0777)" in finding.detail


def test_a_data_directory_of_somebody_else_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)

    finding = module.data_dir()

    assert finding.level == "optional"
    assert "Set it to a directory of your own." in finding.detail
    assert module.port(7233, "the server").level == "ok"


def test_a_project_of_somebody_else_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))

    assert module.data_dir().detail == f"{tmp_path}/.outlast (not made yet)"
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert module.data_dir().detail == (
        f"{tmp_path}/home/outlast (not made yet); not in the project, because {tmp_path} is "
        "somebody else's"
    )


def test_a_data_directory_that_cannot_be_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    finding = module.data_dir(file / "outlast")

    assert finding.level == "optional"
    assert "OUTLAST_DATA_DIR" in finding.detail


def test_a_port_in_use_is_no_problem(server: EmbeddedServer) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert "another program" in module.port(taken, "it").detail
    assert module.port(taken, "it").detail == "free for it"
    ours = int(server.address.rpartition(":")[2])
    assert "used by `outlast dev`" in module.port(ours, "it").detail


@pytest.mark.smoke
async def test_a_server_that_answers_has_a_namespace_and_attributes(
    server: EmbeddedServer,
) -> None:
    findings = await module.temporal_server(Caller(), can_start_one=True, fix=False)

    assert [(finding.level, finding.what) for finding in findings] == [
        ("ok", "server"),
        ("ok", "namespace"),
        ("ok", "tenants"),
        ("ok", "search attributes"),
        ("optional", "archive"),
    ]
    assert server.address in findings[0].detail
    assert str(server.ui_url) in findings[0].detail


async def test_a_namespace_that_is_missing_is_told_with_how_to_make_it(
    server: EmbeddedServer,
) -> None:
    findings = await module.temporal_server(
        Caller(namespace="elsewhere"), can_start_one=True, fix=False
    )

    assert [finding.level for finding in findings] == ["ok", "missing"]
    assert "temporal operator namespace create -n elsewhere" in findings[1].detail


@pytest.mark.parametrize(("can_start_one", "level"), [(True, "optional"), (False, "missing")])
async def test_no_server_is_a_problem_only_where_none_can_be_started(
    nowhere: Path, can_start_one: bool, level: str
) -> None:
    (finding,) = await module.temporal_server(Caller(), can_start_one=can_start_one, fix=False)

    assert finding.level == level
    assert "outlast dev" in finding.detail


async def test_a_server_that_was_named_has_to_answer(nowhere: Path) -> None:
    (finding,) = await module.temporal_server(
        Caller(address="127.0.0.1:1"), can_start_one=True, fix=False
    )

    assert finding.level == "missing"
    assert "127.0.0.1:1" in finding.detail


async def test_a_configuration_that_cannot_be_read_is_told(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = nowhere / "temporal.toml"
    broken.write_text("not = [toml")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(broken))

    (finding,) = await module.temporal_server(Caller(), can_start_one=True, fix=False)

    assert finding.level == "missing"
    assert "cannot be read" in finding.detail


async def test_missing_attributes_are_told_and_then_added() -> None:
    async with server_for_tests({}, shared=False) as bare:
        levels: list[Finding] = []
        for fix in (False, True, False):
            caller = Caller(address=bare.address, namespace=bare.namespace)
            found = await module.temporal_server(caller, can_start_one=True, fix=fix)
            levels.extend(one for one in found if one.what == "search attributes")

    assert levels[0].level == "optional"
    assert "outlast doctor --fix" in levels[0].detail
    assert levels[1].detail.startswith("added OutlastAgent")
    assert (levels[2].level, levels[2].detail) == ("ok", "all there")


AT = {"OPENAI_API_KEY": "secret"}


@pytest.mark.parametrize(
    ("environment", "level", "said"),
    [
        ({}, "optional", "workers need OPENAI_API_KEY,"),
        ({"OPENAI_BASE_URL": "http://here"}, "optional", "(also for http://here)"),
        (AT | {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "missing", "does not answer ("),
        (AT | {"OPENAI_BASE_URL": "not-an-address"}, "missing", "is no address"),
        (AT | {"OPENAI_BASE_URL": "http://[::1"}, "missing", "is no address"),
        (AT | {"OPENAI_BASE_URL": "http://a b"}, "missing", "http://a b"),
    ],
)
async def test_a_key_is_found_and_never_shown(
    environment: dict[str, str], level: str, said: str
) -> None:
    finding = await module.model(environment)

    assert finding.level == level
    assert said in finding.detail
    assert "secret" not in finding.detail


@pytest.mark.parametrize(
    ("status", "level", "said"),
    [
        (200, "ok", "answers"),
        (404, "ok", "answers"),  # not every server lists its models
        (401, "missing", "refuses the key (401)"),
        (403, "missing", "refuses the key (403)"),
    ],
)
async def test_a_model_is_ready_where_its_server_takes_the_key(
    status: int, level: str, said: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"secret" in await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        finding = await module.model(AT | {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"})
    assert finding.level == level
    assert said in finding.detail
    assert "secret" not in finding.detail


async def test_the_turns_of_tenants_are_only_seen_on_our_own_server(
    server: EmbeddedServer, nowhere: Path
) -> None:
    found = await module.temporal_server(
        Caller(address=server.address), can_start_one=True, fix=False
    )

    assert (found[2].level, found[2].what) == ("optional", "tenants")
    assert "if matching.enableFairness is true" in found[2].detail


async def test_everything_is_looked_at(server: EmbeddedServer) -> None:
    findings = await module.examine(Caller(), fix=False)

    assert [finding.what for finding in findings] == [
        *("Python", "extra 'cli'", "extra 'dev'", "temporal tool", "data directory"),
        *("port 7233", "port 8233", "server", "namespace", "tenants"),
        *("search attributes", "archive", "model"),
    ]
    assert findings[0].what == "Python"
    assert os.environ.get("OPENAI_API_KEY") is None


@pytest.mark.parametrize(("machine", "code"), [(socket.gethostname(), 0), ("elsewhere", 1)])
async def test_a_worker_s_health_is_that_it_polls_on_this_machine(
    cli: Invoke,
    open_desk: Open,
    server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
    machine: str,
    code: int,
) -> None:
    queue = await open_desk(ScriptedModel())
    monkeypatch.setattr("socket.gethostname", lambda: machine)
    async with asyncio.timeout(20):
        done = await cli("doctor", "--worker", "--task-queue", queue)
        while done.exit_code != code:  # the server lists pollers a moment later
            done = await cli("doctor", "--worker", "--task-queue", queue)

    assert queue in done.stdout
    assert ("none on this machine polls" in done.stdout) == bool(code)


async def test_without_a_server_no_worker_is_healthy(cli: Invoke, nowhere: Path) -> None:
    done = await cli("doctor", "--worker", "--address", "127.0.0.1:1")

    assert done.exit_code == 1
    assert "127.0.0.1:1" in done.stdout


def test_packages_that_see_no_call_of_a_run_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.instrumentors() == []
    versions = {"langfuse": "4.2.0", "openinference-instrumentation-openai": "0.1.40"}

    def version(package: str) -> str:
        if package in versions:
            return versions[package]
        raise PackageNotFoundError(package)

    monkeypatch.setattr(module, "version", version)
    (found,) = module.instrumentors()
    assert found.level == "optional"
    assert "openinference-instrumentation-openai 0.1.40, langfuse 4.2.0 trace" in found.detail
    assert "add OpenTelemetryProcessor" in found.detail
