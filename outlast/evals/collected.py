"""Adds recorded runs to the data set in a file, such as conversations with a bad rating."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_evals.evaluators import Evaluator
from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.client.recordings import Recording, UnreadRun, record_runs
from outlast.client.runs import RunFilter
from outlast.evals.datasets import (
    DEFAULT_CHECKS,
    RunCase,
    RunDataset,
    case_of,
    checked_path,
    dataset_of,
    load_dataset,
    save_dataset,
)
from outlast.evals.evaluators import NoEffectWithoutApproval
from outlast.evals.judge import Judge
from outlast.loop.values import JsonObject

Change: TypeAlias = Callable[[JsonObject], JsonObject | None]
"""Changes a recording before it is written, or leaves it out with None."""


@dataclass
class NewCases:
    """Cases that are added to the data set in a file; those that are there stay as they are.

    Attributes:
        path: the file.
        dataset: the data set, as it is in the file.
        change: changes each recording; None for none.
        found: the new cases, by their names.
    """

    path: Path
    dataset: RunDataset
    change: Change | None
    found: dict[str, RunCase] = field(default_factory=dict[str, RunCase])

    @classmethod
    def at(
        cls,
        path: str | Path,
        change: Change | None,
        evaluators: Sequence[Evaluator[Any, Any, Any]] = DEFAULT_CHECKS,
    ) -> "NewCases":
        """Return those of a file; if there is none, it will have some evaluators.

        Raises:
            UserError: the file is no data set.
        """
        path = checked_path(path)
        if path.exists():
            return cls(path, load_dataset(path), change)
        return cls(path, dataset_of([], name=path.stem, evaluators=evaluators), change)

    def add(self, one: Recording | UnreadRun) -> str:
        """Add the case of a run, unless the data set has it, or it is to be left out.

        Returns:
            Why it has no case; empty if nothing is wrong.
        """
        if isinstance(one, UnreadRun):
            return f"The run {one.run_id} cannot be read: {one.why}"
        document = one.record() if self.change is None else self.change(one.record())
        try:
            made = None if document is None else Recording.from_json(document, name=one.run_id)
            if made is not None and made.run_id not in {known.name for known in self.dataset.cases}:
                self.found[made.run_id] = case_of(made)
        except UserError as error:
            return error.message
        return ""

    def save(self) -> None:
        """Write the data set with the new cases."""
        self.dataset.cases += self.found.values()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        save_dataset(self.dataset, self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What `collect_bad_ratings` did.

    Attributes:
        dataset: the data set, as it is in the file.
        added: the names of the cases that are new, in order.
        left_out: why conversations with a bad rating are not among them, in sentences.
        is_cut: whether there are more than the limit.
    """

    dataset: RunDataset
    added: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    is_cut: bool = False


async def collect_bad_ratings(
    client: Client,
    path: str | Path,
    criteria: RunFilter | None = None,
    *,
    rubric: str = "",
    archived: bool = False,
    limit: int = 1_000,
    change: Change | None = None,
) -> Collected:
    """Add the conversations that customers rated 1 or 2 to the data set in a file.

    A case says what the customer thought, and expects nothing: write into the file what should have
    happened. Cases that are there stay as they are, so a second call changes nothing. What approval
    policies redact stays redacted.

    Args:
        client: connected to the runs' server.
        path: the file, which ends in .yaml or .json; recordings go beside it.
        criteria: which conversations, such as those of an agent or a tenant; default: all.
        rubric: what has to be true of each case, for a `Judge`, where the file is new.
        archived: also those that only the archive has.
        limit: the most conversations.
        change: changes each recording before it is written, or leaves it out with None.

    Raises:
        UserError: the file is no data set.
        AgentsException: the server refused the search, or there is no archive.
    """
    judges = [Judge(rubric)] if rubric else []
    new = NewCases.at(path, change, [NoEffectWithoutApproval(), *judges])
    wanted = replace(criteria or RunFilter(), rated="bad", nested=False)
    runs = record_runs(client, wanted, limit=limit + 1, archived=archived)
    left_out, number = list[str](), 0
    async with aclosing(runs) as recordings:
        async for one in recordings:
            number += 1
            if number > limit:
                break
            if one.run_id not in new.found and (problem := new.add(one)):
                left_out.append(problem)
    for case in new.found.values():
        case.expected_output = None
    new.found = dict(sorted(new.found.items(), key=lambda one: (_began_ms(one[1]), one[0])))
    if new.found:
        new.save()
    return Collected(
        dataset=new.dataset,
        added=tuple(new.found),
        left_out=tuple(sorted(left_out)),
        is_cut=number > limit,
    )


def _began_ms(case: RunCase) -> int:
    bound = case.inputs.bound
    return 0 if bound is None else min((one.at_ms for one in bound.entries), default=0)
