"""Approval policies: `ApprovalPolicy`, `Audience` and `Escalation`.

A definition's `needs_approval` is True, a predicate or a policy; the first two stand for the
default policy.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from outlast.agents.calendars import Calendar, check_calendar_name
from outlast.agents.callables import called_with, check_callable
from outlast.agents.checks import (
    Rule,
    check_choice,
    check_count,
    check_fields,
    check_list,
    check_name,
    duration,
    json_problem,
    typed_rules,
)
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.durations import DurationField, as_duration, duration_field
from outlast.agents.errors import UserError
from outlast.loop import approvals as records
from outlast.loop.approvals import ApprovalTerms, DecisionType, EscalationStep, OnExpiry, Risk
from outlast.loop.canonical import canonical_name
from outlast.loop.values import JsonObject

ToolEffect: TypeAlias = Literal["read", "reversible", "external_reversible", "irreversible"]
"""What a tool changes: nothing; something here that can be undone; something elsewhere that can be
undone there; something that cannot be undone."""

ApprovalPredicate: TypeAlias = Callable[
    [RunContextWrapper[Any], JsonObject, str], bool | Awaitable[bool]
]
"""Called with (context, arguments, call id); sync or async; true means that a human decides."""

Unverified: TypeAlias = Literal["allow", "refuse"]
"""Whether decisions count whose sender did not prove who they are."""

RISK_OF_EFFECT: Final[dict[str | None, Risk]] = {
    None: "low",
    "read": "low",
    "reversible": "low",
    "external_reversible": "medium",
    "irreversible": "high",
}
"""The risk of calls whose policy does not set it."""

WITHOUT_ARGUMENTS: Final[tuple[DecisionType, ...]] = ("approve", "reject")
"""The decisions about calls that have no arguments to edit, and outputs of their own types."""

ANSWER_DECISIONS: Final[tuple[DecisionType, ...]] = ("approve", "reject", "respond")
"""The decisions about an answer; `respond` puts a person's own answer in its place."""

LONGEST_CUSTOMER_TEXT: Final = 500

LONGEST_WAIT: Final = timedelta(days=3650)  # more is a mistake


@dataclass(frozen=True, kw_only=True)
class Audience:
    """Who may decide; everybody, if `subjects` and `groups` are left out.

    Empty lists are refused: nobody could decide, which is not what leaving them out means.

    Attributes:
        subjects: people by name.
        groups: groups by name; each of their members may decide.
        exclude_requester: whether the customer for whom the run works, and members of the team who
            wrote the question, may not decide.
    """

    subjects: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    exclude_requester: bool = False

    def __post_init__(self) -> None:
        listed = [name for name in ("subjects", "groups") if getattr(self, name) is not None]
        for name in listed:
            found = names_of(f"Audience({name}=...)", getattr(self, name))
            object.__setattr__(self, name, found)
        if listed and self.is_open:
            raise UserError(
                f"Audience({listed[0]}=...) is empty, so nobody could decide. Name people or "
                "groups, or leave it out: then everybody may decide."
            )
        check_fields(self)

    @property
    def is_open(self) -> bool:
        """Whether neither people nor groups are named, so that everybody may decide."""
        return not (self.subjects or self.groups)

    @property
    def record(self) -> records.Audience:
        """The audience as a request keeps it."""
        return records.Audience(
            subjects=tuple(self.subjects or ()),
            groups=tuple(self.groups or ()),
            exclude_requester=self.exclude_requester,
        )


@dataclass(frozen=True, kw_only=True)
class Escalation:
    """Further people who may decide if a request waits too long.

    Attributes:
        after: the time from the request; a number is in seconds.
        to: who may decide from then on; a string is the name of a group.
    """

    after: DurationField[timedelta] = duration_field(timedelta(0))  # noqa: RUF009  a descriptor
    to: Audience | str

    def __post_init__(self) -> None:
        _check_duration("Escalation(after=...)", self.after)
        to = _audience("Escalation(to=...)", self.to)
        if to.exclude_requester or to.is_open:
            raise UserError(
                "Escalation(to=...) must name people or groups. exclude_requester belongs to the "
                "policy's audience, and holds for every step."
            )
        object.__setattr__(self, "to", to)

    @property
    def record(self) -> EscalationStep:
        """The escalation as a request keeps it."""
        to = _audience("Escalation(to=...)", self.to)
        return EscalationStep(after_ms=_milliseconds(self.after), audience=to.record)


@dataclass(frozen=True, kw_only=True)
class ApprovalPolicy:
    """When a person decides, who may decide, and until when.

    A request keeps the terms that it was made with. Durations are `timedelta`s or seconds.

    Attributes:
        effect: what a call changes; None: the effect that the tool declares.
        risk: how much harm a wrong decision does; None: medium for an `external_reversible` effect,
            high for an `irreversible` one, else low.
        audience: who may decide; a string is the name of a group; None: everybody.
        quorum: how many different people have to approve.
        expires_in: how long a request waits; None: for ever.
        on_expiry: what happens then: `reject` the call, `escalate` to the next people, `approve`
            the call, or `fail` the question.
        remind_every: the time between two reminders; None: no reminders.
        escalate: who else may decide later.
        allow: the types of decision; None: every type that fits the call.
        redact: names of arguments whose values people do not see.
        redact_for: groups whose members see them all the same.
        bulk: whether a request may be decided together with others; only where the risk is low.
        takeover: whether taking the conversation over is the approval, as where the user wants a
            human: only who holds the conversation approves, and `hold` does it.
        unverified: `allow` or `refuse` decisions whose sender did not prove who they are, such as
            those from the Temporal UI; None: allow them where the risk is low, everybody may
            decide, and one person is enough.
        when: which calls need approval: a predicate called with (context, arguments, call id), as
            `needs_approval` is; None: every call. If it fails, the call needs approval.
        binds: what of the context a decision is for: called with (context), sync or async; returns a
            dict of names and JSON values, such as `lambda ctx: {"payee": ctx.context.iban}`. People
            read them, but those that `redact` names. Before the call runs it is called again: a
            difference asks again. If it fails, people read that, and decide without.
        headline: what a call asks for, with places for its arguments, such as "Refund {amount} EUR
            to {customer.name}"; None: the tool's title. Values are marked as values, so that none
            passes for these words. A call that lacks one of them is shown by its title.
        reason: why a person decides, for the reviewer.
        customer_text: what the customer reads on the desk's pages and in front ends while a request
            waits, such as "A colleague checks this."; None: nothing.
        response_schema: JSON Schema of the answer of a `respond` decision; None: a text.
        name: a name of the policy, for reviewers and audits.
        within: the calendar whose hours count for `expires_in`, `remind_every` and `escalate`, such as
            `"support-hours"`: its name, or a `Calendar`; None: all hours count.
        tiers: other policies for some calls, the strictest first: the first one whose `when`
            applies holds instead of this one. They judge the arguments of an edit, too.
    """

    effect: ToolEffect | None = None
    risk: Risk | None = None
    audience: Audience | str | None = None
    quorum: int = 1
    expires_in: DurationField[timedelta | None] = duration_field(None)  # noqa: RUF009  a descriptor
    on_expiry: OnExpiry = "reject"
    remind_every: DurationField[timedelta | None] = duration_field(None)  # noqa: RUF009  same
    escalate: Sequence[Escalation] = ()
    allow: Sequence[DecisionType] | None = None
    redact: Sequence[str] = ()
    redact_for: Sequence[str] = ()
    bulk: bool = False
    takeover: bool = False
    unverified: Unverified | None = None
    when: Callable[[RunContextWrapper[Any], Any, str], bool | Awaitable[bool]] | None = None
    binds: Callable[[RunContextWrapper[Any]], Any] | None = None
    headline: str | None = None
    reason: str | None = None
    customer_text: str | None = None
    response_schema: JsonObject | None = None
    name: str = ""
    within: Calendar | str | None = None
    tiers: Sequence["ApprovalPolicy"] = ()

    def __post_init__(self) -> None:
        for one in fields(self):
            value = checked_field(one.name, getattr(self, one.name))
            object.__setattr__(self, one.name, value)
        if self.bulk and self.risk_of(None) != "low":
            raise UserError(
                f"{_place('bulk')} decides many requests at once, which is for low risk only; this "
                f"policy's risk is {self.risk_of(None)}. Leave bulk out, or set risk='low'."
            )
        if self.takeover and (self.quorum > 1 or self.bulk or self.on_expiry == "approve"):
            raise UserError(
                f"{_place('takeover')} makes one person's takeover the approval, so the policy has "
                "no quorum, no bulk, and no on_expiry='approve'. Leave them out."
            )
        self._check_times()
        self._check_people()
        self._check_response()

    def _check_times(self) -> None:
        if self.within is not None and not self.durations:
            raise UserError(
                f"{_place('within')} says which hours count for expires_in, remind_every and escalate, "
                "but the policy has none of them. Set one, or leave within out."
            )
        if self.on_expiry != "reject" and self.expires_in is None:
            raise UserError(
                f"{_place('on_expiry')} is {self.on_expiry!r}, but the policy has no expires_in, "
                "so requests never expire. Set expires_in=timedelta(...)."
            )
        if self.on_expiry == "escalate" and not self.escalate:
            raise UserError(
                f"{_place('on_expiry')} is 'escalate', but the policy has no escalate. "
                "Add escalate=[Escalation(after=..., to=...)]."
            )
        if self.on_expiry == "approve" and not self.allows_unverified(None):
            raise UserError(
                f"{_place('on_expiry')} is 'approve', but {self._why_proven(None)}, so decisions "
                "need proof, and an expiry proves nothing. Choose another on_expiry, or say "
                "unverified='allow'."
            )
        if self.expires_in is None:
            return
        if self.remind_every is not None and self.remind_every >= self.expires_in:
            raise UserError(
                f"{_place('remind_every')} is {self.remind_every}, but requests expire after "
                f"{self.expires_in}, so nobody is reminded. Choose a shorter time."
            )
        late = [step.after for step in self.escalate if step.after >= self.expires_in]
        if late and self.on_expiry != "escalate":
            raise UserError(
                f"{_place('escalate')} has a step after {late[0]}, but requests expire after "
                f"{self.expires_in}. Choose a shorter time, or on_expiry='escalate'."
            )

    def _check_people(self) -> None:
        audiences = [cast("Audience", step.to) for step in self.escalate]
        audiences += [cast("Audience", self.audience)] if self.audience is not None else []
        # One person with two spellings of their name is one person.
        people = {canonical_name(name): name for one in audiences for name in one.subjects or ()}
        first = cast("Audience | None", self.audience)
        is_open = first is None or first.is_open
        if is_open and self.escalate:
            raise UserError(
                f"{_place('escalate')} names further people, but everybody may decide from the "
                "start. Set audience=, or leave escalate out."
            )
        if not is_open and not any(one.groups for one in audiences) and len(people) < self.quorum:
            raise UserError(
                f"{_place('quorum')} is {self.quorum}, but only {len(people)} people may decide: "
                f"{', '.join(sorted(people.values()))}. Name more people, or a group."
            )

    def _check_response(self) -> None:
        if self.response_schema is None:
            return
        if self.allow is not None and "respond" not in self.allow:
            raise UserError(
                f"{_place('response_schema')} describes the answer of a 'respond' decision, which "
                "allow does not list. Add 'respond' to allow, or leave response_schema out."
            )

    @property
    def calendar_name(self) -> str | None:
        """The name of the calendar whose hours count; None if all hours do."""
        return self.within.name if isinstance(self.within, Calendar) else self.within

    @property
    def durations(self) -> list[timedelta]:
        """The durations that the policy has."""
        own = [one for one in (self.expires_in, self.remind_every) if one is not None]
        return [*own, *(step.after for step in self.escalate)]

    def risk_of(self, tool_effect: str | None) -> Risk:
        """Return the risk of calls; the policy's effect outranks the one that the tool declares."""
        return self.risk or RISK_OF_EFFECT[self.effect or tool_effect]

    def allows_unverified(self, tool_effect: str | None) -> bool:
        """Whether decisions count whose sender did not prove who they are."""
        if self.unverified is not None:
            return self.unverified == "allow"
        return not self._why_proven(tool_effect)

    def _why_proven(self, tool_effect: str | None) -> str:
        reasons = {
            "it has an audience": self.audience is not None,
            f"its quorum is {self.quorum}": self.quorum > 1,
            f"its risk is {self.risk_of(tool_effect)}": self.risk_of(tool_effect) != "low",
        }
        if self.unverified == "refuse":
            return "it says unverified='refuse'"
        return next((reason for reason, holds in reasons.items() if holds), "")

    def terms(
        self,
        tool_effect: str | None = None,
        *,
        possible: Sequence[DecisionType] = records.ALL_DECISIONS,
        title: str = "",
        labels: JsonObject | None = None,
    ) -> ApprovalTerms:
        """Return the terms of a request; `possible` are the types of decision that fit the call.

        `title` and `labels` are what people call the tool and its arguments.
        Times that count a calendar's hours are not in them yet: see `agents/approvals/hours.py`.
        """
        risk = self.risk_of(tool_effect)
        audience = cast("Audience | None", self.audience)
        allow = possible if self.allow is None else self.allow
        if self.takeover:
            allow = [one for one in allow if one in WITHOUT_ARGUMENTS]
        terms = ApprovalTerms(
            effect=self.effect or tool_effect,
            risk=risk,
            audience=records.ANYBODY if audience is None else audience.record,
            quorum=self.quorum,
            # Never empty: a request that nobody can decide would wait for ever.
            allow=tuple(one for one in possible if one in allow) or WITHOUT_ARGUMENTS,
            unverified=self.allows_unverified(tool_effect),
            expires_in_ms=None if self.expires_in is None else _milliseconds(self.expires_in),
            on_expiry=self.on_expiry,
            remind_every_ms=None if self.remind_every is None else _milliseconds(self.remind_every),
            escalations=tuple(step.record for step in self.escalate),
            redact=tuple(self.redact),
            redact_for=tuple(self.redact_for),
            bulk=self.bulk and risk == "low",
            takeover=self.takeover,
            response_schema=self.response_schema,
            policy=self.name,
            customer_text=self.customer_text,
            title=title,
            headline=self.headline or "",
            labels=labels,
        )
        if self.calendar_name is None:
            return terms
        from outlast.agents.approvals.hours import within_hours

        return within_hours(terms, self.calendar_name)

    def check_fits(
        self,
        owner: str,
        *,
        possible: Collection[DecisionType] = records.ALL_DECISIONS,
        schema: JsonObject | None = None,
    ) -> None:
        """Refuse a policy that does not fit its `owner`: a tool, handoff, answer or budget.

        `possible` are the types of decision that fit its calls. Without a `schema`, the arguments
        have no names.
        """
        wrong = [one for one in self.allow or () if one not in possible]
        if wrong:
            raise UserError(
                f"{owner}: its calls cannot be decided with {wrong[0]!r}, only with "
                f"{', '.join(possible)}. Take {wrong[0]!r} out of the policy's allow."
            )
        for tier in self.tiers:
            tier.check_fits(f"{owner}: tiers", possible=possible, schema=schema)
        names = argument_names(schema)
        if names is not None and (unknown := [one for one in self.redact if one not in names]):
            raise UserError(
                f"{owner}: redact names {unknown[0]!r}, which is no argument. "
                f"The arguments are {', '.join(sorted(names)) or 'none'}."
            )
        for path in () if self.headline is None else _places(self.headline):
            if problem := _unknown_place(path, schema):
                raise UserError(f"{owner}: headline={self.headline!r}: {problem}")


def _place(field: str) -> str:
    return f"ApprovalPolicy({field}=...)"


def _check_headline(place: str, value: object) -> None:
    from outlast.edges.placeholders import parts_of  # few policies have a headline

    check_name(place, value)
    try:
        parts_of(cast("str", value))
    except ValueError as error:
        raise UserError(f"{place} {value!r:.200}: {error}.") from None


def _places(headline: str) -> list[tuple[str, ...]]:
    from outlast.edges.placeholders import Place, parts_of

    return [one.path for one in parts_of(headline) if isinstance(one, Place)]


def _unknown_place(path: tuple[str, ...], schema: JsonObject | None) -> str:
    """Return why no call has a value for a place of a headline; empty where the schema is open."""
    node: JsonObject | None = schema
    for at, name in enumerate(path):
        names = argument_names(node)
        if names is None:
            is_leaf = at > 0 and (node or {}).get("type") in _WITHOUT_FIELDS
            return f"{'.'.join(path[:at])} has no fields." if is_leaf else ""
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            what = f"{'.'.join(path[:at])} has no field" if at else "no argument is named"
            return f"{what} {name!r}. There are: {known}."
        node = _resolved(cast("JsonObject", cast("JsonObject", node)["properties"])[name], schema)
    return ""


_WITHOUT_FIELDS: Final = frozenset({"string", "integer", "number", "boolean", "null", "array"})


def _resolved(node: object, root: JsonObject | None) -> JsonObject | None:
    """Return a schema with its reference into `$defs` resolved; None if it is no such schema."""
    found = cast("JsonObject", node) if isinstance(node, dict) else None
    reference = str((found or {}).get("$ref", ""))
    if not reference:
        return found
    defs = (root or {}).get("$defs")
    named = cast("JsonObject", defs) if isinstance(defs, dict) else {}
    target = named.get(reference.removeprefix("#/$defs/"))
    return cast("JsonObject", target) if isinstance(target, dict) else None


def names_of(place: str, names: object) -> tuple[str, ...]:
    """Return a list of names without repetition."""
    if isinstance(names, str):
        raise UserError(f"{place} must be a list of names, such as [{names!r}], not a string.")
    listed = check_list(place, names)
    for name in listed:
        check_name(f"{place}: each name", name)
    return tuple(dict.fromkeys(cast("Sequence[str]", listed)))


def _decisions(place: str, allow: object) -> tuple[DecisionType, ...]:
    listed = check_list(place, allow)
    for one in listed:
        check_choice(f"{place}: each type", one, get_args(DecisionType))
    if "approve" not in listed and "edit" not in listed and "respond" not in listed:
        raise UserError(
            f"{place} must have 'approve', 'edit' or 'respond', or no call could ever "
            f"succeed; it is {list(listed)!r}."
        )
    return tuple(dict.fromkeys(cast("Sequence[DecisionType]", listed)))


def _audience(place: str, value: object) -> Audience:
    if isinstance(value, Audience):
        return value
    if not isinstance(value, str):
        raise UserError(f"{place} must be an Audience or the name of a group, not {value!r:.80}.")
    check_name(place, value)
    return Audience(groups=[value])


def _check_duration(place: str, value: object) -> None:
    duration(place, as_duration(value))
    if cast("timedelta", value) > LONGEST_WAIT:
        raise UserError(f"{place} must be at most ten years, not {value}.")


def _steps(place: str, value: object) -> tuple[Escalation, ...]:
    for step in check_list(place, value):
        if not isinstance(step, Escalation):
            raise UserError(
                f"{place} has {step!r:.80}: use Escalation(after=timedelta(hours=4), to='leads')."
            )
    return tuple(sorted(cast("Sequence[Escalation]", value), key=lambda step: step.after))


def _calendar(place: str, value: object) -> None:
    if not isinstance(value, Calendar):
        check_calendar_name(place, value)


def _tiers(place: str, value: object) -> tuple[ApprovalPolicy, ...]:
    for tier in check_list(place, value):
        if not isinstance(tier, ApprovalPolicy):
            raise UserError(f"{place} has {tier!r:.80}: use ApprovalPolicy(when=..., ...).")
        if tier.when is None or tier.tiers:
            raise UserError(
                f"{place}: each tier needs `when`, which says for which calls it holds, and has no "
                "tiers of its own."
            )
    return tuple(cast("Sequence[ApprovalPolicy]", value))


def _check_customer_text(place: str, value: object) -> None:
    check_name(place, value)
    if len(cast("str", value)) > LONGEST_CUSTOMER_TEXT:
        raise UserError(f"{place} must have at most {LONGEST_CUSTOMER_TEXT} characters.")


def _check_schema(place: str, value: Any) -> None:
    if not isinstance(value, dict) or json_problem(cast("object", value)) is not None:
        raise UserError(f"{place} must be a JSON Schema: a dict of data.")


_OPTIONAL: Final = frozenset(
    one.name for one in fields(ApprovalPolicy) if getattr(ApprovalPolicy, one.name) is None
)
"""The fields that may be left out, as None."""

_FIELD_CHECKS: Final[dict[str, Rule]] = {
    **typed_rules(ApprovalPolicy),
    "audience": _audience,
    "quorum": check_count,
    "expires_in": _check_duration,
    "remind_every": _check_duration,
    "escalate": _steps,
    "allow": _decisions,
    "redact": names_of,
    "redact_for": names_of,
    "when": called_with("context", "arguments", "call_id"),
    "binds": called_with("context"),
    "headline": _check_headline,
    "reason": check_name,
    "customer_text": _check_customer_text,
    "response_schema": _check_schema,
    "within": _calendar,
    "tiers": _tiers,
}
"""Refuse a value, and return the form in which policies keep it; None: as it is."""


def checked_field(name: str, value: Any) -> Any:
    """Return the value of a field as policies keep it."""
    if value is None and name in _OPTIONAL:
        return None
    kept = _FIELD_CHECKS[name](_place(name), value)
    return value if kept is None else kept


def _milliseconds(length: timedelta) -> int:
    return max(1, length // timedelta(milliseconds=1))


def argument_names(schema: JsonObject | None) -> set[str] | None:
    """Return the names of the arguments, or None if a schema does not list all of them."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, dict) or (schema or {}).get("additionalProperties"):
        return None
    return set(cast("JsonObject", properties))


NeedsApproval: TypeAlias = bool | ApprovalPredicate | ApprovalPolicy
"""Whether a person decides before a call: yes, no, a predicate, or a policy."""

DEFAULT_OPTIONS: Final = ApprovalPolicy()


def policy_of(setting: NeedsApproval) -> ApprovalPolicy | None:
    """Return the policy of a `needs_approval` setting; None if nobody is asked."""
    if isinstance(setting, ApprovalPolicy):
        return setting
    if isinstance(setting, bool):
        return DEFAULT_OPTIONS if setting else None
    return ApprovalPolicy(when=setting)


def check_needs_approval(
    place: str,
    setting: object,
    *,
    possible: Collection[DecisionType] = records.ALL_DECISIONS,
    schema: JsonObject | None = None,
) -> None:
    """Refuse an invalid `needs_approval`."""
    if isinstance(setting, ApprovalPolicy):
        setting.check_fits(place, possible=possible, schema=schema)
    elif not isinstance(setting, bool):
        check_callable(setting, ("context", "arguments", "call_id"), what=place)
