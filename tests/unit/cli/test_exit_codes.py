import pytest

from outlast.agents import errors
from outlast.cli.exit_codes import MEANINGS, ExitCode, epilog, exit_code_of


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
