"""A run as people see it in the Temporal UI and in the answers to queries.

Activity summaries, current details in Markdown, search attributes, and the answers to queries, all
made from the state. Text from outside is escaped in Markdown.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from outlast.contract import names, policies
from outlast.contract.blobs import readable
from outlast.contract.effects import kind_of
from outlast.contract.searchability import searchable, searchable_list
from outlast.edges import rendering
from outlast.edges.rendering import (
    LONGEST_READ,
    call_line,
    code,
    counted,
    engine_summary,
    excerpt,
    inline,
    joined,
    named,
)
from outlast.loop import case_acts
from outlast.loop.approvals import ApprovalRequest, Risk, Vote
from outlast.loop.aside import Aside, aside_words
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.calls import Call, Parked
from outlast.loop.case import NO_CASE, Case
from outlast.loop.effects import Effect
from outlast.loop.events import (
    Event,
    LineAttached,
    MessageReceived,
    PersonActed,
    ValueDelivered,
)
from outlast.loop.human_actions import row_of
from outlast.loop.items import Item, text_of
from outlast.loop.outside import receipt_for
from outlast.loop.state import LoopState, line_of, visible_item_count
from outlast.loop.values import JsonObject
from outlast.loop.votes import audience_text, deadline_ms, next_due_ms
from outlast.views import words
from outlast.views.redaction import Redaction, redaction_of, shown_effect, shown_request
from outlast.views.run import AnyState, loop_state
from outlast.workflows.timeline import Wait

if TYPE_CHECKING:
    from outlast.views.proofs import Proof

EXCERPT_ITEMS = 6
EXCERPT_LENGTH = 300
SHOWN_IGNORED = 3
DECIDED_LENGTH = 2_000
"""How much of a call's arguments the details show while it waits for approval."""

LATEST_MS: Final = 7_258_118_400_000
"""The year 2200. Stores count nanoseconds in 64 bits, which ends in 2262."""

AttributeValue: TypeAlias = str | int | datetime | list[str] | None
Attributes: TypeAlias = dict[str, AttributeValue]

_RISKS: Final = get_args(Risk)
"""From the lowest to the highest."""

TRANSCRIPT_ITEM_BYTES = 4_000
"""Items in the answer to the query `transcript` are cut to this: a payload is limited to 2 MB."""


def attributes(state: LoopState) -> Attributes:
    """Return the search attributes of a state; None for an unset one.

    The status says what an open run waits for. For running and ended runs, Temporal's own
    `ExecutionStatus` suffices, without another event in each history.
    """
    status, pending = _status(state), state.pending_approvals
    return {
        names.ATTRIBUTE_AGENT: searchable(state.agent),
        names.ATTRIBUTE_STATUS: status if status in names.WAITING else None,
        names.ATTRIBUTE_APPROVALS: len(pending),
        names.ATTRIBUTE_WAITS_FOR: searchable(_waits_for(state, status)) or None,
        **(_attributes_of(pending) if pending else _NOBODY_ASKED),
        **(_NO_CASE if state.case is NO_CASE else _attributes_of_case(state.case)),
    }


def _attributes_of(pending: Sequence[ApprovalRequest]) -> Attributes:
    """Return the search attributes of waiting requests.

    They change where a request is made, settled, escalated or extended, and not with a reminder, a
    claim or a vote: each change is an event in the history.
    """
    audiences = [one for request in pending for one in request.audiences]
    people = [name for one in audiences for name in (*one.groups, *one.subjects)]
    if any(not audience_text(request.audiences) for request in pending):
        people.append(names.ANYBODY_MAY)
    due = [at_ms for request in pending if (at_ms := deadline_ms(request)) is not None]
    return {
        names.ATTRIBUTE_GROUPS: searchable_list(people, names.ANYBODY_MAY) or None,
        names.ATTRIBUTE_RISK: max(
            (one.terms.risk for one in pending), key=_RISKS.index, default=None
        ),
        names.ATTRIBUTE_DUE: _datetime(min(due)) if due else None,
    }


def _attributes_of_case(case: Case) -> Attributes:
    """Return the search attributes by which colleagues find the conversations that they share."""
    times = (case.due_ms, None if case.reply is None else case.reply.due_ms)
    due = [one for one in times if one is not None]
    return {
        names.ATTRIBUTE_TEAM: searchable(case.team) or None,
        names.ATTRIBUTE_ASSIGNEE: searchable(case.to) or None,
        names.ATTRIBUTE_TAGS: searchable_list(case.tags, names.MORE_TAGS) or None,
        names.ATTRIBUTE_CASE_DUE: _datetime(min(due)) if due else None,
        names.ATTRIBUTE_RATING: None if case.rating is None else case.rating.score,
    }


def _datetime(at_ms: int) -> datetime:
    """Return a time as servers can store it."""
    return datetime.fromtimestamp(min(at_ms, LATEST_MS) / 1000, UTC)


_NOBODY_ASKED: Final = _attributes_of(())
"""The search attributes of requests where none waits."""


_NO_CASE: Final = _attributes_of_case(NO_CASE)
"""The search attributes of a conversation that nobody has shared."""


def first_attributes(agent: str) -> Attributes:
    """Return the search attributes that the server has of a run that has just been started."""
    return {
        names.ATTRIBUTE_AGENT: searchable(agent),
        names.ATTRIBUTE_STATUS: None,
        names.ATTRIBUTE_APPROVALS: 0,
        names.ATTRIBUTE_WAITS_FOR: None,
        **_NOBODY_ASKED,
        **_NO_CASE,
    }


def _status(state: LoopState) -> str:
    """Return the status; `on_call` while people speak with the agent, and nobody else has to act."""
    status = state.status
    is_on_call = status in {"running", "idle"} and line_of(state) is not None
    return "on_call" if is_on_call else status


def waits_for(run: AnyState) -> str:
    """Return the reason why an open run waits; empty if it works."""
    state = loop_state(run)
    return _waits_for(state, _status(state))


def _waits_for(state: LoopState, status: str) -> str:
    match status:
        case "on_call":
            return "caller"
        case "waiting":
            tools = ", ".join(request.name for request in state.pending_approvals)
            return f"approval of {tools}"
        case "parked":
            return f"delivery of {', '.join(state.deliveries)}"
        case "held":
            return f"person: {state.hold.by}" if state.hold else ""
        case "blocked":
            return f"worker: {state.blocked[0].lacks}" if state.blocked else ""
        case "snoozed":
            return "its time"
        case "idle":
            return "message" if state.failure is None else f"retry: {state.failure.code}"
        case _:
            return ""


def waits(state: LoopState) -> list[Wait]:
    """Return the run's waits: for people, for a takeover's end, and for deliveries."""
    bars = [
        Wait(
            summary=engine_summary(_wait_line(request)),
            due_ms=next_due_ms(request),
        )
        for request in state.pending_approvals
        if not request.run_id and request.kind != "worker"  # a nested run shows its own
    ]
    bars += [
        Wait(summary=engine_summary(_parked_line(call, one)), due_ms=one.due_ms)
        for call, one in _parked(state)
    ]
    if state.hold is not None:
        line = joined("Held by ", named(state.hold.by or "a person"))
        bars.append(Wait(summary=engine_summary(line)))
    if (due := case_acts.due_ms(state)) is not None:
        line = "Resolved: ends unless somebody writes" if state.case.resolved_ms else "Snoozed"
        line = "A reply is due" if state.case.reply is not None else line
        bars.append(Wait(summary=engine_summary(line), due_ms=due))
    return bars


def _parked(state: LoopState) -> list[tuple[Call, Parked]]:
    """Return the calls that wait for a delivery, with what they wait for."""
    return [
        (one, one.parked)
        for one in state.calls
        if one.status == "parked" and one.parked is not None
    ]


def _parked_line(call: Call, parked: Parked) -> str:
    return joined("Waiting for ", named(parked.wait.name), ": ", named(call.name))


def _wait_line(request: ApprovalRequest) -> str:
    """Return the same line for requests of the same kind, which then have one bar together."""
    people = audience_text(request.audiences)
    whom = joined(" by ", named(people)) if people else ""
    line = words.request_line(request) if request.kind == "budget" else named(request.name)
    return joined("Waiting for approval", whom, ": ", line)


def summary(state: LoopState, effect: Effect) -> str:
    """Return one line in Markdown that describes an activity, for the UI's timeline."""
    lacks = next((one.lacks for one in state.blocked if one.effect == effect.effect), "")
    line = effect_line(state, effect)
    if lacks:
        line = joined("Waiting for a worker: ", lacks, " · ", line)
    return engine_summary(line)


def notices_summary(run_id: str) -> str:
    """Return one line in Markdown that describes the delivery of a run's last notices."""
    return engine_summary("Notices at the end of ", run_id)


def effect_line(state: LoopState, effect: Effect) -> str:
    """Return one line that describes an effect, uncut and unescaped."""
    return kind_of(effect).line(state, shown_effect(state, effect))


def doing(run: AnyState) -> list[str]:
    """Return what a run does now, a line for each effect, uncut and unescaped."""
    state = loop_state(run)
    return [effect_line(state, effect) for effect in state.pending]


def state_view(run: AnyState) -> JsonObject:
    """Return the answer to the query `state`: small, however long the run."""
    state = loop_state(run)
    hides = redaction_of(state)
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
        "parked": [
            {
                "call_id": call.call_id,
                "tool": call.name,
                "waits_for": parked.wait.name,
                "since": _time(parked.since_ms),
                "until": None if parked.ends_ms is None else _time(parked.ends_ms),
            }
            for call, parked in _parked(state)
        ],
        "blocked": [
            {"effect": one.effect, "since": _time(one.at_ms), "lacks": one.lacks}
            for one in state.blocked
        ],
        "final_output": hides.json(state.final_output),
        "failure": None
        if state.failure is None
        else {"code": state.failure.code, "message": hides.text(state.failure.message)},
        "unsaved": None
        if state.saving.save_failure is None
        else {
            "since": _time(state.saving.save_failure.at_ms),
            "items": unsaved_items(state),
            "problem": state.saving.save_failure.failure.message,
        },
        "context": hides.json(state.context),
        "usage": {
            "requests": state.usage.requests,
            "input_tokens": state.usage.input_tokens,
            "output_tokens": state.usage.output_tokens,
            "total_tokens": state.usage.total_tokens,
            "cached_tokens": state.usage.cached_tokens,
            "reasoning_tokens": state.usage.reasoning_tokens,
        },
        "held_by": None if state.hold is None else state.hold.by,
        "set_aside": [_aside_view(one, hides) for one in state.aside],
        "ignored": [
            {"at_ms": one.at_ms, "what": one.what, "why": hides.text(one.why)}
            for one in state.ignored
        ],
    }


def _aside_view(one: Aside, hides: Redaction) -> JsonObject:
    return {
        "item": one.item,
        "part": one.part,
        "by": one.by,
        "at_ms": one.at_ms,
        "reason": hides.text(one.reason),
    }


def transcript_view(run: AnyState, last: int = 200) -> list[JsonObject]:
    """Return the answer to the query `transcript`: the newest items, formatted for people."""
    state = loop_state(run)
    hides = redaction_of(state)
    items = tuple(enumerate(state.items[: visible_item_count(state)]))
    return [{"item": at, **_item_view(item, hides)} for at, item in items[-last:]]


def approvals_view(state: LoopState) -> list[JsonObject]:
    """Return the answer to the query `approvals`: the pending requests."""
    pending = (shown_request(one, state) for one in state.pending_approvals)
    return [approval_view(state.run_id, request) for request in pending]


def details(state: LoopState) -> str:
    """Return the current details in Markdown: the run's status, and a person's next step."""
    hides = redaction_of(state)
    path = " → ".join(inline(agent) for agent in state.handoff_path)
    turn = f"turn {state.question.turn} of {state.start.max_turns or 'any'}"
    if state.question.turn == 0:  # between two questions, or after the last one
        turn = counted(state.turns, "turn")
    lines = [f"**{state.status}** · {path} · {turn}"]
    if state.failure is not None:
        message = code(hides.text(state.failure.message), EXCERPT_LENGTH)
        lines.append(f"Not answered: {code(state.failure.code)} {message}")
    lines.extend(
        f"Blocked since {_time(one.at_ms)}: no worker can go on: "
        f"{code(one.lacks, EXCERPT_LENGTH)}. The run goes on when such a worker starts."
        for one in state.blocked
    )
    if state.saving.save_failure is not None:
        trouble = state.saving.save_failure
        lines.append(
            f"{counted(unsaved_items(state), 'item')} not saved in the session since "
            f"{_time(trouble.at_ms)}: "
            f"{code(trouble.failure.code)} {code(trouble.failure.message, EXCERPT_LENGTH)}. "
            "The next message retries."
        )
    lines.extend(_to_decide(state, shown_request(one, state)) for one in state.pending_approvals)
    lines.extend(
        f"Waiting for {code(named(parked.wait.name))} since {_time(parked.since_ms)}, "
        f"{_until(parked)}, called by {inline(named(state.agent))} with {code(named(call.name))}."
        for call, parked in _parked(state)
    )
    lines.extend(_set_aside(state, hides))
    lines.extend(_ignored(state, hides))
    lines.extend(
        f"- {inline(_who(item))}: {code(_text(item, hides), EXCERPT_LENGTH)}"
        for item in state.items[: visible_item_count(state)][-EXCERPT_ITEMS:]
    )
    calls = counted(state.usage.requests, "model call")
    lines.append(f"{counted(state.usage.total_tokens, 'token')} in {calls}.")
    return "\n\n".join(lines)


def _until(parked: Parked) -> str:
    return "without an end" if parked.ends_ms is None else f"until {_time(parked.ends_ms)}"


def _to_decide(state: LoopState, request: ApprovalRequest) -> str:
    run = request.run_id or state.run_id
    where = f" (in the nested run {code(run)})" if request.run_id else ""
    whole = len(request.arguments) <= LONGEST_READ
    shown = rendering.arguments_text(request.arguments) if whole else request.arguments
    spent = words.budget_line(request.arguments) if request.kind == "budget" else None
    if spent is not None:
        what = f"Waiting for more of a budget: {inline(spent)}, for {inline(request.agent)}{where}."
        return f"{what} {_rules(request)} {_way(run, request)}"
    rest = "" if len(shown) <= DECIDED_LENGTH else " The query `approvals` has them in full."
    what = "a worker" if request.kind == "worker" else "approval"
    if request.terms.headline:
        from outlast.views.headlines import has_headline, headline_line  # few policies have one

        if has_headline(request):
            what = f"{what}: {inline(headline_line(request), EXCERPT_LENGTH)}"
    return (
        f"Waiting for {what}: {code(named(request.name))} with the arguments "
        f"{code(shown, DECIDED_LENGTH)}, called by {inline(named(request.agent))}{where}.{rest} "
        f"{_rules(request)} {_way(run, request)}"
    )


def _rules(request: ApprovalRequest) -> str:
    """Return for whom a request is, its risk, votes and deadline."""
    terms = request.terms
    facts = [f"For {inline(words.who_may_decide(request))}", f"risk {terms.risk}"]
    if terms.quorum > 1:
        facts.append(f"{len(request.standing_votes)} of {terms.quorum} votes")
    if request.claim is not None:
        until = _time(request.claim.until_ms)
        facts.append(f"{inline(named(request.claim.by))} works on it until {until}")
    if request.paused_at_ms is not None:
        facts.append("no time passes while a person has the conversation")
    facts += [f"due {_time(one.at_ms)}, {inline(one.then)}" for one in words.deadlines(request)]
    return " · ".join(facts) + "."


def _way(run_id: str, request: ApprovalRequest) -> str:
    """Return how to decide, as far as the run accepts it."""
    verb = "approve" if "approve" in request.terms.allow else "inbox show"
    if request.kind == "worker":
        verb = "reject"
    command = (
        rendering.decision_command(verb, run_id, request.id, request.digest)
        if verb != "inbox show"
        else rendering.command(verb, run_id, request.id)
    )
    if request.terms.takeover and not request.run_id:
        command = rendering.command("hold", run_id)
        return f"Run {code(command)}: taking the conversation over is the approval."
    if not request.terms.unverified:
        proof = "a signal or update from this page does not count, because it proves no sender"
        return f"Run {code(command)}; {proof}."
    record = {
        "request_id": request.id,
        "type": request.terms.allow[0],
        "args_digest": request.args_digest,
    }
    if audience_text(request.audiences):
        record["by"] = "your name"
    where = "to this run " if not request.run_id else "to that run "
    return (
        f"Run {code(command)}, or send the signal `decide` {where}with {code(json.dumps(record))}."
    )


def _ignored(state: LoopState, hides: Redaction) -> list[str]:
    """Return the newest attempts of people that had no effect, and why."""
    return [
        f"Ignored at {_time(one.at_ms)}: {code(one.what, EXCERPT_LENGTH)}, because "
        f"{code(hides.text(one.why), EXCERPT_LENGTH)}"
        for one in state.ignored[-SHOWN_IGNORED:]
    ]


def _set_aside(state: LoopState, hides: Redaction) -> list[str]:
    """Return the newest items that the model does not read any more, and why."""
    return [
        f"At {_time(one.at_ms)}: {code(hides.text(aside_words(one)), EXCERPT_LENGTH)}"
        for one in state.aside[-SHOWN_IGNORED:]
    ]


def unsaved_items(state: LoopState) -> int:
    """Return the number of items that are queued for the session."""
    return sum(one.stop - one.start - len(one.dropped) for one in state.saving.to_save)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _item_view(item: Item, hides: Redaction) -> JsonObject:
    whole = _text(item, hides)
    text = rendering.cut(whole, _characters_in(whole, TRANSCRIPT_ITEM_BYTES))
    return {"kind": item.kind, "who": _who(item), "turn": item.turn, "text": text}


def _who(item: Item) -> str:
    return item.agent or str(item.raw.get("role", "user"))


def _text(item: Item, hides: Redaction) -> str:
    raw = item.raw
    match item.kind:
        case "tool_call" | "handoff_call":
            name = name_of(raw)
            return call_line(name, hides.call(item.agent, name, arguments_of(raw)))
        case "tool_output" | "handoff_output":
            output = hides.json(readable(raw.get("output")))
            return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        case _:
            return hides.text(words.with_parts(text_of(raw), raw.get("content")))


def approval_view(
    run_id: str, request: ApprovalRequest, proofs: "Sequence[Proof] | None" = None
) -> JsonObject:
    """Return a request of a run, or of a run nested in it, for programs.

    Args:
        run_id: the run.
        request: the request.
        proofs: whether each vote is proven, to a reader with keys; None where nobody has any.
    """
    if proofs is None:
        proofs = ["accepted" if one.verified else "unproven" for one in request.votes]
    return {
        "schema_version": names.SCHEMA_VERSION,
        "id": request.id,
        "kind": request.kind,
        "run_id": request.run_id or run_id,
        "agent": request.agent,
        "handoff_path": list(request.handoff_path),
        "tool_call_id": request.call_id,
        "name": request.name,
        "arguments": request.arguments,
        "args_digest": request.args_digest,
        "digest": request.digest,
        "reason": request.reason,
        "args_schema": request.schema,
        "effect": request.terms.effect,
        "risk": request.terms.risk,
        "audience": audience_text(request.audiences),
        "votes": [
            _vote_view(vote, proof) for vote, proof in zip(request.votes, proofs, strict=True)
        ],
        "votes_needed": request.terms.quorum,
        "claimed_by": request.claim.by if request.claim else None,
        "requested_at_ms": request.requested_at_ms,
        "due_ms": deadline_ms(request),
        "expires_at_ms": request.expires_at_ms,
        "on_expiry": request.terms.on_expiry,
        "allowed_decisions": list(request.terms.allow),
        "takeover": request.terms.takeover,
        "response_schema": request.terms.response_schema,
    }


def _vote_view(vote: Vote, proof: "Proof") -> JsonObject:
    return {
        "type": vote.decision.type,
        "by": vote.decision.by,
        "proof": proof,
        "at_ms": vote.at_ms,
    }


def receipt(state: LoopState, event: Event) -> JsonObject:
    """Return the receipt of an accepted update."""
    match event:
        case PersonActed(action=action):
            return row_of(action).receipt(state, action)
        case LineAttached():
            line, settings = line_of(state), state.start.settings
            return {
                "effect": line.effect if line is not None else None,
                "heartbeat_ms": policies.heartbeat_ms(settings, policies.LINE_HEARTBEAT_MS),
            }
        case MessageReceived(message=message):
            return {
                "status": state.status,
                "turns": state.turns,
                "waits": any(one.id == message.id for one in state.inbox),
            }
        case ValueDelivered():
            known = receipt_for(state, event)
            return {
                "status": state.status,
                "name": event.name,
                "at_ms": event.at_ms if known is None else known.at_ms,
            }
        case _:
            return {"status": state.status, "turns": state.turns}


def _characters_in(text: str, limit_bytes: int) -> int:
    # A character has at least one byte, so later characters cannot fit.
    data = text[: limit_bytes + 1].encode(errors="replace")[:limit_bytes]
    return len(data.decode(errors="ignore"))
