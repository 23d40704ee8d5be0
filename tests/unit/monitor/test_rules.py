"""The files of `deploy/monitoring`: they are what Prometheus takes, and name what is exported."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from outlast.monitor.gauges import GAUGES, NAMESPACE
from outlast.otel import conventions, metrics
from tests.prometheus import MONITORING, needs_promtool, promtool

ROOT = MONITORING.parents[1]
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((MONITORING / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
ALERTS = list(dict.fromkeys(rule["alert"] for rule in RULES))

NEEDED = {
    "RequestsOverdue",
    "OldestRequestTooOld",
    "RunsBlocked",
    "RunsFailing",
    "DecisionsKept",
    "NoticesUndelivered",
    "QueueWithoutWorker",
    "QueueBacklog",
    "ArchiveLag",
    "ModelErrors",
    "DeskDown",
    "MonitorDown",
}
WORD = r"[a-zA-Z_][a-zA-Z0-9_]*"


def queries() -> Iterator[str]:
    yield from (rule["expr"] for rule in RULES)
    yield from (
        target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
    )


def exported() -> dict[str, set[str]]:
    """Return every name that a page may have, with its labels, as the exporter writes them."""
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(scope_info_enabled=False, registry=registry)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    meter = provider.get_meter("outlast")
    known: dict[str, set[str]] = {}
    for gauge in GAUGES:
        meter.create_gauge(gauge.name, gauge.unit).set(1)
        known[gauge.name] = {NAMESPACE, *gauge.source.labels}
    made = metrics.Metrics(meter)
    everything = [value for value in vars(conventions).values() if isinstance(value, str)]
    labels = {one.replace(".", "_") for one in everything} | {"le"}
    for one in vars(made).values():
        if hasattr(one, "record"):
            one.record(1)
    for total in made._totals.values():
        total.add(1, {})
    found = {
        sample.name: next(
            (of for name, of in known.items() if family.name.startswith(name.replace(".", "_"))),
            labels,
        )
        for family in registry.collect()
        for sample in family.samples
    }
    for gauge in GAUGES:  # by the whole name, since one begins another
        name = gauge.name.replace(".", "_") + ("_seconds" if gauge.unit == "s" else "")
        assert name in found, f"{name} is not what the exporter makes of {gauge.name}"
        found[name] = known[gauge.name]
    provider.shutdown()
    return found


EXPORTED = exported()


@pytest.mark.parametrize("query", list(queries()))
def test_a_query_names_only_what_is_exported(query: str) -> None:
    names = set(re.findall(rf"\b(?:outlast|gen_ai)_{WORD}(?=[{{\[)\s]|$)", query))
    grouped = {
        one for part in re.findall(r"(?:by|on) \((.*?)\)", query) for one in part.split(", ")
    }
    names -= grouped
    assert names
    assert names <= EXPORTED.keys()
    for name, matchers in re.findall(rf"\b({WORD})\{{(.*?)\}}", query):
        assert set(re.findall(rf"({WORD})(?:=~|!~|!=|=)\"", matchers)) <= EXPORTED[name]
    assert grouped <= set().union(*(EXPORTED[name] for name in names))


def test_a_name_that_is_not_exported_is_found() -> None:
    with pytest.raises(AssertionError):
        test_a_query_names_only_what_is_exported("max(outlast_requests_age)")
    with pytest.raises(AssertionError):
        test_a_query_names_only_what_is_exported('max(outlast_runs{tenant="acme"})')
    with pytest.raises(AssertionError):
        test_a_query_names_only_what_is_exported("max by (tenant) (outlast_runs)")


def test_every_gauge_is_on_the_dashboard_and_in_the_guide() -> None:
    shown = " ".join(queries())
    guide = (ROOT / "docs/how-to/monitoring.md").read_text("utf-8")
    for gauge in GAUGES:
        name = gauge.name.replace(".", "_") + ("_seconds" if gauge.unit == "s" else "")
        assert re.search(rf"\b{name}\b", shown), f"{name} is in no query"
        assert f"`{name}`" in guide


def test_every_alert_has_an_entry_that_says_what_to_do() -> None:
    assert set(ALERTS) == NEEDED
    page = (ROOT / "docs/how-to/operations.md").read_text("utf-8")
    entries = re.split(r"^### (\w+)$", page.partition("\n## Alerts\n")[2], flags=re.MULTILINE)
    found = dict(pairwise(entries[1:]))
    for rule in RULES:
        name = rule["alert"]
        entry = found[name].partition("\n## ")[0]
        for part in ("**For customers:**", "**Look at:**", "**Do:**"):
            assert part in entry, f"{name} lacks {part}"
        anchor = f"https://outlast.readthedocs.io/how-to/operations/#{name.lower()}"
        assert rule["annotations"]["runbook_url"] == anchor


def test_every_alert_has_a_test_of_its_rule() -> None:
    tests = (MONITORING / "alerts_test.yml").read_text("utf-8")
    assert [name for name in ALERTS if name not in tests] == []


@needs_promtool
def test_promtool_takes_the_files_and_the_tests_of_the_rules_pass(tmp_path: Path) -> None:
    promtool("check", "rules", MONITORING / "alerts.yml")
    promtool("check", "config", MONITORING / "prometheus.yml")
    promtool("test", "rules", MONITORING / "alerts_test.yml")
    recorded = [
        {"record": f"query:{number}", "expr": query.replace("$namespace", ".*")}
        for number, query in enumerate(queries())
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "all", "rules": recorded}]}), "utf-8")
    promtool("check", "rules", file)


@needs_promtool
@pytest.mark.full
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("> 0.02", "> 0.5"),
        ("max by (temporal_namespace, stage)", "sum by (temporal_namespace, stage)"),
    ],
)
def test_the_tests_of_the_rules_notice_another_rule(
    tmp_path: Path, before: str, after: str
) -> None:
    rules = (MONITORING / "alerts.yml").read_text("utf-8")
    assert before in rules
    (tmp_path / "alerts.yml").write_text(rules.replace(before, after), "utf-8")
    tests = (MONITORING / "alerts_test.yml").read_text("utf-8")
    (tmp_path / "alerts_test.yml").write_text(tests, "utf-8")
    with pytest.raises(AssertionError, match="FAILED"):
        promtool("test", "rules", tmp_path / "alerts_test.yml")
