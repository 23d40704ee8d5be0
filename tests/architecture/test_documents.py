"""The documents and deployment files agree with the code."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.agents import errors
from outlast.agents.errors import AgentsException
from outlast.contract import failures, names, policies
from tests.architecture.source import ROOT
from tests.guide.changes import CHANGES

BOUNDS = (ROOT / "docs" / "reference" / "bounds-and-errors.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROMISES = (ROOT / "docs" / "concepts" / "promises.md").read_text(encoding="utf-8")
WORDS = GUIDE.split("## Words\n")[1].split("\n## ")[0]

ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, AgentsException) and kind is not AgentsException
]


def page_of_the_state_diagram() -> str:
    """Return the page as the loop is now."""
    program = ROOT / "docs" / "state_diagram.py"
    done = subprocess.run(
        [sys.executable, str(program), "--print"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
def test_the_state_diagram_is_what_the_loop_does() -> None:
    page = ROOT / "docs" / "concepts" / "state-diagram.md"
    assert page.read_text(encoding="utf-8") == page_of_the_state_diagram(), "run `make docs`"


def test_every_error_and_its_code_are_explained() -> None:
    rows = [line for line in BOUNDS.splitlines() if line.startswith("| `")]
    for kind in ERRORS:
        found = [row for row in rows if f"`{kind.__name__}`" in row.split(" | ")[0]]
        assert len(found) == 1, f"{kind.__name__} has {len(found)} rows"
        exceptions, codes, meaning = found[0].strip("| ").split(" | ")
        at = re.findall(r"`(\w+)`", exceptions).index(kind.__name__)
        assert re.findall(r"`(\w+)`", codes)[at] == kind.code, kind
        assert len(meaning) > 10, kind


def test_every_error_is_in_the_tree_that_its_module_draws() -> None:
    tree = errors.__doc__ or ""
    assert [kind for kind in ERRORS if not re.search(rf"── {kind.__name__}\b", tree)] == []


def test_the_documents_know_no_error_that_is_gone() -> None:
    table = BOUNDS[BOUNDS.index("| exception | code |") :]
    documented = set(
        re.findall(r"`([A-Z]\w+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)))
    )
    assert documented <= {kind.__name__ for kind in ERRORS}


def test_the_bounds_in_the_documents_are_the_defaults() -> None:
    model = policies.MODEL
    assert f"| model call | {model.timeout_ms // 60_000} min | {model.attempts} |" in BOUNDS
    prepare = policies.PREPARE
    row = f"| looking the agent up | {prepare.timeout_ms // 1_000} s | {prepare.attempts} |"
    assert row in BOUNDS
    assert f"| given up after" in BOUNDS  # noqa: F541
    for what, policy in {
        "input guardrails": policies.CHECK,
        "an answer's conclusion: rules, handlers, end hooks, output guardrails": policies.CHECK,
        "reading a session, making a nested run's input, `on_run_start`": policies.LOAD,
        "writing to a session": policies.SAVE,
        "telling people, by all [notifiers](../how-to/notifications.md)": policies.NOTIFY,
    }.items():
        wait = f"1 s, doubling up to {policy.maximum_interval_ms // 1_000} s"
        bound = f"{policy.timeout_ms // 60_000} min | {policy.attempts} | {wait}"
        assert f"| {what} | {bound} | {policies.LONGEST_MS // 3_600_000} h | |" in BOUNDS
    assert BOUNDS.count(f"| {policies.LONGEST_MS // 3_600_000} h |") == 10
    assert f"{policies.ROLL_OVER_EVENTS:,} events" in BOUNDS
    assert f"silent for {policies.HEARTBEAT_MS // 1_000} seconds" in BOUNDS
    minutes = int(policies.LONGEST_RETRY_AFTER.total_seconds()) // 60
    assert f"`Retry-After` up to {minutes} min" in BOUNDS


def test_every_failure_on_the_wire_has_an_exception_or_is_ours() -> None:
    codes = {
        value for name, value in vars(failures).items() if name.isupper() and isinstance(value, str)
    }
    finer = {failures.INVALID_OUTPUT}  # to programs it is a `ModelBehaviorError`
    finer |= {
        failures.MODEL_WORKING,
        failures.WORKER_LACKS,
        failures.FAILED_ON_CAPABLE_WORKER,
    }  # of attempts; runs fail otherwise
    assert codes - {kind.code for kind in ERRORS} - finer == {failures.INTERNAL}


def test_the_deployment_makes_the_search_attributes_that_runs_set() -> None:
    script = (ROOT / "docker" / "namespace.sh").read_text(encoding="utf-8")
    made = dict(re.findall(r"(\bOutlast\w+):(\w+)", script))
    assert made == names.SEARCH_ATTRIBUTES


def test_the_deployment_runs_that_script() -> None:
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert 'entrypoint: ["/bin/sh", "/docker/namespace.sh"]' in compose
    # Whatever the file itself says of search attributes has to be the same ones.
    assert set(re.findall(r"\bOutlast[A-Z]\w+", compose)) <= set(names.SEARCH_ATTRIBUTES)


def test_the_settings_of_the_server_are_published_on_the_loopback_address_only() -> None:
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    published = re.findall(r'^\s+- "([\d.:]+:\d+)"$', compose, re.MULTILINE)
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_image_is_built_once_and_has_no_server_for_development() -> None:
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert compose.count("build: .") == 1
    assert compose.count("image: outlast-desk") == 1  # of all roles
    assert 'test: ["CMD", "outlast", "doctor", "--worker"]' in compose
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    [extras] = re.findall(r"^ARG EXTRAS=(\S+)$", dockerfile, re.MULTILINE)
    assert {"cli", "serve", "otel"} <= set(extras.split(","))
    assert "dev" not in extras.split(",")


def test_every_test_that_a_design_note_names_is_where_it_says() -> None:
    note = (ROOT / "docs" / "design" / "0014-people.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|]*\| (`test_[^|]*`) \| `([^|`]*)` \|$", note, re.MULTILINE)
    assert len(rows) > 50
    missing = [
        f"{place}: {name}"
        for named, place in rows
        for name in re.findall(r"`(test_\w+)`", named)
        if not any(f"def {name}(" in text for text in _texts(ROOT / "tests" / place))
    ]
    assert missing == []


def _texts(place: Path) -> list[str]:
    files = [place] if place.suffix else [*place.glob("test_*.py")]
    return [file.read_text(encoding="utf-8") for file in files]


def test_every_promise_names_tests_that_are_there_and_commands_that_run_them() -> None:
    rows = [row for row in PROMISES.splitlines() if row.startswith("| ") and "---" not in row]
    promises = [row for row in rows if not row.startswith("| promise |")]
    assert len(promises) > 20
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    marks = (ROOT / "pyproject.toml").read_text("utf-8").split("\nmarkers = [")[1]
    for row in promises:
        commands = re.findall(r"`(make [^`]+|\.venv/bin/pytest [^`]+)`", row.split(" | ")[-1])
        assert commands, f"no command: {row}"
        for command in commands:
            words = command.split()
            if words[0] == "make":
                assert words[1] in targets, command
            elif "-k" in words:
                found = "\n".join((ROOT / one).read_text("utf-8") for one in _tests_in(command))
                assert re.search(rf"def test_\w*{words[words.index('-k') + 1]}", found), command
            elif "-m" in words:
                assert f'"{words[words.index("-m") + 1]}:' in marks, command
        missing = [one for one in _tests_in(row) if not (ROOT / one).exists()]
        assert missing == [], row


def _tests_in(text: str) -> list[str]:
    return re.findall(r"\btests/[\w/]+(?:\.py)?", text)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_the_guide_shows_still_applies(name: str) -> None:
    """`tests/guide` also runs what it adds."""
    misfit = CHANGES[name].misfit()
    assert not misfit, f"make the diff in CONTRIBUTING.md anew: {misfit}"


def test_the_names_in_the_table_of_words_are_in_the_package() -> None:
    rows = re.findall(r"^\| ([a-z]+) \| (.+) \| .*\|$", WORDS, re.MULTILINE)
    classes = set(re.findall(r"`([A-Z]\w+)[.`]", WORDS))
    assert len(classes) > len(rows) > 10
    source = "\n".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "outlast").glob("**/*.py")
    )
    missing = [one for one in classes if not re.search(rf"^(class )?{one}\b", source, re.MULTILINE)]
    assert missing == []
