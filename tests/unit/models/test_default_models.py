"""The model of agents that name none, as the environment says."""

import pytest

from outlast.models import get_default_model, gpt_5_reasoning_settings_required, is_gpt_5_default
from outlast.models.default_models import DEFAULT_MODEL
from outlast.models.provider import OpenAIProvider


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (None, None, DEFAULT_MODEL),
        ("", "", DEFAULT_MODEL),
        (None, "gpt-t", "gpt-t"),
        ("gpt-o", "gpt-t", "gpt-o"),
        ("", "gpt-t", "gpt-t"),
    ],
)
def test_the_environment_names_the_model_in_either_of_two_variables(
    monkeypatch: pytest.MonkeyPatch, ours: str | None, theirs: str | None, expected: str
) -> None:
    for variable, name in [("OUTLAST_MODEL", ours), ("OPENAI_DEFAULT_MODEL", theirs)]:
        if name is not None:
            monkeypatch.setenv(variable, name)
    assert get_default_model() == expected
    assert OpenAIProvider().get_model(None).name == expected


@pytest.mark.parametrize(
    ("name", "reasons"),
    [("gpt-5", True), ("gpt-5.4-mini", True), ("gpt-5-chat-latest", False), ("gpt-4.1", False)],
)
def test_a_program_can_ask_whether_the_default_is_a_gpt_5_that_reasons(
    monkeypatch: pytest.MonkeyPatch, name: str, reasons: bool
) -> None:
    monkeypatch.setenv("OPENAI_DEFAULT_MODEL", name)
    assert is_gpt_5_default() is reasons
    assert gpt_5_reasoning_settings_required(name) is reasons
