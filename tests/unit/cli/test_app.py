from typing import Any, get_args

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from outlast.agents import errors
from outlast.agents.errors import DecisionRefused
from outlast.cli import app as module
from outlast.cli import options
from outlast.cli.app import app
from outlast.cli.caller import PersonCaller
from outlast.cli.described import parameters_of
from outlast.cli.exit_codes import MEANINGS, ExitCode, epilog, exit_code_of
from outlast.contract import names

OF_CALLERS: dict[str, Any] = {one.name: one.annotation for one in parameters_of(PersonCaller)}
TALKS_TO_A_SERVER = {
    "evals collect",
    "evals dataset",
    "export",
    "record",
    "replay",
    "serve",
    "monitor",
    "archive run",
    "figures",
    "quality create",
    "quality scores",
    "search find",
    "search rebuild",
    "search run",
    "search status",
    "archive compare",
    "inbox",
    "inbox show",
    "inbox approve",
    "inbox edit",
    "inbox reject",
    "inbox respond",
    "inbox claim",
    "inbox unclaim",
    "identity show",
    "inbox ask",
    "inbox withdraw",
    "inbox approve-all",
    "inbox reject-all",
    "hold",
    "say",
    "release",
    "set-aside",
    "take-back",
    *(
        f"case {verb}"
        for verb in ("assign", "tag", "link", "resolve", "reopen", "snooze", "comment", "rate")
    ),
    "run",
    "send",
    "retry",
    "list",
    "show",
    "tail",
    "waits",
    "finish",
    "fork",
    "approve",
    "reject",
    "audit",
    "archive status",
    "archive list",
    "archive verify",
    "archive delete",
    "cancel",
    "doctor",
    "worker",
    "policy apply",
    "policy try",
    *(
        f"schedule {verb}"
        for verb in ("create", "list", "show", "pause", "resume", "trigger", "delete")
    ),
    *(f"team {verb}" for verb in ("show", "on", "off", "rule")),
}


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes every command raise."""

    def set_error(error: BaseException) -> None:
        async def connect(*_arguments: Any) -> None:
            raise error

        monkeypatch.setattr("outlast.cli.server.connect", connect)

    return set_error


def commands_of(group: Any) -> dict[str, Any]:
    """Return the commands of a group by name, those of its groups as `group command`."""
    found: dict[str, Any] = {}
    commands: dict[str, Any] = group.commands
    for name, command in commands.items():
        if isinstance(command, TyperGroup):
            if command.invoke_without_command:
                found[name] = command
            found |= {f"{name} {inner}": one for inner, one in commands_of(command).items()}
        else:
            found[name] = command
    return found


def test_help_names_every_command_and_exit_code() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout

    for command in (*TALKS_TO_A_SERVER, "dev", "demo"):
        assert f" {command.split()[0]} " in shown
    assert "5  the run refused a decision or a delivery" in shown


def test_options_are_called_the_same_everywhere() -> None:
    for name, command in commands_of(get_command(app)).items():
        options = {option for one in command.params for option in one.opts}
        assert "--json" in options
        assert ({"--address", "--namespace"} <= options) == (name in TALKS_TO_A_SERVER)


def test_each_paragraph_of_a_command_s_help_is_one_line() -> None:
    for command in commands_of(get_command(app)).values():
        paragraphs = command.help.split("\n\n")
        assert all("\n" not in paragraph for paragraph in paragraphs)


def test_an_error_is_one_sentence_on_standard_error(broken: Any) -> None:
    broken(DecisionRefused("Approval a1 is already approved by ann."))

    done = CliRunner().invoke(app, ["list"])

    assert done.exit_code == 5
    assert done.stdout == ""
    assert done.stderr == "error: Approval a1 is already approved by ann.\n"


def test_an_error_that_nobody_thought_of_is_one_sentence_too(broken: Any) -> None:
    broken(KeyError("status"))

    done = CliRunner().invoke(app, ["list"])

    assert done.exit_code == 1
    assert done.stderr == "error: KeyError: 'status' (unexpected; --debug shows where)\n"


@pytest.mark.parametrize("arguments", [["--debug", "list"], ["list", "--debug"]])
def test_debug_shows_where_wherever_it_stands(broken: Any, arguments: list[str]) -> None:
    broken(DecisionRefused("Too late."))

    done = CliRunner().invoke(app, arguments)

    assert "Traceback" in done.stderr
    assert done.stderr.endswith("error: Too late.\n")


def test_what_comes_after_two_dashes_is_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def send(run_id: str, text: str) -> None:
        said.append(f"{run_id}: {text}")

    changed = typer.Typer(cls=module.ErrorsInWords)
    changed.command()(send)
    changed.command("other")(lambda: None)

    done = CliRunner().invoke(changed, ["send", "--", "support-42", "--debug"])

    assert done.exit_code == 0
    assert said == ["support-42: --debug"]


def test_ctrl_c_ends_a_command_with_its_own_code(broken: Any) -> None:
    broken(KeyboardInterrupt())

    assert CliRunner().invoke(app, ["list"]).exit_code == 130


@pytest.mark.parametrize(
    ("alias", "spelled"),
    [
        (OF_CALLERS["address"], "--address"),
        (OF_CALLERS["namespace"], "--namespace"),
        (OF_CALLERS["codec"], "--codec"),
        (options.AsJson, "--json"),
        (options.TaskQueue, "--task-queue"),
        (options.Detach, "--detach"),
    ],
)
def test_every_shared_option_is_explained(alias: Any, spelled: str) -> None:
    _, option = get_args(alias)

    assert spelled in option.param_decls or option.default == spelled
    assert option.help.endswith(".")


def test_runs_meet_workers_where_neither_says_where() -> None:
    assert names.TASK_QUEUE == options.DEFAULT_TASK_QUEUE


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UserError("no"), 2),
        (errors.RunAlreadyStarted("no"), 2),
        (errors.RunNotFound("no"), 4),
        (errors.RunClosed("no"), 4),
        (errors.DecisionRefused("no"), 5),
        (errors.ServerUnavailable("no"), 6),
        (errors.RunCancelled("no"), 7),
        (errors.MaxTurnsExceeded("no"), 1),
        (errors.ModelCallFailed("no"), 1),
        (errors.AgentsException("no"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: errors.AgentsException, code: int) -> None:
    assert exit_code_of(error) == code


def test_a_run_that_failed_for_a_mistake_in_its_program_is_a_failed_run() -> None:
    assert exit_code_of(errors.UserError("no such agent", run_data=object())) is ExitCode.FAILED


def test_a_cancelled_run_stays_cancelled_when_the_error_carries_the_run() -> None:
    assert exit_code_of(errors.RunCancelled("by ann", run_data=object())) is ExitCode.CANCELLED


def test_every_code_is_explained_in_the_help() -> None:
    assert set(MEANINGS) == set(ExitCode)
    for code, meaning in MEANINGS.items():
        assert f"{code:>3}  {meaning}" in epilog()
