"""Where and with what something was measured, for the reader of a number."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("outlast", "temporalio", "openai", "pydantic")


def surroundings(server: str = "") -> dict[str, str]:
    """Return the date, the machine and the versions; `server` is Temporal's version."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return {
        "date": datetime.now(UTC).date().isoformat(),  # noqa: TID251  a report has a date
        "machine": f"{os.cpu_count()} cores, {_processor()}, {platform.system()}",
        "versions": f"Python {platform.python_version()}, {packages}"
        + (f", Temporal server {server}" if server else ""),
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
