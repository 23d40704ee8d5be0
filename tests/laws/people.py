"""What people do in random runs: terms, votes, claims, takeovers, budgets, and the clock.

Owns: the strategies for terms and budgets, and how a move of a person becomes an event that fits
the run as it stands. Most moves fit, so that they have an effect; `misvote` and every sixth move of
the others do not.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from hypothesis import strategies as st

from outlast.agents.approvals.hours import within_hours
from outlast.contract import names, records
from outlast.loop.actions import (
    CaseAction,
    CaseDeed,
    ClaimAction,
    HoldAction,
    ReleaseAction,
    SayAction,
    SetAsideAction,
    fields_of,
)
from outlast.loop.approvals import (
    ALL_DECISIONS,
    REDACTED,
    ApprovalRequest,
    ApprovalTerms,
    Audience,
    Decision,
    DecisionType,
    EscalationStep,
    Person,
    VoteType,
)
from outlast.loop.events import (
    ConversationRated,
    Event,
    MessageReceived,
    MessageWithdrawn,
    PersonActed,
    TeamAnswered,
    TimePassed,
)
from outlast.loop.human_actions import problem_of
from outlast.loop.items import SendMode
from outlast.loop.start import Budget, ReplyTimes
from outlast.loop.state import LoopState
from outlast.loop.values import Json, JsonObject
from outlast.loop.votes import LONGEST_MESSAGE, Sender, claim_refusal, next_due_ms, refusal
from tests.laws.driver import Play, message
from tests.laws.people_laws import is_decision
from tests.laws.step_laws import case_due_ms, is_at_rest

_DEEDS: tuple[CaseDeed, ...] = get_args(CaseDeed)
REQUESTER = "rob"
NOBODY = Person()
PEOPLE = (
    Person(subject="ann", groups=("team",)),
    Person(subject="bob", groups=("team", "leads")),
    Person(subject="cid", display="Cid", groups=("team",)),
    Person(subject="dan", groups=("leads",)),
    Person(subject="eve", groups=("leads", "night")),
    Person(subject=REQUESTER, groups=("team",)),
)
AUDIENCES = (
    Audience(subjects=("ann", "bob", "cid", REQUESTER)),
    Audience(groups=("team",)),
    Audience(subjects=("ann",), groups=("leads",)),
    Audience(groups=("team",), exclude_requester=True),
)
"""At least three people are in each, so every quorum can be reached."""

OPEN_AUDIENCES = (Audience(), Audience(exclude_requester=True))
STEPS = (
    (EscalationStep(after_ms=3_000, audience=Audience(groups=("leads",))),),
    (
        EscalationStep(after_ms=5_000, audience=Audience(subjects=("dan",))),
        EscalationStep(after_ms=90_000, audience=Audience(groups=("night",))),
    ),
    (EscalationStep(after_ms=7_200_000, audience=Audience(subjects=("eve", "dan"))),),
)
ALLOWED: tuple[tuple[DecisionType, ...], ...] = (
    ALL_DECISIONS,
    ALL_DECISIONS,
    ("approve", "reject"),
    ("edit", "reject"),
    ("approve", "respond"),
)
"""What one person can end a request with is in each."""

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 99}, "secret": {"type": "string"}},
    "required": ["n"],
}
OK_SCHEMA: JsonObject = {"type": "object", "required": ["ok"]}

PEOPLE_MOVES = (
    *["vote"] * 6,
    *["misvote"] * 2,
    *["claim"] * 3,
    *["due"] * 2,
    "late",
    "back",
    *["hold"] * 2,
    "release",
    *["send"] * 3,
    "withdraw",
    "set aside",
    *["case"] * 3,
    *["team"] * 2,
)
"""Moves of people, and of the clock."""


# --- Terms and starts ----------------------------------------------------------------------------


@st.composite
def terms(draw: st.DrawFn) -> ApprovalTerms:
    """Terms that a policy accepts: every audience, quorum and expiry."""
    is_open = draw(st.booleans())
    steps = () if is_open else draw(st.sampled_from([(), *STEPS]))
    made = ApprovalTerms(
        audience=draw(st.sampled_from(OPEN_AUDIENCES if is_open else AUDIENCES)),
        quorum=draw(st.sampled_from([1, 1, 2, 3])),
        allow=draw(st.sampled_from(ALLOWED)),
        unverified=draw(st.sampled_from([True, True, False])),
        expires_in_ms=draw(st.sampled_from([None, 6_000, 30_000, 3_600_000])),
        on_expiry=draw(st.sampled_from(["reject", "approve", "fail", "escalate"])),
        remind_every_ms=draw(st.sampled_from([None, 0, 60_000, 200_000])),
        escalations=steps,
        redact=draw(st.sampled_from([(), (), ("secret",)])),
        response_schema=draw(st.sampled_from([None, None, OK_SCHEMA])),
    )
    return within_hours(made, "support-hours") if draw(st.integers(0, 3)) == 3 else made


BUDGETS = st.sampled_from(
    [
        (),
        (),
        (),
        (Budget(of="tokens", limit=3),),
        (Budget(of="model_calls", limit=2, per="question"),),
        (Budget(of="tool_calls", limit=1, per="agent"), Budget(of="tokens", limit=9)),
        (Budget(of="cost_micros", limit=2_000, agent="Triage"),),
        (Budget(of="seconds", limit=9, per="question"),),
        (Budget(of="model_calls", limit=3), Budget(of="seconds", limit=60)),
    ]
)


REPLY_TIMES = (
    ReplyTimes(first_ms=9_000, next_ms=40_000),
    ReplyTimes(first_ms=40_000, next_ms=4_000_000, warn_ms=60_000),
    ReplyTimes(first_ms=40_000, next_ms=9_000, warn_ms=9_000, within="nights", away="{day}"),
)


@st.composite
def settings_of_people(draw: st.DrawFn) -> dict[str, Any]:
    """For whom a run works, who may take it over, and what it may spend, as its settings say."""
    wanted: JsonObject = {}
    if draw(st.booleans()):
        wanted[names.SETTING_CUSTOMER] = {"id": REQUESTER}
    if draw(st.booleans()):
        takeover = ApprovalTerms(
            audience=draw(st.sampled_from(AUDIENCES)), unverified=draw(st.booleans())
        )
        wanted[names.SETTING_TAKEOVER] = records.write(takeover)
    if draw(st.integers(0, 2)) == 2:
        wanted[names.SETTING_REPLY_TIMES] = records.write(draw(st.sampled_from(REPLY_TIMES)))
    budgets = draw(BUDGETS)
    if budgets:
        decides = draw(st.none() | terms())
        wanted[names.SETTING_BUDGETS] = [
            records.write(replace(one, terms=decides)) for one in budgets
        ]
    return {
        "settings": wanted or None,
        "customer": records.customer_of(wanted),
        "takeover": records.takeover_of(wanted),
        "budgets": records.budgets_of(wanted),
        "reply_times": records.reply_times_of(wanted),
    }


# --- Moves ---------------------------------------------------------------------------------------


def deed(  # noqa: C901, PLR0911  a row for each move
    play: Play, kind: str, a: int, b: int
) -> Event | None:
    """Return what a move of a person or the clock comes to; None if there is nothing to do."""
    match kind:
        case "vote":
            return _vote(play, a, b)
        case "misvote":
            return _misvote(play, a, b)
        case "claim":
            return _claim(play, a, b)
        case "due":
            due = next_due(play.state)
            return None if due is None else play_until(play, due)
        case "late":
            return play_until(play, play.now_ms + (40_000, 400_000, 4_000_000, 10**9)[b % 4])
        case "back":
            return play_until(play, max(play.now_ms - (2_000, 50_000, 5_000_000)[b % 3], 1_000))
        case "hold":
            return _hold_or_say(play, a, b)
        case "release":
            return _release(play, a, b)
        case "withdraw":
            return _withdraw(play, a, b)
        case "set aside":
            return _set_aside(play, a, b)
        case "case":
            return _case(play, a, b)
        case "team" if a % 6 == 5:
            return ConversationRated(at_ms=play.now_ms, score=1 + b % 5)
        case "team":
            return _team_answer(play, a, b)
        case _:
            name = "start" if a % 16 == 15 else f"m{a % 4 if b % 8 == 7 else len(play.events)}"
            mode: SendMode = ("steer", "queue", "interrupt")[b % 3]
            authors = (PEOPLE[b % len(PEOPLE)].subject,) if a % 4 == 0 else ()
            said = replace(message(name, f"text {b}", play.now_ms), mode=mode, authors=authors)
            return MessageReceived(at_ms=play.now_ms, message=said)


def next_move(play: Play) -> str:
    """Return the move that a run waits for which has nothing to do."""
    if waiting(play.state):
        return "vote"
    if play.state.hold is not None:
        return "release" if len(play.events) % 2 else "hold"
    return "send" if play.state.phase == "idle" else "late"


def next_due(state: LoopState) -> int | None:
    """Return when time next changes a request of the run itself, or ends a wait of a call."""
    times = [next_due_ms(one) for one in state.approvals if one.status == "pending"]
    times += [one.parked.due_ms for one in state.calls if one.parked is not None]
    times += [case_due_ms(state)]
    return min((at for at in times if at is not None), default=None)


def play_until(play: Play, at_ms: int) -> TimePassed:
    """Set the clock, which may also jump back, and tell the run."""
    play.passed_ms += at_ms - play.now_ms
    return TimePassed(at_ms=at_ms)


def waiting(state: LoopState) -> list[ApprovalRequest]:
    """The pending requests of the run itself."""
    return [one for one in state.approvals if one.status == "pending"]


def _vote(play: Play, a: int, b: int) -> PersonActed[Decision] | None:
    """A vote that counts, if there is one for the chosen request."""
    requests = waiting(play.state)
    if not requests:
        return None
    request = requests[a % len(requests)]
    kinds = request.terms.allow
    first = 0 if b % 3 == 0 else b
    rotated: list[VoteType] = [kinds[(first + at) % len(kinds)] for at in range(len(kinds))]
    if b % 11 == 7:
        rotated = ["withdraw", *rotated]
    found = acceptable(play, request, rotated, a, b)
    return found or _event(play, fitting(request, rotated[0], NOBODY, a, b), verified=True)


def acceptable(
    play: Play, request: ApprovalRequest, kinds: Sequence[VoteType], a: int = 1, b: int = 1
) -> PersonActed[Decision] | None:
    """The first fitting vote that the request accepts, by somebody who has not voted yet."""
    own = [_claimer(request, play.now_ms)] if request.claim is not None else []
    people = [*own, *(PEOPLE[(a + at) % len(PEOPLE)] for at in range(len(PEOPLE))), NOBODY]
    if b % 7 == 0 and not own:
        people.insert(0, NOBODY)
    for kind in kinds:
        for person in people:
            decision = fitting(request, kind, person, a, b)
            verified = b % 2 == 0 or not request.terms.unverified
            sender = _sender(play, verified=verified)
            if refusal((request,), decision, sender) is None:
                return _event(play, decision, verified=verified)
    return None


def _sender(play: Play, *, verified: bool) -> Sender:
    requesters = (play.state.start.customer.id, *play.state.question.authors)
    return Sender(at_ms=play.now_ms, verified=verified, requesters=tuple(filter(None, requesters)))


def _claimer(request: ApprovalRequest, at_ms: int) -> Person:
    claim = request.claim
    by = claim.by if claim is not None and claim.until_ms > at_ms else ""
    return next((one for one in PEOPLE if one.subject == by), NOBODY)


def fitting(request: ApprovalRequest, kind: VoteType, person: Person, a: int, b: int) -> Decision:
    """A decision that fits a request, but perhaps not who makes it."""
    keeps = kind in {"approve", "reject"} and request.kind == "tool" and request.terms.quorum == 1
    return Decision(
        request_id=request.id,
        type=kind,
        by=person.subject or None,
        display=person.display,
        groups=person.groups,
        message="No, thank you." if kind == "reject" and b % 2 else None,
        args_digest=request.args_digest if a % 2 else None,
        edited_arguments=_edit(request, b) if kind == "edit" else None,
        response=_response(request, b) if kind == "respond" else None,
        remember=keeps and b % 4 == 0,
        remember_scope="tool" if b % 8 else "tool_with_args",
        remember_until="conversation" if a % 3 else "run",
        idempotency_key=f"key {request.id} {a} {b}" if b % 3 == 0 else None,
    )


def _edit(request: ApprovalRequest, b: int) -> JsonObject:
    """Other arguments, now and then the same ones as those of an earlier edit."""
    match request.kind:
        case "output":
            return {"answer": f"edited {b % 2}"}
        case "budget":
            return {"extend_by": 1 + b % 9}
        case _:
            kept = {
                name: REDACTED for name in request.terms.redact if f'"{name}"' in request.arguments
            }
            return {"n": b % 2, **({} if b % 5 == 4 else kept)}


def _response(request: ApprovalRequest, b: int) -> Json:
    return {"ok": b} if request.terms.response_schema is not None else f"done by hand {b}"


def _event(play: Play, decision: Decision, *, verified: bool) -> PersonActed[Decision]:
    return PersonActed(at_ms=play.now_ms, action=decision, verified=verified)


def _misvote(play: Play, a: int, b: int) -> Event | None:
    """A vote with one thing wrong, or one that comes too late or twice."""
    cast = [one for one in play.events if is_decision(one)]
    if b % 8 == 7 and cast:  # an earlier decision of somebody, perhaps by its key alone
        earlier = cast[a % len(cast)]
        by = PEOPLE[a % len(PEOPLE)]
        other = replace(earlier.action, by=by.subject, groups=by.groups)
        return replace(earlier, at_ms=play.now_ms, action=other if a % 2 else earlier.action)
    known = waiting(play.state) if b % 9 else [*play.state.approvals]
    if not known:
        return None
    request = known[a % len(known)]
    kinds = request.terms.allow
    good = acceptable(play, request, (*kinds[a % len(kinds) :], *kinds), a, b)
    if good is None:
        return _event(play, fitting(request, "reject", NOBODY, a, b), verified=False)
    lacks_proof = not request.terms.unverified and b % 2 == 1
    flaw = "unverified" if lacks_proof else FLAWS[(a + b) % len(FLAWS)]
    return flawed(play, request, good, flaw)


FLAWS = (
    "digest",
    "stale",
    "unknown",
    "stranger",
    "nameless",
    "requester",
    "voter",
    "unverified",
    "type",
    "unfit",
    "empty",
    "long",
    "remember",
)


def flawed(play: Play, request: ApprovalRequest, good: PersonActed[Decision], flaw: str) -> Event:
    """Return a vote that is refused for a reason, where the terms know such a reason."""
    decision = good.action
    changes: dict[str, dict[str, Any]] = {
        "digest": {"args_digest": "forged"},
        "stale": {"args_digest": request.votes[0].args_digest if request.votes else ""},
        "unknown": {"request_id": "a99"},
        "stranger": {"by": "zoe", "groups": ("guests",)},
        "nameless": {"by": None, "groups": ()},
        "requester": {"by": play.state.start.customer.id or "x", "groups": ("team", "leads")},
        "voter": {"type": "approve", "by": request.votes[-1].decision.by if request.votes else "zoe"},
        "unverified": {},
        "type": {"type": next((x for x in ALL_DECISIONS if x not in request.terms.allow), "edit")},
        "unfit": {"type": "edit", "edited_arguments": {"n": 100, "answer": 1, "extend_by": 0, "x": 1}},
        "empty": {"type": "respond", "response": ""},
        "long": {"message": "x" * (LONGEST_MESSAGE + 1)},
        "remember": {"remember": True, "type": "edit", "edited_arguments": _edit(request, 0)},
    }  # fmt: skip
    verified = good.verified and flaw != "unverified"
    return _event(play, replace(decision, **changes[flaw]), verified=verified)


def _claim(play: Play, a: int, b: int) -> PersonActed[ClaimAction] | None:
    requests = waiting(play.state) if b % 9 else [*play.state.approvals]
    if not requests:
        return None
    request = requests[a % len(requests)]
    people = [PEOPLE[(a + at) % len(PEOPLE)] for at in range(len(PEOPLE))]
    proven, force = b % 2 == 0 or not request.terms.unverified, b % 4 == 0
    sender = _sender(play, verified=proven)
    able = [
        one
        for one in people
        if claim_refusal((request,), request.id, one, sender, force=force) is None
    ]
    return PersonActed(
        at_ms=play.now_ms,
        action=ClaimAction(
            request_id=request.id,
            **fields_of((able or people)[0] if b % 6 else (people[0], NOBODY)[a % 2]),
            minutes=(1, 5, 0, 10**6)[b % 4],
            force=force,
            to=PEOPLE[(a + b) % len(PEOPLE)].subject if a % 5 == 3 else "",
        ),
        verified=proven,
    )


def _able_to_take_over(play: Play, a: int, b: int) -> tuple[Person, bool]:
    """Somebody who may take the conversation over, or speak; every sixth time, anybody."""
    state, verified = play.state, not play.state.start.takeover.unverified or b % 2 == 0
    people = [PEOPLE[(a + at) % len(PEOPLE)] for at in range(len(PEOPLE))]
    if b % 6 == 5:
        return (people[0] if a % 3 else NOBODY), a % 2 == 0

    def problem(one: Person) -> str | None:
        who = fields_of(one)
        action = HoldAction(**who) if state.hold is None else SayAction(**who, text="Hello")
        return problem_of(state, PersonActed(at_ms=0, action=action, verified=verified))

    able = [one for one in people if problem(one) is None]
    return (able or people)[0], verified


def _hold_or_say(play: Play, a: int, b: int) -> PersonActed[HoldAction | SayAction]:
    person, verified = _able_to_take_over(play, a, b)
    if (play.state.hold is not None) != (a % 14 == 6):
        name = "s0" if a % 5 == 4 else f"s{len(play.events)}"
        return PersonActed(
            at_ms=play.now_ms,
            action=SayAction(**fields_of(person), message_id=name, text=f"said {b}"),
            verified=verified,
        )
    mode = "immediate" if (a // 2) % 2 else "after_turn"
    hands_over = b % 2 == 0 if play.state.hold is not None else b % 12 == 4
    to = PEOPLE[b % len(PEOPLE)].subject if hands_over else ""
    return PersonActed(
        at_ms=play.now_ms,
        action=HoldAction(**fields_of(person), mode=mode, to=to, force=a % 4 == 0),
        verified=verified,
    )


def _release(play: Play, a: int, b: int) -> PersonActed[ReleaseAction] | None:
    if play.state.hold is None and a % 12 != 11:
        return None
    return released(play, a, b)


def released(play: Play, a: int = 1, b: int = 1) -> PersonActed[ReleaseAction]:
    """The conversation goes back to an agent."""
    person, verified = _able_to_take_over(play, a, b)
    to = ("", "", "Billing", play.state.agent)[a % 4]
    note = f"note {b}" if b % 3 == 0 else ""
    return PersonActed(
        at_ms=play.now_ms,
        action=ReleaseAction(**fields_of(person), note=note, to=to),
        verified=verified,
    )


def taken_back(play: Play) -> PersonActed[HoldAction]:
    """Somebody who may takes the conversation from a holder who may not: their group is missing."""
    for person in PEOPLE:
        held = PersonActed(
            at_ms=play.now_ms, action=HoldAction(**fields_of(person), force=True), verified=True
        )
        if problem_of(play.state, held) is None:
            return held
    raise AssertionError("nobody may take the conversation over")


def _set_aside(play: Play, a: int, b: int) -> PersonActed[SetAsideAction]:
    person, verified = _able_to_take_over(play, a, b)
    items = [one.item for one in play.state.aside if one.item is not None]
    back = bool(items) and b % 3 == 0
    item = items[a % len(items)] if back else a % (len(play.state.items) + 1)
    part = next((one.part for one in play.state.aside if back and one.item == item), None)
    return PersonActed(
        at_ms=play.now_ms,
        action=SetAsideAction(**fields_of(person), item=item, part=part, back=back),
        verified=verified,
    )


def _case(play: Play, a: int, b: int) -> PersonActed[CaseAction]:
    person, verified = _able_to_take_over(play, a, b)
    case, rests = play.state.case, is_at_rest(play.state)
    fitting: list[CaseDeed] = [
        one
        for one in _DEEDS
        if b % 6 == 5
        or (one == "reopen" and (case.resolved_ms or case.snoozed_until_ms))
        or (one == "resolve" and rests and case.resolved_ms is None)
        or (one == "snooze" and rests and case.resolved_ms is None)
        or one in {"assign", "comment", "tag", "link", "recount"}
    ]
    do = "reopen" if "reopen" in fitting and b % 3 else fitting[a % len(fitting)]
    words = {"tag": ("vip", "refund"), "link": ("support-7",), "comment": ("@cid",)}.get(do, ())
    gone = bool(case.links if do == "link" else case.tags) and b % 3 == 0
    return PersonActed(
        at_ms=play.now_ms,
        action=CaseAction(
            **fields_of(person),
            do=do,
            to=PEOPLE[b % len(PEOPLE)].subject if do == "assign" else "",
            team="billing" if b % 2 == 0 and do == "assign" else "",
            text="Look at this." if do == "comment" else "",
            comment_id=f"c{len(play.events) if b % 5 else 0}",
            until_ms=play.now_ms + (40_000, 4_000_000, 9_000, -1)[b % 4]
            if do == "snooze"
            else None,
            add=() if gone else words,
            remove=words if gone else (),
        ),
        verified=verified,
    )


def _team_answer(play: Play, a: int, b: int) -> TeamAnswered | PersonActed[CaseAction]:
    case = play.state.case
    if not case.report:
        return _case(play, 0, 2)  # a team begins with the first assignment
    return TeamAnswered(
        at_ms=play.now_ms,
        team=case.team if b % 6 else "leads",
        chain_id=play.state.start.chain_id if b % 7 else "of another run",
        report=case.report - (b % 5 == 4),
        to=("", *(one.subject for one in PEOPLE))[a % 7],
        due_ms=play.now_ms + 60_000 if b % 2 else None,
    )


def _withdraw(play: Play, a: int, b: int) -> MessageWithdrawn | None:
    waits = [one.id for one in play.state.inbox]
    if not waits and b % 8:
        return None
    others = [*play.state.question.answering, "m99"]
    name = waits[a % len(waits)] if waits and b % 6 else others[0]
    return MessageWithdrawn(at_ms=play.now_ms, message_id=name)


# --- What settles a run --------------------------------------------------------------------------


def settling(play: Play, request: ApprovalRequest, choice: int) -> Event:
    """A vote that brings a request nearer to its end; a claim runs out, or is taken over first."""
    kinds = request.terms.allow
    ends: list[DecisionType] = [one for one in kinds if one in {"reject", "respond"}]
    found = acceptable(play, request, ends if choice % 2 and ends else kinds, choice, choice)
    found = found or acceptable(play, request, ends, choice, choice)
    return found or play_until(play, request.claim.until_ms if request.claim else play.now_ms)
