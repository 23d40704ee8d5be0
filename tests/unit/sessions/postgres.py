"""A Postgres server of one's own for a test: no port, no password, gone afterwards."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

DEBIAN = Path("/usr/lib/postgresql")
START_SECONDS = 60.0


def programs() -> Path | None:
    """Return the folder of Postgres's programs, or None where it is not installed."""
    found = shutil.which("postgres")
    if found is not None:
        return Path(found).resolve().parent
    versions = sorted(DEBIAN.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


@contextlib.contextmanager
def serve(folder_of_programs: Path) -> Generator[str]:
    """Run a server and yield the URL of its database. It listens on a socket in its folder."""
    # Not the test's folder: the path of a socket has to be short, and the server refuses to run
    # as root, to whom that folder belongs.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    nobody = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    user, group = (nobody.pw_uid, nobody.pw_gid) if nobody is not None else (None, None)
    if user is not None and group is not None:
        os.chown(folder, user, group)
    data = folder / "data"
    initdb = [folder_of_programs / "initdb", "-D", data, "-U", "test", "-A", "trust", "-N"]
    settings = ["-k", folder, "-h", "", "-c", "fsync=off", "-c", "log_min_messages=fatal"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    server: subprocess.Popen[bytes] | None = None
    try:
        subprocess.run(
            [*initdb, "-E", "UTF8"],
            check=True,
            capture_output=True,
            cwd=folder,
            env=environment,
            user=user,
            group=group,
            extra_groups=None if group is None else [group],
        )
        server = subprocess.Popen(
            [folder_of_programs / "postgres", "-D", data, *settings],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user,
            group=group,
            extra_groups=None if group is None else [group],
        )
        _wait_until_ready(folder_of_programs, folder, server)
        yield f"postgresql+psycopg://test@/postgres?host={folder}"
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # its word for: end all connections and stop
            server.wait(START_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(
    folder_of_programs: Path, folder: Path, server: "subprocess.Popen[bytes]"
) -> None:
    give_up_at = time.monotonic() + START_SECONDS
    asked = [folder_of_programs / "pg_isready", "-q", "-h", folder, "-U", "test"]
    while subprocess.run(asked, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError("Postgres did not start")
        time.sleep(0.05)
