"""Texts that the model or the user reads where no user code provides one."""

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from outlast.loop.values import Json

MOST_FIELDS: Final = 5
LONGEST_FIELD: Final = 100
"""The bounds of a note about fields of a context, whose keys may be any text."""

CANCELLED = "This call was cancelled and did not run to its end."
NOT_RUN = "This call was not run, because the run could not go on."
NOT_RUN_NOW = (
    "This call was not run, because something else had to end first. Call again if it is needed."
)
STOPPED = "The run was cancelled."
REJECTED = "A person decided that this call must not run."
EXPIRED = "This call was not run: it needed a person's approval, and nobody decided in time."
EDITED_ELSEWHERE = (
    "This call must not run: a person wants other arguments, which only you can send."
)
SUPERSEDED = "This call was not run, because the user said something else meanwhile."
STOPPED_WAITING = (
    "This call was stopped while it waited, because the user said something else meanwhile. What it "
    "had begun may take effect."
)
ANSWER_EXPIRED = "nobody decided about it in time."
ANSWER_SUPERSEDED = "the user said something else meanwhile."
WITHHELD = "[This output was withheld by a guardrail.]"
UNCHECKED = "[This output is withheld: not all guardrails could check it.]"
OFF_IN_FORK = "This call was not run: the conversation is a copy for a trial, in which this tool is switched off."
THREAD_LOST = "The provider does not have it any more: the model reads the conversation anew."
EARLIER_PART_LOST = (
    "[What was said before this conversation began here is no longer available: the model provider "
    "does not have it any more.]"
)
CALL_LEFT_OUT = "Left out: the model provider did not take it."
OUTPUT_LEFT_OUT = "This call ran. Its result cannot be shown: the model provider did not take it."
HANDOFF_IGNORED = "This handoff was ignored: a reply can hand over to one agent only."


def left_out(what: str) -> str:
    """Return what the model reads in place of what its provider refused, such as `an image`."""
    return f"[Here was {what}. It was left out, because the model provider did not take it.]"


def no_model_answered(tried: Sequence[str], last: str) -> str:
    """Return why none of an agent's models answered; the last one has the whole message."""
    return f"No model answered ({'; '.join(tried)}). The last one: {last}"


def handed_over(target: str) -> str:
    """Return the output of a handoff, in the usual format of this field."""
    return json.dumps({"assistant": target}, ensure_ascii=False)


def as_text(output: Json) -> str:
    """Return a tool output as text for the model."""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def edited(output: Json, arguments: str, why: str | None = None) -> Json:
    """Return the output of a call that ran with a person's arguments, which the model reads first."""
    reason = f"The reason: {why}\n" if why else ""
    note = (
        f"A person changed the arguments of this call to {arguments} before it ran. "
        f"{reason}Its output:"
    )
    if isinstance(output, str):
        return f"{note}\n{output}"
    whole: list[Any] = [{"type": "input_text", "text": output}]
    parts = cast("list[Any]", output) if isinstance(output, list) else whole
    return [{"type": "input_text", "text": note}, *parts]


def clash(name: str, paths: Sequence[Sequence[str]]) -> str:
    """Return the note for people about a call that replaced what another one had set."""
    fields = ", ".join(repr(".".join(path))[:LONGEST_FIELD] for path in paths[:MOST_FIELDS])
    more = f" and {len(paths) - MOST_FIELDS} more" if len(paths) > MOST_FIELDS else ""
    return (
        f"{name} and another call, which ran beside it in another worker, both set {fields}{more} "
        "in the context; the value of the later call of the reply counts."
    )


def answer_rejected(message: str | None) -> str:
    """Return the note for a model after its answer was not approved."""
    why = f": {message}" if message else "."
    return f"Your last answer was not approved, and the user has not seen it{why} Answer anew."


def no_screenshot(call_id: str, text: str, *, ran: bool) -> str:
    """Return the note for a model about a computer call whose output is a text."""
    outcome = "has no screenshot" if ran else "was not run"
    return f"The computer call {call_id} {outcome}, so its image is empty: {text}"


def asked_back(by: str, question: str) -> str:
    """Return what a model reads where a person asks something before they decide."""
    return (
        f"{by or 'A person'} of the team has not decided about this yet, and asks: {question} "
        "Answer the question, or ask the user. Then try again, if it is still right."
    )


def taken_over(by: str) -> str:
    """Return the note for a model before the words of a person who has the conversation."""
    return (
        f"{by} of the team has taken the conversation over. The assistant messages from here on are "
        f"{by}'s words to the user, not yours, until a note says otherwise."
    )


def released(by: str, note: str, *, spoke: bool) -> str:
    """Return the note for a model after a person gives the conversation back.

    Args:
        by: the person.
        note: what the person writes to the model; may be empty.
        spoke: whether somebody of the team has said anything to the user.
    """
    did = "has talked with the user" if spoke else "had the conversation, said nothing to the user,"
    given = f"{by} of the team {did} and gives the conversation back to you"
    return f"{given}: {note}" if note else f"{given}."


def budget_used_up(budget: str, why: str | None) -> str:
    """Return the message of a question that has used up a budget."""
    said = f" {why}" if why else ""
    return f"The budget of {budget} is used up, and nobody extended it.{said}"


def approval_expired(request_id: str, name: str) -> str:
    """Return the message of a question that needed a person's decision."""
    return f"Nobody decided the approval {request_id} of {name} in time."


def blocked(lacks: str) -> str:
    """Return why people are asked about something that no worker can carry out."""
    return f"No worker can carry this out, and it waits for one that can. {lacks}"


def given_up(by: str | None, lacks: str, why: str | None) -> str:
    """Return the message of a question that needed something which no worker had."""
    said = f": {why}" if why else "."
    return f"{by or 'A person'} gave up waiting for a worker{said} {lacks}"


def tool_failed(name: str, code: str) -> str:
    """Return the output of a tool that failed for good, without internals."""
    if code == "tool_timeout":
        return f"The tool {name} did not finish in time."
    return f"The tool {name} failed and cannot be used right now."


def nothing_came(name: str) -> str:
    """Return why a call that waited for something outside of the run has no value."""
    return f"Nothing came for {name!r} in time."


def conversation_full(run_id: str) -> str:
    """Return the message of a run with a full history and state."""
    return (
        f"The history of run {run_id} is full, and its state is too large to continue in a new "
        "history. The run stays readable. Start a new run, and configure a blob store for workers "
        "and clients (blob_store=, OUTLAST_BLOB_STORE), so that large content is stored outside."
    )


def turns_used_up(max_turns: int) -> str:
    """Return the message of a run that used up its turns."""
    calls = "1 model call" if max_turns == 1 else f"{max_turns} model calls"
    return (
        f"Max turns ({max_turns}) exceeded: the run made {calls} and has no answer yet. Raise "
        "max_turns, or look at the transcript for a loop between tools or agents."
    )
