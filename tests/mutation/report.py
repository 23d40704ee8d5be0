"""What came of the changes of each area: a table, and what differs between two of them."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NOTICED, HUNG, UNNOTICED, UNREACHED = "noticed", "hung", "not noticed", "not reached"
COUNTS = {NOTICED, HUNG}
"""What counts as noticed: a test failed, or one did not come to its end."""

MOST_LOWER = 12
"""By how many points an area may be lower than before: the chance of a sample of 60."""

Results = Mapping[str, Any]
"""What a file of results holds: the commit, and for each area the sample and what was tried."""


@dataclass(frozen=True)
class Share:
    """How many of an area's changes were noticed."""

    noticed: int
    tried: int

    @property
    def points(self) -> float:
        """Of a hundred."""
        return 100 * self.noticed / self.tried if self.tried else 0.0

    @property
    def chance(self) -> float:
        """By how many points another sample may differ, in 95 of 100 cases (Wilson)."""
        if not self.tried:
            return 100.0
        n, p, z = self.tried, self.noticed / self.tried, 1.96
        return 100 * z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)


def share(area: Mapping[str, Any]) -> Share:
    """Return an area's share."""
    ends = [one["result"] for one in area["changes"].values()]
    return Share(sum(end in COUNTS for end in ends), len(ends))


def left_to_try(taken: Sequence[str], area: Mapping[str, Any]) -> list[str]:
    """Return the changes that were not tried, then those not noticed while fewer files were recorded."""
    known = area["changes"]
    again = [
        one
        for one in taken
        if one in known
        and known[one]["result"] not in COUNTS
        and known[one]["missing"] > area["missing"]
    ]
    return [one for one in taken if one not in known] + again


def table(results: Results) -> str:
    """Return a line for each area."""
    lines = [
        "| area | noticed | chance | tried | hung | not noticed | not reached | not tried | unrecorded |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, area in results["areas"].items():
        its = share(area)
        ends = Counter(one["result"] for one in area["changes"].values())
        cells = [
            name,
            f"{its.points:.0f} %",
            f"± {its.chance:.0f}",
            its.tried,
            ends[HUNG],
            ends[UNNOTICED],
            ends[UNREACHED],
            area["sample"] - its.tried,
            area["missing"],
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def comparison(before: Results, after: Results) -> tuple[str, Sequence[str]]:
    """Return a table of two results, and the areas that are lower by more than chance."""
    lines = [
        "| area | before | after | difference | same changes | noticed before only | after only |",
        "|---|---|---|---|---|---|---|",
    ]
    lower: list[str] = []
    lost: list[str] = []
    for name in before["areas"]:
        if name not in after["areas"]:
            lower.append(name)
            lines.append(
                f"| {name} | {share(before['areas'][name]).points:.0f} % | not tried ||||| "
            )
            continue
        old, new = before["areas"][name], after["areas"][name]
        difference = share(new).points - share(old).points
        if difference < -MOST_LOWER:
            lower.append(name)
        both = old["changes"].keys() & new["changes"].keys()
        was = {one for one in both if old["changes"][one]["result"] in COUNTS}
        now = {one for one in both if new["changes"][one]["result"] in COUNTS}
        lost += [f"{one}: {old['changes'][one]['by']}" for one in sorted(was - now)]
        lines.append(
            f"| {name} | {share(old).points:.0f} % of {share(old).tried} "
            f"| {share(new).points:.0f} % of {share(new).tried} | {difference:+.0f} "
            f"| {len(both)} | {len(was - now)} | {len(now - was)} |"
        )
    lines += [
        f"{when}, {area['missing']} files of tests of {name} were not recorded: run it again"
        for when, one in (("before", before), ("after", after))
        for name, area in one["areas"].items()
        if area["missing"]
    ]
    if lost:
        lines += ["", "Noticed before only, and by which test:", *(f"  {one}" for one in lost)]
    return "\n".join(lines), lower
