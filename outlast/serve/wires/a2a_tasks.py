"""What A2A clients do: send messages, read, list, cancel and follow tasks.

A conversation is a context, and the answer to each of its messages is a task. Nothing is stored for
the protocol: the id of a task names the conversation and the message, and callers are judged, not ids.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, cast

from outlast.a2a.protocol import (
    OF_FILES,
    TERMINAL,
    ListTasksRequest,
    Message,
    Part,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from outlast.agents.errors import AgentsException, RunClosed, RunNotFound, UserError
from outlast.agents.items.pictures import data_url
from outlast.client.people.nested_requests import find_request
from outlast.client.runs import RunFilter, find_runs
from outlast.contract.failures import CANCELLED
from outlast.deliveries.problems import Refused
from outlast.serve.access import Customer, Staff, Target
from outlast.serve.cursor import Cursor
from outlast.serve.customer_input import customer_input, customer_message_id
from outlast.serve.messages import accept_message, state_if_any
from outlast.serve.routing import DeskRequest
from outlast.serve.troubles import told_trouble
from outlast.serve.uploads import with_name
from outlast.serve.wires.a2a_events import STATES, TaskProgress
from outlast.serve.wires.answer_steps import AnswerSteps, answer_of
from outlast.serve.wires.answer_stream import (
    NestedRequests,
    follow_steps,
    knows_message,
    read_run,
    take_present_steps,
)
from outlast.serve.wires.decisions import (
    LAG,
    RequestTest,
    SentDecision,
    decide,
    decided_at,
    voted_by,
)
from outlast.serve.wires.ids import RequestId, TaskId, parsed, spelled
from outlast.views.records import JsonObject
from outlast.views.run import RunSnapshot

LONGEST_WAIT: Final = timedelta(minutes=5)
"""How long a message that is not to return at once waits for its answer; then it is to be polled."""

MOST_CONTEXTS: Final = 100
"""How many conversations of a caller are looked through for a list of tasks: open ones first."""

LONGEST_MESSAGE_ID: Final = 1_000

_READS_AT_ONCE: Final = 10
_TASKS_BEGIN: Final = "a2a-"
_OWN_PART: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
"""What follows the prefix of a context."""


@dataclass(frozen=True, slots=True)
class A2ACall:
    """A call of an A2A client.

    Attributes:
        asked: the request over HTTP.
        agent: the name of the agent that the address names.
    """

    asked: DeskRequest
    agent: str

    @property
    def prefix(self) -> str:
        """What the contexts begin with that the caller has begun with this agent."""
        return f"{_TASKS_BEGIN}{_digest(*self._who, self.agent)[:16]}-"

    @property
    def _who(self) -> tuple[str, str]:
        caller = self.asked.caller
        who = caller.person.subject if isinstance(caller, Staff) else getattr(caller, "name", "")
        return type(caller).__name__, who

    def check_somebody(self) -> None:
        """Refuse somebody who has not said who they are.

        Raises:
            Refused: nobody is logged in.
        """
        if self.asked.caller is None:
            self.asked.check("read_messages")

    async def within(self, run_id: str) -> "A2ACall | None":
        """Return the call as it may do something in a conversation; None if that is not its own.

        A run that works for a conversation has a longer id, and is none of the caller's.

        Raises:
            Refused: nobody is logged in, or they may read no conversation.
        """
        caller = self.asked.caller
        if isinstance(caller, Customer):
            self.asked.check("read_messages", Target(run_id=caller.run_id))
            asked = await self.asked.at(run_id)
            is_own = isinstance(asked.caller, Customer) and asked.caller.run_id == run_id
            return replace(self, asked=asked) if is_own else None
        self.asked.check("read_messages")
        rest = run_id.removeprefix(self.prefix)
        is_own = rest != run_id and _OWN_PART.fullmatch(rest) is not None
        if not is_own and not isinstance(caller, Staff):
            return None
        try:
            asked = await self.asked.at(run_id)
            asked.check("read_messages")
        except RunNotFound:
            return None
        return replace(self, asked=asked)

    async def of_task(self, text: str) -> "tuple[A2ACall, TaskId]":
        """Return the call within the conversation of a task that the caller may read, and its id.

        Raises:
            Refused: there is no such task, or it is somebody else's.
        """
        found = TaskId.parse(text)
        call = await self.within("" if found is None else found.run_id)
        if call is None or found is None:
            raise no_task(text)
        return call, found

    def message_id(self, text: str) -> str:
        """Return the id of a message in its run: the same for the same caller and the same text."""
        return customer_message_id(f"{_TASKS_BEGIN}{_digest(*self._who, text)[:32]}")


def no_task(text: str) -> Refused:
    """Return the refusal of an id that names no task of the caller."""
    return Refused(404, "task_not_found", f"There is no task {text!r:.80}.")


# --- Sending -------------------------------------------------------------------------------------


async def send_message(call: A2ACall, request: SendMessageRequest) -> Task:
    """Take a message, and return its task: when it is over, or at once if the client wants that."""
    call, task_id = await accept(call, request)
    is_quick = request.configuration.return_immediately
    return await read_task(call, task_id, wait=timedelta(0) if is_quick else LONGEST_WAIT)


async def accept(call: A2ACall, request: SendMessageRequest) -> tuple[A2ACall, TaskId]:
    """Take a message once for each `messageId`, and return the task that it begins or goes on with.

    With the task comes the call within its conversation.

    Raises:
        Refused: the caller may not send it, or it does not fit.
    """
    call.check_somebody()
    if request.configuration.task_push_notification_config is not None:
        raise no_push()
    message = request.message
    if not 0 < len(message.message_id) <= LONGEST_MESSAGE_ID:
        raise UserError(f"messageId must have 1 to {LONGEST_MESSAGE_ID} characters.")
    if message.role != "ROLE_USER":
        raise UserError("role must be ROLE_USER: clients speak for nobody else.")
    if message.task_id:
        return await _answer_requests(call, message)
    message_id = call.message_id(message.message_id)
    run_id = await _context(call, message, message_id)
    call = await call.within(run_id) or replace(call, asked=await call.asked.at(run_id))
    asked = await accept_message(call.asked, call.agent, _content(message.parts), message_id)
    return replace(call, asked=asked), TaskId(asked.run_id, message_id)


def no_push() -> Refused:
    """Return the refusal of a client that wants to be called back."""
    message = "This agent sends no push notifications: poll the task, or subscribe to it."
    return Refused(400, "push_notification_not_supported", message)


async def _context(call: A2ACall, message: Message, message_id: str) -> str:
    """Return the conversation of a message, which may be a new one."""
    caller, named = call.asked.caller, message.context_id
    if isinstance(caller, Customer) and named in {"", caller.run_id}:
        return caller.run_id
    if not named:
        return f"{call.prefix}{_digest(message_id)[:32]}"
    found = await call.within(named)
    if found is None or await state_if_any(found.asked) is None:
        raise UserError(
            f"There is no context {named!r:.80}. Leave contextId out to begin a conversation."
        )
    return named


def _content(parts: list[Part]) -> str | list[JsonObject]:
    """Return the parts of a message as an agent reads them."""
    found: list[JsonObject] = []
    for part in parts:
        if part.text is not None:
            found.append({"type": "input_text", "text": part.text})
        elif part.raw is not None:
            found.append(_file(part))
        elif part.url is not None:
            message = "A file has to be in the message, as raw: the agent fetches no addresses."
            raise Refused(400, "content_type_not_supported", message)
        elif "data" in part.model_fields_set:
            found.append({"type": "input_text", "text": json.dumps(part.data, ensure_ascii=False)})
        else:
            raise UserError("Each part of a message needs one of text, raw and data.")
    if len(found) == 1 and "text" in found[0]:
        return customer_input(found[0]["text"])
    return customer_input(found)


def _file(part: Part) -> JsonObject:
    """Return a file as an agent reads it."""
    try:
        content = part.content()
    except ValueError:
        raise UserError("raw of a part must be base64.") from None
    kind = part.media_type or "application/octet-stream"
    if OF_FILES.fullmatch(kind) is None:
        raise UserError(f"mediaType of a part must be like image/png, not {kind!r:.80}.")
    url, name = data_url(kind, content), part.filename or "file"
    if kind.startswith("image/"):
        return {"type": "input_image", "image_url": with_name(url, part.filename)}
    return {"type": "input_file", "file_data": url, "filename": name}


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


# --- Deciding ------------------------------------------------------------------------------------


async def _answer_requests(call: A2ACall, message: Message) -> tuple[A2ACall, TaskId]:
    """Send the decisions in a message to a task that waits for the caller."""
    call, task_id = await call.of_task(message.task_id)
    if message.context_id not in {"", task_id.run_id}:
        raise UserError("contextId is another one than that of the task.")
    given = [_decision(part) for part in message.parts if isinstance(part.data, dict)]
    if given:
        call.asked.check("decide")
    task = await read_task(call, task_id)
    if task.status.state != "TASK_STATE_INPUT_REQUIRED":
        if given and task.status.state not in TERMINAL:
            return call, task_id  # decided already: by a repeated message, or by others
        raise unsupported(
            "The task takes no message now. Leave taskId out to begin the next task of its context."
        )
    if not given:
        raise UserError(
            "A task that waits for decisions needs a data part with requestId and approve or response."
        )
    state, decided = await call.asked.handle.state(), dict[str, RequestTest]()
    for one in given:
        found = await find_request(one.id.request_id, state, call.asked.desk.client)
        if found is None:
            raise UserError(f"There is no request {one.id.request_id!r:.80}.")
        if not found.request.digest.startswith(one.id.digest):
            raise UserError("The request has changed since. Read the task, and look at it again.")
        await decide(call.asked, found, one, channel="a2a")
        decided[found.request.id] = voted_by(call.asked.person.subject)
    await decided_at(call.asked, decided)  # so that the task is not read as before
    return call, task_id


def _decision(part: Part) -> SentDecision:
    fields = cast("JsonObject", part.data)
    request_id = RequestId.parse(str(fields.get("requestId")))
    approves = fields.get("approve")
    if "response" in fields and approves is None:
        return SentDecision(request_id, "respond", response=fields["response"])
    if not isinstance(approves, bool) or "response" in fields:
        raise UserError("A decision has either approve, which is true or false, or response.")
    return SentDecision(request_id, "approve" if approves else "reject", fields.get("reason"))


def unsupported(message: str) -> Refused:
    """Return the refusal of something that the task does not do as it is."""
    return Refused(400, "unsupported_operation", message)


# --- Reading -------------------------------------------------------------------------------------


async def read_task(call: A2ACall, task_id: TaskId, wait: timedelta = timedelta(0)) -> Task:
    """Return a task as it is; with `wait`, when it is over or waits for people.

    Raises:
        Refused: there is no such task.
    """
    asked = call.asked
    await _check_known(call, task_id)
    progress, steps = _progress(call, task_id)
    async with asked.desk.feed.reader(task_id.run_id, Cursor()) as reader:
        await reader.until_present()
        nested = NestedRequests(asked.desk, asked.caller)
        await take_present_steps(
            steps, reader, nested, lambda step: list(progress.take(step)), wait
        )
        list(progress.settle(reader.state))
    return progress.task()


async def subscribe(call: A2ACall, text: str) -> AsyncGenerator[JsonObject]:
    """Return the stream of a task that is not over.

    Raises:
        Refused: there is no such task, or it is over.
    """
    call, task_id = await call.of_task(text)
    task = await read_task(call, task_id)
    if task.status.state in TERMINAL:
        raise unsupported("The task is over: read it instead of subscribing to it.")
    return follow_task(call, task_id)


async def follow_task(call: A2ACall, task_id: TaskId) -> AsyncGenerator[JsonObject]:
    """Yield a task as it is, and what becomes of it until it is over or waits for the caller."""
    asked = call.asked
    progress, steps = _progress(call, task_id)
    has_begun = False
    async with read_run(asked.desk, task_id.run_id) as (reader, watch):
        nested = NestedRequests(asked.desk, asked.caller)
        async with aclosing(follow_steps(steps, reader, nested, watch)) as following:
            async for step in following:
                trouble = told_trouble(reader.state, watch.facts, asked.caller)
                news = list(progress.take(step)) if step is not None else []
                if not has_begun and (step is None or steps.is_over):
                    has_begun = True
                    list(progress.settle(reader.state, trouble))
                    yield {"task": progress.task().record()}
                elif has_begun:
                    news += progress.settle(reader.state, trouble)
                    for event in news:
                        yield event


def _progress(call: A2ACall, task_id: TaskId) -> tuple[TaskProgress, AnswerSteps]:
    caller = call.asked.caller
    progress = TaskProgress(task_id, is_team=isinstance(caller, Staff))
    return progress, AnswerSteps(caller, task_id.message_id, only_open=True)


async def _check_known(call: A2ACall, task_id: TaskId) -> None:
    if not await knows_message(call.asked.desk, task_id.run_id, task_id.message_id):
        raise no_task(str(task_id))


async def cancel_task(call: A2ACall, text: str) -> Task:
    """Cancel a task: a message that waits is taken back; else the conversation is cancelled.

    Raises:
        Refused: the caller may not cancel it, there is no such task, or it is over.
    """
    call, task_id = await call.of_task(text)
    handle = call.asked.handle
    task = await read_task(call, task_id)
    if task.status.state in TERMINAL:
        raise Refused(400, "task_not_cancelable", "The task is over.")
    if any(one.id == task_id.message_id for one in (await handle.state()).unread):
        call.asked.check("withdraw_message")
        with suppress(UserError):  # the run has just taken it
            await handle.withdraw(task_id.message_id)
            return task.model_copy(update={"status": TaskStatus(state="TASK_STATE_CANCELED")})
    call.asked.check("cancel")
    with suppress(RunClosed):  # it has just ended
        await handle.cancel()
    return await read_task(call, task_id, wait=LAG)


# --- Lists ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listed:
    """A task of a list; `at_ms` is 0 where a later task of its context is newer."""

    at_ms: int
    id: TaskId
    state: TaskState

    @property
    def order(self) -> tuple[int, str]:
        """The place in the list: what has changed last comes first."""
        return -self.at_ms, str(self.id)


async def list_tasks(call: A2ACall, request: ListTasksRequest) -> JsonObject:
    """Return a page of the caller's tasks with this agent, those that changed last first."""
    after = _page(request.page_token)
    listed = sorted(await _listed(call, request), key=lambda one: one.order)
    rest = [one for one in listed if after is None or one.order > after]
    page = rest[: request.page_size]
    tasks: list[Task] = []
    for one in page:
        if request.include_artifacts:
            tasks.append(await read_task(call, one.id))
        else:
            progress = TaskProgress(one.id, is_team=False)
            progress.state = one.state
            progress.at_ms = one.at_ms
            tasks.append(progress.task(has_artifacts=False))
    is_last = len(rest) <= len(page)
    return {
        "tasks": [one.record() for one in tasks],
        "nextPageToken": "" if is_last else _token(page[-1]),
        "pageSize": len(page),
        "totalSize": len(listed),
    }


async def _listed(call: A2ACall, request: ListTasksRequest) -> list[_Listed]:
    since = request.status_timestamp_after
    since_ms = 0 if since is None else int(since.timestamp() * 1000)
    found: list[_Listed] = []
    slots = asyncio.Semaphore(_READS_AT_ONCE)

    async def read(run_id: str) -> None:
        async with slots:
            with suppress(AgentsException):  # gone, or nobody can read it now
                found.extend(await _tasks_of(call, run_id))

    await asyncio.gather(*map(read, await _contexts(call, request.context_id)))
    return [
        one
        for one in found
        if one.at_ms >= since_ms and request.status in {"TASK_STATE_UNSPECIFIED", one.state}
    ]


async def _contexts(call: A2ACall, named: str) -> list[str]:
    caller = call.asked.caller
    if named or isinstance(caller, Customer):
        run_id = named or cast("Customer", caller).run_id
        return [run_id] if await call.within(run_id) is not None else []
    call.asked.check("read_messages")
    criteria = RunFilter(id_prefix=call.prefix, nested=False)
    runs = await find_runs(call.asked.desk.client, criteria, limit=MOST_CONTEXTS)
    own = list(dict.fromkeys(one.run_id for one in runs))
    return list(await call.asked.seen(own, "read_messages"))


async def _tasks_of(call: A2ACall, run_id: str) -> list[_Listed]:
    """Return the tasks of a conversation: the answers to messages that came by this protocol."""
    state = await call.asked.desk.handle(run_id).state()
    answered = [name for answer in state.answers for name in answer.to]
    names = [*answered, *state.answering, *(one.id for one in state.unread)]
    own = [name for name in dict.fromkeys(names) if name.startswith(_OF_TASKS)]
    found: list[_Listed] = []
    for name in own:
        task_id = TaskId(run_id, name)
        answer = answer_of(state, name)
        is_newest = answer is None or answer is state.answers[-1]
        status = _state_of(state, name)
        if status == "TASK_STATE_WORKING" and isinstance(call.asked.caller, Staff):
            status = (await read_task(call, task_id)).status.state  # it may wait for them
        found.append(_Listed(state.updated_at_ms if is_newest else 0, task_id, status))
    return found


_OF_TASKS: Final = customer_message_id(_TASKS_BEGIN)


def _state_of(state: RunSnapshot, message_id: str) -> TaskState:
    answer = answer_of(state, message_id)
    if answer is not None and answer.failure is None:
        return STATES["answered"]
    if answer is not None and answer.failure is not None:
        return STATES["cancelled" if answer.failure.code == CANCELLED else "failed"]
    if state.outcome is None:
        return "TASK_STATE_WORKING"
    return STATES["cancelled" if state.outcome == "cancelled" else "failed"]


def _token(last: _Listed) -> str:
    return spelled([*last.order])


def _page(token: str) -> tuple[int, str] | None:
    match parsed(token) if token else None:
        case [int(at), str(name)]:
            return at, name
        case _ if not token:
            return None
        case _:
            raise UserError("pageToken must be the nextPageToken of a list.")
