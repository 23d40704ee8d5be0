"""`outlast keys`: a key is printed once, and the file has what it is for."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from outlast.cli.app import app
from outlast.serve.keys import ApiKeys, read_keys


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "keys.json"
    monkeypatch.setenv("OUTLAST_API_KEYS_FILE", str(found))
    return found


def test_a_key_is_made_listed_replaced_and_revoked(path: Path) -> None:
    made = invoke(
        "keys", "add", "shop", "--may", "start_run", "--may", "finish_wait", "--wait", "bank",
        "--agent", "Billing", "--tenant", "acme", "--expires", "90d",
    )  # fmt: skip
    key = made.stdout.strip()
    assert made.exit_code == 0
    assert key.startswith("ok_")
    assert key not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    program = ApiKeys(path=path).program(key)
    assert program is not None
    assert (program.name, program.scope.own_only) == ("shop", True)  # type: ignore[union-attr]
    (kept,) = read_keys(path)
    assert (kept.actions, kept.waits, kept.agents, kept.tenants) == (
        ("start_run", "finish_wait"),
        ("bank",),
        ("Billing",),
        ("acme",),
    )

    listed = invoke("keys", "list").stdout
    words = "shop: start_run, finish_wait; for the conversations that it began; agent Billing"
    assert listed.startswith(words)
    (record,) = json.loads(invoke("keys", "list", "--json").stdout)
    assert record["name"] == "shop"
    assert "digest" not in record

    rotated = json.loads(invoke("keys", "rotate", "shop", "--overlap", "1h", "--json").stdout)
    keys = ApiKeys(path=path)
    assert rotated["key"] != key
    assert keys.program(rotated["key"]) is not None
    assert keys.program(key) is not None
    again = invoke("keys", "rotate", "shop").stdout.strip()
    assert keys.program(again) is not None
    assert keys.program(key) is None
    assert keys.program(rotated["key"]) is None

    assert invoke("keys", "revoke", "shop").exit_code == 0
    assert keys.program(again) is None
    assert "No API keys" in invoke("keys", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "shop", "--may", "decide"], "No API key is for 'decide'"),
        (["add", "shop", "--may", "finish_wait"], "Name the waits that the key may finish"),
        (["add", "shop", "--may", "*"], "Name the waits that the key may finish"),
        (["add", "shop", "--may", "view_run", "--wait", "x"], "belongs to --may finish_wait"),
        (["add", "shop", "--may", "view_run", "--expires", "soon"], "--expires 'soon' is no time"),
        (["add", "shop", "--may", "view_run", "--expires", "2020-01-01"], "is over already"),
        (["add", "shop", "--may", "view_run", "--tenant", ""], "--tenant has an empty name"),
        (["add", " ", "--may", "view_run"], "needs a name that can be printed"),
        (["add", "x" * 101, "--may", "view_run"], "at most 100 characters"),
        (["rotate", "crm"], "has no key 'crm'. Keys: none."),
        (["revoke", "crm"], "has no key 'crm'"),
    ],
)
def test_what_does_not_fit_is_refused(path: Path, arguments: list[str], words: str) -> None:
    refused = invoke("keys", *arguments)
    assert refused.exit_code != 0
    assert words in " ".join(refused.stderr.split())
    assert not path.exists()


def test_a_name_is_given_once(path: Path) -> None:
    invoke("keys", "add", "shop", "--may", "*", "--wait", "*", "--all")
    assert "for all conversations" in invoke("keys", "list").stdout
    again = invoke("keys", "add", "shop", "--may", "view_run")
    assert "has a key 'shop'" in " ".join(again.stderr.split())


def test_a_name_that_was_revoked_is_no_other_programs(path: Path) -> None:
    invoke("keys", "add", "shop", "--may", "view_run")
    invoke("keys", "revoke", "shop")
    again = invoke("keys", "add", "shop", "--may", "view_run")
    assert "which was revoked" in " ".join(again.stderr.split())


def test_a_letter_that_passes_for_a_latin_one_shows(path: Path) -> None:
    invoke("keys", "add", "\u0455hop", "--may", "view_run")
    assert "\\u0455hop: view_run" in invoke("keys", "list").stdout


def test_without_a_file_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_API_KEYS_FILE", raising=False)
    assert "Name the file of keys" in " ".join(invoke("keys", "list").stderr.split())
