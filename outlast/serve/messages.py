"""Takes what people and programs write into runs: a first message begins a conversation."""

import asyncio
import time
from typing import Final, TypedDict, Unpack

from outlast.agents.agent import Agent
from outlast.agents.argument_names import near_name
from outlast.agents.errors import RunAlreadyStarted, RunNotFound, UserError
from outlast.client.follow_ups import start_follow_up
from outlast.client.handle import RunHandle
from outlast.client.start.following import newest_following
from outlast.client.start.options import RunOptions
from outlast.client.start.runner import Runner
from outlast.deliveries.problems import Refused
from outlast.serve.access import (
    Caller,
    Customer,
    Program,
    Staff,
    Target,
    is_scoped,
    release_problem,
    tenant_to_begin,
)
from outlast.serve.pictures import readable_pictures
from outlast.serve.problems import problem_of
from outlast.serve.routing import PATIENCE, Desk, DeskRequest
from outlast.views import records
from outlast.views.customer import is_other_message
from outlast.views.records import JsonObject
from outlast.views.run import RunSnapshot
from outlast.views.transcript import has_message


def startable_agent(desk: Desk, name: str) -> Agent:
    """Return an agent that customers and programs may start.

    Raises:
        Refused: the desk has no such agent.
    """
    for agent in desk.agents:
        if agent.name == name:
            return agent
    names = [one.name for one in desk.agents]
    raise Refused(
        404,
        "agent_not_found",
        f"There is no agent {name!r:.80} at this desk.{near_name(name[:80], names)} "
        f"Agents: {', '.join(map(repr, names)) or 'none'}.",
    )


async def state_if_any(asked: DeskRequest) -> RunSnapshot | None:
    """Return the state of the run that a request is about; None if there is no such run."""
    try:
        return await asked.handle.state()
    except RunNotFound:
        return None


async def current(
    asked: DeskRequest, state: RunSnapshot | None = None
) -> tuple[DeskRequest, RunSnapshot | None]:
    """Return the request at the newest conversation that follows its own, and that one's state.

    Args:
        asked: the request, with its caller as they are at the conversation.
        state: the state of the conversation, if this request has read it already.

    Returns:
        The request, whose `run_id` is that of the newest one; the state is None if there is no run.
    """
    state = state or await state_if_any(asked)
    if state is not None and is_followed(state):
        newest = await newest_following(asked.desk.client, asked.run_id, PATIENCE)
        if newest != asked.run_id:
            asked = await asked.at(newest)
            return asked, await state_if_any(asked)
    return asked, state


def is_followed(state: RunSnapshot) -> bool:
    """Whether a word of the customer begins another conversation: it was resolved, and has ended."""
    return state.is_ending and state.case.resolved_ms is not None


async def accept_message(
    asked: DeskRequest,
    agent: str,
    content: str | list[JsonObject],
    message_id: str,
    *,
    state: RunSnapshot | None = None,
) -> DeskRequest:
    """Take a message into a conversation, which it begins if there is none.

    A message that the run has already is not taken again. After a resolved conversation has ended,
    it goes to the one that follows, which it begins.

    Args:
        asked: the request, at the run; its caller has to be one who may.
        agent: the agent that begins a new run.
        content: the message, as `customer_view.customer_input` returns it.
        message_id: the id of the message, as `customer_view.customer_message_id` returns it.
        state: the state of the run, if this request has read it already.

    Returns:
        The request at the run that has the message.

    Raises:
        Refused: the caller may not, the agent is unknown, a picture cannot be read, the
            conversation has ended, or it has another message with this id.
    """
    state = state or await state_if_any(asked)
    if state is None:
        asked.check("start_run")
        content = await readable_pictures(content)
        state = await _started(asked, agent, content, message_id)
        asked = await asked.at(asked.run_id)
    asked.check("send_message")
    if state is not None and not has_message(state, message_id):
        asked, state = await current(asked, state)
        asked.check("send_message")
    if state is not None and has_message(state, message_id):
        check_same(state, message_id, content)
        return asked
    content = await readable_pictures(content)
    if state is not None and state.is_ending:
        return await _follow_up(asked, state, content, message_id)
    await send(asked, content, message_id)
    return asked


async def _follow_up(
    asked: DeskRequest, state: RunSnapshot, content: str | list[JsonObject], message_id: str
) -> DeskRequest:
    """Begin the conversation that follows one, with a message."""
    if not is_followed(state):
        raise _ended()
    client = asked.desk.client
    try:
        handle = await start_follow_up(
            client, state.run_id, content, message_id=message_id, patience=PATIENCE
        )
    except RunAlreadyStarted:  # by another message, at the same time
        newest = await newest_following(client, state.run_id, PATIENCE)
        if newest == state.run_id:  # the id is that of another run, which does not follow
            raise _ended() from None
        asked = await asked.at(newest)
        await send(asked, content, message_id)
        return asked
    return await asked.at(handle.id)


def _ended() -> Refused:
    return Refused(409, "conversation_ended", "The conversation has ended. Begin another one.")


def check_same(state: RunSnapshot, message_id: str, content: str | list[JsonObject]) -> None:
    """Refuse a message whose id the run knows with another text: the answer would not be its own.

    Raises:
        Refused: it says something else.
    """
    if is_other_message(state, message_id, content):
        raise Refused(409, "message_changed", _MESSAGE_CHANGED)


def is_about_message(error: Exception) -> bool:
    """Whether a message was refused for what it says, and not because of its caller or its run."""
    return problem_of(error).status in _OF_MESSAGES


_OF_MESSAGES: Final = frozenset({400, 413, 415})
_MESSAGE_CHANGED: Final = (
    "The conversation has another message with this id, and what was done with it stays. Send the new "
    "text as a message of its own, with a new id."
)


class Whose(TypedDict, total=False):
    """Whose conversation it is."""

    tenant: str | None
    customer: records.Customer | None


async def send(asked: DeskRequest, content: str | list[JsonObject], message_id: str) -> None:
    """Send a message to a run, as every route does: with its author, and with the text streamed.

    Raises:
        AgentsException: the run does not take it.
    """
    await asked.handle.send(
        content, message_id=message_id, stream=True, author=author_of(asked.caller)
    )


async def begin(
    asked: DeskRequest,
    agent: str,
    content: str | list[JsonObject],
    *,
    run_id: str | None,
    message_id: str | None = None,
    **whose: Unpack[Whose],
) -> RunHandle:
    """Begin a conversation with a first message, as every route does.

    Args:
        asked: the request; a member of the team is the author of the message.
        agent: the name of the agent: this process hosts no runs.
        content: the message.
        run_id: the id of the run; None for a new one.
        message_id: the id of the message; None for the default.
        **whose: the tenant and the customer.

    Raises:
        RunAlreadyStarted: another run has the id.
        RunNotFound: a run that the caller does not see has the id.
        Refused: the caller may not begin it.
    """
    if run_id is not None:
        asked = await asked.at(run_id)
    asked.check("start_run", Target(run_id=run_id or ""))
    try:
        tenant = tenant_to_begin(asked.caller, agent, whose.get("tenant"))
    except UserError as error:
        raise Refused(403, "forbidden", str(error)) from None
    options = RunOptions(
        id=run_id,
        client=asked.desk.client,
        task_queue=asked.desk.task_queue,
        author=author_of(asked.caller) or None,
        patience=PATIENCE,
        tenant=tenant,
        program=asked.caller.name if isinstance(asked.caller, Program) else None,
        customer=whose.get("customer"),
    )
    handle = await Runner.start(
        agent, content, keep_open=True, stream=True, message_id=message_id, **options
    )
    if run_id is not None:  # the same start by somebody else passes for this one
        await asked.at(handle.id)
    return handle


async def check_release(asked: DeskRequest, agent: str) -> None:
    """Refuse to give a conversation to an agent whose runs the caller does not see.

    Raises:
        Refused: they do not see them.
    """
    if agent and is_scoped(asked.everywhere):
        facts = await asked.desk.facts(asked.run_id)
        if (problem := release_problem(asked.everywhere, agent, facts)) is not None:
            raise Refused(403, "forbidden", problem)


def author_of(caller: Caller) -> str:
    """Return the member of the team who writes in the customer's place; empty for others.

    Whoever asks for something does not decide alone about it.
    """
    return caller.person.subject if isinstance(caller, Staff) else ""


async def _started(
    asked: DeskRequest, agent: str, content: str | list[JsonObject], message_id: str
) -> RunSnapshot | None:
    """Begin a run; return its state, or None if somebody else has just begun another one."""
    startable_agent(asked.desk, agent)
    try:
        handle = await begin(asked, agent, content, run_id=asked.run_id, message_id=message_id)
    except RunAlreadyStarted:
        return None
    return await handle.state()


def stream_deadline(caller: Caller) -> float | None:
    """Return when a stream has to end, in the time of the event loop; None for never.

    A token ends, and the key of a program may be revoked.
    """
    ends_at_ms = None
    if isinstance(caller, Customer):
        ends_at_ms = caller.expires_at_ms
    elif isinstance(caller, Program):
        ends_at_ms = caller.until_ms
    if ends_at_ms is None:
        return None
    left = ends_at_ms / 1000 - time.time()
    return asyncio.get_running_loop().time() + left
