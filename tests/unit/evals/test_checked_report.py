"""Bars and baselines: which cases pass, and which got worse."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic_evals.evaluators import EvaluationResult, EvaluatorFailure
from pydantic_evals.evaluators.spec import EvaluatorSpec
from pydantic_evals.reporting import EvaluationReport, ReportCase, ReportCaseFailure

from outlast.agents.errors import UserError
from outlast.evals import check_report, load_report, save_report
from tests.hostile_text import assert_visible

SPEC = EvaluatorSpec(name="X", arguments=None)


def case(
    name: str, held: Mapping[str, bool], *, reason: str | None = None, broken: str = ""
) -> ReportCase[Any]:
    failures = [
        EvaluatorFailure(name="Judge", error_message=broken, error_stacktrace="", source=SPEC)
    ]
    return ReportCase[Any](
        name=name,
        inputs={"messages": ["Hi"]},
        metadata=None,
        expected_output=None,
        output={"answer": "Hi"},
        metrics={"tokens": 3},
        attributes={},
        scores={},
        labels={},
        assertions={
            one: EvaluationResult(name=one, value=value, reason=reason, source=SPEC)
            for one, value in held.items()
        },
        task_duration=0.5,
        total_duration=0.5,
        evaluator_failures=failures if broken else [],
    )


def failed(name: str, why: str = "down") -> ReportCaseFailure[Any]:
    return ReportCaseFailure[Any](
        name=name,
        inputs=None,
        metadata=None,
        expected_output=None,
        error_message=why,
        error_stacktrace="",
    )


def report(*cases: Any) -> EvaluationReport[Any]:
    return EvaluationReport[Any](
        name="desk",
        cases=[one for one in cases if isinstance(one, ReportCase)],
        failures=[one for one in cases if isinstance(one, ReportCaseFailure)],
    )


def test_the_bar_is_the_share_of_cases_that_pass():
    made = report(case("b", {"X": True}), case("a", {"X": True, "Y": False}), failed("c"))
    checked = check_report(made, bar=1 / 3)
    assert [one.name for one in checked.cases] == ["a", "b", "c"]
    assert checked.is_good
    assert not check_report(made, bar=0.34).is_good
    assert checked.report().splitlines() == [
        "a:",
        "  Y failed",
        "c:",
        "  The run failed: down",
        "1 of 3 cases pass (33.3%; the bar is 33.3%).",
    ]


def test_nothing_passes_where_there_is_nothing():
    assert not check_report(report()).is_good


def test_an_evaluator_that_failed_has_judged_nothing():
    (one,) = check_report(report(case("a", {"X": True}, broken="no key"))).cases
    assert one.problems == ("Judge could not judge: no key",)


@pytest.mark.parametrize(
    ("then", "now", "worse"),
    [
        (case("a", {"X": True}), case("a", {"X": True}), False),
        (case("a", {"X": True}), case("a", {"X": False}), True),
        (case("a", {"X": False}), case("a", {"X": False}), False),
        (case("a", {"X": False}), case("a", {"X": True}), False),
        (case("a", {"X": False, "Y": True}), case("a", {"X": True, "Y": False}), True),
        (case("a", {"X": True}), failed("a"), True),
        (case("a", {"X": True}), case("a", {"X": True}, broken="no key"), True),
        (case("a", {"X": True}), case("a", {"X": True, "New": False}), True),
        (failed("a"), failed("a"), False),
        (failed("a"), case("a", {"X": False}), False),
        (case("b", {"X": True}), case("a", {"X": False}), False),
    ],
)
def test_a_case_that_got_worse(then: Any, now: Any, worse: bool):
    checked = check_report(report(now), bar=0, baseline=report(then))
    assert [one.worse for one in checked.cases] == [worse]
    assert checked.is_good is not worse


def repeated(name: str, *passes: bool) -> list[ReportCase[Any]]:
    """The runs of one case, as `evaluate(repeat=...)` reports them."""
    return [
        dataclasses.replace(
            case(f"{name} [{number}/{len(passes)}]", {"X": passed}), source_case_name=name
        )
        for number, passed in enumerate(passes, 1)
    ]


def test_a_case_that_runs_several_times_passes_if_all_its_runs_do():
    made = report(*repeated("a", True, True, True), *repeated("b", True, False, True))
    checked = check_report(made, bar=0.5)
    assert checked.is_good
    assert [(one.name, one.runs, one.passed) for one in checked.cases] == [
        ("a", 3, 3),
        ("b", 3, 2),
    ]
    assert checked.cases[1].problems == ("run 2 of 3: X failed",)
    assert checked.pass_hat == pytest.approx((5 / 6, (1 + 1 / 3) / 2, 1 / 2))
    assert checked.rate == checked.pass_hat[-1]
    lines = checked.report().splitlines()
    assert lines[-2] == "Each case ran 3 times: pass^1 83.3%, pass^2 66.7%, pass^3 50.0%."
    assert lines[-1] == "1 of 2 cases pass all their runs (50.0%; the bar is 50.0%)."


@pytest.mark.parametrize(
    ("then", "now", "worse"),
    [
        ((True, True), (True, False), True),
        ((True, False), (True, False), False),
        ((True, False), (True, True), False),
        ((True,), (True, True, False), True),
    ],
)
def test_fewer_runs_of_a_case_that_pass_are_worse(then: Any, now: Any, worse: bool):
    checked = check_report(
        report(*repeated("a", *now)), bar=0, baseline=report(*repeated("a", *then))
    )
    assert checked.cases[0].worse is worse


def test_cases_that_are_gone_are_named():
    before = report(case("a", {"X": True}), case("gone", {"X": True}))
    checked = check_report(report(case("a", {"X": False})), bar=0.5, baseline=before)
    assert checked.report().splitlines() == [
        "a: worse than the baseline",
        "  X failed",
        "Only in the baseline: gone",
        "0 of 1 cases pass (0.0%; the bar is 50.0%), 1 got worse.",
    ]
    assert checked.record() == {
        "good": False,
        "rate": 0.0,
        "bar": 0.5,
        "pass_hat": [0.0],
        "failed": [{"case": "a", "problems": ["X failed"], "runs": 1, "passed": 0}],
        "worse": ["a"],
        "removed": ["gone"],
    }


def test_hostile_texts_are_escaped_and_cut():
    hostile = "\x1b[2K\u202e\nerror: all is well" + "x" * 1_000
    made = report(case(hostile, {hostile: False}, reason=hostile), failed(f"{hostile}2", hostile))
    text = check_report(made, baseline=report(case(f"{hostile}3", {}))).report()
    assert_visible(text, layout="\n")
    assert "\nerror" not in text
    assert "cut: 300 of" in text


def test_a_report_is_a_baseline_as_it_was_written(tmp_path: Path):
    made = report(case("a", {"X": True}, reason="so"), failed("b"))
    save_report(made, tmp_path / "report.json")
    read = load_report(tmp_path / "report.json")
    assert check_report(read) == check_report(made)
    assert "a" in made.render(width=100, baseline=read)


def test_a_file_that_holds_no_report(tmp_path: Path):
    with pytest.raises(UserError, match="No such file"):
        load_report(tmp_path / "gone.json")
    for number, text in enumerate(("{}", "no", "[]", '{"name": 1, "cases": [{}]}')):
        file = tmp_path / f"{number}.json"
        file.write_text(text)
        with pytest.raises(UserError, match="is no report"):
            load_report(file)
