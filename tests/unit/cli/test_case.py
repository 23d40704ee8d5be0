"""What colleagues do with a conversation, from the command line."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from outlast.client.identity import os_user
from outlast.edges.clock import now, time_of
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke, Open
from tests.unit.cli.test_hold import conversation


async def test_colleagues_share_a_conversation(
    cli: Invoke,
    client: Client,
    open_desk: Open,
    run_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = await conversation(client, open_desk, run_id)
    me = os_user().subject
    done = await cli("case", "assign", run_id, "--to", "bob\x1b[2K", "--team", "billing")
    assert done.stdout == "Assigned to bob\\u001b[2K of billing.\n"
    assert_visible(done.stdout, layout="\n")
    assert (await cli("case", "assign", run_id)).stdout == "Assigned to nobody.\n"
    said = await cli("case", "comment", run_id, "Look, @cid.", "--comment-id", "c1")
    assert said.stdout == "Commented. The customer does not see it.\n"
    assert said.stderr == f"See the run: `outlast show {run_id}`.\n"
    await cli("case", "comment", run_id, "Again.", "--comment-id", "c1")
    assert (
        await cli("case", "tag", run_id, "vip", "parcel")
    ).stdout == "Tags: @cid, vip, parcel.\n"
    tags = await cli("case", "tag", run_id, "--remove", "vip", "--remove", "@cid")
    assert tags.stdout == "Tags: parcel.\n"
    assert (await cli("case", "link", run_id, "support-9")).stdout == "Linked to support-9.\n"
    snoozed = await cli("case", "snooze", run_id, "2040-01-02T03:04+00:00")
    assert snoozed.stdout.startswith("Snoozed until 2040-01-02 ")
    assert (await cli("case", "reopen", run_id)).stdout == "It is open.\n"
    file = tmp_path / "approvals.toml"
    file.write_text('[calendar.always]\nzone = "UTC"\nhours = { mon-sun = "0:00-24:00" }\n')
    monkeypatch.setenv("OUTLAST_APPROVALS", str(file))
    snoozed = await cli("case", "snooze", run_id, "2h", "--within", "always")
    assert snoozed.stdout.startswith("Snoozed until ")
    until = (await handle.state()).case.snoozed_until_ms
    assert until is not None
    assert abs(time_of(until) - now() - timedelta(hours=2)) < timedelta(minutes=2)
    assert (await cli("case", "reopen", run_id)).stdout == "It is open.\n"
    resolved = await cli("case", "resolve", run_id, "--why", "paid", "--json")
    record = json.loads(resolved.stdout)
    assert record.pop("resolved_at")
    assert record == {
        "run_id": run_id,
        "status": "resolved",
        "to": "",
        "team": "",
        "tags": ["parcel"],
        "links": ["support-9"],
        "snoozed_until": None,
    }
    case = (await handle.state()).case
    assert [(one.by, one.text) for one in case.comments] == [(me, "Look, @cid.")]


async def test_what_does_not_fit_is_refused_in_a_sentence(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    await conversation(client, open_desk, run_id)
    for arguments, words in {
        ("tag",): "tag needs words in add or remove",
        ("tag", "x" * 1_000): "names, tags and ids must have at most 500 characters",
        ("comment", "x" * 10_001): "text must have at most 10,000 characters",
        ("snooze", "soon"): "UNTIL 'soon' is no time.",
        ("snooze", "2020-01-01T00:00+00:00"): "has passed",
        ("snooze", "2040-01-01", "--within", "x"): "With --within, UNTIL '2040-01-01' is no length",
        ("snooze", "2h", "--within", "nights"): "There is no calendar 'nights' here.",
    }.items():
        done = await cli("case", arguments[0], run_id, *arguments[1:])
        assert done.exit_code != 0
        assert words in done.stderr
    assert (await cli("case", "resolve", "never-was")).exit_code == 4
    assert "--due 'soon' is no length of time" in (await cli("list", "--due", "soon")).stderr
    assert run_id not in (await cli("list", "--due", "overdue")).stdout


async def test_conversations_are_found_by_whose_they_are(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    await conversation(client, open_desk, run_id)
    await cli("case", "assign", run_id, "--to", "bob", "--team", f"team {run_id}")
    await cli("case", "tag", run_id, f"tag {run_id}")
    by_team = ("--team", f"team {run_id}", "--assignee", "bob", "--json")
    found: list[dict[str, object]] = []
    while not found:  # visibility is a moment behind
        found = json.loads((await cli("list", *by_team)).stdout)
    [one] = found
    assert (one["run_id"], one["assignee"], one["tags"]) == (run_id, "bob", [f"tag {run_id}"])
    table = await cli("list", "--tag", f"tag {run_id}")
    assert "ASSIGNED TO" in table.stdout
    assert f"bob of team {run_id}" in " ".join(table.stdout.split())
    for none in (("--assignee", "eve"), ("--tag", "x"), ("--attention",)):
        assert json.loads((await cli("list", *by_team[:2], *none, "--json")).stdout) == []


async def test_a_customer_s_rating_is_given_by_word_or_number_until_the_end(
    cli: Invoke, client: Client, open_desk: Open, run_id: str
) -> None:
    handle = await conversation(client, open_desk, run_id)
    assert (await cli("case", "rate", run_id, "bad", "Slow\x1b[2K")).stdout == "Rated 1 of 5.\n"
    done = await cli("case", "rate", run_id, "4", "--json")
    assert json.loads(done.stdout) == {"run_id": run_id, "score": 4, "text": ""}
    rating = (await handle.state()).case.rating
    assert rating is not None
    assert rating.score == 4
    for wrong in ("great", "-1", "6", "4.5"):
        refused = await cli("case", "rate", run_id, "--", wrong)
        assert refused.exit_code == 2, wrong
    listed = await cli("list", "--rated", "fine")
    assert listed.exit_code == 2
    await handle.cancel()
    closed = await cli("case", "rate", run_id, "good")
    assert "The conversation has ended. It is rated while it is open." in closed.stderr
