"""What a change of an approval policy allows that the policy did not allow before."""

from collections.abc import Callable, Iterator
from typing import Any, Final, cast, get_args

from outlast.agents.approvals.conditions import Condition
from outlast.agents.approvals.policy import ApprovalPolicy, Audience, ToolEffect
from outlast.loop import approvals as records
from outlast.loop.approvals import Risk
from outlast.loop.canonical import canonical_name
from outlast.loop.votes import audience_text

_EFFECTS: Final = cast("tuple[str | None, ...]", (None, *get_args(ToolEffect)))
_RISKS: Final = get_args(Risk)


def loosened(
    before: ApprovalPolicy | None, after: ApprovalPolicy | None, tool_effect: str | None = None
) -> dict[str, str]:
    """Return what a changed policy allows that it did not allow before, by field.

    A change whose meaning cannot be compared, such as another `when`, counts as looser.
    """
    if before is None:
        return {}
    if after is None:
        return {"needs_approval": "nobody is asked"}
    found = {name: compare(before, after, tool_effect) for name, compare in _COMPARED.items()}
    return {name: text for name, text in found.items() if text}


Compare = Callable[[ApprovalPolicy, ApprovalPolicy, str | None], str]


def _when(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    if after.when is None or before.when == after.when:
        return ""
    rule = "every call" if before.when is None else "other calls"
    return f"calls run without a person unless {after.when}; the policy asked about {rule}"


def _effect(before: ApprovalPolicy, after: ApprovalPolicy, tool_effect: str | None) -> str:
    was, now = before.effect or tool_effect, after.effect or tool_effect
    is_less = _EFFECTS.index(now) < _EFFECTS.index(was)
    return f"the effect is {now} instead of {was}" if is_less else ""


def _risk(before: ApprovalPolicy, after: ApprovalPolicy, tool_effect: str | None) -> str:
    was, now = before.risk_of(tool_effect), after.risk_of(tool_effect)
    is_less = _RISKS.index(now) < _RISKS.index(was)
    # A lower effect lowers the risk, too, and is reported by itself.
    is_named = after.risk is not None or before.risk is not None
    return f"the risk is {now} instead of {was}" if is_less and is_named else ""


def _audience(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    was, now = _people(before.audience), _people(after.audience)
    changes = list(_further(was, now))
    if was.exclude_requester and not now.exclude_requester:
        changes.append("the requester may decide")
    return " and ".join(changes)


def _quorum(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    is_less = after.quorum < before.quorum
    return f"{after.quorum} instead of {before.quorum} have to approve" if is_less else ""


def _expires_in(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    """A time after which calls run, and that is shorter."""
    if after.on_expiry != "approve" or before.on_expiry != "approve":
        return ""
    was, now = before.expires_in, after.expires_in
    is_sooner = was is not None and now is not None and now < was
    return f"calls run after {now} instead of {was}" if is_sooner else ""


def _on_expiry(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    runs = after.on_expiry == "approve" != before.on_expiry
    return f"calls that nobody decides run after {after.expires_in}" if runs else ""


def _within(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    """Other hours, after which calls run or further people may decide, perhaps sooner."""
    was, now = before.calendar_name, after.calendar_name
    does_more = after.on_expiry == "approve" or after.escalate
    if was is None or was == now or not does_more:
        return ""
    return f"times count the hours of {now} instead of {was}"


def _escalate(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    """Further people of an escalation, or the same people earlier."""
    changes: dict[str, None] = {}
    first = _people(before.audience)
    for step in after.escalate:
        entitled = [first, *(_people(one.to) for one in before.escalate if one.after <= step.after)]
        everybody = records.Audience(
            subjects=tuple(name for one in entitled for name in one.subjects),
            groups=tuple(name for one in entitled for name in one.groups),
        )
        if first.subjects or first.groups:
            changes |= dict.fromkeys(
                f"{text} after {step.after}" for text in _further(everybody, _people(step.to))
            )
    return " and ".join(changes)


def _allow(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    was = before.allow if before.allow is not None else records.ALL_DECISIONS
    added = [one for one in after.allow or () if one not in was]
    return f"people may {' and '.join(added)}" if added else ""


def _redact(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    shown = [name for name in before.redact if name not in after.redact]
    return f"reviewers see {' and '.join(shown)}" if shown else ""


def _redact_for(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    known = {canonical_name(one) for one in before.redact_for}
    added = [one for one in after.redact_for if canonical_name(one) not in known]
    names = [one for one in after.redact if one in before.redact]
    return f"{' and '.join(added)} see {' and '.join(names)}" if added and names else ""


def _bulk(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    return "many may be decided at once" if after.bulk and not before.bulk else ""


def _takeover(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    is_looser = before.takeover and not after.takeover
    return "people approve without taking the conversation over" if is_looser else ""


def _unverified(before: ApprovalPolicy, after: ApprovalPolicy, tool_effect: str | None) -> str:
    # Where it follows the risk, a lower risk is reported by itself.
    was, now = (policy.terms(tool_effect).unverified for policy in (before, after))
    is_looser = now and not was and after.unverified != before.unverified
    return "decisions count without proof of who decided" if is_looser else ""


def _response(before: ApprovalPolicy, after: ApprovalPolicy, _: str | None) -> str:
    was = before.response_schema
    return "responses may be others" if was is not None and was != after.response_schema else ""


def _tiers(before: ApprovalPolicy, after: ApprovalPolicy, tool_effect: str | None) -> str:
    """What other tiers mean for the calls of each tier, and for those of the policy itself."""
    changes: dict[str, None] = {}
    rules = (*before.tiers, before)
    for at, was in enumerate(rules):
        taken = [one.when for one in rules[:at]]
        for now in (*after.tiers, after):
            if any(_follows(when, now.when) for when in taken):
                continue  # none of its calls were of this rule
            if was is not before or now is not after:  # those two are compared field by field
                changes |= dict.fromkeys(_of_tier(was, now, before, tool_effect))
            if _follows(now.when, was.when):
                break
        else:
            if was is not before:
                changes[f"{_where(was)}: calls may run without a person"] = None
    return " and ".join(changes)


def _of_tier(
    was: ApprovalPolicy, now: ApprovalPolicy, before: ApprovalPolicy, tool_effect: str | None
) -> Iterator[str]:
    for name, compare in _COMPARED.items():
        text = "" if name in {"when", "tiers"} else compare(was, now, tool_effect)
        if text:
            yield f"{_where(now if was is before else was)}: {text}"


def _where(tier: ApprovalPolicy) -> str:
    if isinstance(tier.when, Condition) or not tier.name:
        return f"where {_words(tier.when)}"
    return f"calls of the tier {tier.name!r}"


def _words(when: Any) -> str:
    return str(when) if isinstance(when, Condition) else getattr(when, "__name__", "its rule")


def _follows(when: Any, other: Any) -> bool:
    """Whether a rule holds for every call for which another one does, as far as that is known."""
    if isinstance(when, Condition) and isinstance(other, Condition):
        return other.implies(when)
    return when is None or when == other


_COMPARED: Final[dict[str, Compare]] = {
    "when": _when,
    "effect": _effect,
    "risk": _risk,
    "audience": _audience,
    "quorum": _quorum,
    "expires_in": _expires_in,
    "on_expiry": _on_expiry,
    "within": _within,
    "escalate": _escalate,
    "allow": _allow,
    "redact": _redact,
    "redact_for": _redact_for,
    "bulk": _bulk,
    "takeover": _takeover,
    "unverified": _unverified,
    "response_schema": _response,
    "tiers": _tiers,
}
"""Return in words what the changed field allows; empty: nothing more than before."""


def _people(audience: Audience | str | None) -> records.Audience:
    if audience is None:
        return records.ANYBODY
    return cast("Audience", audience).record


def _further(was: records.Audience, now: records.Audience) -> Iterator[str]:
    if not (was.subjects or was.groups):
        return
    added = records.Audience(
        subjects=tuple(one for one in now.subjects if one not in was.subjects),
        groups=tuple(one for one in now.groups if one not in was.groups),
    )
    if not (now.subjects or now.groups):
        yield "everybody may decide"
    elif added.subjects or added.groups:
        yield f"{audience_text([added])} may decide"
