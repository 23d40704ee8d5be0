"""Tests that would be skipped fail: `make browser` never passes without having run all of them."""

from typing import TypeVar

import pytest

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def fail_instead(report: _Report) -> _Report:
    """Return a report in which a skipped test or file has failed, with the reason in words."""
    if report.outcome == "skipped":
        *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else (report.longrepr,)
        report.outcome = "failed"
        report.longrepr = f"`make browser` skips nothing. This did not run: {reason}"
    return report
