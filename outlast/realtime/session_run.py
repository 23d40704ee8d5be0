"""The run of a session: found or started when the session opens, and left with it."""

from dataclasses import dataclass, replace
from typing import Any

from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.agents.errors import RunAlreadyStarted
from outlast.agents.registry import Registry
from outlast.client.handle import RunHandle
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.start.run_host import RunHost
from outlast.client.start.runner import NewRun, start_run
from outlast.client.start.same_run import has_other_owner
from outlast.client.start.tenant import Tenant
from outlast.contract import names, records
from outlast.loop.values import Json
from outlast.tracing.provider import join_current_trace
from outlast.views.run import AnyState, loop_state


@dataclass(kw_only=True)
class SessionRun:
    """The run of one session: found or started when the session opens, and left with it.

    `registry` closes the MCP servers of this process; None if its worker does.
    """

    id: str
    is_named: bool
    record: records.RunInput
    definitions: LocalDefinitions
    host: RunHost
    context: Any
    registry: Registry | None
    tenant: Tenant | None
    handle: RunHandle | None = None

    async def open(self) -> RunHandle:
        """Start the run, or join the open one with the id."""
        self.handle = handle = await self.host.handle(self.id, self.definitions)
        new = NewRun(
            id=self.id,
            record=replace(self.record, settings=join_current_trace(self.record.settings)),
            queue=await self.host.queue(),
            tenant=self.tenant,
        )
        reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE
        try:
            await start_run(handle.client, new, reuse, self.host.patience, self.host.has_begun)
        except WorkflowAlreadyStartedError:
            description = await handle.check()
            digest = await description.memo_value(names.MEMO_INPUT_DIGEST, "")
            if has_other_owner(digest, new.digest):
                raise RunAlreadyStarted(
                    f"The id {self.id!r} is in use by a run of another tenant or customer. Choose "
                    "another id."
                ) from None
            await self.host.follow(handle, description)
        return handle

    def read_context(self, value: Json) -> Any:
        """Return the run's context: the program's own object, brought up to date."""
        if self.context is None:
            return self.definitions.context(value)
        self.definitions.update_context(value)
        return self.context

    async def leave(self, run: AnyState) -> None:
        """Leave the run; one that nobody can find again ends if nothing is pending."""
        state = loop_state(run)
        try:
            if self.handle is not None and not self.is_named and state.phase == "idle":
                await self.handle.cancel("after_turn")
        finally:
            if self.registry is not None:  # otherwise this process's worker closes them
                await self.registry.release()
            self.host.release(ended=state.outcome is not None)
            self.host.__exit__(None, None, None)
