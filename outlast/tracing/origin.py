"""Where a trace's spans come from: the run, the question and the agent."""

from collections import OrderedDict
from typing import Final, NamedTuple

from outlast.edges.newest import keep_newest


class Origin(NamedTuple):
    """The origin of a span.

    Attributes:
        run_id: the run.
        root_id: the outermost run, whose agents called the run; the run itself if there is none.
        question: how many questions of the run were settled before.
        agent: the agent at work.
        execution: Temporal's run id of the execution; empty in memory.
        attempt: the number of the attempt of an effect; 0 for stages of the run.
        tenant: the tenant of the run; empty without one.
        customer: the id of the person for whom the run works; empty if nobody says.
        caller: the `traceparent` of the program that started the run; empty without one.
        queued_seconds: how long the attempt waited for a worker, if the engine says so.
    """

    run_id: str
    root_id: str
    question: int = 0
    agent: str = ""
    execution: str = ""
    attempt: int = 0
    tenant: str = ""
    customer: str = ""
    caller: str = ""
    queued_seconds: float | None = None


MOST_TENANTS: Final = 10_000
"""How many executions a process remembers the tenant of."""

_TENANTS: Final[OrderedDict[str, str]] = OrderedDict()


def remember_tenant(execution: str, tenant: str) -> None:
    """Remember the tenant of an execution whose workflow tasks run in this process."""
    if tenant and _TENANTS.get(execution) != tenant:
        keep_newest(_TENANTS, execution, tenant, MOST_TENANTS)


def tenant_of(execution: str) -> str:
    """Return the tenant of an execution; empty if it has none, or none that is remembered."""
    return _TENANTS.get(execution, "")
