"""Whether a report is good enough: which cases pass, and which got worse since a baseline."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from pydantic_evals.reporting import (
    EvaluationReport,
    EvaluationReportAdapter,
    ReportCase,
    ReportCaseFailure,
)

from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject
from outlast.rendering import Shown, cut, joined, visible

Report: TypeAlias = EvaluationReport[Any, Any, Any]

LONGEST_REASON = 300
"""The maximum number of characters of a reason in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCase:
    """A case of a report.

    Attributes:
        name: the name of the case.
        problems: why it does not pass, each safe to show; empty if it passes.
        worse: it passed in the baseline, or more of its assertions held there.
    """

    name: str
    problems: tuple[str, ...] = ()
    worse: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckedReport:
    """A report, a bar, and what comes of them.

    Attributes:
        cases: the cases, in the order of their names.
        bar: the share of cases that has to pass, from 0 to 1.
        removed: cases that only the baseline has.
    """

    cases: tuple[CheckedCase, ...]
    bar: float
    removed: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """The share of cases that pass; 0 without cases."""
        passing = sum(not one.problems for one in self.cases)
        return passing / len(self.cases) if self.cases else 0.0

    @property
    def is_good(self) -> bool:
        """Whether enough cases pass, and none got worse."""
        return self.rate >= self.bar and not any(one.worse for one in self.cases)

    def report(self) -> str:
        """Return what failed and what got worse as text, with invisible characters escaped."""
        lines: list[str] = []
        for one in self.cases:
            if one.problems or one.worse:
                lines.append(joined(one.name, ": worse than the baseline" if one.worse else ":"))
                lines += [joined("  ", problem) for problem in one.problems]
        if self.removed:
            names = ", ".join(self.removed)
            lines.append(joined("Only in the baseline: ", cut(names, LONGEST_REASON)))
        passing = sum(not one.problems for one in self.cases)
        worse = sum(one.worse for one in self.cases)
        total = f"{passing:,} of {len(self.cases):,} cases pass"
        said = f"{total} ({self.rate:.1%}; the bar is {self.bar:.1%})"
        lines.append(f"{said}, {worse:,} got worse." if worse else f"{said}.")
        return "\n".join(lines)

    def record(self) -> JsonObject:
        """Return what came of it as JSON."""
        return {
            "good": self.is_good,
            "rate": self.rate,
            "bar": self.bar,
            "failed": [
                {"case": one.name, "problems": list(one.problems)}
                for one in self.cases
                if one.problems
            ],
            "worse": [one.name for one in self.cases if one.worse],
            "removed": list(self.removed),
        }


def check_report(
    report: Report, *, bar: float = 1.0, baseline: Report | None = None
) -> CheckedReport:
    """Return whether enough cases pass, and which got worse.

    A case passes if its task ended, none of its evaluators failed, and all its assertions hold.
    Scores are not compared: make an assertion of a score that has to be good enough.

    Args:
        report: the report.
        bar: the share of cases that has to pass, from 0 to 1.
        baseline: the report of the version to compare with.
    """
    now = _by_name(report)
    then = _by_name(baseline)
    cases = (
        CheckedCase(
            name=name,
            problems=_problems(one),
            worse=name in then and _is_worse(one, then[name]),
        )
        for name, one in sorted(now.items())
    )
    removed = tuple(sorted(set(then) - set(now)))
    return CheckedReport(cases=tuple(cases), bar=bar, removed=removed)


_Result: TypeAlias = ReportCase[Any, Any, Any] | ReportCaseFailure[Any, Any, Any]


def _by_name(report: Report | None) -> Mapping[str, _Result]:
    if report is None:
        return {}
    return {one.name: one for one in (*report.cases, *report.failures)}


def _problems(one: _Result) -> tuple[str, ...]:
    if isinstance(one, ReportCaseFailure):
        return (_reason("The run failed", one.error_message),)
    broken = [
        _reason(f"{name} failed", result.reason or "")
        for name, result in one.assertions.items()
        if not result.value
    ]
    unjudged = (
        _reason(f"{failure.name} could not judge", failure.error_message)
        for failure in one.evaluator_failures
    )
    return (*broken, *unjudged)


def _reason(what: str, reason: str) -> Shown:
    return joined(what, ": ", cut(visible(reason), LONGEST_REASON)) if reason else joined(what)


def _is_worse(now: _Result, then: _Result) -> bool:
    if not _problems(then):
        return bool(_problems(now))
    if isinstance(then, ReportCaseFailure):
        return False
    held = {name for name, result in then.assertions.items() if result.value}
    if isinstance(now, ReportCaseFailure):
        return bool(held)
    return any(not now.assertions[name].value for name in held if name in now.assertions)


# --- Files ----------------------------------------------------------------------------------------


def save_report(report: Report, path: str | Path) -> None:
    """Write a report to a JSON file, to be the baseline of later ones.

    The file has the inputs and the outputs of the cases: keep it where the data set may be kept.

    Raises:
        UserError: an evaluator returned what JSON cannot hold.
    """
    try:
        text = EvaluationReportAdapter.dump_json(report, indent=2)
    except PydanticSerializationError as error:
        raise UserError(f"The report cannot be written to {path}: {error}") from error
    Path(path).write_bytes(text + b"\n")


def load_report(path: str | Path) -> Report:
    """Read a report from a file that `save_report` or `outlast evals run` wrote.

    Raises:
        UserError: there is no such file, or it holds no report.
    """
    try:
        return EvaluationReportAdapter.validate_json(Path(path).read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        raise UserError(
            f"{path} is no report: {error!s:.300}. Write one with `outlast evals run --output`."
        ) from error
