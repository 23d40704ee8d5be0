"""Results of guardrails, and the answer while it waits to be finalized.

The loop knows only these records; guardrails, hooks and handlers are user code.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from outlast.loop.changes import Change
from outlast.loop.values import Failure, Json, JsonObject

CheckStage: TypeAlias = Literal["blocking", "parallel", "added", "said"]
"""Input is checked before the model call or beside it; input added later is checked on its own, and
so is what a person says to the user (`said`), which output guardrails check."""

GuardrailStage: TypeAlias = Literal["input", "output", "tool_input", "tool_output"]

RequiredStep: TypeAlias = Literal[
    "check_first", "check", "finalize_answer", "check_output", "check_said"
]
"""What an agent's definition requires besides its model calls: input guardrails before the first
model call (`check_first`) or beside it (`check`); user code that finalizes an answer
(`finalize_answer`), such as end hooks, output guardrails (`check_output`), and those that also
judge what people say (`check_said`)."""

INPUT_CHECKS: Final[frozenset[RequiredStep]] = frozenset({"check_first", "check"})


ENDS_CALLER = "ends_caller"
"""A key in the details of a nested run's failure: a tool guardrail of the parent ended the nested
run, so the parent fails, whatever the plan of the call says."""

LACKS_APPROVAL = "lacks_approval"
"""A key in the details of a nested run's failure: the approval that its call needs and lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailRecord:
    """The result of one guardrail.

    Attributes:
        stage: what the guardrail checked.
        name: the guardrail's name.
        agent: the agent that the guardrail ran for.
        info: the guardrail's `output_info`.
        info_type: the name of its class; None for JSON.
        tripped: whether its tripwire was triggered.
        tool: the tool whose call was checked.
        call_id: the id of that call.
        behavior: the behavior that a tool guardrail chose.
        output: the answer that an output guardrail checked.
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
    info_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The results of the input guardrails, in the order in which they completed.

    `failure` is a tripwire or an error of a guardrail; the question then has no answer.
    """

    results: tuple[GuardrailRecord, ...] = ()
    failure: Failure | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """The result of one tool call, for the rule that decides whether it is the answer."""

    name: str
    call_id: str
    output: Json = None
    value: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An answer that is not final yet, or a failure that a handler may turn into an answer.

    Attributes:
        output: the answer, unless finalizing replaces it.
        item: the index of the item that holds its text.
        outcomes: the tool calls that a rule has to judge.
        failure: the failure that a handler may turn into an answer.
        tool_made: the answer is the output of a tool.
    """

    output: Json = None
    item: int | None = None
    outcomes: tuple[ToolOutcome, ...] = ()
    failure: Failure | None = None
    tool_made: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedAnswer:
    """The result of finalizing a candidate.

    Attributes:
        final: whether the candidate is an answer; if not, the model is called again.
        output: the replacement answer.
        replaced: whether `output` replaces the candidate's.
        message: a message item with the answer, for the transcript.
        declined: no handler took the failure, so the failure stands. An empty answer that no handler
            took is neither declined nor final: the model is called again.
        results: results of the output guardrails.
        failure: why there is no answer: a tripwire, or an error in user code.
        withheld: the text that replaces a blocked tool output in the session.
        changes: context changes made by user code.
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
