"""Whether a report is good enough: which cases pass, and which got worse since a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
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
from outlast.edges.rendering import Shown, cut, joined, visible
from outlast.loop.values import JsonObject

Report: TypeAlias = EvaluationReport[Any, Any, Any]

LONGEST_REASON = 300
"""The maximum number of characters of a reason in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCase:
    """A case of a report.

    Attributes:
        name: the name of the case.
        problems: why it does not pass, each safe to show; empty if all its runs pass.
        worse: it passed in the baseline, more of its runs did, or more of its assertions held there.
        runs: how often it ran.
        passed: how many of these runs passed.
    """

    name: str
    problems: tuple[str, ...] = ()
    worse: bool = False
    runs: int = 1
    passed: int = 0

    def pass_hat(self, k: int) -> float:
        """Return the probability that k of its runs, drawn at random, all pass."""
        return comb(self.passed, k) / comb(self.runs, k)


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
        """The share of cases that pass, each in all of its runs; 0 without cases."""
        passing = sum(not one.problems for one in self.cases)
        return passing / len(self.cases) if self.cases else 0.0

    @property
    def repeats(self) -> int:
        """How often each case ran: the fewest runs of one."""
        return min((one.runs for one in self.cases), default=1)

    @property
    def pass_hat(self) -> tuple[float, ...]:
        """For each k up to the number of runs, how likely it is that k runs of a case all pass.

        This is pass^k, averaged over the cases. The last one is `rate` where all cases ran equally
        often.
        """
        number = len(self.cases)
        return tuple(
            sum(one.pass_hat(k) for one in self.cases) / number
            for k in range(1, self.repeats + 1)
            if number
        )

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
        if self.repeats > 1:
            rates = (f"pass^{k} {rate:.1%}" for k, rate in enumerate(self.pass_hat, 1))
            lines.append(f"Each case ran {self.repeats:,} times: {', '.join(rates)}.")
            said = f"{total} all their runs ({self.rate:.1%}; the bar is {self.bar:.1%})"
        lines.append(f"{said}, {worse:,} got worse." if worse else f"{said}.")
        return "\n".join(lines)

    def record(self) -> JsonObject:
        """Return what came of it as JSON."""
        return {
            "good": self.is_good,
            "rate": self.rate,
            "bar": self.bar,
            "pass_hat": list(self.pass_hat),
            "failed": [
                {
                    "case": one.name,
                    "problems": list(one.problems),
                    "runs": one.runs,
                    "passed": one.passed,
                }
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

    A case passes if its task ended, none of its evaluators failed, and all its assertions hold. A
    case that ran several times, with `evaluate(repeat=...)`, passes if all its runs do. Scores are
    not compared: make an assertion of a score that has to be good enough.

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
            problems=_problems_of(one),
            worse=name in then and _are_worse(one, then[name]),
            runs=len(one),
            passed=sum(not _problems(run) for run in one),
        )
        for name, one in sorted(now.items())
    )
    removed = tuple(sorted(set(then) - set(now)))
    return CheckedReport(cases=tuple(cases), bar=bar, removed=removed)


_Result: TypeAlias = ReportCase[Any, Any, Any] | ReportCaseFailure[Any, Any, Any]


def _by_name(report: Report | None) -> Mapping[str, Sequence[_Result]]:
    """Return the runs of each case, in the order of their numbers."""
    found: dict[str, list[_Result]] = {}
    if report is not None:
        for one in sorted((*report.cases, *report.failures), key=_number):
            found.setdefault(one.source_case_name or one.name, []).append(one)
    return found


def _number(one: _Result) -> tuple[int, str]:
    return len(one.name), one.name  # "case [2/10]" comes before "case [10/10]"


def _problems_of(runs: Sequence[_Result]) -> tuple[str, ...]:
    if len(runs) == 1:
        return _problems(runs[0])
    return tuple(
        joined(f"run {number} of {len(runs)}: ", problem)
        for number, one in enumerate(runs, 1)
        for problem in _problems(one)
    )


def _are_worse(now: Sequence[_Result], then: Sequence[_Result]) -> bool:
    if len(now) == len(then) == 1:
        return _is_worse(now[0], then[0])
    return _share(now) < _share(then)


def _share(runs: Sequence[_Result]) -> float:
    return sum(not _problems(one) for one in runs) / len(runs)


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
