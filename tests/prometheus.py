"""What Prometheus makes of a page of metrics: its series, and the alerts that they raise.

`promtool` comes in Debian's package `prometheus`; `make monitoring` unpacks it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

MONITORING: Final = Path(__file__).parents[1] / "deploy/monitoring"
PROMTOOL: Final = os.environ.get("OUTLAST_PROMTOOL") or shutil.which("promtool")

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="needs promtool, of Debian's package prometheus: make monitoring"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples_of(page: str) -> list[Sample]:
    """Return the lines of a page."""
    return [
        Sample(one.name, one.labels, one.value)
        for family in text_string_to_metric_families(page)
        for one in family.samples
    ]


def value_of(page: str, name: str, **labels: str) -> float | None:
    """Return the value of a series that has these labels; None without one."""
    found = [
        one.value
        for one in samples_of(page)
        if one.name == name and labels.items() <= one.labels.items()
    ]
    assert len(found) <= 1, f"{len(found)} series {name} {labels}"
    return found[0] if found else None


def promtool(*arguments: str | Path) -> None:
    """Run promtool, which has to be content."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def check_firing(page: str, alerts: set[str], scratch: Path) -> None:
    """Check which alerts fire where a page stays as it is for two hours.

    Gauges keep their values. Counters grow by theirs each minute, as if all went on like that.
    """
    rules = scratch / "alerts.yml"
    shutil.copy(MONITORING / "alerts.yml", rules)
    fires = [{"labels": f'{{alertname="{one}"}}', "value": 1} for one in sorted(alerts)]
    expression = 'group by (alertname) (ALERTS{alertstate="firing"})'
    test = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": list(_series(page)),
                "promql_expr_test": [{"expr": expression, "eval_time": "2h", "exp_samples": fires}],
            }
        ],
    }
    file = scratch / "test.yml"
    file.write_text(json.dumps(test), encoding="utf-8")  # JSON is YAML
    promtool("test", "rules", file)


def _series(page: str) -> Iterator[dict[str, Any]]:
    for family in text_string_to_metric_families(page):
        for one in family.samples:
            if one.name.endswith("_created"):
                continue
            labels = ", ".join(f"{name}={json.dumps(text)}" for name, text in one.labels.items())
            start, step = (one.value, 0) if family.type == "gauge" else (0, one.value)
            yield {"series": f"{one.name}{{{labels}}}", "values": f"{start}+{step}x150"}
