"""What a support team needs and pays, from the measurements of `cluster.py`.

    python benchmarks/sizing.py [--a-day 10,1000,100000] [--model-seconds 5] [--retention-days 30]

Prints the table of docs/scaling.md, with your own numbers where you pass them. The price is the list
price of Temporal Cloud, Pay-As-You-Go, of https://docs.temporal.io/cloud/pricing, read on
2026-11-23; `actions.py` has the rules by which actions are counted.
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cluster import OUT

TIERS = ((5, 50), (5, 45), (10, 40), (30, 35), (50, 30), (math.inf, 25))
"""Millions of actions a month, and dollars per million of them, on the Business plan. Prices above
200 million are agreed upon; the last known one is used."""

DEVELOPER = 50
"""Dollars per million actions on the Developer plan, whatever their number."""

BUSINESS_AT_LEAST = 500
ACTIVE_GBH, RETAINED_GBH = 0.042, 0.00105
INCLUDED = {"actions": 2.5, "active": 2.5, "retained": 100.0}
"""Millions of actions and gigabytes that the Business plan includes."""

HOURS, DAYS = 744, 31
"""Of the month that Temporal bills."""

PLAN_SHARE = 0.1
"""Both plans cost this share of the rest at least."""

FAIRNESS_SHARE = 0.1
"""What a namespace with fairness pays more for its actions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The support conversation that was measured, and how a team has them.

    Attributes:
        turns: model calls of a conversation.
        actions: billable actions without heartbeats.
        history_bytes: its history.
        worker_ms: CPU per turn of the workers.
        server_ms: CPU per turn of the Temporal server.
        postgres_ms: CPU per turn of PostgreSQL.
        transactions: of PostgreSQL per turn.
    """

    turns: int
    actions: float
    history_bytes: float
    worker_ms: float
    server_ms: float
    postgres_ms: float
    transactions: float


def measured(path: Path) -> Case:
    """Return the medians of the measurements."""
    found: dict[str, Any] = json.loads(path.read_text())
    rows = [row for one in found["throughput"] for row in one["rows"]]
    support = [one["support"] for one in found["conversations"]]

    def spent(part: str) -> float:
        return median(row["cpu_ms_per_turn"][part] for row in rows)

    return Case(
        turns=8,
        actions=median(sum(one["actions"].values()) for one in support),
        history_bytes=median(one["bytes"] for one in support),
        worker_ms=spent("workers"),
        server_ms=spent("server"),
        postgres_ms=spent("postgres"),
        transactions=median(row["commits_per_turn"] for row in rows),
    )


def sizes(case: Case, a_day: int, options: argparse.Namespace) -> dict[str, str]:
    """Return a column of the table."""
    peak = a_day * case.turns * options.peak_hour / 3600

    def cores(milliseconds: float) -> str:
        needed = peak * milliseconds / 1000 / options.busy
        return f"{needed:.1f}" if needed >= 0.1 else "below 0.1"

    beats = math.floor(options.model_seconds / options.heartbeat_seconds) * case.turns
    actions = a_day * DAYS * (case.actions + beats) / 1e6
    active = a_day * options.open_days * case.history_bytes / 1e9
    retained = a_day * options.retention_days * case.history_bytes / 1e9
    return {
        "turns per second in the busiest hour": _number(peak),
        "worker cores": cores(case.worker_ms),
        "model calls at a time": f"{math.ceil(peak * options.model_seconds):,}",
        "Temporal server, cores": cores(case.server_ms),
        "PostgreSQL, cores": cores(case.postgres_ms),
        "PostgreSQL, transactions per second": _number(peak * case.transactions),
        "histories kept, GB": _number(active + retained),
        "actions per second in the busiest hour": _number(
            peak / case.turns * (case.actions + beats)
        ),
        "actions a month, millions": _number(actions),
        "Temporal Cloud a month, $": f"{price(actions, active, retained):,.0f}",
        "the same with fairness, $": (
            f"{price(actions * (1 + FAIRNESS_SHARE), active, retained):,.0f}"
        ),
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def storage(active: float, retained: float) -> float:
    """Return dollars a month for gigabytes of open and of closed histories."""
    return HOURS * (max(0.0, active) * ACTIVE_GBH + max(0.0, retained) * RETAINED_GBH)


def tiered(actions: float) -> float:
    """Return dollars a month for millions of actions on the Business plan."""
    dollars = 0.0
    for size, each in TIERS:
        dollars += min(actions, size) * each
        actions = max(0.0, actions - size)
    return dollars


def price(actions: float, active: float, retained: float) -> float:
    """Return dollars a month on the cheaper of the Developer and the Business plan.

    Args:
        actions: millions a month.
        active: gigabytes of open histories.
        retained: gigabytes of closed histories.
    """
    developer = (actions * DEVELOPER + storage(active, retained)) * (1 + PLAN_SHARE)
    usage = tiered(max(0.0, actions - INCLUDED["actions"]))
    usage += storage(active - INCLUDED["active"], retained - INCLUDED["retained"])
    return min(developer, usage + max(BUSINESS_AT_LEAST, PLAN_SHARE * usage))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--a-day", default="10,1000,100000", help="conversations a day")
    parser.add_argument("--model-seconds", type=float, default=5, help="of a model call")
    parser.add_argument("--heartbeat-seconds", type=float, default=10 / 3)
    parser.add_argument("--open-days", type=float, default=1, help="until a conversation closes")
    parser.add_argument("--retention-days", type=float, default=30)
    parser.add_argument("--peak-hour", type=float, default=0.15, help="its share of the day")
    parser.add_argument("--busy", type=float, default=0.5, help="of a core, at most")
    parser.add_argument("--measured", type=Path, default=OUT)
    options = parser.parse_args()
    case = measured(options.measured)
    teams = [int(one) for one in options.a_day.split(",")]
    columns = [sizes(case, one, options) for one in teams]
    print(f"| conversations a day | {' | '.join(f'{one:,}' for one in teams)} |")
    print(f"|---|{'---:|' * len(teams)}")
    for name in columns[0]:
        print(f"| {name} | {' | '.join(column[name] for column in columns)} |")
    print()
    print(case)


if __name__ == "__main__":
    main()
