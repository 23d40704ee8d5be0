"""The run of a session: found or started when the session opens, and left with it."""

from dataclasses import dataclass, replace
from typing import Any

from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.agents.errors import RunAlreadyStarted, RunNotFound
from outlast.agents.registry import Registry
from outlast.client.handle import RunHandle
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.start.run_host import RunHost
from outlast.client.start.runner import NewRun, start_run
from outlast.client.start.same_run import has_other_owner, start_digest
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
        """Find or start the run."""
        self.handle = handle = await self.host.handle(self.id, self.definitions)
        if not await self._is_open(handle):
            await self._start(handle)
        return handle

    async def _is_open(self, handle: RunHandle) -> bool:
        """Whether the run exists and is open; then it is hosted here, if runs are."""
        if not self.is_named:
            return False
        try:
            description = await handle.check()
        except RunNotFound:
            return False
        if description.close_time is not None:
            return False
        digest = await description.memo_value(names.MEMO_INPUT_DIGEST, "")
        if has_other_owner(digest, start_digest(self.record, self.tenant)):
            raise RunAlreadyStarted(
                f"The id {self.id!r} is in use by a run of another tenant or customer. Choose "
                "another id."
            )
        await self.host.follow(handle, description)
        return True

    async def _start(self, handle: RunHandle) -> None:
        new = NewRun(
            id=self.id,
            record=replace(self.record, settings=join_current_trace(self.record.settings)),
            queue=await self.host.queue(),
            tenant=self.tenant,
        )
        try:
            reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE
            await start_run(handle.client, new, reuse, self.host.patience, self.host.has_begun)
        except WorkflowAlreadyStartedError:  # by another process, at the same moment
            await self._is_open(handle)

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
