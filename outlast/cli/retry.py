"""`outlast retry`: asks the failed question of a run again."""

import asyncio
from typing import TYPE_CHECKING

import typer

from outlast.cli import options, server, terminal
from outlast.cli.exit_codes import ExitCode
from outlast.cli.run import wait_for_answer

if TYPE_CHECKING:
    from outlast.loop.state import LoopState


def retry(
    run_id: options.RunId,
    detach: options.Detach = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Retry the last question of a run, if it failed, and wait for the answer.

    What the failed attempt has done stays: finished tool calls are not repeated. Needs a running
    worker.
    """

    async def ask() -> ExitCode:
        from outlast.client.handle import RunHandle

        connection = await server.connect(address, namespace)
        handle = RunHandle(connection.client, run_id)
        before = await handle.state()
        queue = await server.task_queue_of(handle)
        console = terminal.err()
        async with (
            terminal.waiting(console, f"retrying {run_id}"),
            server.hint_without_worker(connection.client, queue, console),
        ):
            message = await handle.retry()
        if detach:
            if as_json:
                terminal.print_json({"run_id": run_id, "message_id": message.id})
            else:
                terminal.say(terminal.out(), f"{run_id} asks its last question again.")
            return ExitCode.OK

        def is_answered(state: "LoopState") -> bool:
            return any(message.id in answer.to for answer in state.answers)

        def is_retried(state: "LoopState") -> bool:
            if before.outcome is not None:  # the reset has undone the failure
                return message.id in state.question.answering or is_answered(state)
            tries = len(state.answers) - len(before.answers)
            return tries > 0 or (tries == 0 and state.failure is None)

        return await wait_for_answer(
            connection,
            handle,
            task_queue=queue,
            until=lambda state: (
                state.phase == "closed" or state.status in {"waiting", "held"} or is_answered(state)
            ),
            since=is_retried,
            as_json=as_json,
        )

    raise typer.Exit(asyncio.run(ask()))
