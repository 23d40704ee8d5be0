"""A MongoDB server of one's own for a test: gone afterwards.

It is MongoDB where that is installed, or else the server in Java that `make mongo` installs.
"""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from outlast.agents.hosts import free_port

START_SECONDS = 60.0
ROOT = Path(__file__).parents[3]
JARS = ROOT / ".mongo"
SOURCE = Path(__file__).with_name("mongo") / "Server.java"


def is_installed() -> bool:
    """Whether there is a server."""
    has_java = shutil.which("java") is not None and any(JARS.glob("*.jar"))
    return has_java or shutil.which("mongod") is not None


@contextlib.contextmanager
def serve() -> Generator[str]:
    """Run a server that keeps nothing, and yield its URI."""
    program = shutil.which("mongod")
    with _mongod(program) if program is not None else _java() as port:
        yield f"mongodb://127.0.0.1:{port}"


@contextlib.contextmanager
def _mongod(program: str) -> Generator[int]:
    with tempfile.TemporaryDirectory(prefix="mongo") as folder:
        port = free_port()
        options = ["--dbpath", folder, "--bind_ip", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen([program, *options, "--nounixsocket"], stdout=subprocess.DEVNULL)
        try:
            _wait_until_ready(port, server)
            yield port
        finally:
            server.terminate()
            server.wait(START_SECONDS)


@contextlib.contextmanager
def _java() -> Generator[int]:
    server = subprocess.Popen(
        ["java", "-cp", f"{JARS}/*", str(SOURCE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.stdin.close()
        server.wait(START_SECONDS)
        server.stdout.close()


def _wait_until_ready(port: int, server: "subprocess.Popen[bytes]") -> None:
    give_up_at = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if server.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError("MongoDB did not start")
        time.sleep(0.05)
