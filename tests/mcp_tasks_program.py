"""An MCP server with the tasks extension, as a program: `mcp_tasks_program.py http PORT DIRECTORY`.

Its tool `work` answers with a task, and what becomes of it is in the arguments. Tasks live in files
of the directory, so they outlive the process; `forgets` keeps them in the process only. Each request
is a line of `requests.jsonl` there: the method, the parameters, the header `Mcp-Name` and whether the
client has declared the extension and forms.
"""

import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    RequestParams,
    TextContent,
)

NAME = "io.modelcontextprotocol/tasks"
KEY = "outlast/idempotency-key"
MISSING_CAPABILITY = -32021
YEAR_MS = 365 * 24 * 3600 * 1000

transport = sys.argv[1]
directory = Path(sys.argv[3])


class TaskParams(RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


def form(message: str, **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": sorted(fields)}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


NAME_FORM = form("Who are you?", name={"type": "string"})
INPUTS: dict[str, dict[str, Any]] = {
    "asks": {"name": NAME_FORM},
    "asks_twice": {"name": NAME_FORM, "age": form("How old?", age={"type": "integer"})},
    "asks_model": {"m": {"method": "sampling/createMessage", "params": {"messages": []}}},
    "asks_url": {
        "u": {
            "method": "elicitation/create",
            "params": {"mode": "url", "message": "Log in", "url": "https://evil.example"},
        }
    },
    "asks_nonsense": {"n": {"method": "elicitation/create", "params": {"message": 3}}},
    "asks_much": {f"k{number}": NAME_FORM for number in range(60)},
}


class Tasks(Extension):
    """The extension, on files."""

    identifier = NAME

    def __init__(self) -> None:
        self.own: dict[str, dict[str, Any]] = {}

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/update", UpdateParams, self.update),
            MethodBinding("tasks/cancel", TaskParams, self.cancel),
        ]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        declared = note("tools/call", params, ctx)
        arguments: dict[str, Any] = params.arguments or {}
        kind = arguments.get("kind")
        if params.name != "work" or kind == "direct":
            return await call_next(ctx)
        if kind == "asks_first" and not params.input_responses:
            return {
                "resultType": "input_required",
                "inputRequests": {"name": NAME_FORM},
                "requestState": "sealed",
            }
        if not declared and kind != "rude":
            raise MCPError(MISSING_CAPABILITY, "Missing required client capability")
        if kind == "no_id":
            return {"resultType": "task", "status": "working"}
        meta: dict[str, Any] = params.meta or {}
        key = str(meta.get(KEY, ""))
        task: dict[str, Any] | None = next(
            (one for one in self.all() if key and one["key"] == key), None
        )
        if task is None:
            task = {"id": secrets.token_hex(16), "key": key, "polls": 0, "answers": {}, **arguments}
            first: dict[str, Any] = params.input_responses or {}
            task["answers"] |= json.loads(json.dumps(first, default=lambda one: one.model_dump()))
            self.save(task)
        if kind == "dies_once" and not (directory / "died").exists():
            (directory / "died").touch()
            os.kill(os.getpid(), 9)
        return {"resultType": "task", **shape(task, "working")}

    async def get(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        check(note("tasks/get", params, ctx))
        task = self.known(params.task_id)
        task["polls"] += 1
        self.save(task)
        return state(task)

    async def update(self, ctx: Any, params: UpdateParams) -> dict[str, Any]:
        check(note("tasks/update", params, ctx))
        task = self.known(params.task_id)
        if task["kind"] == "asks_and_refuses":
            raise MCPError(INVALID_PARAMS, "That is no name")
        task["answers"] = {**params.input_responses, **task["answers"]}
        self.save(task)
        return {}

    async def cancel(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        check(note("tasks/cancel", params, ctx))
        task = self.known(params.task_id)
        task["cancelled"] = True
        self.save(task)
        return {}

    def all(self) -> list[dict[str, Any]]:
        paths = directory.glob("task-*.json")
        return [*self.own.values(), *(json.loads(path.read_text("utf-8")) for path in paths)]

    def known(self, task_id: str) -> dict[str, Any]:
        task = next((one for one in self.all() if one["id"] == task_id), None)
        if task is None or task["kind"] == "unknown":
            raise MCPError(INVALID_PARAMS, "Failed to retrieve task: Task not found")
        return task

    def save(self, task: dict[str, Any]) -> None:
        if task["kind"] == "forgets":
            self.own[task["id"]] = task
            return
        path = directory / f"task-{task['id']}.json"
        path.with_suffix(".new").write_text(json.dumps(task), "utf-8")
        path.with_suffix(".new").replace(path)


def note(method: str, params: Any, ctx: Any) -> bool:
    """Write a request down, and return whether it declares the extension."""
    meta: dict[str, Any] = params.meta or {}
    declared: dict[str, Any] = meta.get(CLIENT_CAPABILITIES_META_KEY, {})
    line = {
        "method": method,
        "params": params.model_dump(mode="json", by_alias=True, exclude={"meta"}),
        "key": meta.get(KEY),
        "mcp_name": ctx.request.headers.get("mcp-name") if ctx.request else None,
        "declares": NAME in declared.get("extensions", {}),
        "forms": declared.get("elicitation"),
        "process": os.getpid(),
    }
    with (directory / "requests.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return bool(line["declares"])


def check(declared: bool) -> None:
    if not declared:
        raise MCPError(MISSING_CAPABILITY, "Missing required client capability")


def shape(task: dict[str, Any], status: str, **fields: Any) -> dict[str, Any]:
    interval: Any = task.get("interval", 1000)
    return {
        "taskId": task["id"],
        "status": status,
        "createdAt": "2026-11-26T10:00:00Z",
        "lastUpdatedAt": "2026-11-26T10:00:00Z",
        "ttlMs": task.get("ttl"),
        **({} if interval is None else {"pollIntervalMs": interval}),
        **fields,
    }


def state(task: dict[str, Any]) -> dict[str, Any]:
    """Return what a task has come to: `kind` says what, after `working` looks."""
    kind = task["kind"]
    if task.get("cancelled") and kind != "stubborn":
        return shape(task, "cancelled", statusMessage="as you wish")
    if task["polls"] <= task.get("working", 0) or kind == "endless":
        return shape(task, "working")
    if kind == "garbage":
        return {"nonsense": 1}
    if kind == "other_task":
        return {**shape(task, "working"), "taskId": "another"}
    if kind == "fails":
        error = {"code": INTERNAL_ERROR, "message": "the oven is cold <b>&</b>"}
        return shape(task, "failed", error=error)
    if kind == "cancels":
        return shape(task, "cancelled", statusMessage="closed for today")
    if kind == "no_result":
        return shape(task, "completed")
    inputs = INPUTS.get("asks" if kind == "asks_and_refuses" else kind, {})
    if set(inputs) - set(task["answers"]):
        left = {key: one for key, one in inputs.items() if key not in task["answers"]}
        return shape(task, "input_required", inputRequests=left)
    said = f"done: {json.dumps(task['answers'], sort_keys=True)}" if task["answers"] else "done"
    is_error = kind == "tool_error"
    result = CallToolResult(
        content=[TextContent(type="text", text=f"{said}{'!' * task.get('length', 0)}")],
        structured_content=None if kind == "unstructured" else {"made": 3},
        is_error=is_error,
    )
    made = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return shape(task, "completed", result=made)


server = MCPServer("kitchen", log_level="CRITICAL", extensions=[Tasks()])


@server.tool()
def work(
    kind: str,
    working: int = 0,
    interval: float | None = 1000,
    ttl: float | None = None,
    length: int = 0,
) -> dict[str, int]:
    """Work for a while."""
    return {"made": 3}


if __name__ == "__main__":
    if transport == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
