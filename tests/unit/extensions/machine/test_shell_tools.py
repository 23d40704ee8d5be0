"""Shells: what executors are given, and what the model reads of what they return."""

from typing import Any

import pytest

from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.extensions.machine.shell import (
    MOST_OUTPUT_CHARACTERS,
    LocalShellTool,
    ShellActionRequest,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
)
from outlast.loop.call_forms import arguments_of
from outlast.loop.values import JsonObject
from outlast.testing import local_shell_call, shell_call

DONE = {"type": "exit", "exit_code": 0}


def context() -> ToolContext[Any]:
    return ToolContext[Any](
        context=None,
        tool_name="shell",
        tool_call_id="c1",
        tool_arguments="",
        agent=None,
        idempotency_key="support-42:c1",
    )


async def output_of(returned: Any, **action: Any) -> JsonObject:
    """Return what the model reads of a result."""
    tool = ShellTool(lambda _request: returned)
    arguments = arguments_of(shell_call("c1", "ls", **action))
    return await tool.on_invoke_tool(context(), arguments)


def asking_for(timeout_ms: Any) -> JsonObject:
    return {"type": "shell_call", "action": {"commands": ["ls"], "timeout_ms": timeout_ms}}


def wrote(stdout: str = "", stderr: str = "", code: int = 0) -> ShellCommandOutput:
    return ShellCommandOutput(stdout, stderr, ShellCallOutcome("exit", code))


async def test_an_executor_is_given_the_call_and_the_context() -> None:
    given: list[ShellCommandRequest] = []

    async def run(request: ShellCommandRequest) -> str:
        given.append(request)
        return "done"

    call = shell_call("c1", "ls", "pwd", timeout_ms=5, max_output_length=7)
    await ShellTool(run).on_invoke_tool(context(), arguments_of(call))
    (request,) = given
    assert request.data.call_id == "c1"
    assert request.data.action == ShellActionRequest(["ls", "pwd"], 5, 7)
    assert request.data.raw == {
        "type": "shell_call",
        "call_id": "c1",
        "action": {"commands": ["ls", "pwd"], "timeout_ms": 5, "max_output_length": 7},
    }
    assert isinstance(request.ctx_wrapper, ToolContext)
    assert request.ctx_wrapper.idempotency_key == "support-42:c1"


@pytest.mark.parametrize(
    ("returned", "read"),
    [
        ("out", [{"stdout": "out", "stderr": "", "outcome": DONE}]),
        (None, [{"stdout": "", "stderr": "", "outcome": DONE}]),
        (ShellResult([]), [{"stdout": "", "stderr": "", "outcome": DONE}]),
        (
            ShellResult([wrote("a", "b", 3), ShellCommandOutput("c", command="ls")]),
            [
                {"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 3}},
                {"stdout": "c", "stderr": "", "outcome": DONE},
            ],
        ),
        (
            ShellResult([ShellCommandOutput("a", outcome=ShellCallOutcome("timeout"))]),
            [{"stdout": "a", "stderr": "", "outcome": {"type": "timeout"}}],
        ),
    ],
)
async def test_the_model_reads_what_the_commands_wrote(returned: Any, read: Any) -> None:
    assert await output_of(returned) == {"output": read}


@pytest.mark.parametrize(
    ("wanted", "given", "bound", "texts"),
    [
        (None, 7, 7, ["abcde", "12", "", ""]),
        (7, None, 7, ["abcde", "12", "", ""]),
        (3, 9, 3, ["abc", "", "", ""]),
        (50, 12, 12, ["abcde", "12345", "AB", ""]),
        (None, -1, 0, ["", "", "", ""]),
        (0, None, 0, ["", "", "", ""]),
    ],
)
async def test_all_texts_together_are_no_longer_than_the_smaller_bound(
    wanted: int | None, given: int | None, bound: int, texts: list[str]
) -> None:
    result = ShellResult([wrote("abcde", "12345"), wrote("ABCDE")], max_output_length=given)
    read = await output_of(result, max_output_length=wanted)
    assert read["max_output_length"] == bound
    assert [one[name] for one in read["output"] for name in ("stdout", "stderr")] == texts


@pytest.mark.parametrize("wanted", [None, 10 * MOST_OUTPUT_CHARACTERS])
async def test_what_nobody_bounds_is_cut_off_and_the_model_is_told(wanted: int | None) -> None:
    long = "x" * MOST_OUTPUT_CHARACTERS
    read = await output_of(ShellResult([wrote(long, "yyy")]), max_output_length=wanted)
    assert read["output"][0]["stdout"] == long
    assert read["output"][0]["stderr"] == "\n[The output is longer. It was cut off here.]"


def test_outputs_say_how_they_ended() -> None:
    assert (wrote(code=3).exit_code, wrote(code=3).status) == (3, "completed")
    late = ShellCommandOutput(outcome=ShellCallOutcome("timeout"))
    assert (late.exit_code, late.status) == (None, "timeout")
    assert ShellCommandOutput().outcome == ShellCallOutcome("exit")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (shell_call("c1", "ls"), None),
        (shell_call("c1"), "at least one command"),
        ({"type": "shell_call", "action": {"commands": [1]}}, "at least one command"),
        ({"type": "shell_call", "action": "ls"}, "at least one command"),
        ({"type": "shell_call"}, "at least one command"),
        (shell_call("c1", "ls", timeout_ms=5), None),
        (shell_call("c1", "ls", timeout_ms=0), None),
        (shell_call("c1", "ls", timeout_ms=None), None),
        (asking_for(-1), "not -1"),
        (asking_for(1.5), "not 1.5"),
        (asking_for(True), "not True"),
        (asking_for("5"), "not '5'"),
    ],
)
def test_a_call_has_commands_and_may_have_a_time_out(call: JsonObject, problem: str | None) -> None:
    validate = ShellTool(lambda _request: "").validate
    assert validate is not None
    told = validate(arguments_of(call))
    assert told == problem if problem is None else problem in str(told)


@pytest.mark.parametrize("wanted", [0, 0.0, None])
def test_a_time_out_of_zero_is_no_time_out(wanted: Any) -> None:
    tool = ShellTool(lambda _request: "")
    subject = tool.approval_subject(RunContextWrapper(None), arguments_of(asking_for(wanted)))
    assert subject == ShellActionRequest(["ls"], None)


def test_a_rule_is_asked_about_what_is_to_be_run() -> None:
    tool = ShellTool(lambda _request: "")
    subject = tool.approval_subject(RunContextWrapper(None), arguments_of(shell_call("c1", "ls")))
    assert subject == ShellActionRequest(["ls"])


def test_the_provider_is_told_where_commands_run() -> None:
    tool = ShellTool(lambda _request: "", name="bash")
    assert tool.to_tool_param() == {"type": "shell", "environment": {"type": "local"}}
    assert (tool.name, tool.called_name, tool.type, tool.is_hosted) == (
        "bash",
        "shell",
        "shell",
        False,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "requires an executor"),
        ({"executor": lambda: ""}, "executor is called with"),
        ({"environment": "local"}, "environment must be a dict"),
        ({"environment": {"name": "x"}}, "environment must be a dict"),
        (
            {"environment": {"type": "container_auto"}, "executor": str},
            "does not accept an executor",
        ),
        ({"environment": {"type": "container_auto"}, "needs_approval": True}, "does not accept"),
        ({"environment": {"type": "container_auto"}, "on_approval": max}, "does not accept"),
        ({"executor": str, "environment": {"type": "local", "skills": {object()}}}, "be sent"),
    ],
)
def test_a_mistake_is_found_where_it_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ShellTool(**options)


# --- The older shell --------------------------------------------------------------------------------------


async def test_the_older_shell_gives_its_executor_the_typed_call() -> None:
    def run(request: Any) -> str:
        action = request.data.action
        return f"{type(request.data).__name__} {request.data.call_id} {action.command} {action.env}"

    tool = LocalShellTool(run)
    read = await tool.on_invoke_tool(context(), arguments_of(local_shell_call("c1", "ls", "-l")))
    assert read == "LocalShellCall c1 ['ls', '-l'] {}"
    assert (tool.name, tool.to_tool_param()) == ("local_shell", {"type": "local_shell"})


@pytest.mark.parametrize(("returned", "read"), [(None, ""), ("out", "out")])
async def test_the_older_shell_answers_with_a_text(returned: Any, read: str) -> None:
    tool = LocalShellTool(lambda _request: returned)
    call = arguments_of(local_shell_call("c1", "ls"))
    assert await tool.on_invoke_tool(context(), call) == read


async def test_the_older_shells_text_is_bounded() -> None:
    tool = LocalShellTool(lambda _request: "x" * (MOST_OUTPUT_CHARACTERS + 1))
    read = await tool.on_invoke_tool(context(), arguments_of(local_shell_call("c1", "ls")))
    assert read.endswith("cut off here.]")
    assert len(read) < MOST_OUTPUT_CHARACTERS + 100


def test_the_older_shell_needs_a_command_and_an_executor() -> None:
    tool = LocalShellTool(lambda _request: "")
    assert tool.validate is not None
    assert tool.validate(arguments_of(local_shell_call("c1", "ls"))) is None
    assert "action.command" in str(tool.validate(arguments_of(local_shell_call("c1"))))
    asked = tool.approval_subject(
        RunContextWrapper(None), arguments_of(local_shell_call("c1", "ls"))
    )
    assert asked["command"] == ["ls"]
    nothing: Any = None
    with pytest.raises(UserError, match="LocalShellTool: executor must be callable"):
        LocalShellTool(nothing)
