"""Calls of MCP tools that take more than one attempt: tasks of the server, and questions for people.

A server may answer a call with a task. Its id is noted, the attempt ends, and the call waits: it runs
again after the server's interval, looks at the task, and waits again until the task has ended. What
the task asks becomes a request for people, and the answers go back to the task.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NoReturn, cast
from urllib.parse import urlsplit

from outlast.agents.context.waits import NOTHING, Wait, outside_wait
from outlast.agents.context.wrapper import ToolContext, waits_of
from outlast.agents.errors import MCPTaskEnded, WaitDropped, WaitTimeout
from outlast.agents.json_values import as_object, is_object
from outlast.agents.logs import get_logger
from outlast.agents.mcp.replies import LEAST_POLL_SECONDS, MCPInputRequired, MCPTask
from outlast.agents.mcp.server import MCPFault, MCPNotSent, MCPRefusal, MCPServer
from outlast.loop.values import Json, JsonObject

logger: Final = get_logger(__name__)

NOTE: Final = "mcp"
"""The name under which a call notes what has happened so far."""

LOST_FOR: Final = timedelta(days=1)
"""How long a server may be away before its task is given up, if the task has no time to live."""

MOST_INPUTS: Final = 20
"""How many questions one call may ask."""

LONGEST_QUESTION: Final = 2_000
"""How many characters of a server's question people read."""

LARGEST_FORM: Final = 20_000
"""The maximum size of a form's schema, as JSON: the run carries it while people think."""

LONGEST_LINK: Final = 4_000
"""The maximum length of a link that people are asked to open; it is shown whole, or not at all."""

FOLLOWED: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "followed": {"type": "boolean", "title": "I have opened the link and done what it asks for"}
    },
    "required": ["followed"],
}
"""The form of the answer to a link."""

_LINK: Final = re.compile(r"https?://[A-Za-z0-9.:_\[\]-]+(?:[/?#][!-~]*)?", re.IGNORECASE)
"""A link in ASCII without a user's name, so that people see where it leads."""

LARGEST_ROUND: Final = 60_000
"""The maximum size of all questions before a task and of the server's note, as JSON, likewise."""

LARGEST_CHECKS: Final = 20_000
"""What guardrails said before a task is noted up to this size, as JSON; else they are asked again."""

LONGEST_LOOK: Final = timedelta(minutes=1)
"""How long one look may take for a server without a time-out of its own."""

LONGEST_KEY: Final = 200
"""The maximum length of the key of a question."""

MOST_TRIES: Final = 10
"""How often a call is sent again to a server that is busy."""

BUSY_FOR: Final = timedelta(milliseconds=200)
"""How long to wait before a call is sent again to a server that is busy."""

AT_ONCE: Final = timedelta(milliseconds=1)
"""People are asked when the wait for their answer is over; this one has nothing else to wait for."""

LOOK: Final = "task"
"""The name of the wait between two looks at a task. A delivery to it is a reason to look at once."""


async def call_in_run(
    server: MCPServer,
    tool_name: str,
    arguments: JsonObject,
    meta: JsonObject | None,
    context: ToolContext[Any],
) -> Any:
    """Return the `mcp.types.CallToolResult` of a call, or end the attempt until there may be one.

    Raises:
        MCPRefusal: the server asks what people cannot answer, before a task has begun.
        MCPTaskEnded: the task ended without a result, or was given up.
        WaitDropped: the call is dropped; its task is cancelled.
        MCPNotSent: the call is dropped, and its task could not be cancelled yet.
        Exception: what `MCPServer.start_call` raises.
    """
    call = _Call(server, tool_name, context)
    try:
        return await call.result(arguments, meta)
    except WaitDropped:
        await call.cancel(is_retried=True)
        raise


def begun_tool(notes: JsonObject | None) -> str | None:
    """Return the server's name of the tool whose task a call waits for; None if there is none.

    Notes of another version, or of somebody who writes to Temporal, may have any form: without the
    names of a tool and of a task, nothing has begun that people need not be asked about.
    """
    noted = _noted(notes)
    tool, task = noted.get("tool"), noted.get("task")
    return tool if isinstance(tool, str) and tool and isinstance(task, str) else None


def _noted(notes: JsonObject | None) -> JsonObject:
    """Return what a call has noted; nothing if the notes have another form."""
    noted: Json = (notes or {}).get(NOTE)
    return cast("JsonObject", noted) if isinstance(noted, dict) else {}


def with_checks(notes: JsonObject, checks: Sequence[JsonObject]) -> JsonObject:
    """Return the notes of a call with what guardrails said before its task began, if it is short."""
    if len(json.dumps(checks)) > LARGEST_CHECKS:
        return notes
    return {**notes, NOTE: {**_noted(notes), "checks": list(checks)}}


def checks_noted(notes: JsonObject | None) -> Sequence[JsonObject] | None:
    """Return what guardrails said before the task of a call began; None if they have to be asked."""
    if begun_tool(notes) is None:
        return None
    checks: Json = _noted(notes).get("checks")
    return cast("Sequence[JsonObject]", checks) if isinstance(checks, list) else None


class _Call:
    """One attempt of a call.

    What it notes is recorded when the attempt ends by a wait: `tool`; `task`, its id; `since` and
    `ttl`, in seconds; `lost`, since when the server is away; `asked`, the keys of questions in their
    order, and `sent`, those whose answers went back; `inputs` and `state` of a call that has not
    begun.
    """

    def __init__(self, server: MCPServer, tool_name: str, context: ToolContext[Any]) -> None:
        self.server = server
        self.tool_name = tool_name
        self.context = context
        self.waits = waits_of(context)
        self.notes: JsonObject = {"tool": tool_name, **_noted(self.waits.done)}
        self.waits.done[NOTE] = self.notes
        self._tries = 0

    async def result(self, arguments: JsonObject, meta: JsonObject | None) -> Any:
        if self.notes.get("task") is None:
            reply = await self._start(arguments, meta)
            if not isinstance(reply, MCPTask):
                return reply
            self.notes |= {"task": reply.task_id, "since": time.time()}
            await self._pause(reply)
        while True:
            task = None if self.waits.dropped else await self._look()
            if task is not None and task.status == "completed":
                return task.result
            await self._pause(task)

    async def cancel(self, *, is_retried: bool = False) -> None:
        """Ask the server to end the task; nothing depends on its answer.

        Raises:
            MCPNotSent: the server is away, and the attempt `is_retried`.
        """
        task_id = self.notes.get("task")
        if task_id is None:
            return
        try:
            await self.server.cancel_task(task_id)
        except Exception as error:  # the call has ended whatever the server says
            is_away = isinstance(error, ConnectionError | TimeoutError | MCPFault)
            if is_retried and is_away:
                raise MCPNotSent(str(error)) from error
            logger.warning("the MCP server %r did not cancel a task: %s", self.server.name, error)

    async def _start(self, arguments: JsonObject, meta: JsonObject | None) -> Any:
        while True:
            inputs = cast("dict[str, JsonObject] | None", self.notes.get("inputs"))
            if inputs is None:
                reply = await self.server.start_call(self.tool_name, arguments, meta)
            else:
                answers = await self._answers(inputs)
                state = cast("str | None", self.notes.get("state"))
                reply = await self.server.start_call(
                    self.tool_name, arguments, meta, answers=answers, state=state
                )
            if not isinstance(reply, MCPInputRequired):
                return reply
            if not reply.inputs:  # the server is busy, and wants the call again
                await self._try_later()
            asked: JsonObject = {"inputs": dict(reply.inputs), "state": reply.state}
            if len(json.dumps(asked)) > LARGEST_ROUND:
                await self._give_up("asks more than people can answer")
            self.notes |= {**asked, "round": len(self._asked)}

    async def _try_later(self) -> None:
        import asyncio  # imported here because it is slow, and defining agents does not need it

        self._tries += 1
        if self._tries > MOST_TRIES:
            await self._give_up("is busy")
        await asyncio.sleep(BUSY_FOR.total_seconds())

    # --- The task ---------------------------------------------------------------------------------

    async def _look(self) -> MCPTask | None:
        """Return a task that may go on or is completed; None if its server is away."""
        import asyncio  # imported here because it is slow, and defining agents does not need it

        try:
            async with asyncio.timeout(LONGEST_LOOK.total_seconds()):
                task = await self.server.get_task(cast("str", self.notes["task"]), self.tool_name)
            self.notes.pop("lost", None)
            self.notes["ttl"] = None if task.ttl_ms is None else task.ttl_ms / 1000
            if task.status == "input_required":
                await self._answer(task)
        except (ConnectionError, TimeoutError, MCPFault) as error:
            await self._note_away(error)
            return None
        except (MCPTaskEnded, WaitDropped):
            raise
        except MCPRefusal as error:
            await self._give_up("its server refuses to go on with it", str(error))
        except Exception as error:  # noqa: BLE001  whatever the server's answer is made of
            await self._give_up("its server answers what nobody can read", str(error))
        words = task.error or task.message
        if task.status == "failed":
            self._end("failed", words, task.error)
        if task.status == "cancelled":
            self._end("was cancelled by its server", words)
        if task.status == "unknown":
            self._end("is not known to its server any more", words)
        if task.status != "completed" and self._is_expired(task.poll_seconds(self._taken)):
            await self._give_up("had no result within its time to live", words)
        return task

    async def _pause(self, task: MCPTask | None) -> None:
        """End the attempt until the next look."""
        seconds = (task or MCPTask(task_id="")).poll_seconds(self._taken)
        limit = self.server.task_timeout
        if limit is not None and not self.waits.dropped:
            left = limit.total_seconds() - self._taken
            if left <= 0:
                await self._give_up("took longer than task_timeout allows")
            seconds = min(seconds, max(left, LEAST_POLL_SECONDS))
        looks = sum(one.name.startswith(LOOK) for one in self.waits.arrivals)  # each ends one wait
        name = f"{LOOK} {looks + 1}" if looks else LOOK
        every = timedelta(seconds=seconds)
        await self.context.wait_for(name, timeout=None, every=every, cleanup=True)

    async def _note_away(self, error: Exception) -> None:
        lost = cast("float", self.notes.setdefault("lost", time.time()))
        away_seconds = time.time() - lost
        if self._is_expired(0) or away_seconds > LOST_FOR.total_seconds():
            await self._give_up("could not be looked at: its server is away", str(error))
        logger.warning("a task is looked at again later: %s", error)

    def _is_expired(self, grace_seconds: float) -> bool:
        ttl = cast("float | None", self.notes.get("ttl"))
        return ttl is not None and self._taken > ttl + grace_seconds

    @property
    def _taken(self) -> float:
        return max(time.time() - cast("float", self.notes.get("since") or time.time()), 0.0)

    async def _give_up(self, outcome: str, words: str = "") -> NoReturn:
        await self.cancel()
        self._end(outcome, words)

    def _end(self, outcome: str, words: str, error: str = "") -> NoReturn:
        if self.notes.get("task") is None:
            what = (
                f"The MCP server {self.server.name!r} did not run {self.tool_name!r}: it {outcome}"
            )
            raise MCPRefusal(f"{what}.")
        what = f"The task of {self.tool_name!r} at the MCP server {self.server.name!r} {outcome}"
        message = f"{what}: {words}" if words else f"{what}."
        raise MCPTaskEnded(message, outcome=outcome, words=error)

    # --- Questions --------------------------------------------------------------------------------

    @property
    def _asked(self) -> list[str]:
        return cast("list[str]", self.notes.setdefault("asked", []))

    async def _answer(self, task: MCPTask) -> None:
        """Send people's answers to what a task asks, once."""
        sent = cast("list[str]", self.notes.setdefault("sent", []))
        new = {key: one for key, one in task.inputs.items() if key not in sent}
        if not new:  # the server has the answers, and has not read them yet
            return
        answers = await self._answers(new)
        await self.server.update_task(task.task_id, answers)
        sent.extend(answers)

    async def _answers(self, inputs: Mapping[str, JsonObject]) -> JsonObject:
        """Return people's answers; the attempt ends until all are there."""
        if len(inputs) > MOST_INPUTS or any(len(key) > LONGEST_KEY for key in inputs):
            await self._give_up("asks more than people can answer")
        asked = {key: await self._question(one) for key, one in inputs.items()}
        begun = cast("int", self.notes.get("round", 0))  # keys of earlier rounds may come again
        answers: JsonObject = {}
        for key, (question, schema) in asked.items():
            if key not in self._asked[begun:]:
                self._asked.append(key)
            if len(self._asked) > MOST_INPUTS:
                await self._give_up("asks more than people can answer")
            number = begun + self._asked[begun:].index(key) + 1
            answers[key] = await self._ask(f"input {number}", question, schema)
        return answers

    async def _question(self, request: JsonObject) -> tuple[str, JsonObject]:
        """Return the question and the schema of a form or a link; nothing else can be answered."""
        params = request.get("params")
        fields = as_object(params) or {}
        question, schema = fields.get("message"), fields.get("requestedSchema")
        is_asked, mode = request.get("method") == "elicitation/create", fields.get("mode")
        if is_asked and mode == "url" and isinstance(question, str):
            link = shown_link(fields.get("url"))
            if link is None:
                await self._give_up("asks people to open a link that cannot be shown")
            return f"{question[:LONGEST_QUESTION]}\n\n{link}", dict(FOLLOWED)
        is_form = is_asked and mode in (None, "form")
        if not is_form or not isinstance(question, str) or not is_object(schema):
            await self._give_up("asks what only a form for people could answer")
        if schema.get("type") != "object" or len(json.dumps(schema)) > LARGEST_FORM:
            await self._give_up("asks by a form that cannot be shown")
        return question[:LONGEST_QUESTION], schema

    async def _ask(self, name: str, question: str, schema: JsonObject) -> JsonObject:
        wait, _ = outside_wait(
            name,
            AT_ONCE,
            schema,
            NOTHING,
            ask=True,
            until_message=False,
            every=None,
            cleanup=self.notes.get("task") is not None,
        )
        wait = replace(wait, question=f"The MCP server {self.server.name} asks: {question}")
        try:
            value = await Wait[Any](self.waits, wait, None, NOTHING)
        except WaitTimeout:  # a person has rejected the request
            return {"action": "decline"}
        if schema == FOLLOWED:
            is_done = isinstance(value, dict) and cast("JsonObject", value).get("followed") is True
            return {"action": "accept" if is_done else "cancel"}
        return {"action": "accept", "content": value}


def shown_link(url: object) -> str | None:
    """Return a link that a server wants people to open, with its host; None if it is unclear."""
    if not isinstance(url, str) or len(url) > LONGEST_LINK or _LINK.fullmatch(url) is None:
        return None
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    if not host:
        return None
    return (
        f"Open this link at {host}, if you trust the server, and answer here when you have followed "
        f"it: {url}"
    )
