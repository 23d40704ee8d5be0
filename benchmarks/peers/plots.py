"""Draws figures over the number of turns, as SVG that is readable on light and on dark pages."""

# matplotlib is in the group `bench`, without which this file is checked, too.
# pyright: basic, reportMissingImports=false

from pathlib import Path
from typing import Any

from benchmarks.peers.subjects import SUBJECTS
from benchmarks.peers.summaries import Summary

COLOURS = (
    "#009688",
    "#8d8d8d",
    "#b0a070",
    "#e0702c",
    "#b55fd0",
    "#3f87e0",
    "#d0455f",
    "#d08a9a",
    "#70b8b0",
)
GREY = "#888888"

PLOTS = {
    "stored_bytes": ("bytes.svg", "stored bytes of a run"),
    "cpu_ms": ("cpu.svg", "CPU of the worker per turn, ms"),
    "run_s": ("seconds.svg", "seconds of a run"),
}


def draw(summary: Summary, home: Path, result_bytes: int = 1024) -> list[str]:
    """Draw the plain conversation with results of 1 KB; return the names of the files."""
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and the same results give the same file.
    mpl.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "peers",
            "font.size": 10,
            "font.family": "sans-serif",
        }
    )
    drawn: list[str] = []
    for figure, (name, title) in PLOTS.items():
        if _draw_one(summary, home / name, figure, title, result_bytes):
            drawn.append(name)
    return drawn


def _draw_one(summary: Summary, path: Path, figure: str, title: str, result_bytes: int) -> bool:
    import matplotlib.pyplot as plt

    picture: Any
    axes: Any
    picture, axes = plt.subplots(figsize=(7, 4.2))
    turns = sorted(
        turns
        for variant, size, turns in summary.rounds
        if variant == "plain" and size == result_bytes and turns
    )
    for subject, colour in zip(SUBJECTS, COLOURS, strict=True):
        points = [
            (count, found.middle)
            for count in turns
            if (found := summary.spread(("plain", result_bytes, count), subject.name, figure))
        ]
        if points:
            dashes = "--" if subject.name.startswith("floor") else "-"
            axes.plot(*zip(*points, strict=True), dashes, marker="o", markersize=4, color=colour)
            axes.lines[-1].set_label(subject.name)
    if not axes.lines:
        plt.close(picture)
        return False
    axes.set(xscale="log", yscale="log", xlabel="turns", title=title)
    axes.set_xticks(turns, [str(one) for one in turns], minor=False)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.minorticks_off()
    _grey(axes)
    picture.tight_layout()
    picture.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(picture)
    # matplotlib ends lines with spaces.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    return True


def _grey(axes: Any) -> None:
    """Give the frame, the texts and the legend a colour that is readable on white and on black."""
    axes.grid(color=GREY, alpha=0.3)
    axes.tick_params(colors=GREY, which="both")
    for part in (axes.xaxis.label, axes.yaxis.label, axes.title):
        part.set_color(GREY)
    for spine in axes.spines.values():
        spine.set_color(GREY)
    axes.legend(frameon=False, fontsize=8, labelcolor=GREY)
