"""`outlast evals`: data sets of runs, and agents evaluated on them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from typer.testing import CliRunner, Result

from outlast.cli import server
from outlast.cli.app import app
from outlast.client.start.runner import Runner
from outlast.evals import load_dataset
from outlast.testing import ScriptedModel, call, load_runs, record_in_memory
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open, helper

HOSTILE = "r\x1b[2K\x1b[1A\u202e\u200b[bold]x[/bold]\nerror: all is well"

TARGET = """
from dataclasses import dataclass
from pydantic_evals.evaluators import Evaluator
from outlast import Agent, function_tool
from outlast.testing import ScriptedModel, call, say
from tests.unit.cli.conftest import helper, look_up, refund

def reply(request):
    if request.instructions.startswith("You grade"):
        return say('{"reason": "Polite enough.", "passes": true}')
    if any(one.get("type") == "function_call_output" for one in request.input):
        return say("Done.")
    return [call("look_up", "x", order_id="B")]

worker_config = {"agents": [helper()], "model_provider": ScriptedModel(always=reply)}

@function_tool(name_override="refund")
def at_once(order_id: str) -> str:
    raise AssertionError("tools do not run")

changed = [Agent(name="Helper", tools=[look_up, at_once])]

@dataclass
class Polite(Evaluator):
    def evaluate(self, ctx):
        return "please" not in ctx.output.answer

own = [Polite]
"""


@pytest.fixture
async def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a target, and recordings of two runs: one looks up, and one refunds."""
    (tmp_path / f"{module(tmp_path)}.py").write_text(TARGET)
    scripts = {
        "a": [call("look_up", "c1", order_id="A")],
        "b": [call("refund", "c1", order_id="A")],
    }
    lines: list[str] = []
    for name, step in scripts.items():
        made = await record_in_memory(
            helper(),
            f"Hello from {name}",
            model=ScriptedModel(step, "Done."),
            run_id=name,
            decide=lambda _: True,
        )
        lines.append(f"{made.to_json()}\n")
    (tmp_path / "runs.jsonl").write_text("".join(lines))

    async def nowhere(address: Any, namespace: Any) -> Any:
        raise AssertionError("files need no server")

    monkeypatch.setattr(server, "connect", nowhere)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def module(folder: Path) -> str:
    return f"evals_{folder.name}".replace("-", "_")


def outlast(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["evals", *arguments], env={"COLUMNS": "160"})


def evaluate(folder: Path, name: str, *arguments: str) -> Result:
    target = f"{module(folder)}:{name}"
    return outlast("run", "evals.yaml", target, "--app-dir", str(folder), *arguments)


@pytest.fixture
def dataset(folder: Path) -> Path:
    assert outlast("dataset", "evals.yaml", "--from", "runs.jsonl").exit_code == 0
    return folder / "evals.yaml"


def test_recordings_become_cases_and_changed_cases_stay(folder: Path):
    done = outlast("dataset", "made/evals.yaml", "--from", "runs.jsonl")
    assert (done.exit_code, done.stdout) == (0, "2 cases added to made/evals.yaml.\n"), done.stderr
    file = folder / "made" / "evals.yaml"
    file.write_text(file.read_text().replace("Hello from a", "Bonjour"))
    again = outlast("dataset", "made/evals.yaml", "--from", "runs.jsonl", "--json")
    assert json.loads(again.stdout) == {
        "dataset": "made/evals.yaml",
        "added": 0,
        "unread": 0,
        "left_out": 0,
    }
    messages = [one.inputs.messages for one in load_dataset(file).cases]
    assert messages == [["Bonjour"], ["Hello from b"]]


def test_a_function_redacts_cases_and_leaves_runs_out(folder: Path):
    (folder / "hides.py").write_text(
        "import json\n"
        "def only_a(document):\n"
        "    if document['run_id'] == 'a':\n"
        "        return json.loads(json.dumps(document).replace('Hello', '[mail]'))\n"
    )
    place = ("--app-dir", str(folder), "--redact", "hides:only_a")
    assert outlast("dataset", "evals.yaml", "--from", "runs.jsonl", *place).exit_code == 0
    assert "Hello" not in (folder / "evals.yaml").read_text()
    assert "Hello" not in (folder / "evals.jsonl").read_text()
    assert [one.run_id for one in load_runs(folder / "evals.jsonl")] == ["a"]


def test_a_run_without_an_answer_is_left_out(folder: Path):
    (folder / "open.jsonl").write_text(
        (folder / "runs.jsonl").read_text().replace('"kind": "answer"', '"kind": "time"')
    )
    done = outlast("dataset", "evals.yaml", "--from", "open.jsonl")
    assert "Left out: The run a has no case: it has no answer yet." in done.stderr
    assert (done.exit_code, done.stdout) == (1, "0 cases added to evals.yaml.\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["dataset", "evals.yaml"], "Name a run, or files"),
        (["dataset", "evals.yaml", "--since", "1d", "--from", "runs.jsonl"], "Name a run, or"),
        (["dataset", "evals.csv", "--from", "runs.jsonl"], "ends in .yaml or .json"),
        (["run", "gone.yaml", "x"], "gone.yaml cannot be read"),
        (["run", "evals.yaml", "x", "--case", "z"], "has no case 'z'"),
        (["run", "evals.yaml", "x", "--baseline", "gone.json"], "gone.json cannot be read"),
        (["run", "evals.yaml", "gone", "--recorded"], "There is no module 'gone'"),
    ],
)
def test_what_is_asked_wrongly(arguments: list[str], why: str, dataset: Path):
    done = outlast(*arguments)
    assert done.exit_code != 0
    assert why in done.stderr


def test_two_versions_are_compared(dataset: Path, folder: Path):
    first = evaluate(folder, "worker_config", "--recorded", "-o", "report.json")
    assert first.exit_code == 0, first.stdout + first.stderr
    assert "2 of 2 cases pass (100.0%; the bar is 100.0%)." in first.stdout
    second = evaluate(folder, "changed", "--recorded", "--baseline", "report.json", "--bar", "0.5")
    assert second.exit_code == 1, "enough cases pass, and one got worse"
    assert "✔✔✔ → ✔✔✗" in second.stdout
    assert second.stdout.splitlines()[-3:] == [
        "b: worse than the baseline",
        '  NoEffectWithoutApproval failed: refund(order_id="A") ran, and nobody had approved it',
        "1 of 2 cases pass (50.0%; the bar is 50.0%), 1 got worse.",
    ]
    alone = evaluate(folder, "changed", "--recorded", "--bar", "0.5")
    assert alone.exit_code == 0
    below = evaluate(folder, "changed", "--recorded", "--bar", "0.51", "--json")
    assert below.exit_code == 1
    assert json.loads(below.stdout)["rate"] == 0.5


def test_models_of_the_target_reply_and_judge(dataset: Path, folder: Path):
    text = dataset.read_text().replace(
        "evaluators:\n- ToolsCalled\n", "evaluators:\n- Judge: Is it polite?\n- ToolsCalled\n"
    )
    dataset.write_text(text)
    done = evaluate(folder, "worker_config", "--case", "b", "--json")
    assert done.exit_code == 1, done.stderr
    ((failed,), rate) = (json.loads(done.stdout)[one] for one in ("failed", "rate"))
    assert failed["problems"] == ["ToolsCalled failed: expected in_order refund; ran: look_up"]
    assert rate == 0


def test_evaluators_of_ones_own(dataset: Path, folder: Path):
    dataset.write_text(f"{dataset.read_text()}".replace("- ToolsCalled\n", "- Polite\n"))
    unknown = evaluate(folder, "worker_config", "--recorded")
    assert "'Polite' is not in the provided" in unknown.stderr
    own = ("--evaluators", f"{module(folder)}:own")
    assert evaluate(folder, "worker_config", "--recorded", *own).exit_code == 0
    other = ("--evaluators", f"{module(folder)}:reply")
    assert "no list of evaluator classes" in evaluate(folder, "changed", *other).stderr


def test_texts_of_others_reach_no_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch):
    text = (folder / "runs.jsonl").read_text()
    (folder / "runs.jsonl").write_text(
        text.replace('"run_id": "b"', f'"run_id": {json.dumps(HOSTILE)}')
    )
    assert outlast("dataset", "evals.yaml", "--from", "runs.jsonl").exit_code == 0
    done = evaluate(folder, "changed", "--recorded", "-o", "report.json")
    again = evaluate(folder, "changed", "--recorded", "--baseline", "report.json")
    for one in (done, again):
        assert one.exit_code == 1
        assert_visible(one.stdout + one.stderr, layout="\n")
        assert "\nerror: all is well" not in one.stdout
        assert "[bold]x[/bold]" in one.stdout


def test_without_the_extra_the_command_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "pydantic_evals", None)
    done = outlast("dataset", "evals.yaml", "--from", "runs.jsonl")
    assert "pip install 'outlast[evals]'" in done.stderr


def test_each_case_runs_several_times(dataset: Path, folder: Path):
    same = module(folder)
    done = evaluate(folder, "worker_config", "--repeat", "3", "--recorded", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["pass_hat"] == [1.0, 1.0, 1.0]
    shown = outlast("run", "evals.yaml", same, "--app-dir", str(folder), "--repeat", "2")
    assert shown.exit_code == 1
    assert "Each case ran 2 times: pass^1" in shown.stdout
    assert "run 2 of 2: ToolsCalled failed" in shown.stdout


@pytest.mark.smoke
async def test_runs_of_a_server_become_cases(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, tmp_path: Path
) -> None:
    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-17")], "Done.", "Hi."))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    await handle.approve("a1")
    await handle.result()
    file = tmp_path / "evals.yaml"
    second = await Runner.start(
        "Helper", "Hello", id=f"{run_id}-2", client=client, task_queue=queue
    )
    await second.result()
    done = await cli("evals", "dataset", str(file), "--run", run_id, "--run", f"{run_id}-2")
    assert done.exit_code == 0, done.stderr
    case, other = load_dataset(file).cases
    assert other.name == f"{run_id}-2"
    assert case.expected_output is not None
    (ran,) = case.expected_output.tool_calls
    assert (case.name, ran.tool, ran.approved) == (run_id, "refund", True)
