"""`outlast run` and `outlast send`: say something to an agent, and wait for the answer.

Owns: the two commands. Must not know: how a run is watched.
"""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outlast.cli import options, terminal
from outlast.cli.exit_codes import ExitCode
from outlast.rendering import command

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.cli.server_lookup import Connection
    from outlast.client.handle import RunHandle
    from outlast.loop.state import RunState

_SAID_AT_THE_END = {"failed", "status"}


def run(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="The agent's name.", show_default=False)
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to ask.", show_default=False)],
    *,
    run_id: Annotated[
        str | None,
        typer.Option("--id", help="The run's id. Asking the same again with it joins the run."),
    ] = None,
    keep_open: Annotated[
        bool, typer.Option("--keep-open", help="Stay open for `outlast send`.")
    ] = False,
    context: Annotated[
        str | None, typer.Option("--context", metavar="JSON", help="What the agent's tools get.")
    ] = None,
    max_turns: Annotated[
        int, typer.Option("--max-turns", min=1, help="How many model calls the answer may take.")
    ] = 10,
    detach: options.Detach = False,
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Ask an agent and wait for the answer, or until a person has to decide.

    What happens is shown on standard error, the answer on standard output. Ctrl-C leaves the run
    alone: it goes on, and the same command with its --id joins it again.
    """
    given = _context(context)

    async def ask() -> ExitCode:
        from outlast.cli.server_lookup import connect
        from outlast.client.runner import Runner

        connection = await connect(address, namespace)
        handle = await Runner.start(
            agent,
            text,
            id=run_id,
            context=given,
            max_turns=max_turns,
            keep_open=keep_open,
            client=connection.client,
            task_queue=task_queue,
        )
        if detach:
            _show_started(connection, handle, as_json=as_json)
            return ExitCode.OK
        from outlast.cli.watching import is_settled

        return await _wait(
            connection, handle, task_queue=task_queue, until=is_settled, since=None, as_json=as_json
        )

    raise typer.Exit(asyncio.run(ask()))


def send(
    run_id: options.RunId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.", show_default=False)],
    detach: options.Detach = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Say something more in a conversation, and wait for the answer.

    A run takes messages while it is open: started with --keep-open, or still busy.
    """

    async def say() -> ExitCode:
        from outlast.cli.pollers import hint_without_worker
        from outlast.cli.server_lookup import connect
        from outlast.client.handle import RunHandle
        from outlast.loop.state import has_message

        connection = await connect(address, namespace)
        handle = RunHandle(connection.client, run_id)
        queue = await _queue_of(connection, handle)
        console = terminal.err()
        async with (
            terminal.waiting(console, f"{run_id} takes the message"),
            hint_without_worker(connection.client, queue, console),
        ):
            message = await handle.send(text)
        if detach:
            if as_json:
                terminal.print_json({"run_id": run_id, "message_id": message.id})
            else:
                terminal.say(terminal.out(), f"{run_id} has taken the message {message.id}.")
            return ExitCode.OK
        return await _wait(
            connection,
            handle,
            task_queue=queue,
            until=lambda state: (
                state.phase == "closed"
                or state.status == "waiting"
                or any(message.id in answer.to for answer in state.answers)
            ),
            since=lambda state: has_message(state, message.id),
            as_json=as_json,
        )

    raise typer.Exit(asyncio.run(say()))


async def _wait(
    connection: "Connection",
    handle: "RunHandle",
    *,
    task_queue: str,
    until: "Callable[[RunState], bool]",
    since: "Callable[[RunState], bool] | None",
    as_json: bool,
) -> ExitCode:
    """Show what happens until the answer is there, and print it."""
    from outlast.cli import run_view
    from outlast.cli.pollers import hint_without_worker
    from outlast.cli.retries import tell_retries
    from outlast.cli.watching import Watch

    console = terminal.err()
    watch = Watch(connection.client, handle.id)
    if not as_json:
        terminal.say(console, f"run {handle.id}", *_linked(connection, handle))
    try:
        async with (
            terminal.waiting(console, f"run {handle.id}") as spinner,
            hint_without_worker(connection.client, task_queue, console),
            tell_retries(
                connection.client, handle.id, lambda retry: terminal.say(console, f"{retry}")
            ),
        ):
            async for event in watch.events(until, since=since):
                spinner.update(run_view.doing(watch.state))
                if as_json:
                    terminal.print_json_line(event.record())
                elif event.text and not event.answers and event.type not in _SAID_AT_THE_END:
                    run_view.say_event(console, event)
    except asyncio.CancelledError:
        terminal.say(
            console,
            f"The run {handle.id} goes on without you. `",
            command("show", handle.id),
            "` shows it, `",
            command("cancel", handle.id),
            "` stops it.",
        )
        raise
    result = await watch.verdict()
    if as_json:
        terminal.print_json_line(run_view.result_record(result))
    elif result.status == "waiting":
        run_view.show_how_to_decide(
            console, handle.id, [one.request for one in result.interruptions]
        )
    else:
        terminal.say_text(terminal.out(), run_view.answer_text(result.final_output))
    return ExitCode.WAITING if result.status == "waiting" else ExitCode.OK


def _context(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"it is not JSON: {error}", param_hint="'--context'") from error


def _show_started(connection: "Connection", handle: "RunHandle", *, as_json: bool) -> None:
    if as_json:
        link = connection.link(handle.id)
        terminal.print_json({"run_id": handle.id, **({"ui": link} if link else {})})
    else:
        terminal.say(terminal.out(), handle.id)
        terminal.say(terminal.err(), "started; see `", command("show", handle.id), "`")


def _linked(connection: "Connection", handle: "RunHandle") -> list[str]:
    link = connection.link(handle.id)
    return [f"  {link}"] if link else []


async def _queue_of(connection: "Connection", handle: "RunHandle") -> str:
    await handle.check()
    return (await connection.client.get_workflow_handle(handle.id).describe()).task_queue
