"""The real OpenID Connect provider of the tests, and an `outlast serve` at which people log in."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outlast.agents.hosts import free_port

PLACE = Path(__file__).parent
SECRET = "a secret+of/the=desk"

NEEDED = [
    pytest.mark.installed,
    pytest.mark.skipif(shutil.which("node") is None, reason="the provider needs Node.js 20"),
    pytest.mark.skipif(
        not (PLACE / "node_modules").is_dir(), reason="`make oidc` installs the provider"
    ),
]
"""Marks of tests at the provider."""


class RealProvider:
    """The provider, in a process of its own, which ends with this one."""

    def __init__(self, desk_url: str, host: str = "127.0.0.1") -> None:
        self.desk_url = desk_url
        self._port = free_port()
        self.issuer = f"http://{host}:{self._port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it; a second start has other keys and knows nothing of the first."""
        self._process = await asyncio.create_subprocess_exec(
            *("node", str(PLACE / "provider.mjs"), self.issuer),
            f"{self.desk_url}/login/callback",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await self._said("ready")

    async def block(self, name: str) -> None:
        """Let somebody log in no more."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"block {name}\n".encode())
        await self._said("done")

    async def stop(self) -> None:
        """End it."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def _said(self, word: str) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            async for line in self._process.stdout:
                if line.decode().strip() == word:
                    return
        raise AssertionError(f"the provider ended before it said {word!r}")


@asynccontextmanager
async def outlast_serve(
    provider: RealProvider, address: str, key: str
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Start the command as a team would, and wait until it serves."""
    arguments = [
        "--port",
        provider.desk_url.rpartition(":")[2],
        "--url",
        provider.desk_url,
        "--role",
        "support=viewer",
    ]
    arguments += ["--oidc-issuer", provider.issuer, "--oidc-client-id", "desk"]
    arguments += ["--oidc-scopes", "openid profile groups"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outlast.cli.entry", "serve", *arguments),
        *("--address", address, "--json", "--until-eof"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "OUTLAST_DESK_KEY": key, "OUTLAST_OIDC_CLIENT_SECRET": SECRET},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = await process.stdout.readline()
        assert json.loads(line)["url"] == provider.desk_url
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
