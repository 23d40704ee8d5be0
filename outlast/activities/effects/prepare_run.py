"""Carries out `PrepareRun`, which checks the agent and prepares the input."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from outlast.activities.approvals.gate import GuardedCall, tool_digest, tool_ruling
from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import EffectError, mistake, tool_is_gone, user_code, worker_lookup
from outlast.activities.invocation import Invocation, annotated_type
from outlast.activities.model.choice import model_label
from outlast.activities.parent_call import ParentCall, parent_call_of
from outlast.activities.session import load
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent_tools.agent_tool import nested_input
from outlast.agents.config.settings import MODEL_REF, references_in
from outlast.agents.errors import UserError
from outlast.agents.hooks import call_hooks
from outlast.agents.references import OWN
from outlast.contract import failures
from outlast.contract.effects import EffectRequest
from outlast.contract.names import SETTING_AS_TOOL, SETTING_SESSION
from outlast.contract.records import messages_of, write
from outlast.loop.call_forms import FUNCTION, call_item
from outlast.loop.calls import PreparedRun, RequiredApproval
from outlast.loop.checks import LACKS_APPROVAL
from outlast.loop.effects import PrepareRun
from outlast.loop.values import JsonObject


async def prepare_run(
    worker: WorkerDeps, request: EffectRequest[PrepareRun], attempt: Attempt = FIRST
) -> PreparedRun:
    """Look the starting agent up, before anything is paid for.

    Raises:
        EffectError: the worker lacks the agent or an object named in the settings, the context does
        not fit, or the session failed.
    """
    effect = request.effect
    settings = effect.settings or {}
    _find_parent_call(worker, settings, attempt)
    try:
        agent = worker.registry.agent(effect.agent)
        borrowed = worker.borrow(effect.context, effect.context_type, annotated_type(agent))
        for name in worker.registry.unknown_references(references_in(settings)):
            with worker_lookup() if name.startswith(OWN) else nullcontext():
                worker.registry.reference(name)
    except UserError as error:
        raise mistake(str(error)) from error
    invocation = Invocation.of(worker, effect, annotated_type(agent))
    if invocation.parent_call is not None:
        await _check_approved(invocation, invocation.parent_call, attempt)
    await invocation.call_run_hook("on_run_start")
    content = await _content(invocation, effect)
    old: tuple[int, ...] = ()
    if content is not None and SETTING_SESSION in settings:
        merged = await load(worker.registry, settings, content, invocation.tool)
        content = tuple(merged.items)
        old = tuple(at for at, is_new in enumerate(merged.new) if not is_new)
    return PreparedRun(
        model=model_label(invocation.reference(MODEL_REF) or settings.get("model") or agent.model),
        context=borrowed.value if effect.context is None else None,
        required_steps=invocation.required_steps(),
        changes=invocation.changes(),
        input=content,
        old=old,
        notifies=bool(worker.notifiers),
        notifies_later=bool(worker.notifiers),
        notifies_mentions=bool(worker.notifiers),
    )


def _find_parent_call(worker: WorkerDeps, settings: JsonObject, attempt: Attempt) -> None:
    """Register the names in the own settings of the tool that a nested run answers.

    Raises:
        EffectError: this worker does not have the tool, or nobody has it any more.
    """
    try:
        parent_call_of(worker.registry, settings)
    except EffectError as error:
        if not attempt.waits_in_vain(worker):
            raise
        name = str(settings[SETTING_AS_TOOL].get("tool"))
        raise EffectError(failures.USER_ERROR, tool_is_gone(name), retryable=False) from error


async def _check_approved(invocation: Invocation, call: ParentCall, attempt: Attempt) -> None:
    """Refuse a nested run whose call lacks the approval that it needs: the caller's run asks."""
    execution, identity = attempt.execution, invocation.worker.identity
    if execution is not None and identity is not None and call.evidence is not None:
        lineage = await identity.lineage_of(execution)
        execution = replace(execution, workflow_id=lineage.parent_id, execution_id=lineage.chain_id)
    guarded = GuardedCall(
        call_id=call.call_id,
        arguments=call.arguments,
        digest_of_tool=partial(
            tool_digest, invocation.worker.registry.name_of(call.agent), call.tool
        ),
        evidence=call.evidence,
        execution=execution,
    )
    raw = call_item(
        FUNCTION, call_id=call.call_id, name=call.tool.called_name, arguments=call.arguments
    )
    caller = replace(invocation, agent=call.agent)
    required = await tool_ruling(call.tool, caller, raw, guarded)
    if isinstance(required, RequiredApproval):
        why = f" {required.reason}" if required.reason else ""
        raise EffectError(
            failures.USER_ERROR,
            f"People have to approve this call of {call.tool.name} before it runs.{why}",
            retryable=False,
            details={LACKS_APPROVAL: write(replace(required, arguments=""))},
        )


async def _content(invocation: Invocation, request: PrepareRun) -> tuple[JsonObject, ...] | None:
    parent_call = invocation.parent_call
    if parent_call is None:
        return request.input
    with user_code(f"The input of the tool {parent_call.tool.name!r}"):
        built = await nested_input(parent_call.tool, parent_call.arguments)
    with user_code(f"on_tool_start of agent {parent_call.agent.name!r}"):
        await call_hooks(*parent_call.hook_calls("on_tool_start", invocation.wrapper))
    return messages_of(built)
