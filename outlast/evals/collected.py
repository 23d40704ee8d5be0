"""Collects conversations with a bad rating as cases of a data set."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.client.recordings import Recording, UnreadRun, record_runs
from outlast.client.runs import RunFilter
from outlast.evals.datasets import (
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
    change: Callable[[JsonObject], JsonObject | None] | None = None,
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
    dataset = _dataset_at(checked_path(path), rubric)
    known = {one.name for one in dataset.cases}
    wanted = replace(criteria or RunFilter(), rated="bad", nested=False)
    runs = record_runs(client, wanted, limit=limit + 1, archived=archived)
    found, left_out, number = dict[str, tuple[int, RunCase]](), list[str](), 0
    async with aclosing(runs) as recordings:
        async for one in recordings:
            number += 1
            if number > limit:
                break
            try:
                case = _case(one, change)
            except UserError as error:
                left_out.append(error.message)
                continue
            if case is not None and case[1].name not in known:
                found.setdefault(str(case[1].name), case)
    in_time = sorted(found.values(), key=lambda one: (one[0], one[1].name))
    if added := [case for _, case in in_time]:
        dataset.cases += added
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        save_dataset(dataset, path)
    return Collected(
        dataset=dataset,
        added=tuple(str(one.name) for one in added),
        left_out=tuple(sorted(left_out)),
        is_cut=number > limit,
    )


def _dataset_at(path: Path, rubric: str) -> RunDataset:
    if path.exists():
        return load_dataset(path)
    checks = [NoEffectWithoutApproval(), *([Judge(rubric)] if rubric else [])]
    return dataset_of([], name=path.stem, evaluators=checks)


def _case(
    one: Recording | UnreadRun, change: Callable[[JsonObject], JsonObject | None] | None
) -> tuple[int, RunCase] | None:
    """Return when a conversation began, and its case; None if it is left out on purpose.

    Raises:
        UserError: it cannot be read, or has no case.
    """
    if isinstance(one, UnreadRun):
        raise UserError(f"The run {one.run_id} cannot be read: {one.why}")
    document = one.record() if change is None else change(one.record())
    if document is None:
        return None
    case = case_of(Recording.from_json(document, name=one.run_id))
    case.expected_output = None
    return min((entry.at_ms for entry in one.entries), default=0), case
