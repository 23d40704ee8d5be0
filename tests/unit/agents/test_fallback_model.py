"""What a `FallbackModel` takes, and how it is written into a run's settings."""

from datetime import timedelta
from typing import Any

import pytest

from outlast import Agent, FallbackModel, ModelSettings, RunConfig
from outlast.agents.agent_changes import changes_of, with_changes
from outlast.agents.config.compaction import Compaction
from outlast.agents.config.fallback_model import (
    ModelChoice,
    choices_of,
    first_model,
    followed_by,
    read_models,
)
from outlast.agents.config.retry import ModelRetrySettings
from outlast.agents.config.settings import MODEL_REF, write_run_config
from outlast.agents.errors import UserError
from outlast.testing import ScriptedModel

COLD = ModelSettings(temperature=0.0, timeout=timedelta(seconds=20))


def test_models_are_named_in_order_each_with_settings_of_its_own():
    models = FallbackModel("first", ("second", COLD), ("third", {"temperature": 0.5}), None)

    assert models.choices == (
        ModelChoice("first"),
        ModelChoice("second", COLD),
        ModelChoice("third", ModelSettings(temperature=0.5)),
        ModelChoice(None),
    )
    assert repr(models) == "FallbackModel('first', 'second', 'third', None)"
    assert Agent[Any](name="Desk", model=models).model is models
    assert RunConfig(model=models).model is models


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (["only"], "takes two models at least"),
        (["first", 7], "model 2 must be a model's name, a model"),
        (["first", ("second", COLD, 1)], r"model 2 must be a model, or a pair"),
        (["first", ("second", 7)], "the second of the pair is 7"),
        (["first", FallbackModel("a", "b")], "model 2 is a FallbackModel: name its models here"),
    ],
)
def test_what_is_no_model_is_refused_with_its_place(models: list[Any], message: str):
    with pytest.raises(UserError, match=message):
        FallbackModel(*models)


def test_a_single_wrong_model_is_refused_as_before():
    with pytest.raises(UserError, match="must be a model's name, a model"):
        Agent[Any](name="Desk", model=7)


def test_names_are_data_of_a_run_which_every_worker_reads():
    retry = ModelRetrySettings(max_retries=1)
    models = FallbackModel(
        "first", ("second", ModelSettings(retry=retry)), ("third", ModelSettings())
    )

    settings = write_run_config(RunConfig(model=models), lambda _: "never")

    assert settings == {
        "model": [
            {"model": "first"},
            {"model": "second", "settings": {"retry": {"max_retries": 1}}},
            {"model": "third", "settings": {}},
        ]
    }
    assert choices_of(settings["model"]) == models.choices


@pytest.mark.parametrize(
    "second",
    [
        ScriptedModel(),
        ("second", ModelSettings(retry=ModelRetrySettings(policy=lambda _: True))),
        ("second", ModelSettings(extra_args={"x": object()})),
    ],
)
def test_what_is_no_data_is_an_object_of_the_run(second: Any):
    models = FallbackModel("first", second)

    settings = write_run_config(RunConfig(model=models), lambda one: f"ref-{one is models}")

    assert settings == {MODEL_REF: "ref-True"}


def test_a_secret_in_a_models_settings_is_not_written_into_a_run():
    secret = ModelSettings(extra_headers={"Authorization": "Bearer abc"})

    with pytest.raises(UserError, match=r"model\[1\]\.settings\.extra_headers\.Authorization"):
        write_run_config(RunConfig(model=FallbackModel("first", ("second", secret))), str)


def test_settings_that_somebody_typed_are_read_as_far_as_they_go():
    assert choices_of("one") == (ModelChoice("one"),)
    assert choices_of(["a", {"model": "b"}, 7, {"model": 3}]) == (
        ModelChoice("a"),
        ModelChoice("b"),
    )
    assert choices_of([7]) == (ModelChoice(None),)
    assert first_model(FallbackModel("a", "b")) == "a"
    assert read_models("one") == "one"
    assert read_models(["a"]) == "a"
    assert read_models([{"model": "a"}, {"model": "b", "settings": {}}]).choices == (
        ModelChoice("a"),
        ModelChoice("b", ModelSettings()),
    )


def test_operators_name_what_follows_the_first_and_settings_of_the_code_stay():
    choices = FallbackModel("first", ("second", COLD), ScriptedModel()).choices

    assert followed_by(choices, None) == choices
    assert followed_by(choices, ()) == (ModelChoice("first"),)
    assert followed_by(choices, ("third", "second")) == (
        ModelChoice("first"),
        ModelChoice("third"),
        ModelChoice("second", COLD),
    )


def test_a_copy_of_an_agent_with_other_models_is_recorded_as_data():
    base = Agent[Any](name="Desk", model="first")
    models = FallbackModel("first", ("second", COLD))

    changes = changes_of(base.clone(model=models), base, "Desk")

    assert changes is not None
    assert with_changes(base, changes, "Desk").model.choices == models.choices
    of_objects = base.clone(model=FallbackModel("first", ScriptedModel()))
    assert changes_of(of_objects, base, "Desk") is None
    secret = ("second", ModelSettings(extra_headers={"Authorization": "Bearer abc"}))
    assert changes_of(base.clone(model=FallbackModel("first", secret)), base, "Desk") is None


def test_a_provider_is_needed_where_one_of_the_models_is_a_name():
    objects = FallbackModel(ScriptedModel(), ScriptedModel())
    RunConfig(model=objects, model_provider=object())  # ignored, with a warning

    with pytest.raises(UserError, match="model_provider"):
        RunConfig(model=FallbackModel(ScriptedModel(), "second"), model_provider=object())


def test_each_model_of_an_agent_whose_provider_makes_conversations_shorter_has_to():
    by_provider = Compaction(window=1_000, by="provider")

    with pytest.raises(UserError, match="makes no conversation shorter"):
        Agent[Any](
            name="Desk", model=FallbackModel("first", ScriptedModel()), compaction=by_provider
        )
