"""The desk of the compose file, tried as a new user would: from nothing to an approval behind a login.

Each service is a process, with the command, environment, mounts, user and health check of the file.
"""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outlast.client import connect
from outlast.client.handle import RunHandle
from tests.deploy.containers import COMPOSE, NEEDED, Deployment, Images
from tests.servers import TemporalServer, server_for_tests

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600), *NEEDED]

PATIENCE_SECONDS = 90
RUN = "support-1"


def _for_others(place: Path) -> Path:
    """Let the users of the roles enter a folder of the tests."""
    for one in (place, place.parent):
        one.chmod(0o755)
    return place


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return Images.build(_for_others(tmp_path_factory.mktemp("images")))


@pytest.fixture
async def server() -> AsyncIterator[TemporalServer]:
    async with server_for_tests() as started:
        yield started


@pytest.fixture
async def deployment(
    images: Images, server: TemporalServer, tmp_path: Path
) -> AsyncIterator[Deployment]:
    made = Deployment(images, _for_others(tmp_path), server.address)
    try:
        await made.once("keys")
        yield made
    finally:
        await made.end()


def ask() -> list[str]:
    """Return the command of the file that starts a run, without `docker compose run --rm cli`."""
    head = COMPOSE.read_text(encoding="utf-8")
    [command] = re.findall(r"^#     docker compose run --rm cli (run .+)$", head, re.MULTILINE)
    return shlex.split(command)


async def log_in(browser: httpx2.AsyncClient, desk: str, name: str) -> httpx2.Response:
    """Open the desk as nobody, fill in the form of the provider, and come back."""
    page = await browser.get(f"{desk}/login?next=/inbox")
    form = re.search(r"<form[^>]*>", page.text)
    assert form is not None, page.text
    action = re.search(r'action="([^"]+)"', form[0])
    target = page.url.join(unescape(action[1])) if action else page.url
    return await browser.post(str(target), data={"sub": name})


async def approve(browser: httpx2.AsyncClient, desk: str) -> httpx2.Response:
    """Approve what the run waits for, as soon as it does."""
    place = f"{desk}/api/conversations/{RUN}/requests"
    requests: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not requests:
            answer = await browser.get(place)
            requests = answer.json()["requests"] if answer.status_code == 200 else []
            await asyncio.sleep(0.2)
    decision = {"type": "approve", "digest": requests[0]["digest"]}
    address = f"{place}/{requests[0]['id']}/decide"
    return await browser.post(address, json=decision, headers={"Origin": desk})


async def decided_by(deployment: Deployment) -> list[Any]:
    """Return who decided, how they logged in, and whether the worker had a proof."""
    log = await deployment.once("cli", "audit", RUN, "--json")
    records = [json.loads(line) for line in log.splitlines()]
    fields = ("by", "method", "verified", "proof")
    return [[one[name] for name in fields] for one in records if one["event"] == "decided"]


async def test_from_nothing_to_an_approval_behind_a_login(
    deployment: Deployment, server: TemporalServer
) -> None:
    for name in ("scripted-model", "worker", "desk", "login", "archiver"):
        await deployment.start(name)
    await deployment.once("cli", *ask())
    desk = deployment.desk

    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        names = {"X-Forwarded-User": "ann", "X-Forwarded-Groups": "billing"}
        for headers in ({}, names):
            assert (await browser.get(f"{desk}/api/inbox", headers=headers)).status_code == 401
        await log_in(browser, desk, "mallory")  # whom the provider lets in, in no group
        assert (await browser.get(f"{desk}/api/inbox")).status_code == 403
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        assert (await log_in(browser, desk, "ann")).status_code == 200
        done = await approve(browser, desk)
        assert done.status_code == 200, done.text

    handle = RunHandle(await connect(server.address), RUN)
    result = await asyncio.wait_for(handle.result(), PATIENCE_SECONDS)
    assert "389" in str(result.final_output)
    assert await decided_by(deployment) == [["ann", "oidc", True, "accepted"]]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while RUN not in await deployment.once("cli", "archive", "list", "--json"):  # noqa: ASYNC110
            await asyncio.sleep(1)
    for name in ("desk", "archiver", "worker", "scripted-model", "login"):
        await deployment.stop(name)  # within its grace


LOOK = """
import os, sys
writable = []
for folder in ("/", "/app", "/etc", "/usr", "/keys", "/keys/desk", "/keys/worker", "/archive", "/data", "/tmp"):
    try:
        with open(os.path.join(folder, "planted"), "w"):
            writable.append(folder)
    except OSError:
        pass
secrets = [one for one in ("/keys/desk/session", "/keys/desk/identity") if os.access(one, os.R_OK)]
print(os.getuid(), writable, secrets)
"""


@pytest.mark.parametrize(
    ("name", "writable", "reads_keys"),
    [
        ("worker", ["/data", "/tmp"], False),
        ("desk", ["/tmp"], True),
        ("archiver", ["/archive", "/tmp"], False),
        ("cli", ["/tmp"], False),
        ("login", ["/tmp"], False),
    ],
)
async def test_a_role_writes_and_reads_what_is_its_own(
    deployment: Deployment, name: str, writable: list[str], reads_keys: bool
) -> None:
    code, printed = await deployment.ended(name, ["python", "-c", LOOK])
    keys = ["/keys/desk/session", "/keys/desk/identity"] if reads_keys else []
    assert (code, printed.strip()) == (0, f"10001 {writable} {keys}")


async def test_the_keys_are_made_once(deployment: Deployment) -> None:
    volumes = deployment.folder / "volumes"

    def keys() -> dict[str, tuple[str, int]]:
        return {
            str(one.relative_to(volumes)): (one.read_text(), one.stat().st_mode & 0o777)
            for one in volumes.rglob("*")
            if one.is_file()
        }

    first = keys()
    assert {name: mode for name, (_, mode) in first.items()} == dict.fromkeys(
        ("desk-keys/session", "desk-keys/identity", "worker-keys/identity"), 0o400
    )
    await deployment.once("keys")
    assert keys() == first
    (volumes / "desk-keys" / "identity").unlink()  # as after a kill between the two
    await deployment.once("keys")
    assert keys()["desk-keys/session"] == first["desk-keys/session"]
    assert keys()["worker-keys/identity"] != first["worker-keys/identity"]


@pytest.mark.skipif(shutil.which("nginx") is None, reason="`make deploy` installs nginx")
async def test_an_approval_behind_a_proxy(deployment: Deployment) -> None:
    """The password file is made by the command that the compose file names."""
    text = COMPOSE.read_text(encoding="utf-8")
    [command] = re.findall(r"People and their passwords: (.+?) >> docker/people", text)
    people = deployment.folder / "secrets" / "people"
    people.parent.mkdir()
    people.write_text(
        subprocess.run(  # noqa: ASYNC221
            ["bash", "-c", command.replace("-apr1", "-apr1 -stdin")],
            input=b"s3cret\n",
            capture_output=True,
            check=True,
        ).stdout.decode()
    )
    for name in ("scripted-model", "worker", "desk-behind-proxy", "proxy"):
        await deployment.start(name)
    await deployment.once("cli", *ask())
    desk, named = deployment.proxy, {"X-Forwarded-User": "lee", "X-Forwarded-Groups": "leads"}

    async with httpx2.AsyncClient() as browser:
        for login in (None, ("ann", "wrong")):
            answer = await browser.get(f"{desk}/api/inbox", auth=login, headers=named)
            assert answer.status_code == 401
    async with httpx2.AsyncClient(auth=("ann", "s3cret"), headers=named) as browser:
        done = await approve(browser, desk)
        assert done.status_code == 200, done.text
    assert await decided_by(deployment) == [["ann", "proxy", True, "accepted"]]
    for name in ("proxy", "desk-behind-proxy"):
        await deployment.stop(name)
