"""A run as people see it in the Temporal UI and in the answers to queries.

Activity summaries, current details in Markdown, search attributes, and the answers to queries, all
made from the state. Text from outside is escaped in Markdown.
"""

import json
from datetime import UTC, datetime

from outlast import rendering
from outlast.contract import names
from outlast.contract.blobs import readable
from outlast.contract.effects import kind_of
from outlast.contract.searchability import searchable
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.effects import Effect
from outlast.loop.items import Item, text_of
from outlast.loop.state import LoopState, released
from outlast.loop.values import JsonObject
from outlast.rendering import LONGEST_READ, call_line, code, excerpt, inline, inline_within

SUMMARY_BYTES = 200
"""The UI shows summaries up to about this length."""

EXCERPT_ITEMS = 6
EXCERPT_LENGTH = 300
DECIDED_LENGTH = 2_000
"""How much of a call's arguments the details show while it waits for approval."""

TRANSCRIPT_ITEM_BYTES = 4_000
"""Items in the answer to the query `transcript` are cut to this: a payload is limited to 2 MB."""


def attributes(state: LoopState) -> dict[str, str | int | None]:
    """Return the search attributes of a state; None for an unset one.

    The status says what an open run waits for. For running and ended runs, Temporal's own
    `ExecutionStatus` suffices, without another event in each history.
    """
    waits = state.status in {"waiting", "blocked", "idle"}
    return {
        names.ATTRIBUTE_AGENT: searchable(state.agent),
        names.ATTRIBUTE_STATUS: state.status if waits else None,
        names.ATTRIBUTE_APPROVALS: len(state.pending_approvals),
    }


def summary(state: LoopState, effect: Effect) -> str:
    """Return one line in Markdown that describes an activity, for the UI's timeline."""
    return inline_within(effect_line(state, effect), SUMMARY_BYTES)


def effect_line(state: LoopState, effect: Effect) -> str:
    """Return one line that describes an effect, uncut and unescaped."""
    return kind_of(effect).line(state, effect)


def state_view(state: LoopState) -> JsonObject:
    """Return the answer to the query `state`: small, however long the run."""
    return {
        "status": state.status,
        "phase": state.phase,
        "agent": state.agent,
        "model": state.model,
        "turn": state.question.turn,
        "turns": state.turns,
        "handoff_path": list(state.handoff_path),
        "items": len(state.items),
        "waiting_messages": [message.id for message in state.inbox],
        "pending_approvals": [request.id for request in state.pending_approvals],
        "running": [
            {"effect": effect.effect, "what": excerpt(effect_line(state, effect))}
            for effect in state.pending
        ],
        "blocked": [
            {"effect": one.effect, "since": _time(one.at_ms), "lacks": one.lacks}
            for one in state.blocked
        ],
        "final_output": state.final_output,
        "failure": None
        if state.failure is None
        else {"code": state.failure.code, "message": state.failure.message},
        "unsaved": None
        if state.saving.save_failure is None
        else {
            "since": _time(state.saving.save_failure.at_ms),
            "items": unsaved_items(state),
            "problem": state.saving.save_failure.failure.message,
        },
        "context": state.context,
        "usage": {
            "requests": state.usage.requests,
            "input_tokens": state.usage.input_tokens,
            "output_tokens": state.usage.output_tokens,
            "total_tokens": state.usage.total_tokens,
        },
        "ignored": [
            {"at_ms": one.at_ms, "what": one.what, "why": one.why} for one in state.ignored
        ],
    }


def transcript_view(state: LoopState, last: int = 200) -> list[JsonObject]:
    """Return the answer to the query `transcript`: the newest items, formatted for people."""
    return [_item_view(item) for item in state.items[: released(state)][-last:]]


def approvals_view(state: LoopState) -> list[JsonObject]:
    """Return the answer to the query `approvals`: the pending requests."""
    return [_approval_view(state, request) for request in state.pending_approvals]


def details(state: LoopState) -> str:
    """Return the current details in Markdown: the run's status, and a person's next step."""
    path = " → ".join(inline(agent) for agent in state.handoff_path)
    lines = [
        f"**{state.status}** · {path} · turn {state.question.turn} of {state.start.max_turns or 'any'}"
    ]
    if state.failure is not None:
        message = code(state.failure.message, EXCERPT_LENGTH)
        lines.append(f"Not answered: {code(state.failure.code)} {message}")
    lines.extend(
        f"Blocked since {_time(one.at_ms)}: no worker can go on: "
        f"{code(one.lacks, EXCERPT_LENGTH)}. The run goes on when such a worker starts."
        for one in state.blocked
    )
    if state.saving.save_failure is not None:
        trouble = state.saving.save_failure
        lines.append(
            f"{unsaved_items(state)} items are not saved in the session since "
            f"{_time(trouble.at_ms)}: "
            f"{code(trouble.failure.code)} {code(trouble.failure.message, EXCERPT_LENGTH)}. "
            "The next message retries."
        )
    lines.extend(_to_decide(state, request) for request in state.pending_approvals)
    lines.extend(
        f"- {inline(_who(item))}: {code(_text(item), EXCERPT_LENGTH)}"
        for item in state.items[: released(state)][-EXCERPT_ITEMS:]
    )
    calls = "1 model call" if state.usage.requests == 1 else f"{state.usage.requests} model calls"
    lines.append(f"{state.usage.total_tokens} tokens in {calls}.")
    return "\n\n".join(lines)


def _to_decide(state: LoopState, request: ApprovalRequest) -> str:
    run = request.run_id or state.run_id
    where = f" (in the nested run {code(run)})" if request.run_id else ""
    whole = len(request.arguments) <= LONGEST_READ
    shown = rendering.arguments_text(request.arguments) if whole else request.arguments
    command = rendering.command("approve", run, request.id)
    decision = json.dumps({"request_id": request.id, "type": "approve"})
    rest = "" if len(shown) <= DECIDED_LENGTH else "The query `approvals` has them in full. "
    return (
        f"Waiting for approval: {code(request.name)} with the arguments "
        f"{code(shown, DECIDED_LENGTH)}, called by {inline(request.agent)}{where}. {rest}Signal "
        f'`decide` with {code(decision)} or `"reject"`, or run {code(command)}.'
    )


def unsaved_items(state: LoopState) -> int:
    """Return the number of items that are queued for the session."""
    return sum(one.stop - one.start - len(one.dropped) for one in state.saving.to_save)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _item_view(item: Item) -> JsonObject:
    whole = _text(item)
    text = rendering.cut(whole, _characters_in(whole, TRANSCRIPT_ITEM_BYTES))
    return {"kind": item.kind, "who": _who(item), "turn": item.turn, "text": text}


def _who(item: Item) -> str:
    return item.agent or str(item.raw.get("role", "user"))


def _text(item: Item) -> str:
    raw = item.raw
    match item.kind:
        case "tool_call" | "handoff_call":
            return call_line(name_of(raw), arguments_of(raw))
        case "tool_output" | "handoff_output":
            output = readable(raw.get("output"))
            return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        case _:
            return text_of(raw)


def _approval_view(state: LoopState, request: ApprovalRequest) -> JsonObject:
    return {
        "schema_version": names.SCHEMA_VERSION,
        "id": request.id,
        "kind": request.kind,
        "run_id": request.run_id or state.run_id,
        "agent": request.agent,
        "handoff_path": list(request.handoff_path),
        "tool_call_id": request.call_id,
        "name": request.name,
        "arguments": request.arguments,
        "args_digest": request.args_digest,
        "reason": request.reason,
        "requested_at_ms": request.requested_at_ms,
        "allowed_decisions": ["approve", "reject"],
    }


def _characters_in(text: str, limit_bytes: int) -> int:
    # A character has at least one byte, so later characters cannot fit.
    data = text[: limit_bytes + 1].encode(errors="replace")[:limit_bytes]
    return len(data.decode(errors="ignore"))
