"""The task of an evaluation: today's agents on the input of a case, in memory."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, Unpack

from pydantic_evals import increment_eval_metric

from outlast.agents.agent import Agent
from outlast.client.start.options import check_names
from outlast.evals.datasets import CaseInput
from outlast.evals.trajectory import Trajectory, trajectory_of
from outlast.pricing import Pricing
from outlast.testing.run_replay import Replay, ReplayOptions, replay

Task: TypeAlias = Callable[[CaseInput], Awaitable[Trajectory]]
"""A task for `Dataset.evaluate`."""


class CaseFailed(Exception):
    """A run of a case that did not end as it has to."""


def task_of(
    agents: Agent[Any] | Sequence[Agent[Any]],
    *,
    pricing: Pricing | None = None,
    **options: Unpack[ReplayOptions],
) -> Task:
    """Return the task that runs agents on the cases of a data set, in memory.

    Tools return what the recorded run has for the same call, and people decide as they did there.
    An approval request that the recorded run does not have is approved.

    Args:
        agents: the agents; those that they hand over to are found.
        pricing: prices of models; default: `Pricing.load()`.
        **options: those of `outlast.testing.replay`, such as a `model` that makes the replies.
    """
    check_names(options, ReplayOptions, caller="task_of")
    prices = Pricing.load() if pricing is None else pricing

    async def run_agents(case: CaseInput) -> Trajectory:
        replayed = await replay(case.recording, agents, **options)
        unrecorded = [str(one) for one in replayed.unknown]
        made = trajectory_of(replayed.now, unrecorded=unrecorded, pricing=prices)
        _count(made)
        _require_end(case, replayed, made)
        return made

    return run_agents


def _count(made: Trajectory) -> None:
    """Show what a case took in the report."""
    increment_eval_metric("model_calls", made.model_calls)
    increment_eval_metric("tokens", made.input_tokens + made.output_tokens)
    increment_eval_metric("cost_usd", made.cost_usd or 0)
    increment_eval_metric("unrecorded_calls", len(made.unrecorded))


def _require_end(case: CaseInput, replayed: Replay, made: Trajectory) -> None:
    if replayed.stopped:
        raise CaseFailed(replayed.stopped)
    last = next((one for one in reversed(replayed.now.entries) if one.kind == "answer"), None)
    if last is None:
        raise CaseFailed(f"The run has no answer; its status is {replayed.now.status}.")
    if made.failure == case.failure:
        return
    if last.failure is not None:
        raise CaseFailed(f"{last.failure.message} ({last.failure.code})")
    raise CaseFailed(f"The run answers; it has to fail with {case.failure}.")
