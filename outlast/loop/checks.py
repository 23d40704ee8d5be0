"""What guardrails found, and what becomes of an answer that is not yet given.

Owns: the records of checks (`GuardrailRecord`, `CheckResult`), the answer that waits for its
conclusion (`Candidate`) and the conclusion itself. Must not know: guardrails, hooks or handlers;
they are user code.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from outlast.loop.changes import Change
from outlast.loop.values import Failure, Json, JsonObject

CheckStage: TypeAlias = Literal["blocking", "parallel", "added"]
"""Input is checked before the model is asked, or meanwhile; what is added later is checked alone."""

GuardrailStage: TypeAlias = Literal["input", "output", "tool_input", "tool_output"]

RequiredStep: TypeAlias = Literal["check_first", "check", "finalize_answer", "check_output"]
"""What an agent's definition requires besides its model calls: input guardrails before the first
model call (`check_first`) or beside it (`check`); end hooks and the like before an answer counts
(`conclude`), output guardrails among them (`check_output`)."""

INPUT_CHECKS: Final[frozenset[RequiredStep]] = frozenset({"check_first", "check"})


ENDS_CALLER = "ends_caller"
"""In the details of a nested run's failure: it is none that the outer model is told of, whatever the
plan of the call says, because a guardrail of the tool ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailRecord:
    """What one guardrail said.

    Attributes:
        stage: what it looked at.
        name: the guardrail's name.
        agent: the agent it was run for.
        info: its `output_info`.
        tripped: whether its tripwire was triggered.
        tool: the tool whose call it looked at.
        call_id: the id of that call.
        behavior: what a tool guardrail wants done.
        output: what an output guardrail looked at.
    """

    stage: GuardrailStage
    name: str
    agent: str = ""
    info: Json = None
    tripped: bool = False
    tool: str = ""
    call_id: str = ""
    behavior: JsonObject | None = None
    output: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What the input guardrails came to, in the order in which they completed.

    `failure` is a tripwire, or what a guardrail raised; the question is then not answered.
    """

    results: tuple[GuardrailRecord, ...] = ()
    failure: Failure | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What one tool call of a reply came to, for a rule that decides whether it is the answer."""

    name: str
    call_id: str
    output: Json = None
    value: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An answer that is not given yet, or a failure that may still become one.

    Attributes:
        output: the answer, if it stays as it is.
        item: the index of the item that holds its text.
        outcomes: the tool calls that a rule has to judge.
        failure: what a handler may turn into an answer.
        tool_made: the answer is the output of a tool.
    """

    output: Json = None
    item: int | None = None
    outcomes: tuple[ToolOutcome, ...] = ()
    failure: Failure | None = None
    tool_made: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedAnswer:
    """What became of a candidate.

    Attributes:
        final: whether it is an answer at all; if not, the model goes on.
        output: the answer that takes its place, where `replaced`.
        replaced: whether `output` counts.
        message: a message for the transcript that says the answer.
        declined: no handler wanted the failure; it stands.
        results: what the output guardrails said.
        failure: why there is no answer: a tripwire, or what user code raised.
        withheld: what stands in a session instead of a blocked tool output.
        changes: what callables changed in the context.
    """

    final: bool = True
    output: Json = None
    replaced: bool = False
    message: JsonObject | None = None
    declined: bool = False
    results: tuple[GuardrailRecord, ...] = ()
    failure: Failure | None = None
    withheld: str | None = None
    changes: tuple[Change, ...] = ()
