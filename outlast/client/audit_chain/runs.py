"""Chains of runs on a server: made from their histories, and checked against the archive."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from outlast.agents.errors import as_user_error
from outlast.archive import Archive, ArchiveDamaged, ArchivedHistory, archive_of, workflow_handle
from outlast.client.audit import AuditedRun, AuditLog, AuditRecord, audit_run
from outlast.client.audit_chain.checks import AuditCheck, Problem, check_lines
from outlast.client.audit_chain.entries import chained_run, heads_of, seal
from outlast.client.audit_chain.files import Line
from outlast.client.audit_chain.signatures import (
    SignatureCheck,
    SignedAction,
    of_entry,
    other_than_signed,
    says_verified,
)
from outlast.client.transport.run_address import unless_gone
from outlast.contract.identity import IdentityKeyError, IdentityKeys, Place
from outlast.edges.clock import now_ms, time_of
from outlast.edges.rendering import counted
from outlast.loop.values import JsonObject
from outlast.temporal.proofs import identity_keys
from outlast.views.proofs import Proof


async def chained(client: Client, log: AuditLog) -> list[JsonObject]:
    """Return the entries of an audit with their digests, run after run.

    Args:
        client: connected to the runs' server.
        log: the audit.

    Raises:
        AgentsException: the server refused, or does not answer.
    """
    return [
        entry
        for run in log.runs
        if run.records
        for entry in chained_run(run, await _place(client, run))
    ]


async def sealed(
    client: Client, entries: Sequence[JsonObject], run_id: str = ""
) -> JsonObject | None:
    """Return the last line of a file: it signs the heads of all runs. None without a key that signs.

    Args:
        client: connected to the runs' server; its identity keys are those of `outlast identity show`.
        entries: the entries of the file, with their digests.
        run_id: the run that the file is about; empty for several.

    Raises:
        UserError: the key is unusable.
    """
    key = (await identity_keys(client)).signing
    if key is None:
        return None
    place = Place(namespace=client.namespace, chain_id="", run_id=run_id)
    with as_user_error(IdentityKeyError):
        return seal(heads_of(entries), place, key, now_ms())


async def check_run(
    client: Client,
    run_id: str,
    *,
    heads: Iterable[str] = (),
    earlier: Iterable[Sequence[Line]] = (),
) -> AuditCheck:
    """Read a run and those nested in it again, and check their audit.

    What the server has is compared with what the archive has.

    Args:
        client: connected to the run's server.
        run_id: the run.
        heads: digests that were kept elsewhere.
        earlier: the lines of audits that were kept elsewhere.

    Raises:
        RunNotFound: there is no such run.
        AgentsException: the server refused, or does not answer.
    """
    log = await audit_run(client, run_id)
    signatures = SignatureCheck(await identity_keys(client))
    lines, problems = list[Line](), list[Problem]()
    for run in log.runs:
        place = await _place(client, run)
        entries = chained_run(run, place)
        lines += [Line(entry=one) for one in entries]
        problems += _signature_problems(run, entries, place, signatures)
        problems += [
            Problem(
                text=f"Its history {one}, or one before it, is gone, and the archive does not have "
                "it: entries may be missing.",
                run_id=run.run_id,
            )
            for one in run.lost
        ]
    # The signatures are checked above, with what a file does not show.
    found = check_lines(lines, heads=heads, earlier=earlier)
    archive, notes = archive_of(client), list[str]()
    unread = {one.run_id: one.why for one in log.unread}
    for one in dict.fromkeys((*(run.run_id for run in log.runs), *unread)):
        removed = [] if archive is None else await _removed(client, archive, one)
        notes += removed
        if one in unread and not removed:
            problems.append(Problem(text=f"It cannot be read: {unread[one]}", run_id=one))
        if archive is not None:
            problems += await _other_than_archived(client, archive, one)
    return replace(
        found,
        problems=(*problems, *found.problems),
        notes=tuple(notes),
        signatures=signatures.valid,
        unchecked=signatures.unchecked,
    )


def _signature_problems(
    run: AuditedRun, entries: Sequence[JsonObject], place: Place, signatures: SignatureCheck
) -> list[Problem]:
    problems: list[Problem] = []
    for number, (record, entry) in enumerate(zip(run.records, entries, strict=True), start=1):
        text = signatures.problem(entry, _signed(record, place))
        if text:
            problems.append(Problem(text=text, run_id=run.run_id, number=number))
    return problems


def _signed(record: AuditRecord, place: Place) -> SignedAction | None:
    action = record.signed
    return None if action is None or action.proof is None else SignedAction(action, place)


async def proofs_of(client: Client, log: AuditLog) -> dict[AuditRecord, Proof]:
    """Return which entries are proven, to the keys of this process; entries without a person are left out.

    Args:
        client: connected to the runs' server; its identity keys are those of `outlast identity show`.
        log: the audit.

    Raises:
        UserError: a key is unusable.
        AgentsException: the server refused, or does not answer.
    """
    keys = await identity_keys(client)
    found: dict[AuditRecord, Proof] = {}
    for run in log.runs:
        place = await _place(client, run)
        for record, entry in zip(run.records, chained_run(run, place), strict=True):
            if found.get(record) == "proven":
                continue  # an earlier run of this id, of which somebody has made a copy
            if says_verified(entry):
                found[record] = _proof(record, entry, place, keys)
            elif record.verified is False:
                found[record] = "unproven"
    return found


def _proof(record: AuditRecord, entry: JsonObject, place: Place, keys: IdentityKeys) -> Proof:
    signed, check = _signed(record, place), SignatureCheck(keys)
    if check.problem(entry, signed) or other_than_signed(entry, of_entry(entry)):
        return "unproven"
    return "proven" if check.valid else "accepted"


# --- The server and the archive ------------------------------------------------------------------


async def _place(client: Client, run: AuditedRun) -> Place:
    """Return the place for which people's actions in a run are signed."""
    chain_id = run.chain_id
    if run.root is not None:
        root_id, execution_id = run.root
        describing = workflow_handle(client, root_id, execution_id).describe()
        described = await unless_gone(client, root_id, describing)
        chain_id = (described and described.raw_info.first_run_id) or execution_id
    return Place(namespace=client.namespace, chain_id=chain_id, run_id=run.run_id)


async def _removed(client: Client, archive: Archive, run_id: str) -> list[str]:
    """Return what was deleted of a run on request, in words."""
    found = await archive.tombstones_of(client.namespace, run_id)
    return [
        f"{run_id}: {counted(len(one.removed), 'history')} {'was' if len(one.removed) == 1 else 'were'} "
        f"deleted on request of {one.by} at {time_of(one.asked_ms).isoformat(timespec='seconds')}."
        for one in found
    ]


async def _other_than_archived(client: Client, archive: Archive, run_id: str) -> list[Problem]:
    """Compare the archived histories of a run with those that the server still has."""
    problems: list[Problem] = []
    for entry in await archive.histories_of(client.namespace, run_id):
        try:
            archived = await archive.events(entry)
        except ArchiveDamaged as error:
            problems.append(Problem(text=error.message, run_id=run_id))
            continue
        there = await _on_server(client, entry)
        if there is not None and (event := _first_other(archived, there)):
            text = (
                f"The server's history {entry.execution_id} is not the archived one; they differ "
                f"from event {event} on. One of the two was changed."
            )
            problems.append(Problem(text=text, run_id=run_id))
    return problems


async def _on_server(client: Client, entry: ArchivedHistory) -> Sequence[HistoryEvent] | None:
    handle = client.get_workflow_handle(entry.run_id, run_id=entry.execution_id)
    history = await unless_gone(client, entry.run_id, handle.fetch_history())
    return history and history.events


def _first_other(archived: Sequence[HistoryEvent], there: Sequence[HistoryEvent]) -> int:
    """Return the number of the first event that two histories do not have in common; 0 for none."""
    for number, (one, other) in enumerate(zip(archived, there, strict=False), start=1):
        if one != other:
            return number
    shorter, longer = sorted((len(archived), len(there)))
    return shorter + 1 if shorter < longer else 0
