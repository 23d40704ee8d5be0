"""The agent of each run, for programs with several agents of one name.

A program may create an agent for each request, with the same name but other instructions and tools.
So a run keeps the objects with which it was started or last resumed.
"""

from collections import Counter
from contextvars import Context
from typing import Any, Final
from weakref import WeakValueDictionary

from outlast.agents.agent import Agent
from outlast.agents.registry import OfRun, Registry

KEPT_UNATTENDED: Final = 1000
"""How many runs that nothing awaits keep their agents."""


class RunDefinitions:
    """The agents of the runs of one worker.

    A run without its own definitions uses the newest agents of the registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: WeakValueDictionary[int, Registry] = WeakValueDictionary()
        self._newest: dict[str, Agent[Any]] = {}
        self._context_types: dict[type[Any], None] = {}
        self._attended: Counter[str] = Counter()
        self._unattended: dict[str, None] = {}

    def attend(
        self,
        run_id: str,
        agent: Agent[Any],
        context_type: type[Any] | None = None,
        caller: Context | None = None,
    ) -> None:
        """Set a run's agent, and keep it while the run is awaited.

        Raises:
            UserError: the agent, or an agent that it refers to, cannot be registered.
        """
        own = self._registry_of(agent)
        if not self._registry.holds(agent):
            self._registry.replace(agent)
        self._newest.pop(agent.name, None)
        self._newest[agent.name] = agent
        if context_type is not None:
            self._context_types[context_type] = None
            own.add_context_type(context_type)
            self._registry.add_context_type(context_type)
        self._registry.keep_for_run(run_id, OfRun(own, caller))
        self._attended[run_id] += 1
        self._unattended.pop(run_id, None)

    def move_to(self, registry: Registry) -> None:
        """Use the registry of the worker that replaces the previous one."""
        for agent in self._newest.values():
            if not registry.holds(agent):
                registry.replace(agent)
        for context_type in self._context_types:
            registry.add_context_type(context_type)
        for run_id in (*self._attended, *self._unattended):
            own = self.of_run(run_id)
            if own is not None:
                registry.keep_for_run(run_id, own)
        self._registry = registry

    def of_run(self, run_id: str) -> OfRun | None:
        """Return what belongs to a run, or None."""
        found = self._registry.of_run(run_id)
        return None if found.registry is self._registry else found

    def keep(self, run_id: str, own: OfRun) -> None:
        """Restore what belongs to a run."""
        self._registry.keep_for_run(run_id, own)
        if run_id not in self._attended:
            self._unattended[run_id] = None

    def leave(self, run_id: str, *, ended: bool = False) -> None:
        """Stop waiting for a run.

        A run that has `ended` no longer needs its agent.
        """
        self._attended[run_id] -= 1
        if self._attended[run_id] > 0:
            return
        del self._attended[run_id]
        if ended:
            self._registry.forget_run(run_id)
            return
        self._unattended[run_id] = None
        if len(self._unattended) > KEPT_UNATTENDED:
            oldest = next(iter(self._unattended))
            del self._unattended[oldest]
            self._registry.forget_run(oldest)

    def _registry_of(self, agent: Agent[Any]) -> Registry:
        """Return the registry for an agent object; runs with the same object share it."""
        found = self._made.get(id(agent))
        if found is None or not found.holds(agent):
            found = self._made[id(agent)] = Registry([agent], tell_apart=True)
        return found
