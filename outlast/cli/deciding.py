"""`outlast approve`, `outlast reject` and `outlast cancel`: what people decide about a run.

Owns: the three commands. A decision carries the digest of the arguments that were shown, so it
does not count for any others.
"""

import asyncio
import getpass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from outlast.agents.errors import DecisionRefused, UserError
from outlast.cli import options, terminal
from outlast.rendering import command

if TYPE_CHECKING:
    from outlast.client.handle import RunHandle
    from outlast.loop.approvals import ApprovalRequest

ApprovalId: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="APPROVAL", help="Which request, such as a1; not needed for one."),
]
By: TypeAlias = Annotated[str | None, typer.Option("--by", help="Who decides. Default: you.")]


def approve(
    run_id: options.RunId,
    approval: ApprovalId = None,
    by: By = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Let a call run that waits for a person."""
    decision = _Decision(run_id, approval, by, as_json, None, verb="approve")
    asyncio.run(decision.make(address, namespace))


def reject(
    run_id: options.RunId,
    approval: ApprovalId = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Why; the model reads it.")
    ] = None,
    by: By = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Do not let a call run that waits for a person; the model is told."""
    decision = _Decision(run_id, approval, by, as_json, message, verb="reject")
    asyncio.run(decision.make(address, namespace))


def cancel(
    run_id: options.RunId,
    after_turn: Annotated[
        bool, typer.Option("--after-turn", help="Let the answer under way be given first.")
    ] = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Stop a run. With --after-turn, a conversation that waits for messages is completed."""

    async def stop() -> None:
        from outlast.cli.server_lookup import connect
        from outlast.client.handle import RunHandle

        connection = await connect(address, namespace)
        mode = "after_turn" if after_turn else "immediate"
        await RunHandle(connection.client, run_id).cancel(mode)
        if as_json:
            terminal.print_json({"run_id": run_id, "cancel": mode})
        else:
            when = "after its turn" if after_turn else "at once"
            terminal.say(terminal.out(), f"{run_id} is asked to stop {when}.")

    asyncio.run(stop())


class _Decision:
    """One decision on its way."""

    def __init__(
        self,
        run_id: str,
        approval: str | None,
        by: str | None,
        as_json: bool,
        message: str | None,
        *,
        verb: str,
    ) -> None:
        self._run_id = run_id
        self._approval = approval
        self._by = by or _user()
        self._as_json = as_json
        self._message = message
        self._verb = verb

    async def make(self, address: str | None, namespace: str | None) -> None:
        from outlast.cli import run_view
        from outlast.cli.pollers import hint_without_worker
        from outlast.cli.server_lookup import connect
        from outlast.client.handle import RunHandle

        connection = await connect(address, namespace)
        handle = RunHandle(connection.client, self._run_id)
        await handle.check()
        request = await self._chosen(handle)
        console = terminal.err()
        if not self._as_json:
            run_view.show_approval(console, request, request.run_id or self._run_id)
        described = await connection.client.get_workflow_handle(self._run_id).describe()
        async with (
            terminal.waiting(console, f"{self._run_id} takes the decision"),
            hint_without_worker(connection.client, described.task_queue, console),
        ):
            if self._verb == "approve":
                await handle.approve(request.id, by=self._by, args_digest=request.args_digest)
            else:
                await handle.reject(
                    request.id,
                    message=self._message,
                    by=self._by,
                    args_digest=request.args_digest,
                )
        self._show_done(request)

    async def _chosen(self, handle: "RunHandle") -> "ApprovalRequest":
        """Return the request that is meant, whether it still waits or not: the run judges that."""
        state = await handle.state()
        pending = state.pending_approvals
        known = ", ".join(request.id for request in pending) or "none"
        if self._approval is not None:
            for request in (*pending, *state.approvals):
                if request.id == self._approval:
                    return request
            raise DecisionRefused(
                f"{self._run_id} has no approval {self._approval!r}. Waiting: {known}."
            )
        if not pending:
            raise DecisionRefused(f"{self._run_id} waits for no approval; it is {state.status}.")
        first, *others = pending
        if others:
            raise UserError(
                f"{self._run_id} waits for {len(pending)} approvals: {known}. Say which: "
                f"`{command(self._verb, self._run_id, first.id)}`. `outlast show` has the details."
            )
        return first

    def _show_done(self, request: "ApprovalRequest") -> None:
        done = "approved" if self._verb == "approve" else "rejected"
        if self._as_json:
            terminal.print_json(
                {
                    "run_id": self._run_id,
                    "approval": request.id,
                    "status": done,
                    "by": self._by,
                    "tool": request.name,
                    "arguments": request.arguments,
                }
            )
        else:
            terminal.say(
                terminal.out(),
                f"{done} {request.id} of {self._run_id}, by {self._by}. See what comes of it: `",
                command("show", self._run_id),
                "`.",
            )


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
