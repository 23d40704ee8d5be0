"""What guardrails tell: JSON for the record, and the same object for whoever catches a tripwire."""

import sys
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import pytest
from pydantic import BaseModel, Field

from outlast.agents.config.run_config import RunConfig
from outlast.agents.guardrails.output_info import read_info, write_info


class Verdict(BaseModel):
    reason: str = Field(alias="why")
    scores: tuple[int, ...] = ()


@dataclass
class Notes:
    seen: list[str]
    inner: list[Verdict] = field(default_factory=list[Verdict])


class Unseen(BaseModel):
    """A class that no guardrail has returned."""

    reason: str


def check(*_: object) -> None:
    """A guardrail of this module."""


stranger = FunctionType(check.__code__, {})
"""A guardrail of another module."""


OBJECTS: list[tuple[Any, Any]] = [
    (Verdict(why="rude", scores=(1, 2)), {"reason": "rude", "scores": [1, 2]}),
    (Notes(seen=["a"]), {"seen": ["a"], "inner": []}),
    (
        Notes(["a"], [Verdict(why="b")]),
        {"seen": ["a"], "inner": [{"reason": "b", "scores": []}]},
    ),
]


@pytest.mark.parametrize(("info", "written"), OBJECTS)
def test_an_object_is_one_again(info: Any, written: Any) -> None:
    found = write_info(info)
    assert found == (written, f"{__name__}:{type(info).__qualname__}")
    assert read_info(*found, stranger) == info


@pytest.mark.parametrize(
    ("info", "written"),
    [
        (None, None),
        ("x", "x"),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ({1: object}, "{1: <class 'object'>}"),
        ({1: object, 2: "x" * 2_000}, f"{{1: <class 'object'>, 2: '{'x' * 2_000}"[:1_000]),
    ],
)
def test_what_is_no_object_is_json_or_else_text(info: Any, written: Any) -> None:
    assert write_info(info) == (written, None)
    assert read_info(written, None, check) == written


def test_an_object_that_is_not_data_is_text() -> None:
    @dataclass
    class Holds:
        error: Exception

    written, name = write_info(Holds(ValueError("no")))
    assert name is None
    assert "ValueError('no')" in written


def test_a_process_that_has_not_run_the_guardrail_knows_the_classes_of_its_module() -> None:
    name, written = f"{__name__}:Unseen", {"reason": "rude"}
    assert read_info(written, name, check) == Unseen(reason="rude")
    assert read_info(written, name, stranger) == written
    assert read_info({"reason": 5}, name, check) == {"reason": 5}, "it does not fit the class"


@pytest.mark.parametrize(
    "name",
    [
        "this:is_a_trap",
        "antigravity:Verdict",
        "tests.unit.agents.test_output_info:check",
        "tests.unit.agents.test_output_info:Verdict.model_config",
        "elsewhere:Verdict",
        "Verdict",
        "",
        ":",
        f"{RunConfig.__module__}:RunConfig",
        "subprocess:Popen",
    ],
)
def test_a_name_that_somebody_made_up_imports_and_makes_nothing(name: str) -> None:
    before = set(sys.modules)
    assert read_info({"args": "x"}, name, check) == {"args": "x"}
    assert set(sys.modules) == before
