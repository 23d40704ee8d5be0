"""Carries out `CancelResponse`: the provider stops a response that nobody waits for any more."""

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import model_code, worker_lookup
from outlast.activities.invocation import Invocation, annotated_type
from outlast.activities.model.choice import model_of
from outlast.activities.worker_deps import WorkerDeps
from outlast.contract.effects import EffectRequest
from outlast.loop.effects import CancelResponse
from outlast.ports.model import BackgroundModel


async def cancel_response(
    worker: WorkerDeps, request: EffectRequest[CancelResponse], attempt: Attempt = FIRST
) -> None:
    """Let the provider stop a response that nobody waits for any more.

    Raises:
        EffectError: the provider could not be asked.
    """
    del attempt
    effect = request.effect
    with worker_lookup():
        agent = worker.registry.agent(effect.agent)
    model, _ = model_of(Invocation.of(worker, effect, annotated_type(agent)))
    if not isinstance(model, BackgroundModel):
        return
    with model_code(f"cancel_response of {type(model).__name__}"):
        await model.cancel_response(effect.response_id)
