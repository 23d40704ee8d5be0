"""The gate of guarded calls: the worker that runs a call enforces its policy.

What a run's state says about approvals is for readers: whoever reaches the Temporal server can
write it. Here, just before a call takes effect, its policy is evaluated for the arguments that it
will run with, and the decisions that came with it are verified. Where people are missing, the call
does not run, and the run asks them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

from outlast.activities.approvals.rule import Ruling, approval_rule_of, handoff_rule
from outlast.activities.invocation import Invocation
from outlast.agents.agent_tools.agent_tool import AgentTool
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.mcp.tools import source_of
from outlast.agents.registry import target_of
from outlast.agents.tools.definition import FunctionTool
from outlast.contract.identity import LONGEST_VOTE_AGE_MS, IdentityKeys, Place, proof_problem
from outlast.contract.records import customer_of
from outlast.edges import clock
from outlast.loop.approvals import (
    ApprovalTerms,
    Decision,
    Evidence,
    Seen,
    reviewed,
    terms_digest,
    with_redacted,
)
from outlast.loop.calls import RequiredApproval
from outlast.loop.canonical import canonical_name, digest, digest_of
from outlast.loop.items import with_authors
from outlast.loop.values import Json, JsonObject
from outlast.loop.votes import Sender, difference, person_problem
from outlast.ports.identity import Execution, WorkerIdentity


@dataclass(frozen=True, kw_only=True)
class GuardedCall:
    """A call that is about to take effect.

    Attributes:
        arguments: all arguments, as the call will run.
        evidence: what people decided about the call, as the run says.
        execution: the execution that asks for the call, in the server's words; None in memory.
        altered: runs the validators of a tool, and returns the arguments that they change; None if
            the function reads the text.
    """

    call_id: str
    arguments: str
    digest_of_tool: Callable[[], str]
    evidence: Evidence | None
    execution: Execution | None
    altered: Callable[[], str] | None = None

    @cached_property
    def tool_digest(self) -> str:
        """The digest of the tool."""
        return self.digest_of_tool()


async def tool_ruling(
    tool: FunctionTool, invocation: Invocation, raw: JsonObject, call: GuardedCall
) -> Ruling:
    """Return whether a tool's call may run; see `Ruling`."""
    decided = partial(_problem, invocation, call)
    rule = await approval_rule_of(tool, raw, invocation, decided, call.altered)
    return _of_call(rule, call, source_of(tool)) if isinstance(rule, RequiredApproval) else rule


async def handoff_ruling(
    entry: Handoff, invocation: Invocation, raw: JsonObject, call: GuardedCall
) -> RequiredApproval | None:
    """Return the approval that a handoff lacks; None if it may happen."""
    decided = partial(_problem, invocation, call)
    rule = await handoff_rule(entry, raw, invocation, decided)
    return None if rule is None else _of_call(rule, call)


def _of_call(rule: RequiredApproval, call: GuardedCall, source: str = "") -> RequiredApproval:
    return replace(rule, source=source, tool_digest=call.tool_digest, arguments=call.arguments)


# --- What is approved ----------------------------------------------------------------------------


def tool_digest(agent: str, tool: FunctionTool) -> str:
    """Return the digest of a tool: a vote for one that has changed or moved does not count."""
    target = target_of(tool).name if isinstance(tool, AgentTool) else ""
    return digest_of(
        [agent, "tool", tool.called_name, source_of(tool), tool.params_json_schema, target]
    )


def handoff_digest(agent: str, entry: Handoff, target: str, variant: str) -> str:
    """Return the digest of a handoff, as `tool_digest`; `variant` if others are named alike."""
    parts: list[Json] = [agent, "handoff", entry.tool_name, target, entry.input_json_schema]
    return digest_of([*parts, variant] if variant else parts)


def with_defaults(schema: JsonObject, arguments: str) -> str:
    """Return arguments with the defaults of their schema: what is approved is what runs.

    Arguments that leave nothing out stay as they are written, and so does what is no JSON object.
    """
    properties = cast("dict[str, Json]", schema.get("properties") or {})
    defaults: JsonObject = {
        name: cast("JsonObject", part)["default"]
        for name, part in properties.items()
        if isinstance(part, dict) and "default" in part
    }
    if not defaults:
        return arguments
    try:
        fields: Json = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(fields, dict):
        return arguments
    missing = {name: value for name, value in defaults.items() if name not in fields}
    return json.dumps({**fields, **missing}, ensure_ascii=False) if missing else arguments


def seen_now(call: GuardedCall, terms: ApprovalTerms) -> Seen:
    """Return what people have to have seen of a call, in digests."""
    return Seen(
        call_id=call.call_id,
        arguments=digest(call.arguments),
        shown=digest(reviewed(call.arguments, terms.redact)),
        tool=call.tool_digest,
        policy=terms_digest(terms),
        question=None if call.evidence is None else call.evidence.question,
    )


# --- Whether the decisions count -----------------------------------------------------------------


async def _problem(invocation: Invocation, call: GuardedCall, rule: RequiredApproval) -> str | None:
    evidence, terms = call.evidence, rule.terms
    if evidence is None:
        return ""
    if evidence.expired and terms.on_expiry == "approve" and terms.unverified:
        return None
    check = _Check(invocation, terms, call, evidence)
    agreed, problems = set[str](), list[str]()
    for decision in evidence.decisions:
        problem = await check.problem_of(decision)
        if problem is None:
            agreed.add(canonical_name(decision.by or ""))
        else:
            problems.append(
                f"The decision of {decision.by or 'somebody'} does not count: {problem}."
            )
    if len(agreed) >= terms.quorum:
        return None
    missing = "" if problems else f"{len(agreed)} of {terms.quorum} people have approved this."
    return " ".join([*problems, missing]).strip()


@dataclass(frozen=True)
class _Check:
    invocation: Invocation
    terms: ApprovalTerms
    call: GuardedCall
    evidence: Evidence

    async def problem_of(self, decision: Decision) -> str | None:
        """Return why a decision does not let the call run, or None if it does."""
        terms = self.terms
        if decision.type not in {"approve", "edit"} or decision.type not in terms.allow:
            return f"its type is {decision.type}"
        audiences = (terms.audience, *(step.audience for step in terms.escalations))
        customer = customer_of(self.invocation.settings)
        # Whether the sender is verified is checked below, by the proof.
        requesters = with_authors(self.evidence.authors, (customer.id,))
        sender = Sender(at_ms=clock.now_ms(), verified=True, requesters=requesters)
        problem = person_problem(terms, audiences, decision.person, sender)
        if problem:
            return problem.removeprefix(":").strip().removesuffix(".")
        return self._other_than_seen(decision) or await self._proof_problem(decision)

    def _other_than_seen(self, decision: Decision) -> str | None:
        present = seen_now(self.call, self.terms)
        seen = decision.seen
        if decision.type == "edit":
            return self._other_edit(decision, present)
        if seen is None:
            if self._needs_proof:
                return "it does not say what the person saw"
            of_digest = present.arguments if decision.remember else decision.args_digest
            is_same = of_digest in {None, present.arguments}
            return None if is_same else "it was made for other arguments"
        if decision.remember and self.terms.quorum == 1:
            seen = replace(seen, call_id=present.call_id)
            if decision.remember_until == "conversation":
                seen = replace(seen, question=present.question)
            elif seen.question is None:
                return "it does not say for which question it holds"
            if not _is_exact(decision):
                seen = replace(seen, arguments=present.arguments, shown=present.shown)
        differs = difference(seen, present)
        if differs is not None and self.terms.bound and seen.policy != present.policy:
            differs = f"{differs}, or for other values of the context"
        return None if differs is None else f"it was made for {differs}"

    def _other_edit(self, decision: Decision, present: Seen) -> str | None:
        """Return what differs from the arguments that a person has edited, and from the edit."""
        for before in self.evidence.edited:
            wanted = with_redacted(decision.edited_arguments or {}, before)
            if digest(json.dumps(wanted, ensure_ascii=False)) != present.arguments:
                continue
            if decision.seen is None and not self._needs_proof:
                return None
            shown = digest(reviewed(before, self.terms.redact))
            base = replace(present, arguments=digest(before), shown=shown)
            differs = None if decision.seen is None else difference(decision.seen, base)
            if decision.seen is not None and differs is None:
                return None
            return f"it was made for {differs or 'nothing that it names'}"
        return "it was made for other arguments than this call's"

    @property
    def _needs_proof(self) -> bool:
        """Whether decisions need a proof; in memory, the process believes itself."""
        return not self.terms.unverified and self.call.execution is not None

    async def _proof_problem(self, decision: Decision) -> str | None:
        execution = self.call.execution
        identity = self.invocation.worker.identity or WorkerIdentity()
        if execution is None:
            return None
        if not self._needs_proof and (decision.proof is None or not identity.keys):
            return None
        # A run without nested runs and without earlier histories is its own first execution.
        problem = self._signature_problem(decision, identity.keys, execution.execution_id)
        if problem is None or not identity.keys or decision.proof is None:
            return problem
        lineage = await identity.lineage_of(execution)
        return self._signature_problem(decision, identity.keys, lineage.chain_id)

    def _signature_problem(
        self, decision: Decision, keys: IdentityKeys, chain_id: str
    ) -> str | None:
        execution = self.call.execution
        assert execution is not None  # noqa: S101  the caller checks it
        # A remembered decision was made in the conversation, maybe in an earlier nested run.
        elsewhere = self.evidence.run_id if decision.remember else ""
        place = Place(
            namespace=execution.namespace,
            chain_id=chain_id,
            run_id=elsewhere or execution.workflow_id,
        )
        return proof_problem(
            decision, place, keys, now_ms=clock.now_ms(), longest_ms=LONGEST_VOTE_AGE_MS
        )


def _is_exact(decision: Decision) -> bool:
    return decision.remember_scope == "tool_with_args"
