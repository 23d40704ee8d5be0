"""A real collector and a real Phoenix, in processes of their own.

`make otel` builds the collector, installs Phoenix in an environment of its own, and names their
commands in `OUTLAST_OTELCOL` and `OUTLAST_PHOENIX`. Runs of pytest without both leave this folder out.
"""

import json
import os
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from outlast.agents.hosts import free_port
from tests.otlp import OtlpReceiver

COLLECTOR: Final = os.environ.get("OUTLAST_OTELCOL")
PHOENIX: Final = os.environ.get("OUTLAST_PHOENIX")
START_SECONDS: Final = 300

collect_ignore_glob = [] if COLLECTOR or PHOENIX else ["test_*.py"]

CONFIGURATION: Final = """
receivers:
  otlp:
    protocols:
      http: {{ endpoint: "127.0.0.1:{port}" }}
exporters:
  otlphttp: {{ endpoint: "{receiver}" }}
service:
  pipelines:
    traces: {{ receivers: [otlp], exporters: [otlphttp] }}
    metrics: {{ receivers: [otlp], exporters: [otlphttp] }}
"""


@contextmanager
def running(command: list[str], url: str, log: Path, **variables: str) -> Generator[None]:
    """Run a server until its block ends, from when on it answers at a URL."""
    with log.open("wb") as written:
        process = subprocess.Popen(
            command, stdout=written, stderr=written, env=os.environ | variables
        )
    try:
        until = time.monotonic() + START_SECONDS
        while not _answers(url):
            assert process.poll() is None, log.read_text("utf-8", "replace")[-2_000:]
            assert time.monotonic() < until, log.read_text("utf-8", "replace")[-2_000:]
            time.sleep(0.25)
        yield
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2):
            return True
    except URLError as error:
        return not isinstance(error.reason, OSError)  # also an answer with a status of an error
    except OSError:
        return False


@pytest.fixture
def receiver() -> Generator[OtlpReceiver]:
    with OtlpReceiver() as made:
        yield made


@pytest.fixture
def collector(receiver: OtlpReceiver, tmp_path: Path) -> Generator[str]:
    """The address of a collector that sends all on to the receiver."""
    if not COLLECTOR:
        pytest.skip("there is no collector here")
    port = free_port()
    path = tmp_path / "collector.yaml"
    path.write_text(CONFIGURATION.format(port=port, receiver=receiver.endpoint))
    endpoint = f"http://127.0.0.1:{port}"
    command = [str(COLLECTOR), "--config", str(path)]
    with running(command, endpoint, tmp_path / "collector.log"):
        yield endpoint


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of a Phoenix with a database of its own."""
    if not PHOENIX:
        pytest.skip("there is no Phoenix here")
    port, directory = free_port(), tmp_path_factory.mktemp("phoenix")
    endpoint = f"http://127.0.0.1:{port}"
    variables = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(directory),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [str(PHOENIX), "serve"]
    with running(command, f"{endpoint}/healthz", directory / "log", **variables):
        yield endpoint


def ask(endpoint: str, query: str) -> Any:
    """Return Phoenix's answer to a query."""
    body = json.dumps({"query": query}).encode()
    headers = {"content-type": "application/json"}
    request = Request(f"{endpoint}/graphql", body, headers)
    with urlopen(request, timeout=10) as response:
        return json.load(response)["data"]
