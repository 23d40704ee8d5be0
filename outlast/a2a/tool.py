"""An agent of somebody else as a tool: a call is a task there, which may take days.

    send the message, once -> look at the task -> wait, look again -> the task is over -> output

The call is parked between two looks. Everything that a later attempt has to know is in its notes
(`ToolContext.once`): where the agent takes requests, the task, and the answers that people gave.
"""

import asyncio
import base64
import hashlib
import json
import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, get_args

from outlast.a2a.protocol import (
    INTERRUPTED,
    OF_FILES,
    TERMINAL,
    AgentCard,
    Artifact,
    Message,
    Part,
    PushConfig,
    SendConfiguration,
    SendMessageRequest,
    Task,
    TaskStatus,
)
from outlast.a2a.remote import (
    NOT_FOUND,
    UNSUPPORTED,
    A2AError,
    Endpoint,
    Headers,
    RemoteAgent,
    allowed_origins,
)
from outlast.agents.approvals.policy import NeedsApproval
from outlast.agents.checks import InvalidType
from outlast.agents.context.wait_urls import KEYS_VARIABLE, LONGEST_LIFETIME, URL_VARIABLE
from outlast.agents.context.waits import WaitBegins
from outlast.agents.context.wrapper import ToolContext, waits_of
from outlast.agents.errors import UserError, WaitDropped, WaitTimeout
from outlast.agents.items.tool_output import (
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputPart,
    ToolOutputText,
)
from outlast.agents.logs import get_logger
from outlast.agents.tools.definition import FunctionTool, ToolRetry
from outlast.agents.tools.function_tool import ToolOptions, function_tool
from outlast.edges.clock import now_ms
from outlast.loop.calls import Arrival
from outlast.loop.values import Json, JsonObject

logger: Final = get_logger(__name__)

Asks: TypeAlias = Literal["model", "people"]

TIMEOUT: Final = timedelta(days=7)
EVERY: Final = timedelta(seconds=30)

LONGEST_TEXT: Final = 200_000
"""How many characters of an agent's texts and data the model reads."""

LARGEST_FILES: Final = 10_000_000
"""How many bytes of an agent's files the model gets together."""

MOST_FILES: Final = 20
MOST_PUSHES: Final = 20
"""How often the agent may call back for one call; after that, the tool only looks for itself."""

MOST_ANSWERS: Final = 20
"""How often people are asked for one call."""

LONGEST_ID: Final = 1_000
LONGEST_QUESTION: Final = 4_000

_FIRST_LOOKS: Final = (0.3, 0.7, 1.5, 3.0)
"""The pauses, in seconds, between the looks of the first attempt: many agents answer at once."""

_REQUEST_TIMEOUT: Final = timedelta(minutes=5)
_RETRY: Final = ToolRetry(attempts=5, errors=True)


def a2a_tool(  # noqa: PLR0913  all but the first by name
    agent: str | AgentCard,
    *,
    name: str,
    description: str,
    headers: Headers | None = None,
    origins: Collection[str] = (),
    asks: Asks = "model",
    timeout: timedelta = TIMEOUT,
    every: timedelta = EVERY,
    needs_approval: NeedsApproval = False,
) -> FunctionTool:
    """Make a tool of an agent that speaks the Agent2Agent protocol (A2A), version 1.0.

    A call sends a message and waits until the task is over, for days if need be, without a worker. A
    repeated attempt sends the same `messageId`, so that the agent begins no second task. If the call
    is dropped, the task is cancelled.

    The model reads the output as JSON: the `state` of the task, what the agent said (`text`, `data`), and
    the `context_id`, with which a later call goes on with the conversation. Files follow it. All of
    that is the word of a stranger.

    Args:
        agent: the address of the agent, whose card is at `/.well-known/agent-card.json` below it, that
            of a card, or a card that you have read.
        name: the name of the tool.
        description: what the agent does, in your words. The card's are the agent's own.
        headers: the headers of each request, such as `Authorization`, or a function that returns
            them on the worker.
        origins: where the agent may also take requests, such as `https://api.example.com`. A card that
            leads to another origin than its own is refused otherwise. For a card that you pass,
            name its origin.
        asks: who answers when the agent asks for something (`INPUT_REQUIRED`, `AUTH_REQUIRED`). `model`: the
            question is the output, and the model answers in another call or asks the user. `people`:
            the question is a request in the inbox, and the call goes on with a person's answer.
        timeout: how long a task may take; then it is cancelled, and the call fails.
        every: how often the tool looks at a task. Where the agent sends push notifications and
            OUTLAST_DELIVERY_URL and OUTLAST_DELIVERY_KEYS are set on the worker, the agent also calls back.
        needs_approval: as of `function_tool`. Its audience also answers what the agent asks people.

    Raises:
        UserError: an argument is invalid.
    """
    _check(agent, asks, timeout, every, origins)
    remote = RemoteAgent(
        agent=agent, headers=headers or {}, origins=allowed_origins(agent, origins)
    )
    options: ToolOptions = {
        "name_override": name,
        "description_override": description,
        "needs_approval": needs_approval,
        "timeout": _REQUEST_TIMEOUT,
        "retry": _RETRY,
        "use_docstring_info": False,
    }
    return _tool(_Task(remote, asks, timeout, every), options)


def _tool(task: "_Task", options: ToolOptions) -> FunctionTool:
    @function_tool(**options)
    async def ask(
        ctx: ToolContext[Any],
        message: Annotated[str, "What you want of the agent. It knows nothing else."],
        context_id: Annotated[
            str | None, "The context_id of an earlier output, to go on with that conversation."
        ] = None,
        task_id: Annotated[
            str | None, "The task_id of an earlier output that asked for input, to answer it."
        ] = None,
    ) -> Any:
        if max(len(context_id or ""), len(task_id or "")) > LONGEST_ID:
            return "Not sent: an id is longer than any that the agent has given."
        return await _Attempt(ctx, task).run(message, context_id or "", task_id or "")

    return ask


def _check(
    agent: object, asks: object, timeout: object, every: object, origins: Collection[str]
) -> None:
    if not isinstance(agent, str | AgentCard):
        raise InvalidType(f"a2a_tool(agent) must be an address or an AgentCard, not {agent!r:.80}.")
    if isinstance(agent, AgentCard) and not origins:
        raise UserError("a2a_tool(card) needs origins=: where requests may go, such as its own.")
    if asks not in get_args(Asks):
        raise UserError(f"a2a_tool(asks=...) must be 'model' or 'people', not {asks!r:.80}.")
    for what, given in (("timeout", timeout), ("every", every)):
        if not isinstance(given, timedelta):
            raise InvalidType(f"a2a_tool({what}=...) must be a timedelta, not {given!r:.80}.")
        if given < timedelta(seconds=1):
            raise UserError(f"a2a_tool({what}=...) must be at least a second, not {given}.")
    if isinstance(origins, str):
        raise InvalidType(f"a2a_tool(origins=...) must be a list, such as [{origins!r:.80}].")


@dataclass(frozen=True, slots=True)
class _Task:
    """What the author of the tool has chosen; see `a2a_tool`."""

    remote: RemoteAgent
    asks: Asks
    timeout: timedelta
    every: timedelta


@dataclass
class _Attempt:
    """One attempt of a call."""

    ctx: ToolContext[Any]
    chosen: _Task
    at: Endpoint = field(init=False)
    task_id: str = ""

    async def run(self, message: str, context_id: str, task_id: str) -> Any:
        """Return what the model reads once the task is over, or wait."""
        is_first = "task" not in waits_of(self.ctx).done
        began_ms = await self.ctx.once("began", now_ms)
        self.at = Endpoint.of(await self.ctx.once("agent", self._endpoint))
        try:
            sent = await self.ctx.once("task", self._send, "0", message, context_id, task_id)
        except A2AError as error:
            if error.is_passing or error.rpc_code is None:
                raise
            return _refused(error)
        if "reply" in sent:
            return _output_of_message(Message.model_validate(sent["reply"]))
        self.task_id = sent["task"]
        try:
            return await self._until_over(began_ms, _FIRST_LOOKS if is_first else ())
        except A2AError as error:  # the agent has lost the task, or refuses an answer
            if error.is_passing or error.rpc_code is None:
                raise
            return _refused(error)

    async def _until_over(self, began_ms: int, looks: tuple[float, ...]) -> Any:
        answered = [await self._answer(number) for number in range(len(self._ended("answer")))]
        while True:
            task = await self._look(answered, looks)
            if task is not None and task.status.state in TERMINAL:
                return _output(task, self.task_id)
            if task is not None and task.status.state in INTERRUPTED:
                if self.chosen.asks == "model" or len(answered) >= MOST_ANSWERS:
                    return _output(task, self.task_id)
                answered.append(await self._ask(task, len(answered)))
                continue
            await self._wait(began_ms)
            looks = ()

    async def _endpoint(self) -> JsonObject:
        return (await self.chosen.remote.endpoint()).record()

    # --- Sending --------------------------------------------------------------------------------

    async def _send(self, number: str, text: str, context_id: str, task_id: str) -> JsonObject:
        """Send a message, with an id that is the same for every attempt."""
        key = f"{self.ctx.idempotency_key} {number}"
        message = Message.of(
            message_id=f"outlast-{hashlib.sha256(key.encode()).hexdigest()[:40]}",
            role="ROLE_USER",
            parts=[Part(text=text)],
            context_id=context_id or None,
            task_id=task_id or None,
        )
        configuration = SendConfiguration(return_immediately=True)
        request = SendMessageRequest(message=message, configuration=configuration)
        response = await self.chosen.remote.send(self.at, request)
        if response.message is not None:
            return {"reply": response.message.record()}
        if response.task is None:
            raise A2AError("The agent answers with neither a task nor a message.")
        if len(response.task.id) > LONGEST_ID:
            raise A2AError(f"The id of the agent's task has more than {LONGEST_ID} characters.")
        return {"task": response.task.id}

    # --- Looking --------------------------------------------------------------------------------

    async def _look(self, answered: list[str], pauses: tuple[float, ...]) -> Task | None:
        """Return the task; None if the agent does not answer now, or has not seen an answer yet."""
        for pause in (*pauses, None):
            task = await self._read()
            is_over = task is not None and task.status.state in TERMINAL | INTERRUPTED
            is_stale = task is not None and _status_key(task.status) in {*answered} - {""}
            if is_over and not is_stale:
                return task
            if pause is not None:
                await asyncio.sleep(pause)
        return None

    async def _read(self) -> Task | None:
        try:
            return await self.chosen.remote.task(self.at, self.task_id)
        except A2AError as error:
            if error.rpc_code == NOT_FOUND:
                raise
            # A credential may expire and be replaced in the days that a task takes.
            logger.warning("A task of an agent cannot be read now: %r", error.message[:500])
            return None

    async def _wait(self, began_ms: int) -> None:
        """Wait until the agent calls back or it is time to look again; else end the attempt."""
        number = sum(not one.timed_out for one in self._ended("task"))
        name = f"task {number}"
        # The time-out of a wait counts from its beginning, also when the tool has looked since.
        past_ms = await self.ctx.once(f"past {number}", lambda: now_ms() - began_ms)
        left = max(self.chosen.timeout - timedelta(milliseconds=past_ms), timedelta(seconds=1))
        await self._let_call_back(name, number)
        try:
            wait = self.ctx.wait_for(name, timeout=left, every=self.chosen.every, cleanup=True)
            await wait
        except (WaitTimeout, WaitDropped):
            await self._cancel()
            raise

    async def _let_call_back(self, name: str, number: int) -> None:
        """Give the agent a signed address for this wait; what it sends there only rings the bell."""
        receives = os.environ.get(KEYS_VARIABLE) and os.environ.get(URL_VARIABLE)
        if not self.at.pushes or not receives or number >= MOST_PUSHES:
            return

        async def register() -> bool:
            url = self.ctx.wait_url(name, expires=min(self.chosen.timeout, LONGEST_LIFETIME))
            config = PushConfig(url=url, id=f"outlast-{number}", task_id=self.task_id)
            try:
                await self.chosen.remote.push_to(self.at, config)
            except A2AError:
                return False  # the tool looks for itself all the same
            return True

        await self.ctx.once(f"push {number}", register)

    async def _cancel(self) -> None:
        """Cancel the task, if the agent lets us."""
        with suppress(A2AError):
            await self.chosen.remote.cancel(self.at, self.task_id)

    def _ended(self, kind: str) -> list[Arrival]:
        """Return what came of the waits of a kind that have ended; the last may have timed out."""
        waits, found = waits_of(self.ctx), list[Arrival]()
        while (one := waits.arrival(f"{kind} {len(found)}")) is not None:
            found.append(one)
        return found

    # --- People ---------------------------------------------------------------------------------

    async def _ask(self, task: Task, number: int) -> str:
        """Ask people what the agent asks, and send their answer."""

        def note() -> JsonObject:
            return {"key": _status_key(task.status), "question": _question(task.status)}

        await self.ctx.once(f"question {number}", note)
        return await self._answer(number)

    async def _answer(self, number: int) -> str:
        asked = waits_of(self.ctx).done[f"question {number}"]
        noted = cast("JsonObject", asked)
        name, asks = f"answer {number}", timedelta(milliseconds=1)
        try:
            wait = self.ctx.wait_for(name, timeout=asks, schema=str, ask=True, cleanup=True)
            said = await wait
        except WaitBegins as begins:
            asked_so = replace(begins.wait, question=str(noted["question"]))
            raise WaitBegins(asked_so) from None
        except (WaitTimeout, WaitDropped):
            await self._cancel()
            raise
        await self.ctx.once(f"reply {number}", self._reply, number, said)
        return str(noted["key"])

    async def _reply(self, number: int, said: str) -> JsonObject:
        try:
            return await self._send(f"answer {number}", said, "", self.task_id)
        except A2AError as error:
            if error.rpc_code != UNSUPPORTED:
                raise
            return {}  # the task goes on: an earlier attempt has sent the answer


# --- What the model reads ------------------------------------------------------------------------


def _status_key(status: TaskStatus) -> str:
    """Return what tells a status from a later one of the same state; empty if nothing does."""
    said = "" if status.message is None else status.message.message_id
    if not (status.timestamp or said):
        return ""
    return hashlib.sha256(f"{status.timestamp} {said}".encode()).hexdigest()[:16]


def _question(status: TaskStatus) -> str:
    """Return what the agent asks people."""
    parts = [] if status.message is None else status.message.parts
    texts = [one.text for one in parts if one.text]
    data = [json.dumps(one.data, ensure_ascii=False) for one in parts if one.data is not None]
    kind = "input" if status.state == "TASK_STATE_INPUT_REQUIRED" else "authorization"
    said = "\n\n".join([*texts, *data])[:LONGEST_QUESTION] or "nothing else."
    return f"The agent asks for {kind}, and says: {said}"


def _output_of_message(message: Message) -> Any:
    fields: JsonObject = {"state": "completed", "context_id": message.context_id[:LONGEST_ID]}
    return _output_of(fields, message.parts)


def _output(task: Task, task_id: str) -> Any:
    """Return what the model reads of a task that is over or asks for something."""
    state = task.status.state
    fields: JsonObject = {
        "state": state.removeprefix("TASK_STATE_").lower(),
        "context_id": task.context_id[:LONGEST_ID],
    }
    if state in INTERRUPTED:
        fields["task_id"] = task_id
    said = [] if task.status.message is None else task.status.message.parts
    made = [part for artifact in task.artifacts for part in _parts(artifact)]
    return _output_of(fields, [*made, *said])


def _parts(artifact: Artifact) -> list[Part]:
    """Return the parts of an artifact; texts of a stream are one text."""
    if all(one.text is not None for one in artifact.parts):
        return [Part(text="".join(str(one.text) for one in artifact.parts))]
    return artifact.parts


def _output_of(fields: JsonObject, parts: list[Part]) -> Any:
    texts = [one.text for one in parts if one.text]
    data = [one.data for one in parts if one.data is not None]
    files, left_out = _files([one for one in parts if one.raw is not None])
    urls = [one.url[:LONGEST_ID] for one in parts if one.url][:MOST_FILES]
    text, size = "\n\n".join(texts), len(json.dumps(data, ensure_ascii=False))
    cut = text[:LONGEST_TEXT]
    found: JsonObject = {**fields, "text": cut}
    notes = [f"{len(text) - len(cut):,} further characters are left out"] * (cut != text)
    if data and len(cut) + size <= LONGEST_TEXT:
        found["data"] = cast("Json", data)
    elif data:
        notes.append(f"data of {size:,} characters is left out")
    if urls:
        found["links"] = cast("Json", urls)
    notes += [f"{left_out} files are left out"] * (left_out > 0)
    if notes:
        found["note"] = "; ".join(notes)
    words = json.dumps(found, ensure_ascii=False)
    return [ToolOutputText(text=words), *files] if files else words


def _files(parts: list[Part]) -> tuple[list[ToolOutputPart], int]:
    """Return the files for the model, and how many are left out."""
    found: list[ToolOutputPart] = []
    size = 0
    for part in parts[:MOST_FILES]:
        size += len(str(part.raw)) * 3 // 4
        if size > LARGEST_FILES:
            break
        try:
            content = part.content()
        except ValueError:
            continue
        kind = part.media_type
        kind = kind if OF_FILES.fullmatch(kind) else "application/octet-stream"
        url = f"data:{kind};base64,{base64.b64encode(content).decode()}"
        if kind in {"image/png", "image/jpeg", "image/gif", "image/webp"}:
            found.append(ToolOutputImage(image_url=url))
        else:
            name = re.sub(r"[^A-Za-z0-9._-]", "_", part.filename)[:100] or "file"
            found.append(ToolOutputFileContent(file_data=url, filename=name))
    return found, len(parts) - len(found)


def _refused(error: A2AError) -> str:
    """Return what the model reads if the agent does not take the message."""
    state = "not_found" if error.rpc_code == NOT_FOUND else "refused"
    return json.dumps({"state": state, "text": error.message[:1_000]}, ensure_ascii=False)
