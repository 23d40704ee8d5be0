"""What follows a model that does not answer: the next of the agent's models, or the failure.

A worker knows the agent's models, and says with a failure which one may follow. Which model is
called is part of the command, so a worker that ends does not change it.
"""

from dataclasses import replace
from typing import Final, cast

from outlast.loop import effect_factory, endings, people, phrases, spending
from outlast.loop.calls import TriedModel
from outlast.loop.effects import CallModel
from outlast.loop.revision import revised
from outlast.loop.state import LoopState
from outlast.loop.values import Failure, Json, JsonObject

NEXT_MODEL: Final = "next_model"
"""A key in the details of a model call's failure: the model that may be called next.

Its value has the place of that model among the agent's (`at`), its name (`model`), and the name of
the model that failed (`tried`).
"""

LONGEST_REASON: Final = 300
"""How much of a failure's message is kept with the question; the failed call has all of it."""


def model_failed(state: LoopState, call: CallModel, failure: Failure, at_ms: int) -> LoopState:
    """Call the agent's next model, or fail the question if none may follow.

    Args:
        state: the state without the call that failed.
        call: that call.
        failure: how it failed, for good.
        at_ms: the time, in milliseconds since the epoch.
    """
    state = endings.give_up_responses(state, (call,))
    following = _following(failure)
    if following is None or following[0] <= call.model_at:
        return endings.fail_question(state, _with_tried(call, failure))
    return _next_model(state, call, failure, at_ms, *following)


def _next_model(
    state: LoopState, call: CallModel, failure: Failure, at_ms: int, at: int, model: str, name: str
) -> LoopState:
    """Call the model at a place; the later turns of the question call it, too.

    The agent's hooks at its start run again, as for another attempt. A budget that is used up, by a
    summary that was written meanwhile, comes first; the next turn then calls that model.
    """
    tried = TriedModel(
        model=name, reason=_reason(failure), message=failure.message[:LONGEST_REASON]
    )
    again = replace(
        call,
        effect=state.next_effect,
        context=state.context,
        begun=None,
        model_at=at,
        tried=(*call.tried, tried),
    )
    state = revised(state, model=model, model_at=at, tried=again.tried)
    budget = spending.used_up(state, at_ms)
    if budget is not None:
        return people.ask_to_go_on(state, budget, at_ms)
    return effect_factory.issue(state, again)


def _with_tried(call: CallModel, failure: Failure) -> Failure:
    """Return a failure that also says why the models before it did not answer."""
    if not call.tried:
        return failure
    tried: Json = [{"model": one.model, "reason": one.reason} for one in call.tried]
    return replace(
        failure,
        message=phrases.no_model_answered([one.line for one in call.tried], failure.message),
        details={**(failure.details or {}), "tried": tried},
    )


def _following(failure: Failure) -> tuple[int, str, str] | None:
    found: Json = (failure.details or {}).get(NEXT_MODEL)
    if not isinstance(found, dict):
        return None
    named = cast("JsonObject", found)
    at = named.get("at")
    if type(at) is not int:
        return None
    return at, str(named.get("model", "")), str(named.get("tried", ""))


def _reason(failure: Failure) -> str:
    return str((failure.details or {}).get("reason", failure.code))
