"""What the model is told about its calls, where no user code says it better.

Owns: the sentences. Plain English, no internals.
"""

import json

from outlast.loop.values import Json

CANCELLED = "This call was cancelled and did not run to its end."
NOT_RUN = "This call was not run, because the run could not go on."
STOPPED = "The run was cancelled."
REJECTED = "A person decided that this call must not run."
WITHHELD = "[This output was withheld by a guardrail.]"
UNCHECKED = "[This output is withheld: not all guardrails could check it.]"
HANDOFF_IGNORED = "This handoff was ignored: a reply can hand over to one agent only."


def handed_over(target: str) -> str:
    """Say that an agent took over, in the form that models of this field know."""
    return json.dumps({"assistant": target}, ensure_ascii=False)


def as_text(output: Json) -> str:
    """Return an answer as a model reads it."""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def tool_failed(name: str, code: str) -> str:
    """Say that a tool failed for good, without its internals."""
    if code == "tool_timeout":
        return f"The tool {name} did not finish in time."
    return f"The tool {name} failed and cannot be used right now."


def conversation_full(run_id: str) -> str:
    """Say that a run has no room for anything more, and what to do."""
    return (
        f"The run {run_id} holds more than one history can, and its state is too large to go on in "
        "a new one. It stays readable. Start a new run, and give workers and clients a blob store "
        "(blob_store=, OUTLAST_BLOB_STORE), so that large content is kept outside."
    )


def turns_used_up(max_turns: int) -> str:
    """Say that the turn budget is used up, and what to do."""
    return (
        f"The run made {max_turns} model calls and has no answer yet. Raise max_turns, or look at "
        "the transcript for a loop between tools or agents."
    )
