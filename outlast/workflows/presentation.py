"""What people see of a run in the Temporal UI.

Owns: the summaries of activities, the Markdown of the current details, the search attributes,
and the answers to the queries. Everything is made from the state. Must not know: how it is shown.
"""

import json
from functools import lru_cache
from typing import Any, cast

from outlast.contract import names
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.commands import (
    CallModel,
    CheckInput,
    Conclude,
    Effect,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.items import Item, text_of
from outlast.loop.state import RunState
from outlast.loop.values import JsonObject

SUMMARY_BYTES = 200
"""The UI shows summaries up to about this length."""

KEPT_LINE_LENGTH = 2_000
"""How long a call may be whose line is kept for the next time, so that all of them stay small."""

EXCERPT_ITEMS = 6
EXCERPT_BYTES = 300
TRANSCRIPT_ITEM_BYTES = 4_000
"""Items are cut to this in the query `transcript`, whose answer may have 2 MB."""


def attributes(state: RunState) -> dict[str, str | int]:
    """Return the search attributes of a state."""
    return {
        names.ATTRIBUTE_AGENT: state.agent,
        names.ATTRIBUTE_STATUS: state.status,
        names.ATTRIBUTE_APPROVALS: len(state.pending_approvals),
    }


def summary(state: RunState, effect: Effect) -> str:
    """Return one line that says what an activity does, for the UI's timeline."""
    match effect:
        case PrepareRun():
            text = f"{effect.agent} · look up"
        case CallModel():
            model = f" · {state.model}" if state.model else ""
            text = f"{effect.agent}{model} · turn {effect.turn}"
        case CheckInput():
            text = f"{effect.agent} · input guardrails"
        case Conclude():
            text = f"{effect.agent} · conclude the answer"
        case SaveSession():
            text = f"save items {effect.start} to {effect.stop}"
        case RunTool() | RunAgent():
            text = call_line(effect.name, effect.arguments)
        case RunHandoff():
            text = f"{effect.agent} → {effect.target}"
    return _shortened(text, SUMMARY_BYTES)


def call_line(name: str, arguments: str) -> str:
    """Return a call as a line of code: `refund_order(order_id="A-17")`."""
    if len(arguments) > KEPT_LINE_LENGTH:
        return _line_of_code(name, arguments)
    return _kept_line_of_code(name, arguments)


def _line_of_code(name: str, arguments: str) -> str:
    try:
        fields: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return f"{name}({arguments})"
    shown = ", ".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in cast("dict[str, Any]", fields).items()
    )
    return f"{name}({shown})"


_kept_line_of_code = lru_cache(maxsize=1_000)(_line_of_code)
"""The newest calls of a run are shown again after each of its steps."""


def state_view(state: RunState) -> JsonObject:
    """Return the answer to the query `state`: small, whatever the length of the run."""
    return {
        "status": state.status,
        "phase": state.phase,
        "agent": state.agent,
        "model": state.model,
        "turn": state.turn,
        "turns": state.turns,
        "handoff_path": list(state.handoff_path),
        "items": len(state.items),
        "waiting_messages": [message.id for message in state.inbox],
        "pending_approvals": [request.id for request in state.pending_approvals],
        "running": [
            {"effect": effect.effect, "what": summary(state, effect)} for effect in state.pending
        ],
        "final_output": state.final_output,
        "failure": None
        if state.failure is None
        else {"code": state.failure.code, "message": state.failure.message},
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


def transcript_view(state: RunState, last: int = 200) -> list[JsonObject]:
    """Return the answer to the query `transcript`: the newest items, as people read them."""
    return [_item_view(item) for item in state.items[-last:]]


def approvals_view(state: RunState) -> list[JsonObject]:
    """Return the answer to the query `approvals`: what people still have to decide."""
    return [_approval_view(state, request) for request in state.pending_approvals]


def details(state: RunState) -> str:
    """Return the current details in Markdown: where the run is, and what a person can do."""
    path = " → ".join(state.handoff_path)
    lines = [f"**{state.status}** · {path} · turn {state.turn} of {state.max_turns or 'any'}"]
    if state.failure is not None:
        message = _shortened(state.failure.message, EXCERPT_BYTES)
        lines.append(f"Not answered: `{state.failure.code}` {message}")
    for request in state.pending_approvals:
        call = _shortened(call_line(request.name, request.arguments), EXCERPT_BYTES)
        run = request.run_id or state.run_id
        where = f" (in the nested run `{run}`)" if request.run_id else ""
        lines.append(
            f"Waits for a person: `{call}` asked by {request.agent}{where}. Signal `decide` with "
            f'`{{"request_id": "{request.id}", "type": "approve"}}` or `"reject"`, or '
            f"`outlast approve {run} {request.id}`."
        )
    lines.extend(
        f"- {_who(item)}: {_shortened(_text(item), EXCERPT_BYTES)}"
        for item in state.items[-EXCERPT_ITEMS:]
    )
    lines.append(f"{state.usage.total_tokens} tokens in {state.usage.requests} model calls.")
    return "\n\n".join(lines)


def _item_view(item: Item) -> JsonObject:
    text = _shortened(_text(item), TRANSCRIPT_ITEM_BYTES)
    return {"kind": item.kind, "who": _who(item), "turn": item.turn, "text": text}


def _who(item: Item) -> str:
    return item.agent or str(item.raw.get("role", "user"))


def _text(item: Item) -> str:
    raw = item.raw
    match item.kind:
        case "tool_call" | "handoff_call":
            return call_line(name_of(raw), arguments_of(raw))
        case "tool_output" | "handoff_output":
            output = raw.get("output")
            return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        case _:
            return text_of(raw)


def _approval_view(state: RunState, request: ApprovalRequest) -> JsonObject:
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


def _shortened(text: str, limit_bytes: int) -> str:
    # A character has a byte at least: what is beyond them all need not be looked at.
    data = text[: limit_bytes + 1].encode(errors="replace")
    if len(data) <= limit_bytes:
        return data.decode()
    return data[: limit_bytes - 3].decode(errors="ignore") + "…"
