"""Texts that the model or the user reads where no user code provides one."""

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
    """Return the output of a handoff, in the usual format of this field."""
    return json.dumps({"assistant": target}, ensure_ascii=False)


def as_text(output: Json) -> str:
    """Return a tool output as text for the model."""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def tool_failed(name: str, code: str) -> str:
    """Return the output of a tool that failed for good, without internals."""
    if code == "tool_timeout":
        return f"The tool {name} did not finish in time."
    return f"The tool {name} failed and cannot be used right now."


def conversation_full(run_id: str) -> str:
    """Return the message of a run whose history and state are full."""
    return (
        f"The history of run {run_id} is full, and its state is too large to continue in a new "
        "history. The run stays readable. Start a new run, and configure a blob store for workers "
        "and clients (blob_store=, OUTLAST_BLOB_STORE), so that large content is stored outside."
    )


def turns_used_up(max_turns: int) -> str:
    """Return the message of a run that used up its turns."""
    return (
        f"The run made {max_turns} model calls and has no answer yet. Raise max_turns, or look at "
        "the transcript for a loop between tools or agents."
    )
