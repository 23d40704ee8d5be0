"""What a check says of audits that somebody has changed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.agents.errors import UserError
from outlast.client.audit import finished
from outlast.client.audit_chain import AuditCheck, check_lines, lines_of, read_file
from outlast.client.audit_chain.entries import entry_hash
from outlast.contract.identity import NO_KEYS, IdentityKeys
from outlast.loop.approvals import REDACTED
from outlast.views.redaction import redaction_of_texts
from tests.hostile_text import JSON_VALUES, TEXTS
from tests.unit.client.audit_files import (
    DESK_KEY,
    ROOT,
    Edit,
    Entries,
    and_hashed,
    copies,
    decided,
    decision,
    drops,
    entry,
    export,
    hashed_again,
    keys_of,
    moves,
    run_of,
    sets,
    support,
)


def said(found: AuditCheck) -> str:
    return "\n".join(f"{one.line}: {one.text}" for one in found.problems)


# --- What nobody has changed ---------------------------------------------------------------------


def test_a_file_without_a_known_head_is_consistent_and_not_proven() -> None:
    found = check_lines(export().lines(), keys=DESK_KEY)
    assert (found.result, found.problems) == ("not pinned", ())
    assert [(one.head.run_id, one.head.entries, one.pinned) for one in found.runs] == [
        ("support-42", 6, 0),
        ("support-42/c1", 6, 0),
    ]
    assert (found.signatures, found.unchecked) == (4, {})


def test_known_heads_prove_a_file() -> None:
    whole = export()
    root, nested = (one.hash for one in whole.heads)
    assert check_lines(whole.lines(), heads=[root, nested]).result == "pinned"
    partly = check_lines(whole.lines(), heads=[root])
    assert (partly.result, [one.pinned for one in partly.runs]) == ("not pinned", [6, 0])


def test_a_seal_proves_a_file_to_whoever_trusts_its_key() -> None:
    lines = export().sealed().lines()
    found = check_lines(lines, keys=DESK_KEY)
    assert DESK_KEY.signing is not None
    assert (found.result, found.sealed_by) == ("pinned", DESK_KEY.signing.id)
    for others in (NO_KEYS, keys_of("eve")):
        stranger = check_lines(lines, keys=others)
        assert stranger.sealed_by == ""
        assert DESK_KEY.signing.id in stranger.notes[0]
        assert stranger.result == ("wrong" if others else "not pinned")  # of unknown signatures


def test_a_later_file_is_the_earlier_one_and_more() -> None:
    run = support()
    now = export(run)
    then = export(replace(run, records=run.records[:4]))
    for found in (
        check_lines(now.lines(), heads=[then.heads[0].hash]),
        check_lines(now.lines(), earlier=[then.lines()]),
    ):
        assert found.problems == ()
        assert (found.result, found.runs[0].pinned) == ("not pinned", 4)


def test_an_empty_field_has_no_part_in_a_hash_so_later_versions_can_add_one() -> None:
    (first, *_) = export().entries
    assert entry_hash({**first, "later": None, "more": [], "empty": ""}) == first["hash"]
    assert entry_hash({**first, "later": 0}) != first["hash"]
    assert entry_hash({**first, "verified": False}) != first["hash"]


# --- What somebody has changed -------------------------------------------------------------------

CHANGED: dict[str, tuple[Edit, str]] = {
    "a decision's person": (sets(2, by="eve"), "3: The entry was changed"),
    "the time": (sets(3, at="2026-01-01T00:00:00.000+00:00"), "4: The entry was changed"),
    "whether it was verified": (sets(4, verified=True), "5: The entry was changed"),
    "the signature": (sets(2, signed=None), "3: The entry was changed"),
    "a text for a number": (sets(0, quorum="1"), "1: The entry was changed"),
    "a name in another normal form": (
        lambda them: them[0].update(note=them[0]["note"].replace("\u00e9", "e\u0301")),
        "1: The entry was changed",
    ),
    "an entry and its own hash": (
        lambda them: them[2].update(by="eve")
        or them[2].update(hash=entry_hash(them[2], them[1]["hash"])),
        "4: The entry was changed",
    ),
    "the order": (moves(1, 2), "2: The entry was changed"),
    "one is gone": (drops(2, 3), "3: The entry was changed"),
    "several are gone": (drops(1, 4), "2: The entry was changed"),
    "the first is gone": (drops(0, 1), "1: The entry was changed"),
    "one is there twice": (copies(2, 3), "4: The entry was changed"),
    "one is inserted": (
        lambda them: copies(1, 2)(them)
        or them[2].update(by="eve")
        or them[2].update(hash=entry_hash(them[2], them[1]["hash"])),
        "4: The entry was changed",
    ),
    "an entry of another run": (
        lambda them: them.insert(2, {**them[8], "run_id": "support-42"}),
        "3: The entry was changed",
    ),
    "only some of another run": (drops(6, 8), "7: The entry was changed"),
    "its run": (sets(5, run_id="other"), "6: The entry was changed"),
    "its chain": (sets(0, chain=""), "1: It is no entry of a chain"),
    "no hash": (sets(0, hash=None), "1: It is no entry of a chain"),
    "a wrong kind of signature": (sets(2, signed=[1]), "3: The entry was changed"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGED)
def test_a_change_is_found_and_named(what: str) -> None:
    edit, words = CHANGED[what]
    found = check_lines(export().edited(edit).lines(), keys=DESK_KEY)
    assert found.result == "wrong"
    assert said(found).startswith(words)
    json.dumps(found.record())


HASHED_AGAIN: dict[str, tuple[Edit, str]] = {
    "a person without proof": (sets(4, by="eve"), ""),
    "the time": (sets(0, at="2026-01-01T00:00:00.000+00:00"), ""),
    "the last is gone": (drops(5, 6), ""),
    "one is gone": (drops(1, 2), ""),
    "one is there twice": (copies(4, 5), ""),
    "the order": (moves(0, 1), ""),
    "a whole run is gone": (drops(6, 12), ""),
    "who has signed": (sets(2, by="eve"), "`by` is not what the person has signed"),
    "what was signed": (sets(3, decision="reject"), "`decision` is not what the person has signed"),
    "when it was signed": (sets(2, made_at="2026-01-01T00:00:00.000+00:00"), "`made_at` is not"),
    "what was seen": (
        sets(2, arguments='{"order": "A-17", "euros": 5000}'),
        "`arguments` are not those that the person has signed",
    ),
    "for which request": (sets(2, request_id="a9"), "`request_id` is not"),
    "in which run": (sets(2, run_id="other", root_run_id="other"), "was signed for the run support-42"),
    "a claim of proof": (sets(4, verified=True), "was verified, and has no signature"),
    "a signature of something else": (
        lambda them: them[4].update(verified=True, signed=them[2]["signed"]),
        "`by` is not what the person has signed",
    ),
    "the signed words": (
        lambda them: them[2]["signed"]["decision"].update(by="eve") or them[2].update(by="eve"),
        "The signature of the decision does not count: its signature is for something else",
    ),
    "the signed run": (
        lambda them: them[2]["signed"].update(chain="other"),
        "The signature of the decision does not count",
    ),
    "a decision of an earlier run of the id": (
        lambda them: [one.update(chain="second") for one in them[:6]],
        "was signed for another run of the same id",
    ),
    "a later arrival": (
        sets(2, arrived_at="2036-01-01T00:00:00.000+00:00"),
        "does not count: its signature is too old",
    ),
    "no proof": (
        lambda them: them[2]["signed"].update(proof="v2.nothing"),
        "The signature of the decision cannot be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HASHED_AGAIN)
def test_hashes_that_are_computed_again_prove_nothing(what: str) -> None:
    edit, words = HASHED_AGAIN[what]
    whole = export()
    forged = whole.edited(and_hashed(edit))
    lines = forged.lines()
    alone = check_lines(lines, keys=DESK_KEY)
    assert alone.result == ("wrong" if words else "not pinned")
    assert words in said(alone)
    # Who has kept a hash, the file or the seal sees it.
    heads = check_lines(lines, heads=[one.hash for one in whole.heads])
    assert heads.result == "wrong"
    assert "No entry has the hash" in said(heads)
    assert check_lines(lines, earlier=[whole.lines()]).result == "wrong"
    seal = whole.sealed().entries[-1]
    sealed = check_lines(forged.edited(lambda them: them.append(seal)).lines(), keys=DESK_KEY)
    assert sealed.result == "wrong"
    assert "The seal does not count" in said(sealed)


def test_cutting_off_the_end_shows_only_beside_a_known_head() -> None:
    whole = export()
    lines = whole.edited(drops(5, 6)).lines()
    assert check_lines(lines, keys=DESK_KEY).result == "not pinned"
    found = check_lines(lines, heads=[whole.heads[0].hash])
    assert "entries were cut off at the end" in said(found)
    found = check_lines(lines, earlier=[whole.lines()])
    assert "has 1 entry more of this run, from entry 6 on: they are missing" in said(found)
    gone = check_lines(whole.edited(drops(6, 12)).lines(), earlier=[whole.lines()])
    assert "6 entries in the earlier audit, and none in this one" in said(gone)


def test_an_earlier_file_names_what_has_changed_since() -> None:
    whole = export()
    forged = whole.edited(and_hashed(sets(4, by="eve", note="really")))
    found = check_lines(forged.lines(), earlier=[whole.lines()])
    assert "5: The entry is another one than in the earlier audit: `by`, `note` differs." in said(
        found
    )
    broken = check_lines(whole.lines(), earlier=[forged.edited(sets(0, by="x")).lines()])
    assert "The earlier audit is damaged itself, in its line 1" in said(broken)


# --- Seals ---------------------------------------------------------------------------------------


def test_a_seal_counts_for_its_own_file_only() -> None:
    small = export(support()).sealed().entries[-1]
    found = check_lines(export().edited(lambda them: them.append(small)).lines(), keys=DESK_KEY)
    assert "The seal does not count" in said(found)


TOUCHED: list[tuple[Edit, str]] = [
    (lambda them: them.append(them.pop(3)), "A seal is the last line"),
    (lambda them: them.append(them[-1]), "A seal is the last line, and there is one."),
    (sets(-1, note="99 entries"), "its line was changed"),
    (sets(-1, at="2026-01-01T00:00:00.000+00:00"), "its line was changed"),
    (sets(-1, signed=None), "The seal cannot be read"),
    (lambda them: them[-1]["signed"].update(namespace="other"), "The seal does not count"),
]


@pytest.mark.parametrize(("edit", "words"), TOUCHED, ids=range(6))
def test_a_seal_that_was_touched_does_not_count(edit: Edit, words: str) -> None:
    found = check_lines(export().sealed().edited(edit).lines(), keys=DESK_KEY)
    assert words in said(found)
    assert found.sealed_by == ""


def test_without_its_seal_a_file_is_not_proven() -> None:
    found = check_lines(export().sealed().edited(drops(12, 13)).lines(), keys=DESK_KEY)
    assert found.result == "not pinned"


def test_eves_seal_proves_nothing() -> None:
    eve = keys_of("eve")
    forged = export().edited(and_hashed(sets(4, by="eve"))).sealed(eve)
    found = check_lines(forged.lines(), keys=DESK_KEY)
    assert found.result == "not pinned"
    assert "which is not among the given ones" in found.notes[0]


# --- Keys ----------------------------------------------------------------------------------------


def test_a_decision_of_a_key_that_was_replaced_needs_that_key() -> None:
    old = keys_of("old")
    lines = export(support(made=decision(keys=old))).lines()
    revoked = check_lines(lines, keys=DESK_KEY)
    assert old.signing is not None
    assert f"signed with the key {old.signing.id}, which is not among the given" in said(revoked)
    both = IdentityKeys((*DESK_KEY.trusted, *old.trusted), "both")
    found = check_lines(lines, keys=both)
    assert (found.problems, found.signatures) == ((), 2)


def test_without_keys_signatures_are_not_checked_and_counted() -> None:
    found = check_lines(export().lines())
    assert (found.signatures, found.unchecked) == (0, {"no key is given": 4})
    forged = export().edited(and_hashed(sets(2, by="eve"))).lines()
    assert "`by` is not what the person has signed" in said(check_lines(forged))


def test_a_decision_that_is_redacted_or_long_is_left_out_of_the_file() -> None:
    secret, long = "DE02120300000000202051", "x" * 30_000
    made = decision(message=f"for {secret}")
    redaction, run = redaction_of_texts([secret]), support(made=made)
    shown = tuple(finished(one, redaction) for one in run.records)
    hidden = replace(run, records=shown, redaction=redaction)
    edited = decision(type="edit", edited_arguments={"pin": "123"})
    pin = '{"pin": "[redacted]"}'
    by_name = run_of(ROOT, "first", decided(ROOT, edited, 5, "vote", arguments=pin))
    for run, why in (
        (hidden, "a policy redacts it"),
        (by_name, "a policy redacts it"),
        (support(made=decision(message=long)), "it has more than 20,000 characters"),
    ):
        whole = export(run)
        text = whole.text
        assert secret not in text
        assert '"123"' not in text
        found = check_lines(whole.lines(), keys=DESK_KEY)
        assert (found.problems, found.signatures, {*found.unchecked}) == ((), 0, {why})


def test_a_remembered_decision_that_decides_other_requests_keeps_its_signature() -> None:
    made = decision(remember=True)
    run = run_of(
        ROOT,
        "first",
        decided(ROOT, made, 5, "vote"),
        decided(ROOT, made, 5, "vote", request_id="a2", arguments='{"order": "B"}'),
    )
    found = check_lines(export(run).lines(), keys=DESK_KEY)
    assert (found.problems, found.signatures) == ((), 2)


# --- Files that are hardly audits ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"event": "vote", "event": "decided"}', "an object has the same name twice"),
        ('{"number": NaN}', "NaN is no JSON number"),
        ('{"number": 1e999}', "1e999 is no JSON number"),
        ('{"number": ' + "9" * 5_000 + "}", "It cannot be read"),
        ("[" * 100_000, "It cannot be read"),
        ('{"a": ' * 100_000, "It cannot be read"),
        ("[1]", "It is no JSON object"),
        ("{", "It cannot be read"),
        ('"' + "x" * 2_000_001 + '"', "it has more than 2,000,000 characters"),
        ("{}", "It is no entry of a chain"),
    ],
    ids=range(10),
)
def test_a_line_that_cannot_be_read_is_named(line: str, words: str) -> None:
    found = check_lines(lines_of(export().text + line + "\n"), keys=DESK_KEY)
    assert found.result == "wrong"
    assert "13: " in said(found)
    assert words in said(found)


def test_a_field_that_nobody_knows_is_part_of_the_hash() -> None:
    found = check_lines(export().edited(sets(0, approved=True)).lines())
    assert "1: The entry was changed" in said(found)


def test_line_ends_of_other_systems_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    file.write_bytes(b"\xef\xbb\xbf" + export().text.replace("\n", "\r\n").encode())
    assert check_lines(read_file(file), keys=DESK_KEY).problems == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no chain, so there is nothing to verify"),
        (b'{"event": "vote"}\n', "outlast audit --chain"),
        (b"a,b\n1,2\n", "has no chain"),
        (b"\xff\xfe", "it is not UTF-8 from byte 0 on"),
    ],
    ids=range(4),
)
def test_a_file_without_a_chain_says_what_to_do(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_bytes(content)
    with pytest.raises(UserError, match=words):
        read_file(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.jsonl cannot be read: No such file"):
        read_file(tmp_path / "gone.jsonl")


# --- Whatever is written and changed ---------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(TEXTS, min_size=3, max_size=3), st.floats(allow_nan=False, allow_infinity=False))
def test_a_file_holds_whatever_people_write(texts: list[str], seconds: float) -> None:
    first, second, third = texts
    hostile = entry(
        ROOT, 1, "vote", by=first, note=second, groups=(third, first), seconds_to_decide=seconds
    )
    whole = export(run_of(ROOT, "first", hostile, entry(ROOT, 2, "requested", text=third)))
    known = [whole.heads[0].hash]
    assert check_lines(whole.lines(), heads=known).result == "pinned"


def _can_be_hashed(value: object) -> bool:
    """Whether a forger can hash a value: JSON has no infinite number."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@settings(max_examples=30)
@given(st.data())
def test_no_field_of_any_entry_can_be_changed(data: st.DataObject) -> None:
    whole = export(support())
    at = data.draw(st.integers(0, 5))
    name = data.draw(st.sampled_from(sorted(whole.entries[at])))
    value = data.draw(st.one_of(JSON_VALUES.filter(_can_be_hashed), TEXTS))
    before = whole.entries[at][name]
    if json.dumps(value) == json.dumps(before) or (not value and value in (None, "", [], before)):
        return  # nothing for something empty is no change

    def edit(entries: Entries) -> None:
        entries[at][name] = value

    assert check_lines(whole.edited(edit).lines()).result == "wrong"
    again = whole.edited(and_hashed(edit))
    if any(
        one["hash"] != other["hash"]
        for one, other in zip(whole.entries, again.entries, strict=True)
    ):
        assert check_lines(again.lines(), heads=[whole.heads[0].hash]).result == "wrong"
    hashed_again(again.entries)
    assert REDACTED not in str(again.heads)
