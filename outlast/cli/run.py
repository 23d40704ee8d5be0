"""`outlast run`: starts a run and waits for the answer."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outlast.agents.errors import AgentsException
from outlast.cli import options, server, terminal
from outlast.cli.exit_codes import ExitCode
from outlast.rendering import command

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.cli.follower import Follower
    from outlast.cli.server import Connection
    from outlast.client.handle import RunHandle
    from outlast.client.results.run_result import RunResult
    from outlast.loop.state import LoopState

_KeepOpen = Annotated[bool, typer.Option("--keep-open", help="Stay open for `outlast send`.")]
_SHOWN_AT_THE_END = {"failed", "status"}


def run(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="The agent's name.", show_default=False)
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.", show_default=False)],
    *,
    run_id: Annotated[
        str | None,
        typer.Option(
            "--id", help="The run's id. The same question with the same id joins the run."
        ),
    ] = None,
    keep_open: _KeepOpen = False,
    stream: options.Stream = False,
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="JSON", help="The context that the tools receive."),
    ] = None,
    max_turns: Annotated[
        int,
        typer.Option("--max-turns", min=1, help="How many model calls the answer may take."),
    ] = 10,
    detach: options.Detach = False,
    task_queue: options.TaskQueue = options.DEFAULT_TASK_QUEUE,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Ask an agent and wait for the answer, or until a person has to decide.

    Events are printed on standard error, the answer on standard output. After Ctrl-C the run
    continues, and the same command with its --id joins it again.
    """
    parsed = _context(context)

    async def ask() -> ExitCode:
        from outlast.client.start.runner import Runner

        connection = await server.connect(address, namespace)
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
        )
        if detach:
            _show_started(connection, handle, as_json=as_json)
            return ExitCode.OK
        from outlast.client.read.read_range import is_settled

        return await wait_for_answer(
            connection, handle, task_queue=task_queue, until=is_settled, since=None, as_json=as_json
        )

    raise typer.Exit(asyncio.run(ask()))


async def wait_for_answer(
    connection: "Connection",
    handle: "RunHandle",
    *,
    task_queue: str,
    until: "Callable[[LoopState], bool]",
    since: "Callable[[LoopState], bool] | None",
    as_json: bool,
) -> ExitCode:
    """Show a run's events until a condition holds, and return the exit code.

    Args:
        connection: the run's server.
        handle: the run.
        task_queue: the queue that its workers poll.
        until: the condition; see `Follower.events`.
        since: see `Follower.events`.
        as_json: print JSON lines.
    """
    from outlast.cli import review, view
    from outlast.cli.follower import Follower

    console = terminal.err()
    follower = Follower(connection.client, handle.id)
    if not as_json:
        terminal.say(console, f"run {handle.id}", *_links(connection, handle))
    try:
        async with (
            terminal.waiting(console, f"run {handle.id}") as spinner,
            server.hint_without_worker(connection.client, task_queue, console),
            follower.report_retries(lambda retry: terminal.say(console, f"{retry}")),
        ):
            async for event in follower.events(until, since=since):
                spinner.update(view.doing(follower.state))
                if as_json:
                    terminal.print_json_line(event.record())
                elif event.text and not event.answers and event.type not in _SHOWN_AT_THE_END:
                    view.say_event(console, event)
    except asyncio.CancelledError:
        terminal.say(
            console,
            f"The run {handle.id} continues. `",
            command("show", handle.id),
            "` shows it, `",
            command("cancel", handle.id),
            "` stops it.",
        )
        raise
    result = await _result_of(follower, handle.id)
    if as_json:
        terminal.print_json_line(view.result_record(result))
    elif result.status == "waiting":
        requests = [interruption.request for interruption in result.interruptions]
        words = await review.read_words(handle, follower.state, requests)
        review.show_how_to_decide(console, handle.id, requests, words)
    elif result.status == "held":
        terminal.say(console, f"A person has the conversation {handle.id}.")
    else:
        terminal.say_text(terminal.out(), view.answer_text(result.final_output))
    return ExitCode.WAITING if result.status in {"waiting", "held"} else ExitCode.OK


async def _result_of(follower: "Follower", run_id: str) -> "RunResult":
    """Return a run's result; its error says what to do about it."""
    from outlast.cli import view

    try:
        return await follower.result()
    except AgentsException as error:
        if hint := view.after_failure(run_id, follower.state):
            error.add_note(hint)
        raise


def _context(text: str | None) -> Any:
    if text is None:
        return None
    from outlast.cli.json_values import parse_json

    return parse_json(text, "--context")


def _show_started(connection: "Connection", handle: "RunHandle", *, as_json: bool) -> None:
    if as_json:
        link = connection.link(handle.id)
        terminal.print_json({"run_id": handle.id, **({"ui": link} if link else {})})
    else:
        terminal.say(terminal.out(), handle.id)
        terminal.say(terminal.err(), "started; see `", command("show", handle.id), "`")


def _links(connection: "Connection", handle: "RunHandle") -> list[str]:
    link = connection.link(handle.id)
    return [f"  {link}"] if link else []
