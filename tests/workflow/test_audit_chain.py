"""Chains of audits on a server: what grows, is reset, archived, deleted, encrypted or forged."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.converter import DataConverter

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.archive import Archive, use_archive
from outlast.archive.archive import folder_of
from outlast.client.audit import audit_run
from outlast.client.audit_chain import (
    AuditCheck,
    Head,
    chained,
    check_lines,
    check_run,
    heads_of,
    lines_of,
    sealed,
)
from outlast.client.deletion import Deletion
from outlast.client.handle import RunHandle
from outlast.contract.identity import PUBLIC_KEYS_VARIABLE, new_key_pair
from outlast.edges.rendering import json_text
from outlast.encryption import EncryptionCodec
from outlast.temporal.proofs import identity_keys
from outlast.testing import ScriptedModel, call
from tests.workflow.desk import Desk, waits_for
from tests.workflow.people import clerk, refunds
from tests.workflow.test_archive import SOON, archived, taken_by_retention
from tests.workflow.test_resets import reset


async def heads(handle: RunHandle) -> tuple[Head, ...]:
    return heads_of(await chained(handle.client, await audit_run(handle.client, handle.id)))


async def checked(handle: RunHandle, *known: Head) -> AuditCheck:
    return await check_run(handle.client, handle.id, heads=[one.hash for one in known])


def said(found: AuditCheck) -> str:
    return "\n".join(one.text for one in found.problems)


async def paid(desk: Desk, agent: Agent[Any], **options: Any) -> RunHandle:
    """Return an open conversation whose first refund Ann has approved."""
    handle = await desk.start_short(agent, keep_open=True, events=40, **options)
    await desk.until(handle, waits_for(1))
    await handle.approve("a1", by="ann")
    await desk.until_status(handle, "idle")
    return handle


@pytest.mark.smoke
async def test_a_head_holds_while_the_run_goes_on_and_after_a_reset(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    agent = clerk()
    await desk.open(agent, model=ScriptedModel(refunds(1), "Done.", refunds(2), "Done.", refunds(2), "Done."))  # fmt: skip
    handle = await paid(desk, agent)
    (first,) = await heads(handle)
    assert first.entries == 3
    await handle.send("More")
    await desk.until(handle, waits_for(1))
    await handle.approve("a2", by="eve")
    await desk.until_status(handle, "idle")
    grown = await checked(handle, first)
    assert (grown.problems, grown.signatures) == ((), 4)
    assert [(one.head.entries, one.pinned) for one in grown.runs] == [(6, 3)]

    (second,) = await heads(handle)
    with monkeypatch.context() as another:  # the key is not trusted any more
        another.setenv(PUBLIC_KEYS_VARIABLE, new_key_pair()[1])
        revoked = await checked(handle, second)
    assert said(revoked).count("which is not among the given ones") == 4
    execution = (await desk.workflow(handle).describe()).run_id
    events = (await desk.workflow(handle).fetch_history()).events
    begin = next(
        one.event_id for one in events if one.HasField("workflow_task_started_event_attributes")
    )
    await reset(desk, handle, str(execution), begin + 1)
    await desk.until(handle, lambda state: state.status in {"idle", "waiting"})
    again = await checked(handle, first, second)
    assert said(again) == ""
    assert again.runs[0].pinned == 6
    assert again.runs[0].head.chain_id == first.chain_id
    desk.ids.remove(handle.id)  # the laws are those of runs without a reset


async def test_the_archive_holds_the_chain_and_shows_what_the_server_changed(
    desk: Desk, tmp_path: Path
):
    archive = Archive(tmp_path, every=SOON)
    agent = clerk()
    texts = [f"{one}" for one in range(9)]
    await desk.open(agent, model=ScriptedModel(refunds(1), *texts), archive=archive)
    handle = await paid(desk, agent)
    for number in range(6):
        await (await handle.send(f"message {number}")).answer()
    entries = await archived(archive, handle, 1)
    (head,) = await heads(handle)
    assert (await checked(handle, head)).result == "pinned"

    # Somebody with the archive's folder puts another history there, and computes its digest again.
    forged = [*await archive.events(entries[0])]
    forged[-1].event_time.FromMilliseconds(0)
    described = await desk.client.get_workflow_handle(
        handle.id, run_id=entries[0].execution_id
    ).describe()
    await archive.add(desk.client.namespace, described.raw_description, forged)
    found = await checked(handle, head)
    assert f"The server's history {entries[0].execution_id} is not the archived one" in said(found)
    await archive.add(desk.client.namespace, described.raw_description, await _events(desk, handle))
    assert (await checked(handle, head)).result == "pinned"

    await taken_by_retention(desk.client, entries)
    assert (await checked(handle, head)).result == "pinned"
    await archive.delete(await archive.names(folder_of(desk.client.namespace, handle.id)))
    lost = await checked(handle, head)
    assert "or one before it, is gone, and the archive does not have it" in said(lost)
    assert "No entry has the hash" in said(lost)
    await handle.cancel("after_turn")
    desk.ids.remove(handle.id)  # the laws are read from the server alone


async def _events(desk: Desk, handle: RunHandle) -> Any:
    first = (await desk.workflow(handle).describe()).raw_info.first_run_id
    return (await desk.client.get_workflow_handle(handle.id, run_id=first).fetch_history()).events


async def test_nested_runs_have_chains_and_what_was_deleted_is_said(desk: Desk, tmp_path: Path):
    archive = Archive(tmp_path)
    use_archive(desk.client, archive)
    lead = Agent[Any](name="Lead", tools=[clerk().as_tool("ask_clerk", "Ask.")])
    replies = [call("ask_clerk", "c0", input="Refund A")], refunds(1), "Refunded.", "Done."
    await desk.open(lead, model=ScriptedModel(*replies))
    handle = await desk.start(lead)
    await desk.until(handle, waits_for(1))
    (request,) = await handle.approvals()
    await handle.approve(request.id, by="ann")
    await desk.result(handle)

    log = await audit_run(desk.client, handle.id)
    made = await chained(desk.client, log)
    seal = await sealed(desk.client, made, handle.id)
    assert seal is not None
    lines = lines_of("".join(f"{json_text(one)}\n" for one in [*made, seal]))
    found = check_lines(lines, keys=await identity_keys(desk.client))
    assert (found.result, found.signatures) == ("pinned", 2)
    (nested,) = heads_of(made)
    assert nested.run_id == request.run_id
    assert (await checked(handle, nested)).result == "pinned"  # the root has no entries

    await Deletion(desk.client, archive, by="dpo").delete_run(request.run_id)
    after = await checked(handle)
    assert after.problems == ()
    assert f"{request.run_id}: 1 history was deleted on request of dpo at " in after.notes[0]
    desk.ids.remove(handle.id)  # the laws read nested runs


async def test_what_is_encrypted_and_redacted_is_checked_by_whoever_may_read_it(desk: Desk):
    codec = EncryptionCodec({"k": b"k" * 32}, "k")
    options: Any = desk.client.config()
    options["data_converter"] = replace(DataConverter.default, payload_codec=codec)
    stranger, desk.client = desk.client, Client(**options)
    agent = clerk(ApprovalPolicy(redact=["order"]))
    await desk.open(agent, model=ScriptedModel(refunds(1), "Done."))
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    (request,) = await handle.approvals()
    await handle.edit(request, {"order": "B-18", "euros": 2}, by="ann")
    await desk.result(handle)

    (head,) = await heads(handle)
    found = await checked(handle, head)
    assert (found.result, found.signatures, found.unchecked) == ("pinned", 2, {})
    made = await chained(desk.client, await audit_run(desk.client, handle.id))
    assert "B-18" not in json.dumps(made)
    file = check_lines(lines_of("".join(f"{json_text(one)}\n" for one in made)))
    assert file.unchecked == {"a policy redacts it": 2}
    unread = await check_run(stranger, handle.id)
    assert "It cannot be read: The run" in said(unread)
    desk.ids.remove(handle.id)  # the laws are read without the key
