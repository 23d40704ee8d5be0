"""A Redis server of one's own for a test: no port, no password, gone afterwards."""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

START_SECONDS = 30.0


def program() -> str | None:
    """Return the path of a Redis or Valkey server, or None where none is installed."""
    return shutil.which("redis-server") or shutil.which("valkey-server")


@contextlib.contextmanager
def serve(program: str) -> Generator[str]:
    """Run a server that keeps nothing, and yield its URL. It listens on a socket in its folder."""
    folder = Path(tempfile.mkdtemp(prefix="redis"))
    path = folder / "socket"
    options = ["--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
    server = subprocess.Popen(
        [program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_ready(path, server)
        yield f"unix://{path}"
    finally:
        server.terminate()
        server.wait(START_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(path: Path, server: "subprocess.Popen[bytes]") -> None:
    give_up_at = time.monotonic() + START_SECONDS
    while True:
        with socket.socket(socket.AF_UNIX) as one, contextlib.suppress(OSError):
            one.connect(str(path))
            return
        if server.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError("Redis did not start")
        time.sleep(0.02)
