import subprocess
import sys

import pytest

from outlast.cli import entry


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_missing_packages_are_named_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find_nothing(_name: str) -> None:
        return None

    monkeypatch.setattr(entry, "find_spec", find_nothing)

    assert entry.main() == 1

    said = capsys.readouterr().err
    assert "rich and typer" in said
    assert 'pip install "outlast[cli,dev]"' in said


def test_help_loads_nothing_that_is_slow() -> None:
    program = (
        "import sys\n"
        "from outlast.cli.app import app\n"
        "try: app(['worker', '--help'])\n"
        "except SystemExit: pass\n"
        "slow = {'temporalio', 'openai', 'outlast.agents.agent'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {slow}' if slow else 0)"
    )

    done = run_python("-c", program)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--version"], 0, "outlast 0."),
        (["worker"], 2, "Missing argument"),
        (["no-such-command"], 2, "No such command"),
    ],
)
def test_the_process_ends_with_the_exit_code_of_the_command(
    arguments: list[str], code: int, said: str
) -> None:
    done = run_python("-m", "outlast.cli.entry", *arguments)

    assert done.returncode == code
    assert said in done.stdout + done.stderr
