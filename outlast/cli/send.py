"""`outlast send`: sends a message to a conversation and waits for the answer."""

import asyncio
from typing import Annotated

import typer

from outlast.cli import options, server, terminal
from outlast.cli.exit_codes import ExitCode
from outlast.cli.run import wait_for_answer


def send(
    run_id: options.RunId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.", show_default=False)],
    stream: options.Stream = False,
    detach: options.Detach = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Send a message to a run and wait for the answer.

    A run takes messages while it is open: started with --keep-open, or not finished yet.
    """

    async def say() -> ExitCode:
        from outlast.client.handle import RunHandle
        from outlast.loop.state import has_message

        connection = await server.connect(address, namespace)
        handle = RunHandle(connection.client, run_id)
        queue = await server.task_queue_of(handle)
        console = terminal.err()
        async with (
            terminal.waiting(console, f"sending the message to {run_id}"),
            server.hint_without_worker(connection.client, queue, console),
        ):
            message = await handle.send(text, stream=stream)
        if detach:
            if as_json:
                terminal.print_json({"run_id": run_id, "message_id": message.id})
            else:
                terminal.say(terminal.out(), f"{run_id} has received the message {message.id}.")
            return ExitCode.OK
        return await wait_for_answer(
            connection,
            handle,
            task_queue=queue,
            until=lambda state: (
                state.phase == "closed"
                or state.status in {"waiting", "held"}
                or any(message.id in answer.to for answer in state.answers)
            ),
            since=lambda state: has_message(state, message.id),
            as_json=as_json,
        )

    raise typer.Exit(asyncio.run(say()))
