"""The sum of what listed runs cost, and its parts by agent, model, tenant or day."""

from collections.abc import Mapping, Sequence
from typing import Final

from outlast.cli import terminal
from outlast.cli.caller import Caller
from outlast.cli.costs import amount, numbers, token_details
from outlast.client.runs import ListedRun
from outlast.edges.rendering import counted, named
from outlast.pricing import Cost


def show(caller: Caller, rows: Sequence[ListedRun], by: str) -> None:
    """Print what runs cost, added up by one of their properties.

    Args:
        caller: the command's caller.
        rows: the runs, without nested ones.
        by: `agent`, `model`, `tenant` or `day`.
    """
    groups = _groups(rows, by)
    if caller.as_json:
        terminal.print_json(
            [{by: name, "runs": runs, **cost.record()} for name, (runs, cost) in groups.items()]
        )
    elif rows:
        columns: tuple[terminal.Column[terminal.Row], ...] = (
            terminal.Column(by.upper(), folds=True),
            terminal.Column("RUNS", numbers=True, left_out=4),
            terminal.Column("CALLS", numbers=True, left_out=3),
            terminal.Column("TOKENS", numbers=True, left_out=5),
            terminal.Column("CACHED", numbers=True, left_out=2),
            terminal.Column("REASONING", numbers=True, left_out=1),
            terminal.Column("COST", numbers=True),
        )
        cells: list[terminal.Row] = [
            (named(name) if name else _NAMELESS[by], f"{runs:,}", *numbers(cost))
            for name, (runs, cost) in groups.items()
        ]
        terminal.say_table(terminal.out(), columns, cells)
        show_sum(rows)
    _warn_of_unread(rows)


def show_sum(rows: Sequence[ListedRun]) -> None:
    """Print the sum of what runs cost; nested runs count with those that they are nested in."""
    counting = [one for one in rows if not one.is_nested]
    cost = _sum(counting)
    if len(counting) > 1 and cost.calls:
        nested = len(rows) - len(counting)
        besides = f", with {counted(nested, 'nested run')} in them" if nested else ""
        terminal.say(
            terminal.out(),
            f"Sum: {amount(cost)}, {counted(cost.tokens, 'token')}{token_details(cost)} in "
            f"{counted(len(counting), 'run')}{besides}.",
        )
    if cost.problem:
        terminal.say(terminal.err(), f"Not counted: {cost.problem}.")


_NAMELESS: Final = {
    "agent": "(no agent)",
    "model": "(the default model)",
    "tenant": "(no tenant)",
    "day": "",
}


def _groups(rows: Sequence[ListedRun], by: str) -> Mapping[str, tuple[int, Cost]]:
    """Return the number of runs of each group, and their cost; the most expensive group first."""
    found = dict[str, tuple[int, Cost]]()
    for row in rows:
        for name, cost in _parts(row, by).items():
            runs, before = found.get(name, (0, Cost()))
            found[name] = (runs + 1, before.plus(cost))
    if by == "day":
        return dict(sorted(found.items(), reverse=True))
    return dict(sorted(found.items(), key=lambda one: (-one[1][1].usd, -one[1][1].tokens, one[0])))


def _parts(row: ListedRun, by: str) -> Mapping[str, Cost]:
    cost = row.cost or Cost()
    match by:
        case "agent":
            return cost.by_agent
        case "model":
            return cost.by_model
        case "tenant":
            return {row.tenant: cost}
        case _:
            return {row.started.strftime("%Y-%m-%d"): cost}


def _sum(rows: Sequence[ListedRun]) -> Cost:
    return Cost(tuple(part for row in rows if row.cost is not None for part in row.cost.parts))


def _warn_of_unread(rows: Sequence[ListedRun]) -> None:
    unread = sum(one.cost is None for one in rows)
    if unread:
        runs = counted(unread, "run")
        terminal.say(terminal.err(), f"The cost of {runs} is missing: the history cannot be read.")
