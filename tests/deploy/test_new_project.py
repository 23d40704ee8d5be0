"""A project of `outlast init` deploys: what its README says is a command, and its image has every role."""

import asyncio
import os
import re
import shlex
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from outlast.agents.hosts import free_port
from outlast.cli.app import app
from outlast.contract.identity import new_shared_key
from tests.architecture.test_images import copied
from tests.deploy.checks import parse
from tests.deploy.containers import UV, built_wheel, python_of_the_image, run
from tests.servers import TemporalServer, server_for_tests


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "travel-desk"]).exit_code == 0
    return tmp_path / "travel-desk"


def commands(project: Path) -> list[list[str]]:
    """Return what each `docker run` of the README gives to the image."""
    text = (project / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [shlex.split(line) for line in re.findall(r"^docker run .+$", text, re.MULTILINE)]
    return [words[words.index("travel-desk") + 1 :] for words in lines]


def of_the_image(project: Path, instruction: str) -> Any:
    text = (project / "Dockerfile").read_text(encoding="utf-8")
    [found] = re.findall(rf"^{instruction} (\[.+\])$", text, re.MULTILINE)
    return tomllib.loads(f"found = {found}")["found"]


def test_what_the_readme_runs_are_commands_of_outlast(project: Path) -> None:
    found = commands(project)
    assert [words[:1] for words in found] == [[], ["serve"], ["archive"], ["list"]]
    assert of_the_image(project, "ENTRYPOINT") == ["outlast"]
    for words in (of_the_image(project, "CMD"), *found[1:]):
        parse(words)


@pytest.fixture
async def server() -> AsyncIterator[TemporalServer]:
    async with server_for_tests() as started:
        yield started


@pytest.mark.nightly
async def test_the_image_starts_a_worker_and_the_desk(
    project: Path, server: TemporalServer, tmp_path: Path
) -> None:
    """The steps of its Dockerfile, in an environment of their own; then the image's own commands."""
    built_wheel(tmp_path).rename(project / "outlast-0.1.0-py3-none-any.whl")
    place, venv = copied(project, tmp_path / "app"), tmp_path / "venv"
    run(UV, "venv", "--quiet", "--python", python_of_the_image(), venv)
    [step] = re.findall(r'--find-links \. "\.\[(\w+)\]"', (project / "Dockerfile").read_text())
    at = ("--python", venv / "bin" / "python", "--find-links", place)
    run(UV, "pip", "install", "--quiet", *at, f"{place}[{step}]")
    environment = {
        "PATH": f"{venv}/bin:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TEMPORAL_ADDRESS": server.address,
        "OPENAI_API_KEY": "x",
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "OUTLAST_DESK_KEY": new_shared_key(),
        "PRODUCTION": "1",
    }

    async def start(*words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("outlast", *words), cwd=place, env=environment, stdout=asyncio.subprocess.PIPE
        )

    port = free_port()
    desk_words = ["127.0.0.1" if one == "0.0.0.0" else one for one in commands(project)[1]]
    worker = await start(*of_the_image(project, "CMD"))
    desk = await start(*desk_words, "--port", str(port))
    try:
        for process in (worker, desk):
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.readline(), 90)
        health = await (await start("doctor", "--worker")).wait()
        assert health == 0
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(f"http://127.0.0.1:{port}/health")
        assert answer.json() == {"status": "ok"}
        for process in (worker, desk):
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 40) == 0
    finally:
        for process in (worker, desk):
            if process.returncode is None:
                process.kill()
                await process.wait()
