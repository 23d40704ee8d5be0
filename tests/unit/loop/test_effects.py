"""Commands: effects can be claimed by weak reference, never change, and tell what they are."""

import dataclasses
import weakref
from types import NoneType
from typing import Any, get_args

import pytest

from outlast.loop import effects
from outlast.loop.effects import (
    CancelEffect,
    Command,
    Effect,
    EffectAnswered,
    EffectFailed,
    Finish,
    LendBudget,
    NotifyAfterEnd,
    NotifyParent,
    ReportToTeam,
)
from tests.laws.driver import play_with_everything
from tests.laws.step_laws import RESULT_OF

EFFECT_CLASSES = get_args(Effect)


def all_effects() -> list[Any]:
    """One effect of each kind, as the loop makes them."""
    play = play_with_everything()
    return [next(one for one in play.issued if isinstance(one, kind)) for kind in EFFECT_CLASSES]


def test_the_unions_name_every_command_there_is() -> None:
    defined = {one for one in vars(effects).values() if dataclasses.is_dataclass(one)}
    own = {one for one in defined if getattr(one, "__module__", "") == effects.__name__}
    shared = {effects.AnyEffect, effects.AgentEffect, effects.TurnEffect}
    own -= {EffectAnswered, EffectFailed}
    assert own - shared == {
        *EFFECT_CLASSES,
        CancelEffect,
        NotifyParent,
        LendBudget,
        ReportToTeam,
        NotifyAfterEnd,
        Finish,
    }
    assert set(get_args(Command)) == own - shared
    assert {one: one.result or NoneType for one in EFFECT_CLASSES} == RESULT_OF


@pytest.mark.parametrize("at", range(len(EFFECT_CLASSES)))
def test_an_effect_can_be_held_weakly_and_never_changed(at: int) -> None:
    held = all_effects()
    effect = held[at]
    reference = weakref.ref(effect)
    assert reference() is effect
    with pytest.raises(dataclasses.FrozenInstanceError):
        effect.effect = 99
    del effect
    held.clear()
    assert reference() is None


def test_each_kind_of_effect_says_what_it_is() -> None:
    kinds = [effect.kind for effect in all_effects()]
    assert kinds == [
        "prepare_run",
        "check_input",
        "call_model",
        "cancel_response",
        "compact_view",
        "run_tool",
        "clean_up",
        "run_agent",
        "run_handoff",
        "finalize_answer",
        "save_session",
        "offload_items",
        "keep_line_open",
        "notify_people",
        "count_hours",
    ]
