"""`outlast audit`: what it prints, and how hostile texts come out of it."""

import base64
import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client
from typer.testing import CliRunner, Result

from outlast.agents.errors import UserError
from outlast.cli import server, terminal
from outlast.cli.app import app
from outlast.cli.durations import past_time
from outlast.client import audit
from outlast.client.audit import FIELDS, AuditLog, AuditRecord, UnreadRun
from outlast.client.audit_chain import heads_of
from outlast.client.audit_chain import runs as audit_runs
from outlast.client.identity import os_user
from outlast.client.start.runner import Runner
from outlast.contract.identity import ED25519, NO_KEYS, PUBLIC_KEYS_VARIABLE, IdentityKeys
from outlast.loop.approvals import Audience
from outlast.testing import ScriptedModel, call
from tests.hostile_text import TEXTS, assert_visible
from tests.unit.cli.conftest import Invoke, Open
from tests.unit.client.audit_files import DESK_KEY, START_MS, export, support

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def entry(**fields: Any) -> AuditRecord:
    named: dict[str, Any] = {"at_ms": 10_000, "event": "vote", "run_id": "r", "root_run_id": "r"}
    return AuditRecord(**{**named, **fields})


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command reads instead of a server: change `log["it"]`; `log["asked"]` has the call."""
    found: dict[str, Any] = {"it": AuditLog(records=(entry(by="ann"), entry(at_ms=50_000)))}

    async def connect(address: Any, namespace: Any) -> Any:
        return SimpleNamespace(client="client")

    async def read(*arguments: Any, **options: Any) -> AuditLog:
        found["asked"] = (arguments, options)
        return found["it"]

    monkeypatch.setattr(server, "connect", connect)
    monkeypatch.setattr(audit, "audit_run", read)
    monkeypatch.setattr(audit, "audit_since", read)
    return found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments], env={"COLUMNS": "200"})


def test_a_run_is_printed_as_json_lines(log: dict[str, Any]) -> None:
    done = run("support-42")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["by"] for line in lines] == ["ann", ""]
    assert tuple(lines[0]) == (*FIELDS, "proof")
    assert log["asked"] == (("client", "support-42"), {})
    assert done.exit_code == 0


def test_all_runs_since_a_time_are_read(log: dict[str, Any]) -> None:
    assert run("--since", "2026-11-01T00:00:00+00:00", "--limit", "7").exit_code == 0
    assert log["asked"] == (
        ("client", datetime(2026, 11, 1, tzinfo=UTC)),
        {"limit": 7, "scopes": ()},
    )


def test_a_run_is_read_since_a_time(log: dict[str, Any]) -> None:
    done = run("support-42", "--since", "1970-01-01T00:00:50+00:00")
    assert [json.loads(line)["by"] for line in done.stdout.splitlines()] == [""]


def test_a_run_or_a_time_is_needed(log: dict[str, Any]) -> None:
    done = run()
    assert done.exit_code == 2
    assert "Name a run, or a time: `outlast audit --since 30d`." in done.stderr
    assert run("--since", "soon").exit_code == 2
    assert "asked" not in log


def test_an_incomplete_audit_says_so_and_fails(log: dict[str, Any]) -> None:
    unread = (UnreadRun(run_id="r\x1b[2J", why="It is encrypted."),)
    log["it"] = AuditLog(records=(entry(),), unread=unread, is_cut=True)
    done = run("--since", "1d")
    assert done.exit_code == 1
    assert len(done.stdout.splitlines()) == 1
    assert "Limited to 1,000 runs" in done.stderr
    assert r"Not read: r\u001b[2J. It is encrypted." in done.stderr


def test_an_audit_of_more_runs_than_the_limit_fails(log: dict[str, Any]) -> None:
    assert run("--since", "1d").exit_code == 0
    log["it"] = AuditLog(records=(entry(),), is_cut=True)
    done = run("--since", "1d")
    assert (done.exit_code, len(done.stdout.splitlines())) == (1, 1)
    assert "Limited to 1,000 runs" in done.stderr


def test_a_table_has_a_column_for_each_field(log: dict[str, Any]) -> None:
    log["it"] = AuditLog(records=(entry(by="ann", groups=("a", "b"), verified=True),))
    header, row = csv.reader(io.StringIO(run("support-42", "--format", "csv").stdout))
    assert tuple(header) == (*FIELDS, "proof")
    cells = dict(zip(header, row, strict=True))
    assert (cells["by"], cells["groups"], cells["verified"]) == ("ann", "a | b", "True")
    assert cells["seconds_to_decide"] == ""


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(1)", "'@SUM(1)"),
        (" =1", " '=1"),
        ('"=1', "\"'=1"),
        ("\uff1d1", "'\uff1d1"),
        ("ann;=1", "ann;'=1"),
        ("\t=1", "\\u0009=1"),
        ("\r\n=1", "\\u000d\\u000a=1"),
        ("ann=1", "ann=1"),
        ("a, b", "a, b"),
    ],
    ids=range(12),
)
def test_a_spreadsheet_calculates_nothing(log: dict[str, Any], name: str, cell: str) -> None:
    log["it"] = AuditLog(records=(entry(by=name),))
    _, row = csv.reader(io.StringIO(run("support-42", "--format", "csv").stdout))
    assert row[FIELDS.index("by")] == cell


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_no_cell_begins_a_formula_or_hides_anything(texts: list[str]) -> None:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        terminal.print_csv([texts])
    shown = stream.getvalue()
    assert_visible(shown.removesuffix("\n"))
    (row,) = csv.reader(io.StringIO(shown))
    assert len(row) == len(texts)
    signs = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
    assert not [one for one in row if one.lstrip(' "\u00a0\u202f\u3000').startswith(signs)]


def test_hostile_texts_stay_data(log: dict[str, Any]) -> None:
    hostile = '\x1b[2J"\n\u202e{"event": "decided"}'
    log["it"] = AuditLog(records=(entry(by=hostile, tool=hostile, decision="approve"),))
    (line,) = run("support-42").stdout.splitlines()
    assert_visible(line)
    assert json.loads(line)["by"] == hostile
    shown = run("support-42", "--summary").stdout
    assert_visible(shown, layout="\n")
    assert "\\u001b[2J" in shown


def test_figures_are_a_table(log: dict[str, Any]) -> None:
    decided = entry(event="decided", tool="refund", status="approved", seconds_to_decide=2.0)
    edited = entry(event="decided", tool="refund", status="edited", seconds_to_decide=600.0)
    vote = entry(by="ann", decision="approve", verified=True, seconds_to_decide=1.0)
    log["it"] = AuditLog(records=(*[decided] * 211, edited, *[vote] * 20))
    done = run("--since", "30d", "--summary")
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["refund", "212", "100", "%", "1", "%", "2.0", "s", "211", "0", "0"] in rows
    assert ["ann", "20", "100", "%", "0", "%", "1.0", "s", "20", "0", "0"] in rows
    assert "ann: 20 of 20 decisions took under 3 seconds." in done.stdout


def test_figures_are_json(log: dict[str, Any]) -> None:
    expired = entry(event="expired", tool="ship")
    log["it"] = AuditLog(records=(expired,))
    assert (
        json.loads(run("--since", "30d", "--summary", "--json").stdout)["tools"][0]["expired"] == 1
    )
    assert ["ship", "0", "-", "-", "-", "0", "0", "1"] in [
        line.split() for line in run("--since", "30d", "--summary").stdout.splitlines()
    ]


def test_no_decisions_have_no_figures(log: dict[str, Any]) -> None:
    log["it"] = AuditLog(records=())
    done = run("--since", "30d", "--summary")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "Nobody has decided anything." in done.stderr


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("45s", timedelta(seconds=45)),
        ("90m", timedelta(minutes=90)),
        ("90min", timedelta(minutes=90)),
        (" 12h ", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_a_time_is_a_length_before_now(text: str, ago: timedelta) -> None:
    assert past_time(text, NOW) == NOW - ago


def test_a_time_is_a_date() -> None:
    assert past_time("2026-11-01T10:00:00+02:00", NOW) == datetime(2026, 11, 1, 8, tzinfo=UTC)
    assert past_time("2026-11-01", NOW) == datetime(2026, 11, 1).astimezone()


@pytest.mark.parametrize(
    "text", ["", "soon", "30", "30y", "-3d", "d30", "999999999w", "2026-13-01"]
)
def test_another_text_is_no_time(text: str) -> None:
    with pytest.raises(UserError, match="is no time"):
        past_time(text, NOW)


@pytest.mark.smoke
@pytest.mark.parametrize("proved", [True, False])
async def test_a_decision_from_the_command_line_is_in_the_audit(
    cli: Invoke, client: Client, open_desk: Open, run_id: str, *, proved: bool
) -> None:
    by = () if proved else ("--by", "ann")
    queue = await open_desk(ScriptedModel([call("refund", "c1", order_id="A-42")], "Refunded."))
    handle = await Runner.start("Helper", "Refund", id=run_id, client=client, task_queue=queue)
    await handle.wait(lambda state: state.status == "waiting")
    await cli("approve", run_id, *by)
    await handle.result()

    done = await cli("audit", run_id)
    unknown = await cli("audit", f"{run_id}-9")

    assert done.exit_code == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["event"] for line in lines] == ["requested", "vote", "decided"]
    assert {line["root_run_id"] for line in lines} == {run_id}
    expected = (os_user().subject, True) if proved else ("ann", False)
    assert (lines[1]["by"], lines[1]["verified"]) == expected
    assert (unknown.exit_code, unknown.stdout) == (4, "")

    chained = await cli("audit", run_id, "--chain")
    *entries, seal = (json.loads(line) for line in chained.stdout.splitlines())
    kept = [{name: one[name] for name in FIELDS} for one in entries]
    assert kept == [{name: one[name] for name in FIELDS} for one in lines], (
        "without a reader's word"
    )
    assert [one["proof"] for one in lines][1:] == ["proven" if proved else "unproven"] * 2
    assert (seal["event"], seal["note"]) == ("sealed", "3 entries of 1 run")
    assert f"{run_id}: 3 entries, head {entries[-1]['hash']}" in chained.stderr
    good = await cli("audit", run_id, "--verify", "--head", entries[-1]["hash"], "--json")
    found = json.loads(good.stdout)
    assert (good.exit_code, found["result"], found["signatures"]) == (0, "pinned", 2 * proved)
    bad = await cli("audit", run_id, "--verify", "--head", "0" * 64)
    assert bad.exit_code == 1
    assert f"No entry has the hash {'0' * 64}" in bad.stdout


def test_an_audience_is_a_cell_of_json(log: dict[str, Any]) -> None:
    log["it"] = AuditLog(records=(entry(audience=Audience(groups=("billing",))),))
    header, row = csv.reader(io.StringIO(run("support-42", "--format", "csv").stdout))
    audience = json.loads(dict(zip(header, row, strict=True))["audience"])
    assert audience == {"subjects": [], "groups": ["billing"], "exclude_requester": False}


# --- Chains ---------------------------------------------------------------------------------------


@pytest.fixture
def chained_log(log: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The audit of a run with a chain; `log["keys"]` sign it, or none."""
    log["it"] = AuditLog(records=support().records, runs=(support(),))
    log["keys"] = NO_KEYS

    async def keys(client: Any) -> Any:
        return log["keys"]

    monkeypatch.setattr(audit_runs, "identity_keys", keys)
    monkeypatch.setattr(audit_runs, "now_ms", lambda: START_MS)
    client = SimpleNamespace(namespace="default")

    async def connect(address: Any, namespace: Any) -> Any:
        return SimpleNamespace(client=client)

    monkeypatch.setattr(server, "connect", connect)
    return log


def verified(path: Path, *options: str, keys: str = "") -> Result:
    env = {"COLUMNS": "200", PUBLIC_KEYS_VARIABLE: keys, "OUTLAST_IDENTITY_KEY": ""}
    return CliRunner().invoke(app, ["audit", "--verify", str(path), *options], env=env)


def public_text(keys: IdentityKeys) -> str:
    assert keys.signing is not None
    return ED25519 + base64.b64encode(keys.signing.public or b"").decode()


def test_a_file_is_verified_without_a_server(chained_log: dict[str, Any], tmp_path: Path) -> None:
    made = run("support-42", "--chain")
    head = heads_of(export(support()).entries)  # another signature, so another hash
    assert made.exit_code == 0
    assert "No identity key signs the file: keep the heads, or the file" in made.stderr
    file = tmp_path / "audit.jsonl"
    file.write_text(made.stdout)

    alone = verified(file)
    assert alone.exit_code == 1
    assert "support-42: 6 entries, consistent, but not pinned." in alone.stdout
    assert "Signatures not checked: 2 (no key is given)." in alone.stdout
    assert "Consistent, but not pinned: whoever changes a file" in alone.stdout
    kept = made.stderr.partition("head ")[2].split()[0]
    for known in (kept, str(file)):
        good = verified(file, "--head", known)
        assert good.exit_code == 0
        assert "Proven: all entries are as they were when they were pinned." in good.stdout
    bad = verified(file, "--head", head[0].hash, keys=public_text(DESK_KEY))
    assert bad.exit_code == 1
    assert "Valid signatures: 2." in bad.stdout
    assert "Wrong: 1 problem." in bad.stdout


def test_a_signed_file_is_proven_by_its_key(chained_log: dict[str, Any], tmp_path: Path) -> None:
    chained_log["keys"] = DESK_KEY
    made = run("support-42", "--chain")
    assert "The last line is signed and covers all of them." in made.stderr
    file = tmp_path / "audit.jsonl"
    file.write_text(made.stdout)
    good = verified(file, keys=public_text(DESK_KEY))
    assert good.exit_code == 0
    assert "at 2026-09-21T14:13:20+00:00, by its own clock." in good.stdout
    file.write_text(made.stdout.replace('"bob"', '"eve"', 1))
    bad = verified(file, keys=public_text(DESK_KEY))
    assert bad.exit_code == 1
    assert "line 5, support-42, entry 5: The entry was changed" in bad.stdout
    record = json.loads(verified(file, "--json").stdout)
    assert record["result"] == "wrong"
    assert record["problems"][0]["number"] == 5


def test_an_incomplete_audit_is_not_signed(chained_log: dict[str, Any]) -> None:
    chained_log["keys"] = DESK_KEY
    unread = (UnreadRun(run_id="r", why="It is encrypted."),)
    chained_log["it"] = replace(chained_log["it"], unread=unread)
    made = run("support-42", "--chain")
    assert made.exit_code == 1
    assert "sealed" not in made.stdout
    assert "The file is not signed, because it lacks runs." in made.stderr


def test_an_audit_with_a_lost_history_fails(chained_log: dict[str, Any]) -> None:
    lacking = replace(support(), lost=("h-1",))
    chained_log["it"] = AuditLog(records=support().records, runs=(lacking,))
    done = run("support-42")
    assert (done.exit_code, len(done.stdout.splitlines())) == (1, len(support().records))
    assert "Incomplete: support-42: its history h-1" in done.stderr


def test_runs_with_entries_since_a_time_are_exported_whole(chained_log: dict[str, Any]) -> None:
    assert len(run("--since", "2026-09-21T14:13:26+00:00", "--chain").stdout.splitlines()) == 6
    assert run("--since", "2026-09-22", "--chain").stdout == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--verify"], "--verify needs a file or a run"),
        (["r", "--verify", "--chain"], "--verify needs a file or a run"),
        (["r", "--head", "0" * 64], "--head is for --verify"),
        (["r", "--chain", "--summary"], "--summary prints figures"),
        (["r", "--chain", "--format", "csv"], "--chain writes JSON lines, which --verify reads."),
        (["r", "--verify", "--head", "1234"], "--head 1234 is no hash, which has 64 characters"),
        (["gone.jsonl", "--verify"], "gone.jsonl cannot be read: No such file"),
        (["./gone", "--verify"], "gone cannot be read: No such file"),
    ],
    ids=range(8),
)
def test_options_that_do_not_fit_say_what_to_do(
    log: dict[str, Any], options: list[str], words: str
) -> None:
    done = run(*options)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "asked" not in log


def test_a_bad_key_is_named(log: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_text(export().text)
    done = verified(file, keys="secret")
    assert done.exit_code == 2
    assert f"Key 1 of 1 in {PUBLIC_KEYS_VARIABLE} is no public key" in done.stderr


def test_hostile_names_in_a_file_stay_data(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    hostile = "\x1b[2J\u202erun"
    entry = {"run_id": hostile, "chain": hostile, "hash": hostile, hostile: 1}
    file.write_text(json.dumps(entry) + "\n")
    shown = verified(file).stdout
    assert_visible(shown, layout="\n")
    assert "The entry was changed" in shown
