"""API keys in a file: what is in it, who has a key, and what happens when the file changes."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.serve.access import Program
from outlast.serve.keys import ApiKey, ApiKeys, OldDigest, new_key, read_keys, write_keys

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)
KEY, DIGEST = new_key()
SHOP = ApiKey(name="shop", digest=DIGEST, actions=("view_run",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_the_file_has_digests_and_only_its_user_reads_it(path: Path) -> None:
    write_keys(path, [SHOP])
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_keys(path) == (SHOP,)
    text = path.read_text()
    assert KEY not in text
    assert DIGEST in text
    assert [one.name for one in path.parent.iterdir()] == ["keys.json"]


def test_a_key_names_its_program_and_what_it_is_for(path: Path) -> None:
    write_keys(path, [SHOP])
    program = ApiKeys(path=path).program(KEY, at_ms=AT_MS)
    assert program == Program("shop", SHOP.scope, until_ms=AT_MS + 600_000)
    assert ApiKeys(path=path).program(DIGEST, at_ms=AT_MS) is None
    assert ApiKeys(path=path).program("", at_ms=AT_MS) is None
    assert ApiKeys({"old": "o" * 24}, path).program("o" * 24) == Program("old")


@pytest.mark.parametrize(
    ("fields", "counts", "ends_at"),
    [
        ({"expires": AT + timedelta(minutes=1)}, True, AT + timedelta(minutes=1)),
        ({"expires": AT + timedelta(days=1)}, True, AT + timedelta(minutes=10)),
        ({"expires": AT}, False, None),
    ],
)
def test_a_key_ends_and_its_streams_with_it(
    path: Path, fields: Any, counts: bool, ends_at: datetime | None
) -> None:
    write_keys(path, [SHOP.model_copy(update=fields)])
    found = ApiKeys(path=path).program(KEY, at_ms=AT_MS)
    assert (found is not None) == counts
    if found is not None and ends_at is not None:
        assert found.until_ms == int(ends_at.timestamp() * 1000)


def test_a_replaced_key_counts_as_long_as_its_overlap(path: Path) -> None:
    new, digest = new_key()
    old = OldDigest(digest=DIGEST, until=AT + timedelta(seconds=1))
    write_keys(path, [SHOP.model_copy(update={"digest": digest, "old": (old,)})])
    keys = ApiKeys(path=path)
    for key, at_ms, counts in ((KEY, AT_MS, True), (KEY, AT_MS + 1_000, False)):
        assert (keys.program(key, at_ms=at_ms) is not None) == counts
    assert keys.program(new, at_ms=AT_MS + 1_000) is not None


def test_the_file_is_read_again_when_it_changes(path: Path) -> None:
    keys = ApiKeys(path=path)
    assert keys.program(KEY) is None
    write_keys(path, [SHOP])
    assert keys.program(KEY) is not None
    write_keys(path, [])
    assert keys.program(KEY) is None
    write_keys(path, [SHOP])
    assert keys.program(KEY) is not None
    path.unlink()
    assert keys.program(KEY) is None


def test_a_file_that_cannot_be_read_any_more_has_no_keys(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_keys(path, [SHOP])
    keys = ApiKeys({"crm": "c" * 24}, path)
    path.write_text('{"keys": [')
    assert keys.program(KEY) is None
    assert keys.program("c" * 24) == Program("crm")
    assert "No API key of the file counts" in caplog.text
    write_keys(path, [SHOP.model_copy(update={"name": "crm"})])
    assert keys.program(KEY) is None
    assert "would have two scopes" in caplog.text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no file of API keys"),
        ('{"keys": [{"name": "shop"}]}', "keys.0.digest: Field required"),
        (
            json.dumps({"keys": [{"name": "a", "digest": DIGEST, "actions": ["decide2"]}]}),
            "keys.0.actions.0",
        ),
        (
            json.dumps({"keys": [{"name": "a", "digest": DIGEST, "actions": [], "key": "x"}]}),
            "keys.0.key: Extra inputs",
        ),
        (
            json.dumps({"keys": [{"name": "a", "digest": f"ok_{'k' * 43}", "actions": []}]}),
            "keys.0.digest",
        ),
        (
            json.dumps({"keys": [{"name": "a", "digest": DIGEST, "actions": []}] * 2}),
            "names the key 'a' twice",
        ),
        (
            json.dumps(
                {
                    "keys": [
                        {
                            "name": "a",
                            "digest": DIGEST,
                            "actions": [],
                            "expires": "2030-01-01T00:00:00",
                        }
                    ]
                }
            ),
            "need an offset, such as Z",
        ),
    ],
)
def test_a_file_that_says_something_else_is_refused_at_the_start(
    path: Path, content: str, words: str
) -> None:
    path.write_text(content)
    with pytest.raises(UserError) as refused:
        ApiKeys(path=path)
    assert words in str(refused.value)
    assert KEY not in str(refused.value)


def test_a_name_in_both_places_is_refused(path: Path) -> None:
    write_keys(path, [SHOP])
    with pytest.raises(UserError, match="both have a key 'shop'"):
        ApiKeys({"shop": "s" * 24}, path)


def test_a_file_that_is_a_folder_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        ApiKeys(path=path)
