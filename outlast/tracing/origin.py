"""Where a trace's spans come from: the run, the question and the agent."""

from typing import NamedTuple


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
