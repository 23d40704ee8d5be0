"""The scores of quality checks, as the index keeps them: no text of a run is among them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a quality check says of a run.

    Attributes:
        check: the quality check.
        run_id: the run.
        execution_id: its newest execution.
        agent: the agent that answered last.
        instructions: the beginning of the digest of its instructions; empty for none.
        score: 1 if the run passes, else 0.
        at_ms: when the run ended, in milliseconds since the epoch.
    """

    check: str
    run_id: str
    execution_id: str
    agent: str
    instructions: str
    score: int
    at_ms: int
