"""The areas of `make mutate`: which code is changed, and which tests may notice it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Area:
    """A part of the package and its tests.

    Attributes:
        code: folders and files of the package, or names of files with `*`.
        tests: folders and files of tests that may notice a change.
        on_server: names of files in `tests/workflow`, without `test_` and `.py`, that may, too.
        bar: how many of a hundred changes have to be noticed: what was measured, less twice the
            chance of a sample, because some of mutmut's changes are equivalent.
    """

    code: Sequence[str]
    tests: Sequence[str]
    on_server: str = ""
    bar: int = 0


AREAS = {
    "workflows": Area(
        ["outlast/workflows"],
        ["tests/unit/workflows", "tests/conformance"],
        "tools handoffs people people_in_time people_takeover waits deliveries schedules status "
        "nested_runs retries resets cancel bad_input sizes order long_runs references compaction",
    ),
    "client": Area(
        ["outlast/client"],
        [
            "tests/unit/client",
            *(
                f"tests/unit/cli/test_{one}.py"
                for one in ["evals", "export", "record", "replay", "run"]
            ),
        ],
        "reading streams open_streams forks schedules audit audit_chain inbox background answers "
        "archive_deletion deliveries people tenants identity visibility resets unreadable",
    ),
    "cli": Area(["outlast/cli"], ["tests/unit/cli"], "cli approval_file"),
    "serve": Area(
        ["outlast/serve"],
        ["tests/unit/serve"],
        "desk_api desk_pages desk_wires wires chat_page conversation_page inbox a2a feeds case "
        "same_outcome",
    ),
    "notifications": Area(["outlast/notifications"], ["tests/unit/notifications"], "notifications"),
    "worker": Area(
        [
            "outlast/worker",
            "outlast/local",
            "outlast/temporal/visibility",
            "outlast/agents/hosts.py",
        ],
        ["tests/unit/worker", "tests/unit/local", "tests/unit/temporal/visibility"],
        "worker plugin lost_attributes deployments local_engine blocked_loop visibility",
    ),
    "loop": Area(["outlast/loop"], ["tests/unit/loop"], bar=88),
    "contract": Area(["outlast/contract"], ["tests/unit/contract"], bar=70),
    "views": Area(
        ["outlast/views"],
        [
            "tests/unit/views",
            "tests/unit/agents/test_approval_hours.py",
            *(
                f"tests/unit/cli/test_{one}.py"
                for one in ["aside", "decide", "hold", "show", "view"]
            ),
            *(f"tests/unit/serve/test_{one}.py" for one in ["chat", "costs", "customer_view"]),
        ],
        bar=70,
    ),
    "streams": Area(
        ["outlast/contract/streams"],
        ["tests/unit/contract/streams", "tests/unit/client/read/test_delta_poller.py"],
        bar=83,
    ),
    "effects": Area(
        ["outlast/activities"],
        ["tests/unit/activities", "tests/unit/testing", "tests/conformance"],
        "tools retries outages",
        bar=60,
    ),
    "agents": Area(["outlast/agents"], ["tests/unit/agents", "tests/conformance"]),
    "models": Area(
        ["outlast/models", "outlast/pricing"],
        ["tests/unit/models", "tests/unit/test_pricing.py"],
        "websocket_models",
    ),
    "realtime": Area(["outlast/realtime"], ["tests/unit/realtime"], "realtime lines"),
    "sessions": Area(["outlast/sessions"], ["tests/unit/sessions"], "sessions"),
    "mcp": Area(
        ["outlast/mcp"],
        ["tests/unit/mcp", "tests/unit/agents/test_mcp_*.py"],
        "mcp_servers mcp_tasks",
    ),
    "tracing": Area(
        ["outlast/tracing", "outlast/otel", "outlast/monitor"],
        [
            "tests/unit/tracing",
            "tests/unit/otel",
            "tests/unit/monitor",
            "tests/conformance/test_tracing.py",
        ],
        "opentelemetry observation",
    ),
    "evals": Area(["outlast/evals"], ["tests/unit/evals"]),
    "kept": Area(
        [
            "outlast/archive",
            "outlast/blobs",
            "outlast/search",
            "outlast/edges/bodies",
            "outlast/temporal",
            "outlast/encryption.py",
        ],
        [
            "tests/unit/archive",
            "tests/unit/blobs",
            "tests/unit/search",
            "tests/unit/edges/bodies",
            "tests/unit/temporal/payloads",
            "tests/unit/test_encryption.py",
        ],
        "archive archive_bucket encryption large_content search",
    ),
    "machine": Area(
        ["outlast/extensions"],
        ["tests/unit/extensions"],
        "temporal_tools",
    ),
    "edges": Area(
        ["outlast/a2a", "outlast/deliveries", "outlast/ports"],
        ["tests/unit/a2a", "tests/unit/deliveries", "tests/unit/ports"],
        "a2a deliveries",
    ),
    "tools": Area(
        ["outlast/edges", "outlast/dev", "outlast/testing", "outlast/*.py"],
        ["tests/unit/edges", "tests/unit/dev", "tests/unit/testing", "tests/unit/test_*.py"],
        "demo",
    ),
}


def modules_of(name: str, root: Path) -> list[str]:
    """Return the modules that an area changes, relative to the project."""
    return sorted(
        module for module in _files(AREAS[name].code, root, "*.py") if area_of(module) == name
    )


def area_of(module: str) -> str:
    """Return the area of a module: the one that names its longest folder."""
    path = Path(module)
    fitting = [
        (len(code) * ("*" not in code), name)
        for name, area in AREAS.items()
        for code in area.code
        if path.is_relative_to(code) or ("*" in code and path.match(code))
    ]
    return max(fitting)[1] if fitting else ""


def files_that_notice(name: str, root: Path) -> list[str]:
    """Return the files of tests that may notice a change, those without a server first."""
    area = AREAS[name]
    served = [f"tests/workflow/test_{one}.py" for one in area.on_server.split()]
    files = [*_files(area.tests, root, "test_*.py"), *_files(served, root, "test_*.py")]
    return list(dict.fromkeys(files))


def _files(places: Iterable[str], root: Path, names: str) -> list[str]:
    """Return the files of folders, files and names with `*`; what is not there has none."""
    found: list[Path] = []
    for place in places:
        for path in sorted(root.glob(place)):
            found += sorted(path.rglob(names)) if path.is_dir() else [path]
    return [str(path.relative_to(root)) for path in found]
