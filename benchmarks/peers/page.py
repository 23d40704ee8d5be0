"""Draws the page of the comparison, with its plots, from the measured results.

python -m benchmarks.peers.page [--results docs/benchmarks/peers.json] [--home docs/benchmarks]
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.actions import DOLLARS_PER_MILLION, PRICE_PAGE, price
from benchmarks.peers import words
from benchmarks.peers.plots import PLOTS, draw
from benchmarks.peers.subjects import BY_NAME, SUBJECTS, VARIANTS
from benchmarks.peers.summaries import Place, Spread, Summary, spread_of, summarize, table
from benchmarks.processes import ROOT

HOME = ROOT / "docs" / "benchmarks"

FIGURES = {
    "run_s": ("a run, s", ",.2f"),
    "cpu_ms": ("worker CPU per turn, ms", ",.1f"),
    "store_cpu_ms": ("store CPU per turn, ms", ",.1f"),
    "outside_ms": ("outside the model, per turn, ms", ",.1f"),
    "stored_bytes": ("stored bytes", ",.0f"),
    "stored_events": ("stored events", ",.0f"),
    "peak_mib": ("peak memory, MiB", ",.0f"),
}

WANTED = [
    *(("plain", 1024, turns) for turns in (1, 8, 50, 100, 300)),
    *(("plain", 100, turns) for turns in (1, 8, 50, 100, 300)),
    *(("plain", 20480, turns) for turns in (1, 8, 50, 100, 300)),
    *((variant, 1024, turns) for variant in VARIANTS[1:] for turns in (1, 8, 50, 100, 300)),
    ("streamed", 1024, 4),
]
"""All cells of the comparison; the page names those without a measurement."""


def page(summary: Summary, plots: Iterable[str]) -> str:
    """Return the page."""
    lines = [words.OPENING, ""]
    lines += ["## At a glance", "", *glance(summary), ""]
    for name in plots:
        title = next(title for file, title in PLOTS.values() if file == name)
        lines += [f"![{title}, by the number of turns; results of 1 KB]({name})", ""]
    lines += [words.SUBJECTS, "", *_versions(summary), words.FAIRNESS, ""]
    for variant in VARIANTS:
        lines += _variant(summary, variant)
    lines += _throughput(summary)
    lines += ["## Ratios within rounds", "", words.RATIOS, "", *_ratios(summary)]
    lines += ["## Billable actions", "", words.ACTIONS, "", *_actions(summary)]
    lines += ["## The start", "", words.STARTS, "", *_starts(summary)]
    lines += ["## Workers that are killed", "", words.KILLS, "", *_kills(summary)]
    lines += ["## What was not measured", "", _missing(summary), ""]
    lines += ["## The machine, and how to repeat it", "", *_machine(summary), "", words.REPEAT]
    return "\n".join(lines).rstrip() + "\n"


def glance(summary: Summary) -> list[str]:
    """Return the table of 100 turns, the longest that all subjects were measured with.

    What depends on the load of the machine is shown as a multiple of outlast's, within rounds.
    """
    place, rows = ("plain", 1024, 100), list[list[str]]()
    for subject in _measured(summary, place):
        stored = summary.spread(place, subject, "stored_bytes")
        multiples = [
            summary.ratio(at, subject, "outlast", figure)
            for at, figure in (
                (place, "cpu_ms"),
                (place, "run_s"),
                (("plain", 1024, 0), "runs_per_s"),
            )
        ]
        actions = summary.actions(place, subject)
        rows.append(
            [
                _name(subject),
                _shown(stored, ",.0f", middle=True),
                *(_shown(one, ".2f" if one and one.middle < 3 else ".1f") for one in multiples),
                f"{sum(actions.values()):,.0f}" if actions else "",
            ]
        )
    head = ["100 turns, results of 1 KB", "stored bytes", "worker CPU: times outlast's"]
    head += ["time of a run: times outlast's", "runs of 8 turns per second: times outlast's"]
    return table([*head, "billable actions"], rows)


def _name(subject: str) -> str:
    return f"**{subject}**" if subject == "outlast" else subject


def _shown(spread: Spread | None, form: str, *, middle: bool = False) -> str:
    if spread is None:
        return ""
    return format(spread.middle, form) if middle else spread.shown(form)


def _measured(summary: Summary, place: Place) -> list[str]:
    found = summary.subjects(place)
    return [subject.name for subject in SUBJECTS if subject.name in found]


def _variant(summary: Summary, variant: str) -> list[str]:
    places = [place for place in WANTED if place[0] == variant and _has(summary, place)]
    lines = [f"## {words.VARIANTS[variant][0]}", "", words.VARIANTS[variant][1], ""]
    if not places:
        return [*lines, "Not measured.", ""]
    for place in places:
        lines += _place(summary, place)
    reasons = [
        f"- {subject.name} has no row: {summary.cannot[variant, subject.name]}."
        for subject in SUBJECTS
        if (variant, subject.name) in summary.cannot
    ]
    return [*lines, *reasons, ""] if reasons else lines


def _has(summary: Summary, place: Place) -> bool:
    return bool(summary.subjects(place)) or any(at == place for at, _ in summary.died)


def _place(summary: Summary, place: Place) -> list[str]:
    _, size, turns = place
    title = f"{turns} turn{'s' if turns > 1 else ''}, results of {_size(size)}"
    lines = [f"### {title}", ""]
    rows: list[list[str]] = []
    died: list[str] = []
    for subject in (one.name for one in SUBJECTS):
        if (place, subject) in summary.died:
            died.append(_death(place, subject, summary.died[place, subject]))
        if subject in summary.subjects(place):
            cells = [
                _shown(summary.spread(place, subject, one), form)
                for one, (_, form) in FIGURES.items()
            ]
            rounds = len(summary.subjects(place)[subject])
            rows.append([_name(subject), *cells, str(rounds)])
    head = ["", *(title for title, _ in FIGURES.values()), "rounds"]
    notes = summary.notes(place)
    after = [*died, *([""] if died and notes else []), *notes]
    return [*lines, *(table(head, rows) if rows else []), *after, *([""] if after else [])]


def _death(place: Place, subject: str, how: str) -> str:
    if how.startswith("not done after") and ":" not in how:
        return f"- {subject} was {how}, which was the limit."
    why = words.DEATHS.get((place[0], subject), "")
    return f"- {subject} died: {_plain(how)}. {why}".rstrip()


def _plain(text: str) -> str:
    """Return the text of an error so that Markdown leaves it as it is."""
    return f"`{' '.join(text.replace('`', chr(39)).split())[:400].rstrip('. ')}`"


def _size(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KB"


def _throughput(summary: Summary) -> list[str]:
    place = ("plain", 1024, 0)
    rows = [
        [_name(subject), _shown(summary.spread(place, subject, "runs_per_s"), ",.1f")]
        for subject in _measured(summary, place)
    ]
    rows += [
        [subject, f"died: {_plain(how)}"] for (at, subject), how in summary.died.items() if at == place
    ]  # fmt: skip
    head = ["", "runs of 8 turns per second, 10 at a time"]
    return ["## Many runs at once", "", words.THROUGHPUT, "", *table(head, rows)] if rows else []


def _ratios(summary: Summary) -> list[str]:
    figures = {"cpu_ms": "worker CPU", "run_s": "time of a run", "stored_bytes": "stored bytes"}
    rows: list[list[str]] = []
    for place in WANTED:
        variant, size, turns = place
        for other in (one.name for one in SUBJECTS[1:]):
            found = [summary.ratio(place, "outlast", other, one) for one in figures]
            if any(found):
                what = f"{variant}, {turns} turn{'s' if turns > 1 else ''}, {_size(size)}"
                rounds = max(one.rounds for one in found if one)
                rows.append([what, other, *(_shown(one, ".2f") for one in found), str(rounds)])
    throughput = ("plain", 1024, 0)
    for other in (one.name for one in SUBJECTS[1:]):
        rate = summary.ratio(throughput, "outlast", other, "runs_per_s")
        if rate is not None:
            what = "runs of 8 turns per second"
            rows.append([what, other, "", rate.shown(".2f"), "", str(rate.rounds)])
    return table(["", "outlast to", *figures.values(), "rounds"], rows, left=2)


def _actions(summary: Summary) -> list[str]:
    rows: list[list[str]] = []
    for place in WANTED:
        variant, size, turns = place
        for subject in _measured(summary, place):
            actions = summary.actions(place, subject)
            if actions and size == 1024:
                total = sum(actions.values())
                kinds = ", ".join(f"{count:,.4g} {name}" for name, count in actions.items())
                per_thousand = f"${price(total * 1000):,.2f}"
                rows.append([variant, str(turns), _name(subject), f"{total:,.4g}", per_thousand])
                rows[-1].append(kinds)
    head = ["", "turns", "", "actions of a run", "1,000 runs", "of these"]
    note = f"At ${DOLLARS_PER_MILLION:.0f} per million actions, [the first list price]({PRICE_PAGE}), without storage."
    return [*table(head, rows, left=3), note, ""]


def _starts(summary: Summary) -> list[str]:
    figures = {
        "import_s": "imports, s",
        "ready_s": "the worker is ready, s",
        "answered_s": "the first answer is there, s",
        "start_mib": "memory then, MiB",
    }
    rows: list[list[str]] = []
    for subject in (one.name for one in SUBJECTS):
        found = summary.of_kind("start", subject)
        if found:
            forms = {one: ",.0f" if one == "start_mib" else ",.2f" for one in figures}
            cells = [spread_of([one[name] for one in found]).shown(forms[name]) for name in figures]
            rows.append([_name(subject), *cells])
    return table(["", *figures.values()], rows) if rows else ["Not measured.", ""]


def _kills(summary: Summary) -> list[str]:
    figures = {
        "kills": "kills",
        "runs": "runs",
        "answered": "answered",
        "failed": "failed",
        "stuck": "not done in time",
        "effects": "effects due",
        "lost": "lost",
        "repeated": "repeated",
        "repeated_with_key": "repeated with the key",
        "done_s": "all done after the last kill, s",
    }
    rows: list[list[str]] = []
    errors: list[str] = []
    for subject in (one.name for one in SUBJECTS):
        found = summary.of_kind("kills", subject)
        if found:
            sums = {name: sum(one[name] for one in found) for name in figures}
            sums["done_s"] = max(one["done_s"] for one in found)
            rows.append([_name(subject), *(f"{sums[name]:,.0f}" for name in figures)])
            errors += [f"- {subject}: {_plain(one)}" for run in found for one in run["errors"][:1]]
    if not rows:
        return ["Not measured.", ""]
    return [*table(["", *figures.values()], rows), *errors, *([""] if errors else [])]


def _missing(summary: Summary) -> str:
    missing: dict[str, list[str]] = {}
    for place in WANTED:
        variant, size, turns = place
        absent = [
            one.name
            for one in SUBJECTS
            if one.name not in summary.subjects(place)
            and (place, one.name) not in summary.died
            and (variant, one.name) not in summary.cannot
            and variant not in one.cannot
        ]
        if absent:
            who = "nobody" if len(absent) >= _able(variant) else "not " + ", ".join(absent)
            missing.setdefault(f"{variant}, {_size(size)}", []).append(f"{turns} turns ({who})")
    lines = [f"- {what}: {', '.join(where)}" for what, where in missing.items()]
    for kind, what in (("start", "starts"), ("kills", "kills")):
        absent = [one.name for one in SUBJECTS if not summary.of_kind(kind, one.name)]
        lines += [f"- {what}: {', '.join(absent)}"] if absent else []
    return "\n".join(lines) or "Nothing is missing."


def _able(variant: str) -> int:
    return sum(variant not in one.cannot for one in SUBJECTS)


def _versions(summary: Summary) -> list[str]:
    packages: dict[str, dict[str, str]] = {}
    for session in summary.sessions:
        packages |= session.get("packages", {})
    stores = {
        "temporal": "Temporal, in memory",
        "postgres": "PostgreSQL, without waiting for the disk",
        "sqlite": "SQLite, in a file",
    }
    rows = [
        [
            _name(name),
            ", ".join(f"{package} {version}" for package, version in packages[name].items()),
            stores[BY_NAME[name].store],
        ]
        for name in (one.name for one in SUBJECTS)
        if name in packages
    ]
    return table(["", "packages", "store"], rows, left=3)


def _machine(summary: Summary) -> list[str]:
    def last(name: str) -> Any:
        return next((one[name] for one in reversed(summary.sessions) if one.get(name)), "")

    # In a session of seconds, the clock of the kernel is too coarse for this.
    long = [one for one in summary.sessions if one.get("seconds", 0) > 60]
    busy = [one["others_cores"] for one in long if one.get("others_cores") is not None]
    line = f"{last('date')}; {last('machine')}; {last('versions')}; PostgreSQL {last('postgres')}."
    if busy:
        line += f" Meanwhile other programs kept {spread_of(busy).shown('.1f')} cores busy."
    return [line]


def main() -> None:
    """Draw the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=HOME / "peers.json")
    parser.add_argument("--home", type=Path, default=HOME, help="the directory of the page")
    options = parser.parse_args()
    summary = summarize(options.results)
    options.home.mkdir(parents=True, exist_ok=True)
    (options.home / "index.md").write_text(page(summary, draw(summary, options.home)))
    print(options.home / "index.md")


if __name__ == "__main__":
    main()
