"""`outlast approve` and `outlast reject`: a person's decision about a tool call.

A decision includes the digest of the arguments that the person saw; it is invalid for others.
"""

import asyncio
import getpass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from outlast.agents.errors import DecisionRefused, UserError
from outlast.cli import options, server, terminal
from outlast.rendering import command

if TYPE_CHECKING:
    from outlast.client.handle import RunHandle
    from outlast.loop.approvals import ApprovalRequest

ApprovalId: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="APPROVAL", help="The request, such as a1; may be left out if only one waits."
    ),
]
By: TypeAlias = Annotated[
    str | None, typer.Option("--by", help="Who decides. Default: your user name.")
]


def approve(
    run_id: options.RunId,
    approval: ApprovalId = None,
    by: By = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Approve a tool call that waits for a person."""
    decision = _Decision(run_id, approval, by, as_json, None, verb="approve")
    asyncio.run(decision.make(address, namespace))


def reject(
    run_id: options.RunId,
    approval: ApprovalId = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="The reason, for the model to read.")
    ] = None,
    by: By = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Reject a tool call that waits for a person; the model reads the message."""
    decision = _Decision(run_id, approval, by, as_json, message, verb="reject")
    asyncio.run(decision.make(address, namespace))


class _Decision:
    """A decision from the command line, sent to a run."""

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
        from outlast.cli import view
        from outlast.client.handle import RunHandle

        connection = await server.connect(address, namespace)
        handle = RunHandle(connection.client, self._run_id)
        await handle.check()
        request = await self._chosen(handle)
        console = terminal.err()
        if not self._as_json:
            view.show_approval(console, request, request.run_id or self._run_id)
        described = await connection.client.get_workflow_handle(self._run_id).describe()
        async with (
            terminal.waiting(console, f"sending the decision to {self._run_id}"),
            server.hint_without_worker(connection.client, described.task_queue, console),
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
        """Return the request to decide; the run itself refuses a request that is settled."""
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
