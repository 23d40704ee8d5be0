"""`outlast run`, `send` and `retry`: asks an agent, and waits for the answer."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.agents.errors import AgentsException
from outlast.cli import options, server, terminal
from outlast.cli.caller import By, Caller, PersonCaller, on_server, sender
from outlast.cli.exit_codes import ExitCode
from outlast.edges.rendering import command

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.cli.server import Connection
    from outlast.client.follower import Follower
    from outlast.client.handle import RunHandle
    from outlast.client.results.run_result import RunResult
    from outlast.views.run import RunSnapshot

_SHOWN_AT_THE_END = {"failed", "status"}
_WAITS = {"waiting", "parked", "held"}


@on_server
async def run(
    caller: Caller,
    agent: str,
    text: options.Text,
    run_id: str | None = None,
    keep_open: bool = False,
    stream: options.Stream = False,
    context: str | None = None,
    max_turns: Annotated[int, typer.Option(min=1)] = 10,
    detach: options.Detach = False,
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
    customer: options.Customer = None,
    by: By = None,
) -> ExitCode:
    """Ask an agent and wait for the answer, until a person has to decide, or a tool waits.

    Events are printed on standard error, the answer on standard output. After Ctrl-C the run
    continues, and the same command with its --id joins it again. You are the author of the question:
    where a policy excludes the requester, somebody else decides.

    Command line:
        agent (AGENT): The agent's name.
        run_id (--id): The run's id. The same question with the same id joins the run.
        keep_open: Stay open for `outlast send`.
        context (JSON): The context that the tools receive.
        max_turns: How many model calls the answer may take.
    """
    from outlast.cli.json_values import parse_json
    from outlast.client.start.runner import Runner

    parsed = None if context is None else parse_json(context, "--context")
    connection = await caller.connect()
    handle = await Runner.start(
        agent,
        text,
        id=run_id,
        context=parsed,
        max_turns=max_turns,
        keep_open=keep_open,
        stream=stream,
        client=connection.client,
        task_queue=task_queue,
        customer=customer,
        author=sender(by).subject,
    )
    if not detach:
        return await _wait_for_answer(caller, connection, handle, _is_settled)
    link = connection.link(handle.id)
    caller.show({"run_id": handle.id, **({"ui": link} if link else {})}, handle.id)
    if not caller.as_json:
        terminal.say(terminal.err(), "started; see `", command("show", handle.id), "`")
    return ExitCode.OK


@on_server
async def send(
    caller: PersonCaller,
    text: options.Text,
    stream: options.Stream = False,
    detach: options.Detach = False,
) -> ExitCode:
    """Send a message to a run and wait for the answer.

    A run takes messages while it is open: started with --keep-open, or not finished yet. Where a
    policy excludes the requester, whoever sent the message does not decide about what it led to.
    """
    from outlast.client.handle import RunHandle
    from outlast.views.transcript import has_message

    run_id, author = caller.run_id, caller.person.subject
    connection = await caller.connect()
    handle = RunHandle(connection.client, run_id)
    async with server.waiting_for_worker(handle, f"sending the message to {run_id}"):
        message_id = (await handle.send(text, stream=stream, author=author)).id
    if detach:
        return _accepted(caller, run_id, message_id, f"has received the message {message_id}.")

    def has_arrived(state: "RunSnapshot") -> bool:
        return has_message(state, message_id)

    until = _until_answered(message_id)
    return await _wait_for_answer(caller, connection, handle, until, has_arrived)


@on_server
async def retry(caller: Caller, run_id: options.RunId, detach: options.Detach = False) -> ExitCode:
    """Retry the last question of a run, if it failed, and wait for the answer.

    What the failed attempt has done stays: finished tool calls are not repeated. Needs a running
    worker.
    """
    from outlast.client.handle import RunHandle

    connection = await caller.connect()
    handle = RunHandle(connection.client, run_id)
    before = await handle.state()
    async with server.waiting_for_worker(handle, f"retrying {run_id}"):
        message_id = (await handle.retry()).id
    if detach:
        return _accepted(caller, run_id, message_id, "asks its last question again.")

    had_ended, answers = before.outcome is not None, len(before.answers)

    def is_retried(state: "RunSnapshot") -> bool:
        if had_ended:  # the reset has undone the failure
            return message_id in state.answering or _is_answered(state, message_id)
        tries = len(state.answers) - answers
        return tries > 0 or (tries == 0 and state.failure is None)

    until = _until_answered(message_id)
    return await _wait_for_answer(caller, connection, handle, until, is_retried)


def _accepted(caller: Caller, run_id: str, message_id: str, sentence: str) -> ExitCode:
    caller.show({"run_id": run_id, "message_id": message_id}, f"{run_id} {sentence}")
    return ExitCode.OK


def _is_settled(state: "RunSnapshot") -> bool:
    """Whether the run has ended, or waits for people or for something outside."""
    from outlast.client.read.read_range import is_settled

    return is_settled(state) or state.status == "parked"


def _is_answered(state: "RunSnapshot", message_id: str) -> bool:
    return any(message_id in answer.to for answer in state.answers)


def _until_answered(message_id: str) -> "Callable[[RunSnapshot], bool]":
    """Return whether a message is answered, or the run waits or is closed."""
    return lambda state: (
        not state.is_open or state.status in _WAITS or _is_answered(state, message_id)
    )


async def _wait_for_answer(
    caller: Caller,
    connection: "Connection",
    handle: "RunHandle",
    until: "Callable[[RunSnapshot], bool]",
    since: "Callable[[RunSnapshot], bool] | None" = None,
) -> ExitCode:
    from outlast.cli import review, view
    from outlast.client.follower import Follower
    from outlast.client.people.words import read_words
    from outlast.temporal.proofs import proof_reader
    from outlast.views.redaction import shown_request

    console = terminal.err()
    follower = Follower(connection.client, handle.id)
    if not caller.as_json:
        link = connection.link(handle.id)
        terminal.say(console, f"run {handle.id}", f"  {link}" if link else "")
    try:
        async with (
            server.waiting_for_worker(handle, f"run {handle.id}") as spinner,
            follower.report_retries(lambda retry: terminal.say(console, f"{retry}")),
        ):
            async for event in follower.events(until, since=since):
                spinner.update(view.doing(follower.state))
                if caller.as_json:
                    terminal.print_json_line(event.record())
                elif event.text and not event.answers and event.type not in _SHOWN_AT_THE_END:
                    view.say_event(console, event)
    except asyncio.CancelledError:
        shows, stops = command("show", handle.id), command("cancel", handle.id)
        words = (f"The run {handle.id} continues. `", shows, "` shows it, `", stops, "` stops it.")
        terminal.say(console, *words)
        raise
    if follower.state.status == "parked":
        return await _say_waits(caller, follower.state, handle.client)
    result = await _result_of(follower, handle.id)
    if caller.as_json:
        terminal.print_json_line(view.result_record(result))
    elif result.status == "waiting":
        state = follower.state
        requests = [shown_request(one.request, state) for one in result.interruptions]
        words = await read_words(handle.client, state, requests)
        reader = await proof_reader(handle.client)
        proofs = {
            one.request.id: reader.of_votes(one.request, state) for one in result.interruptions
        }
        review.show_how_to_decide(console, handle.id, requests, words, proofs)
    elif result.status == "held":
        terminal.say(console, f"A person has the conversation {handle.id}.")
    else:
        terminal.say_text(terminal.out(), view.answer_text(result.final_output))
    return ExitCode.WAITING if result.status in _WAITS else ExitCode.OK


async def _say_waits(caller: Caller, state: "RunSnapshot", client: "Client") -> ExitCode:
    """Show what the tools of a run, and of those nested in it, wait for."""
    from outlast.cli import waits
    from outlast.client.people.nested_requests import found_waits

    found = await found_waits(state, client)
    if caller.as_json:
        records = [waits.record(one) for one in found]
        shown = {"type": "result", "run_id": state.run_id, "status": state.status, "waits": records}
        terminal.print_json_line(shown)
    else:
        waits.show_how_to_finish(terminal.err(), found)
    return ExitCode.WAITING


async def _result_of(follower: "Follower", run_id: str) -> "RunResult":
    from outlast.cli import view

    try:
        return await follower.result()
    except AgentsException as error:
        if hint := view.after_failure(run_id, follower.state):
            error.add_note(hint)
        raise
