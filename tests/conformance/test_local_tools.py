"""Tools on the machine of a worker: shells, editors, computers, and tools that take plain text."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast import (
    Agent,
    ApplyPatchEditor,
    ApplyPatchOperation,
    ApplyPatchResult,
    ApplyPatchTool,
    ApplyPatchToolCustomDataContext,
    Computer,
    ComputerTool,
    ComputerToolCustomDataContext,
    ComputerToolSafetyCheckData,
    CustomTool,
    CustomToolCustomDataContext,
    LocalShellTool,
    ModelBehaviorError,
    RunConfig,
    RunHooks,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
    SQLiteSession,
    ToolCallOutputItem,
    ToolErrorFormatterArgs,
    ToolFailed,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    ToolRetry,
    ToolsToFinalOutputResult,
    UserError,
    apply_diff,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from outlast.loop.call_forms import BLANK_SCREEN
from outlast.loop.values import JsonObject
from outlast.testing import (
    ScriptedModel,
    call,
    computer_call,
    custom_call,
    local_shell_call,
    patch_call,
    shell_call,
)
from tests.conformance.executors import Executor
from tests.conformance.views import saved, shapes


def last_outputs(model: ScriptedModel) -> list[JsonObject]:
    """Return the outputs that the model was shown last, without what ties them to their calls."""
    return [
        {key: value for key, value in item.items() if key not in {"type", "call_id"}}
        for item in model.requests[-1].input
        if str(item.get("type")).endswith("_output")
    ]


@dataclass
class Shell:
    """An executor that runs nothing and remembers what it was asked."""

    ran: list[list[str]] = field(default_factory=list[list[str]])

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        commands = request.data.action.commands
        self.ran.append(commands)
        return ShellResult(
            output=[
                ShellCommandOutput(f"did {one}\n", outcome=ShellCallOutcome("exit", 0))
                for one in commands
            ]
        )


DID_LS = {"stdout": "did ls\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}


class Folder(ApplyPatchEditor):
    """An editor of the files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_file(self, operation: ApplyPatchOperation) -> str:
        text = apply_diff("", operation.diff or "", mode="create")
        (self.folder / operation.path).write_text(text, encoding="utf-8")
        return f"{operation.path} is there."

    async def update_file(self, operation: ApplyPatchOperation) -> None:
        path = self.folder / operation.path
        text = apply_diff(path.read_text(encoding="utf-8"), operation.diff or "")
        path.write_text(text, encoding="utf-8")

    def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(status="failed", output=f"{operation.path} is needed.")


class Screen(Computer):
    """A computer that remembers what was done to it."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def screenshot(self) -> str:
        return "c2NyZWVu"

    def click(self, x: int, y: int, button: str) -> None:
        self.done.append(("click", x, y, button))

    def double_click(self, x: int, y: int) -> None:
        self.done.append(("double_click", x, y))

    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None:
        self.done.append(("scroll", x, y, scroll_x, scroll_y))

    def type(self, text: str) -> None:
        self.done.append(("type", text))

    def wait(self) -> None:
        self.done.append("wait")

    def move(self, x: int, y: int) -> None:
        self.done.append(("move", x, y))

    def keypress(self, keys: list[str]) -> None:
        if keys == ["POWER"]:
            raise OSError("the screen is black")
        self.done.append(("keypress", *keys))

    def drag(self, path: list[tuple[int, int]]) -> None:
        self.done.append(("drag", *path))


async def test_a_shell_runs_what_was_approved_and_not_what_was_rejected(executor: Executor) -> None:
    shell = Shell()
    agent = Agent(name="A", tools=[ShellTool(shell, needs_approval=True)])
    model = ScriptedModel([shell_call("c1", "ls"), shell_call("c2", "rm -r /")], "Well.")
    result = await executor.execute(agent, model=model)
    one, two = result.interruptions
    assert (one.tool_name, one.call_id, shell.ran) == ("shell", "c1", [])
    assert one.raw_item.action.commands == ["ls"]

    state = await executor.round_trip(agent, result.to_state())
    state.approve(one)
    state.reject(two, rejection_message="Not that.")
    result = await executor.resume(agent, state)
    assert (result.final_output, shell.ran) == ("Well.", [["ls"]])
    assert last_outputs(model) == [
        {"output": [DID_LS]},
        {"output": [{"stdout": "", "stderr": "Not that.", "outcome": FAILED}]},
    ]
    assert shapes(model.requests[1].input)[1:] == [
        "shell_call",
        "shell_call",
        "shell_call_output",
        "shell_call_output",
    ]


FAILED = {"type": "exit", "exit_code": 1}


async def test_a_tool_decides_itself_and_asks_a_person_where_it_cannot(executor: Executor) -> None:
    shell, asked = Shell(), list[str]()

    def decide(_context: Any, item: Any) -> dict[str, Any]:
        (command,) = item.raw_item.action.commands
        asked.append(command)
        if command == "ls":
            return {"approve": True}
        return {"approve": False, "reason": "Never."} if command == "rm" else {}

    def rule(_context: Any, action: Any, _call_id: str) -> bool:
        return action.commands != ["pwd"]

    agent = Agent(name="A", tools=[ShellTool(shell, needs_approval=rule, on_approval=decide)])
    calls = [shell_call(f"c{at}", it) for at, it in enumerate(["pwd", "ls", "rm", "cat"])]
    model = ScriptedModel(calls, "Well.")
    result = await executor.execute(agent, model=model)
    assert [one.call_id for one in result.interruptions] == ["c3"]
    state = result.to_state()
    state.approve(result.interruptions[0])
    await executor.resume(agent, state)
    assert asked == ["ls", "rm", "cat"]
    assert sorted(one for (one,) in shell.ran) == ["cat", "ls", "pwd"]
    refused = {"stdout": "", "stderr": "Never.", "outcome": FAILED}
    assert {"output": [refused]} in last_outputs(model)


async def test_patches_of_one_reply_change_real_files_one_after_the_other(
    executor: Executor, tmp_path: Path
) -> None:
    agent = Agent(name="A", tools=[ApplyPatchTool(Folder(tmp_path))])
    calls = [
        patch_call("c1", "create_file", "a.txt", "+one\n+two"),
        patch_call("c2", "update_file", "a.txt", " one\n-two\n+2"),
        patch_call("c3", "update_file", "a.txt", "-three"),
        patch_call("c4", "delete_file", "a.txt"),
    ]
    model = ScriptedModel(calls, "Well.")
    await executor.execute(agent, model=model)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\n2"
    assert last_outputs(model) == [
        {"status": "completed", "output": "a.txt is there."},
        {"status": "completed"},
        {
            "status": "failed",
            "output": "The text does not have these lines in this order:\nthree",
        },
        {"status": "failed", "output": "a.txt is needed."},
    ]


async def test_local_tools_have_custom_data(executor: Executor, tmp_path: Path) -> None:
    def of_patch(about: ApplyPatchToolCustomDataContext) -> JsonObject:
        paths = [operation.path for operation in about.operations]
        return {"status": about.status, "paths": paths}

    def of_screen(about: ComputerToolCustomDataContext) -> JsonObject:
        about.raw_item["output"]["image_url"] = "mutated"
        return {"call": about.tool_call.call_id, "tool": about.tool.name}

    def of_text(about: CustomToolCustomDataContext) -> JsonObject:
        return {"input": about.input, "output": about.output, "run": about.run_context.run_id}

    tools: list[Any] = [
        ApplyPatchTool(Folder(tmp_path), custom_data_extractor=of_patch),
        ComputerTool(Screen(), custom_data_extractor=of_screen),
        CustomTool("sql", "Ask.", lambda _, text: text.upper(), custom_data_extractor=of_text),
    ]
    calls = [
        patch_call("c1", "create_file", "a.txt", "+one"),
        computer_call("c2", {"type": "screenshot"}),
        custom_call("sql", "c3", "select 1"),
    ]
    model = ScriptedModel(calls, "Well.")
    result = await executor.execute(Agent(name="A", tools=tools), model=model)
    found = [item.custom_data for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    assert found == [
        {"status": "completed", "paths": ["a.txt"]},
        {"call": "c2", "tool": "computer_use_preview"},
        {"input": "select 1", "output": "SELECT 1", "run": result.run_id},
    ]
    assert "mutated" not in str(model.requests[-1].input)


async def test_a_custom_tool_takes_the_models_text_as_it_is(executor: Executor) -> None:
    async def query(context: Any, text: str) -> dict[str, str]:
        return {"ran": text, "as": context.tool_name}

    agent = Agent(name="A", tools=[CustomTool("sql", "Runs SQL.", query)])
    model = ScriptedModel([custom_call("sql", "c1", 'SELECT "x"')], "Well.")
    result = await executor.execute(agent, model=model)
    assert last_outputs(model) == [{"output": '{"ran":"SELECT \\"x\\"","as":"sql"}'}]
    assert [getattr(item, "tool_name", None) for item in result.new_items] == ["sql", None, None]


CHECK = {"id": "s1", "code": "malicious_instructions", "message": "Look at this."}


async def test_a_computer_is_used_after_somebody_looked_at_the_warning(executor: Executor) -> None:
    screen, seen = Screen(), list[str]()

    def look(data: ComputerToolSafetyCheckData) -> bool:
        seen.append(f"{data.agent.name}: {data.safety_check.message}")
        return True

    agent = Agent(name="A", tools=[ComputerTool(screen, on_safety_check=look)])
    click = {"type": "click", "x": 1, "y": 2, "button": "left"}
    drag = {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}
    model = ScriptedModel([computer_call("c1", click, drag, checks=[CHECK])], "Well.")
    result = await executor.execute(agent, model=model)
    assert screen.done == [("click", 1, 2, "left"), ("drag", (1, 2), (3, 4))]
    assert seen == ["A: Look at this."]
    picture = "data:image/png;base64,c2NyZWVu"
    assert last_outputs(model) == [
        {
            "output": {"type": "computer_screenshot", "image_url": picture},
            "acknowledged_safety_checks": [CHECK],
        }
    ]
    assert result.new_items[1].output == picture


@pytest.mark.parametrize("keys", [["ENTER"], ["POWER"]], ids=["warned", "broken"])
async def test_a_computer_that_cannot_be_used_ends_the_run(
    executor: Executor, keys: list[str]
) -> None:
    screen = Screen()
    agent = Agent(name="A", tools=[ComputerTool(screen, on_safety_check=lambda _data: False)])
    checks = [CHECK] if keys == ["ENTER"] else []
    reply = [computer_call("c1", {"type": "keypress", "keys": keys}, checks=checks)]
    with pytest.raises((ToolFailed, UserError), match=r"Look at this|the screen is black"):
        await executor.execute(agent, model=ScriptedModel(reply))
    assert screen.done == []


async def test_failures_are_told_in_the_form_of_the_call(executor: Executor) -> None:
    tries: list[str] = []

    def fail(request: Any) -> str:
        tries.append(type(request).__name__)
        raise ValueError("secret")

    def fail_text(_context: Any, _text: str) -> str:
        return fail(1)

    tools = [
        ShellTool(fail),
        LocalShellTool(fail),
        CustomTool("sql", "Runs SQL.", fail_text, retry=1),
    ]
    calls = [shell_call("c1", "ls"), local_shell_call("c2", "ls"), custom_call("sql", "c3", "x")]
    model = ScriptedModel(calls, "Well.")
    await executor.execute(Agent(name="A", tools=list(tools)), model=model)
    text = "The tool {} failed and returned no result. It may have had an effect."
    assert last_outputs(model) == [
        {"output": [{"stdout": "", "stderr": text.format("shell"), "outcome": FAILED}]},
        {"output": text.format("local_shell")},
        {"output": text.format("sql")},
    ]
    assert sorted(tries) == ["LocalShellCommandRequest", "ShellCommandRequest", "int"]


async def test_a_machine_that_nobody_offered_ends_the_run(executor: Executor) -> None:
    agent = Agent(name="A", tools=[LocalShellTool(lambda _request: "no")])
    with pytest.raises(ModelBehaviorError, match="without a shell tool"):
        await executor.execute(agent, model=ScriptedModel([shell_call("c1", "ls")]))


async def test_the_model_is_told_of_an_unknown_name_and_of_the_wrong_form(
    executor: Executor,
) -> None:
    @function_tool
    def look() -> str:
        raise AssertionError

    model = ScriptedModel([custom_call("look", "c1", "x"), custom_call("find", "c2", "x")], "Well.")
    await executor.execute(Agent(name="A", tools=[look]), model=model)
    assert last_outputs(model) == [
        {"output": "There is no tool 'look'. Available: look."},
        {"output": "There is no tool 'find'. Available: look."},
    ]


def _no(args: ToolErrorFormatterArgs[Any]) -> str:
    return f"No {args.tool_type} today."


REJECTED_CALLS: list[tuple[Any, JsonObject, list[JsonObject]]] = [
    (
        ShellTool(Shell(), needs_approval=True),
        shell_call("c1", "ls"),
        [{"output": [{"stdout": "", "stderr": "No shell today.", "outcome": FAILED}]}],
    ),
    (
        LocalShellTool(lambda _: "", needs_approval=True),
        local_shell_call("c1", "ls"),
        [{"output": "No shell today."}],
    ),
    (
        ApplyPatchTool(Folder(Path()), needs_approval=True),
        patch_call("c1", "delete_file", "x"),
        [{"status": "failed", "output": "No apply_patch today."}],
    ),
    (
        CustomTool("sql", "", lambda _context, _text: "", needs_approval=True),
        custom_call("sql", "c1", "x"),
        [{"output": "No custom today."}],
    ),
    (
        ComputerTool(Screen(), needs_approval=True),
        computer_call("c1", {"type": "screenshot"}),
        [
            {"output": {"type": "computer_screenshot", "image_url": BLANK_SCREEN}},
            {
                "role": "developer",
                "content": "The computer call c1 was not run, so its image is empty: "
                "No computer today.",
            },
        ],
    ),
]


@pytest.mark.parametrize(
    ("tool", "asked", "told"), REJECTED_CALLS, ids=[str(one[1]["type"]) for one in REJECTED_CALLS]
)
@pytest.mark.parametrize("formatted", [True, False])
async def test_the_model_reads_why_a_call_of_any_form_was_rejected(
    executor: Executor, tool: Any, asked: JsonObject, told: list[JsonObject], *, formatted: bool
) -> None:
    agent = Agent(name="A", tools=[tool])
    model = ScriptedModel([asked], "Well.")
    config = RunConfig(tool_error_formatter=_no if formatted else None)
    result = await executor.execute(agent, model=model, run_config=config)
    state = result.to_state()
    kinds = {"local_shell": "shell", "sql": "custom", "computer_use_preview": "computer"}
    message = None if formatted else f"No {kinds.get(str(tool.name), tool.name)} today."
    state.reject(result.interruptions[0], rejection_message=message)
    result = await executor.resume(agent, state)
    assert result.final_output == "Well."
    shown = [
        {key: value for key, value in one.items() if key not in {"type", "call_id"}}
        for one in model.requests[-1].input[2:]
    ]
    assert shown == told


async def test_a_screenshot_that_a_guardrail_withholds_is_explained(executor: Executor) -> None:
    @tool_output_guardrail
    def no_pictures(_data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("That is secret.")

    agent = Agent(name="A", tools=[ComputerTool(Screen(), tool_output_guardrails=[no_pictures])])
    model = ScriptedModel([computer_call("c1", {"type": "screenshot"})], "Well.")
    await executor.execute(agent, model=model)
    assert model.requests[-1].input[-1] == {
        "role": "developer",
        "content": "The computer call c1 has no screenshot, so its image is empty: That is secret.",
    }


async def test_the_providers_own_shell_is_left_to_it(executor: Executor) -> None:
    hosted = ShellTool(environment={"type": "container_auto"})
    output = {"type": "shell_call_output", "call_id": "c1", "output": [DID_LS]}
    model = ScriptedModel([shell_call("c1", "ls"), output], [shell_call("c2", "ls")], "Well.")
    result = await executor.execute(Agent(name="A", tools=[hosted]), model=model)
    assert (result.final_output, model.calls) == ("Well.", 3)
    assert [one.to_tool_param() for one in model.requests[0].hosted_tools] == [
        {"type": "shell", "environment": {"type": "container_auto"}}
    ]
    assert result.new_items[1].output == "did ls"


class Watching(RunHooks[Any]):
    """Hooks that write down what tools returned."""

    def __init__(self) -> None:
        self.ended: list[Any] = []

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.ended.append((context.tool_call.type, tool.name, result))


@pytest.mark.smoke
async def test_all_forms_go_with_functions_and_a_handoff_in_one_reply(executor: Executor) -> None:
    @function_tool
    def now() -> str:
        """Say the time."""
        return "noon"

    agent = Agent(
        name="A",
        tools=[ShellTool(Shell()), ComputerTool(Screen()), now],
        handoffs=[Agent(name="B")],
        tool_use_behavior="stop_on_first_tool",
    )
    calls = [
        shell_call("c1", "ls"),
        call("now", "c2"),
        call("transfer_to_b", "c3"),
        computer_call("c4"),
    ]
    watching = Watching()
    model = ScriptedModel(calls, "I am B.")
    result = await executor.execute(agent, model=model, hooks=watching)
    assert (result.final_output, result.last_agent.name) == ("I am B.", "B")
    kinds = [str(item.get("type")) for item in model.requests[1].input][1:]
    assert [kind for kind in kinds if kind.endswith("_output")] == [
        "shell_call_output",
        "function_call_output",
        "computer_call_output",
        "function_call_output",
    ]
    if executor.name == "in_memory":  # hooks elsewhere are the worker's own copies
        assert ("shell_call", "shell", "did ls") in watching.ended


async def test_only_a_functions_result_can_be_the_answer(executor: Executor) -> None:
    @function_tool
    def now() -> str:
        """Say the time."""
        return "noon"

    agent = Agent(
        name="A",
        tools=[ShellTool(Shell()), now],
        tool_use_behavior="stop_on_first_tool",
    )
    model = ScriptedModel([shell_call("c1", "ls")], [shell_call("c2", "ls"), call("now", "c3")])
    result = await executor.execute(agent, model=model)
    assert (result.final_output, model.calls) == ("noon", 2)


async def test_a_rule_about_results_sees_those_of_functions_only(executor: Executor) -> None:
    @function_tool
    def now() -> str:
        """Say the time."""
        return "noon"

    def rule(_context: Any, results: Any) -> Any:
        names = ",".join(one.tool.name for one in results)
        return ToolsToFinalOutputResult(is_final_output=True, final_output=names)

    agent = Agent(name="A", tools=[ShellTool(Shell()), now], tool_use_behavior=rule)
    model = ScriptedModel([shell_call("c1", "ls")], [shell_call("c2", "ls"), call("now", "c3")])
    result = await executor.execute(agent, model=model)
    assert (result.final_output, model.calls) == ("now", 2)


async def test_guardrails_hear_of_a_call_in_its_own_words(executor: Executor) -> None:
    @tool_input_guardrail
    def no_sudo(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        if "sudo" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.reject_content("No sudo.")
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    def no_secrets(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        if data.output == "did cat secret":
            return ToolGuardrailFunctionOutput.reject_content("That is secret.")
        return ToolGuardrailFunctionOutput.allow()

    shell = Shell()
    tool = ShellTool(shell, tool_input_guardrails=[no_sudo], tool_output_guardrails=[no_secrets])
    commands = ["sudo ls", "cat secret", "ls"]
    calls = [shell_call(f"c{at}", it) for at, it in enumerate(commands)]
    model = ScriptedModel(calls, "Well.")
    await executor.execute(Agent(name="A", tools=[tool]), model=model)
    assert shell.ran == [["cat secret"], ["ls"]]
    told = [
        {"stdout": "", "stderr": it, "outcome": FAILED} for it in ("No sudo.", "That is secret.")
    ]
    assert [one["output"] for one in last_outputs(model)] == [[told[0]], [told[1]], [DID_LS]]


async def test_what_may_be_repeated_is(executor: Executor) -> None:
    keys: list[Any] = []

    async def run(request: Any) -> str:
        keys.append((request.ctx_wrapper.attempt, request.ctx_wrapper.idempotency_key))
        if len(keys) == 1:
            raise ConnectionError("away")
        return "back"

    soon_again = ToolRetry(attempts=2, initial_interval=timedelta(milliseconds=1))
    agent = Agent(name="A", tools=[LocalShellTool(run, retry=soon_again)])
    model = ScriptedModel([local_shell_call("c1", "ls")], "Well.")
    await executor.execute(agent, model=model)
    assert last_outputs(model) == [{"output": "back"}]
    assert [attempt for attempt, _ in keys] == [1, 2]
    assert len({key for _, key in keys}) == 1


async def test_a_command_that_takes_too_long_is_told_in_its_form(executor: Executor) -> None:
    async def run(_request: Any) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    agent = Agent(name="A", tools=[ShellTool(run, timeout=0.05)])
    model = ScriptedModel([shell_call("c1", "ls")], "Well.")
    await executor.execute(agent, model=model)
    ((entry,),) = (one["output"] for one in last_outputs(model))
    assert entry["outcome"] == FAILED
    assert "timed out" in entry["stderr"]


async def test_a_session_remembers_calls_of_all_forms(executor: Executor, tmp_path: Path) -> None:
    session = SQLiteSession("s", tmp_path / "sessions.db")
    agent = Agent(
        name="A", tools=[ShellTool(Shell()), CustomTool("sql", "", lambda _c, text: text)]
    )
    calls = [shell_call("c1", "ls"), custom_call("sql", "c2", "x")]
    model = ScriptedModel(calls, "One.", "Two.")
    await executor.execute(agent, model=model, session=session)
    remembered = ["Hello", "shell_call", "custom_tool_call"]
    remembered += ["shell_call_output", "custom_tool_call_output", "One."]
    assert await saved(session) == remembered
    await executor.execute(agent, "And?", model=model, session=session)
    assert shapes(model.requests[-1].input) == [*remembered, "And?"]


async def test_a_stream_tells_of_calls_of_all_forms(executor: Executor) -> None:
    agent = Agent(
        name="A", tools=[ShellTool(Shell()), CustomTool("sql", "", lambda _c, text: text)]
    )
    calls = [shell_call("c1", "ls"), custom_call("sql", "c2", "x")]
    stream = await executor.stream(agent, model=ScriptedModel(calls, "Well."))
    names, deltas = list[str](), list[str]()
    async for event in stream.stream_events():
        if event.type == "run_item_stream_event":
            names.append(event.name)
        elif event.type == "raw_response_event":
            deltas.append(event.data.type)
    assert names == ["tool_called"] * 2 + ["tool_output"] * 2 + ["message_output_created"]
    assert "response.custom_tool_call_input.delta" in deltas
    assert stream.final_output == "Well."
