"""`outlast cancel`: stops a run."""

import asyncio
from typing import Annotated

import typer

from outlast.cli import options, server, terminal


def cancel(
    run_id: options.RunId,
    after_turn: Annotated[
        bool, typer.Option("--after-turn", help="Let the current turn finish first.")
    ] = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Cancel a run.

    With --after-turn, a conversation that waits for messages is completed.
    """

    async def stop() -> None:
        from outlast.client.handle import RunHandle

        connection = await server.connect(address, namespace)
        mode = "after_turn" if after_turn else "immediate"
        await RunHandle(connection.client, run_id).cancel(mode)
        if as_json:
            terminal.print_json({"run_id": run_id, "cancel": mode})
        else:
            when = "after its turn" if after_turn else "now"
            terminal.say(terminal.out(), f"Asked {run_id} to stop {when}.")

    asyncio.run(stop())
