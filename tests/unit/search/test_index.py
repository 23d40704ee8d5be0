"""The index: whatever the order of feeding, it finds what a naive reference finds."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.errors import UserError
from outlast.edges.clock import now_ms
from outlast.search import SearchIndex, open_index
from outlast.search import index as index_module
from outlast.search.documents import Document, Part
from outlast.search.index import LEASE_MS, IndexStatus, Position
from outlast.search.letters import terms_of
from outlast.search.occurrences import Occurrence
from outlast.search.scores import Score
from outlast.temporal.visibility.scopes import EVERYTHING, RunScope, Scopes
from tests.unit.search.documents import SPACE, document

ACME = (RunScope(tenants=frozenset({"acme"})),)
WORDS = [
    "Rückerstattung",
    "возврат",
    "退款",
    "refund",
    "100%",
    "a_b",
    "ÖL",
    "ok",
    "AND",
    "\0",
    "ﬁn",
]
QUERIES = [
    *WORDS,
    "erstat",
    "возв".upper(),
    "款",
    "REFUND",
    "und",
    "%",
    "_",
    '"refund ok"',
    "k r",
    "fin",
    "öl",
]


def found(
    index: SearchIndex, query: str, scopes: Scopes = EVERYTHING, space: str = SPACE
) -> list[str]:
    """Return the conversations that an index finds."""
    return [one.document.chain_id for one in index.search(space, query, scopes, limit=1_000)]


# --- Laws ----------------------------------------------------------------------------------------


@dataclass
class Naive:
    """What an index is to find: documents in a dictionary."""

    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    gone: set[str] = field(default_factory=set[str])

    def put(self, one: Document) -> None:
        known = self.documents.get(one.chain_id)
        same = known is not None and known.execution_id == one.execution_id
        is_later = known is not None and (
            known.events > one.events if same else known.started_ms > one.started_ms
        )
        if not is_later and not {one.chain_id, one.execution_id} & self.gone:
            self.documents[one.chain_id] = one

    def remove(self, ids: Sequence[str]) -> None:
        self.documents = {
            chain: one
            for chain, one in self.documents.items()
            if not {chain, one.execution_id} & set(ids)
        }

    def forget(self, ids: Sequence[str]) -> None:
        self.gone.update(ids)
        self.remove(ids)

    def search(self, query: str, scopes: Scopes) -> set[str]:
        terms = terms_of(query)
        return {
            chain
            for chain, one in self.documents.items()
            if terms
            and all(term in one.letters for term in terms)
            and (not scopes or one.tenant == "acme")
        }


texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)


def a_document(chain: int, run: int, events: int, said: list[str], tenant: str) -> Document:
    execution_id = f"c{chain}" if run == 0 else f"c{chain}-{run}"
    return document(
        f"c{chain}", *said, execution_id=execution_id, started_ms=run, events=events, tenant=tenant
    )


@dataclass(frozen=True)
class Step:
    """Something that happens to an index."""

    kind: str
    fed: Document
    ids: tuple[str, ...]


fed = st.builds(
    a_document,
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(1, 3),
    st.lists(texts, max_size=3),
    st.sampled_from(["acme", "globex", ""]),
)
ids = st.lists(st.sampled_from(["c0", "c1", "c1-1", "c2", "c3-2"]), min_size=1, max_size=2)
kinds = st.sampled_from(["put", "put", "put", "twice", "forget", "lost", "purge", "rebuild"])
steps = st.lists(st.builds(Step, kinds, fed, ids.map(tuple)), max_size=12)


def carry_out(step: Step, index: SearchIndex, naive: Naive) -> None:
    match step.kind:
        case "put" | "twice":
            for _ in range(2 if step.kind == "twice" else 1):
                index.put(SPACE, step.fed)
                naive.put(step.fed)
        case "forget":
            index.forget(step.ids)
            naive.forget(step.ids)
        case "lost":
            index.forget(step.ids, for_good=False)
            naive.remove(step.ids)
        case "purge":
            index.purge()
        case _:  # the index is lost, and what the server and the archive have is fed again
            index.create()
            naive.gone.clear()
            for one in naive.documents.values():
                index.put(SPACE, one)


@pytest.mark.law
@given(steps=steps, queries=st.lists(st.sampled_from(QUERIES), min_size=1, max_size=4))
def test_after_any_order_of_feeding_search_finds_what_a_naive_reference_finds(
    steps: list[Step], queries: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index, naive = open_index(Path(folder) / "i.db"), Naive()
        index.prepare()
        for step in steps:
            carry_out(step, index, naive)
        for query in queries:
            for scopes in (EVERYTHING, ACME):
                hits = found(index, query, scopes)
                assert set(hits) == naive.search(query, scopes), (query, scopes)
                assert len(hits) == len(set(hits))


anything = st.text(max_size=40).filter(lambda text: len(terms_of(text)) < 8)


@pytest.mark.law
@given(said=st.lists(anything, min_size=1, max_size=3), query=anything)
def test_any_text_is_searched_for_as_text(said: list[str], query: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = open_index(Path(folder) / "i.db")
        index.prepare()
        composed = document("c1", *said)
        index.put(SPACE, composed)
        terms = terms_of(query)
        expected = bool(terms) and all(one in composed.letters for one in terms)
        assert found(index, query) == (["c1"] if expected else [])


# --- Both databases ------------------------------------------------------------------------------


def test_words_and_parts_of_words_are_found_in_any_script(index: SearchIndex) -> None:
    index.put(SPACE, document("de", "Die Donaudampfschifffahrtsgesellschaft zahlt 100% zurück."))
    index.put(SPACE, document("ru", "Верните деньги за заказ, пожалуйста."))
    index.put(SPACE, document("zh", "我要退款,订单还没有到。"))
    index.put(SPACE, document("en", "A refund, in 5 days: O'Neil's a_b\\c “promise”."))
    for query, chain in {
        "dampfschiff": "de",
        "ZURÜCK": "de",
        "100%": "de",
        "верн": "ru",
        "ДЕНЬГИ": "ru",
        "退款": "zh",
        "单": "zh",
        '"我要退款"': "zh",
        "o'neil's": "en",
        "a_b\\c": "en",
        "5": "en",
        '"refund, in 5"': "en",
        "days refund": "en",
    }.items():
        assert found(index, query) == [chain], query
    for query in ["axb", "10_%", '"refund 5"', "refund退款", "", "   ", '""', "%", "_%"]:
        expected = ["de"] if query == "%" else []
        assert found(index, query) == expected, query


@pytest.mark.parametrize(
    "query",
    [
        *("refund AND promise", "refund OR x", "NOT refund", "NEAR(refund x)", "letters:refund"),
        *("refund*", "^refund", '"refund', "{refund}", "(((", "'; DROP TABLE documents; --", '"""'),
        *(
            "\0",
            "a\0b",
            "\ud800",
            "%" * 150,
            "(a+)+$",
            "[[:alpha:]]*",
            "\\",
            "?",
            "%s",
            ":1",
            "{0}",
        ),
        *("ẞ" * 200, "﷽" * 11, "\u202e", "İ"),
    ],
)
def test_no_sign_of_a_query_has_a_meaning(index: SearchIndex, query: str) -> None:
    index.put(SPACE, document("c1", "a refund that we promise", f"quoted: {query} ."))
    assert found(index, query) == (["c1"] if terms_of(query) else [])
    index.put(SPACE, document("c1", "a refund that we promise", events=11))
    expected = (
        ["c1"]
        if terms_of(query) and all(one in "a refund that we promise" for one in terms_of(query))
        else []
    )
    assert found(index, query) == expected


def test_a_phrase_does_not_reach_into_the_next_message(index: SearchIndex) -> None:
    index.put(SPACE, document("c1", "we will", "refund it"))
    assert found(index, '"will refund"') == []
    assert found(index, "will refund") == ["c1"]


def test_a_query_is_bounded(index: SearchIndex) -> None:
    with pytest.raises(UserError, match="at most 200 characters, and this one has 10,000"):
        index.search(SPACE, "a" * 10_000, limit=1)
    with pytest.raises(UserError, match="at most 10 words, and this one has 11"):
        index.search(SPACE, " ".join("abcdefghijk"), limit=1)


def test_the_newest_come_first_and_no_more_than_wanted(index: SearchIndex) -> None:
    for at in (3, 1, 2):
        index.put(SPACE, document(f"c{at}", "a promise", changed_ms=at))
    assert found(index, "promise") == ["c3", "c2", "c1"]
    hits = index.search(SPACE, "promise", limit=2)
    assert [one.document.chain_id for one in hits] == ["c3", "c2"]
    assert hits[0].excerpts[0].text == "a promise"


def test_what_is_fed_twice_is_there_once_and_an_older_state_does_not_come_back(
    index: SearchIndex,
) -> None:
    newer = document("c1", "first", "second", events=20)
    older = document("c1", "first", events=10)
    assert index.put(SPACE, newer)
    assert index.put(SPACE, newer)
    assert not index.put(SPACE, older)
    assert found(index, "second") == ["c1"]
    went_on = replace(older, execution_id="c1-2", started_ms=2, events=3, is_open=True)
    assert index.put(SPACE, went_on)
    assert not index.put(SPACE, newer)
    assert found(index, "second") == []
    assert index.positions(SPACE, ["c1", "c1-2", "x"]) == {"c1-2": Position(events=3, is_open=True)}
    assert index.identities(SPACE) == {"c1": ("run-c1", "c1-2")}


def test_what_is_redacted_later_is_not_found_any_more(index: SearchIndex) -> None:
    index.put(SPACE, document("c1", "My account is DE4212345678."))
    assert not index.has_remains
    index.put(SPACE, document("c1", "My account is [redacted].", events=11))
    assert found(index, "DE4212345678") == []
    assert found(index, "account") == ["c1"]
    assert index.has_remains
    index.purge()
    assert not index.has_remains


def test_what_is_deleted_on_request_does_not_come_back(index: SearchIndex) -> None:
    index.put(SPACE, document("c1", "a promise", execution_id="c1-2"))
    index.put(SPACE, document("c2", "a promise"))
    assert index.forget(["c1-2", "c9"]) == 1
    assert found(index, "promise") == ["c2"]
    assert not index.put(SPACE, document("c1", "a promise", execution_id="c1-2"))
    assert not index.put(SPACE, document("c9", "a promise"))
    assert index.put(SPACE, document("c3", "the same id", run_id="run-c1"))
    assert index.forget(["c2"], for_good=False) == 1
    assert index.put(SPACE, document("c2", "a promise")), "retention is no request"


def test_an_id_that_is_used_again_is_another_conversation(index: SearchIndex) -> None:
    index.put(SPACE, document("c1", "the first promise", run_id="support-1"))
    index.put(SPACE, document("c2", "the second promise", run_id="support-1", changed_ms=2))
    assert found(index, "promise") == ["c2", "c1"]
    assert found(index, "first") == ["c1"]


# --- Who finds what ------------------------------------------------------------------------------


def test_other_tenants_agents_and_teams_are_as_if_they_were_not_there(index: SearchIndex) -> None:
    own = {"tenant": "acme", "agent": "Billing", "people": ("payments", "bob")}
    index.put(SPACE, document("c1", "a promise", **own))
    index.put(SPACE, document("c2", "a promise", **own | {"tenant": "globex"}, changed_ms=9))
    index.put(SPACE, document("c3", "a promise", **own | {"agent": "Sales", "people": ()}))
    index.put(SPACE, document("c4", "a promise", changed_ms=8))

    def scope(**names: str) -> RunScope:
        return RunScope(**{kind: frozenset({name}) for kind, name in names.items()})

    for scopes, chains in [
        ((scope(tenants="acme"),), {"c1", "c3"}),
        ((scope(tenants="acme", agents="Billing"),), {"c1"}),
        ((scope(agents="Billing"),), {"c1", "c2"}),
        ((scope(teams="payments"),), {"c1", "c2"}),
        ((scope(tenants="globex"), scope(agents="Sales")), {"c2", "c3"}),
        ((scope(tenants="acm"),), set[str]()),
        ((scope(tenants="%"),), set[str]()),
        ((scope(tenants=""),), {"c4"}),
        (EVERYTHING, {"c1", "c2", "c3", "c4"}),
    ]:
        assert set(found(index, "promise", scopes)) == chains, scopes
    # The limit counts what is seen, so that the number of others tells nothing.
    assert len(index.search(SPACE, "promise", (scope(tenants="acme"),), limit=1)) == 1


def test_a_tenant_with_a_name_that_no_database_stores_is_found(index: SearchIndex) -> None:
    index.put(SPACE, document("c1", "a promise", tenant="a\ufffdb"))
    assert found(index, "promise", (RunScope(tenants=frozenset({"a\0b"})),)) == ["c1"]


def test_another_namespace_or_server_has_nothing_in_common(index: SearchIndex) -> None:
    index.put(SPACE, document("c1", "a promise"))
    index.put("default 2222", document("c2", "a promise"))
    index.put("other 3333", document("c3", "a promise"))
    assert found(index, "promise") == ["c1"]
    assert index.status("default 9999") is None
    assert index.identities("other 3333") == {"c3": ("run-c3", "c3")}
    index.drop_other_servers(SPACE)
    assert found(index, "promise", space="default 2222") == []
    assert found(index, "promise", space="other 3333") == ["c3"]
    assert found(index, "promise") == ["c1"]


def test_records_keep_every_character(index: SearchIndex) -> None:
    odd = document("c1", "a\0b \ud83d <b>x</b>", run_id="r\0\u202e", tags=("t\0",), customer="é")
    index.put(SPACE, replace(odd, parts=(*odd.parts, Part("tag", "t\0"))))
    [hit] = index.search(SPACE, "<b>x", limit=5)
    assert hit.document.run_id == "r\0\u202e"
    assert hit.document.tags == ("t\0",)


# --- The writer ----------------------------------------------------------------------------------


def test_one_process_writes_and_another_takes_over(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert index.take_lease(SPACE, "one")
    assert index.take_lease(SPACE, "one")
    assert not index.take_lease(SPACE, "two")
    assert index.take_lease("other 3333", "two")
    status = index.status(SPACE)
    assert status is not None
    assert status.writer == "one"
    later = now_ms() + LEASE_MS + 1
    monkeypatch.setattr(index_module, "now_ms", lambda: later)
    assert index.take_lease(SPACE, "two")
    assert not index.take_lease(SPACE, "one")
    index.leave_lease(SPACE, "one")
    assert not index.take_lease(SPACE, "one")
    index.leave_lease(SPACE, "two")
    assert index.take_lease(SPACE, "one")


def test_a_clock_that_was_ahead_does_not_keep_the_lease(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = now_ms()
    monkeypatch.setattr(index_module, "now_ms", lambda: now + 10**9)
    assert index.take_lease(SPACE, "one")
    monkeypatch.setattr(index_module, "now_ms", lambda: now)
    assert index.take_lease(SPACE, "two")


def test_the_position_is_kept_with_the_documents(index: SearchIndex) -> None:
    assert index.status(SPACE) is None
    index.put(SPACE, document("c1", "x"))
    index.note(SPACE, IndexStatus(as_of_ms=5, whole_ms=4, unread=3))
    assert index.status(SPACE) == IndexStatus(as_of_ms=5, whole_ms=4, unread=3, documents=1)
    index.prepare()
    assert index.status(SPACE) == IndexStatus(as_of_ms=5, whole_ms=4, unread=3, documents=1)
    index.check()
    index.create()
    assert index.status(SPACE) is None


# --- What figures count, and scores ------------------------------------------------------------------


def counted(
    index: SearchIndex, scopes: Scopes = EVERYTHING, **options: Any
) -> list[tuple[str, int]]:
    """Return the kinds and values of what an index has counted."""
    found = index.occurrences(SPACE, scopes, options.pop("between", (0, 99)), **options)
    return [(one.kind, one.value) for one in found]


def score(execution_id: str = "c1", **fields: Any) -> Score:
    known: dict[str, Any] = {
        "check": "po\0lite", "run_id": "run-c1", "agent": "A", "instructions": "", "score": 0, "at_ms": 5
    }  # fmt: skip
    return Score(execution_id=execution_id, **{**known, **fields})


def test_occurrences_are_those_of_a_time_a_team_and_the_scopes(index: SearchIndex) -> None:
    mine = (
        Occurrence("takeover", 10, "10", team="b\0illing' OR 1=1"),
        Occurrence("decision", 20, "a1", 7_000),
    )
    index.put(SPACE, document("c1", tenant="acme", occurrences=mine))
    index.put(
        SPACE, document("c2", tenant="globex", occurrences=(Occurrence("rating", 15, value=2),))
    )
    index.put("default 2222", document("c3", occurrences=mine))
    assert counted(index) == [("takeover", 0), ("rating", 2), ("decision", 7_000)]
    assert counted(index, between=(10, 20)) == [("takeover", 0), ("rating", 2)]
    assert counted(index, ACME) == [("takeover", 0), ("decision", 7_000)]
    assert counted(index, team="b\0illing' OR 1=1") == [("takeover", 0)]
    assert counted(index, team="billing") == []
    # What is fed again replaces, and adds nothing.
    newer = (Occurrence("decision", 20, "a1", 7_000), Occurrence("rating", 30, value=5))
    for _ in range(2):
        index.put(SPACE, document("c1", tenant="acme", events=11, occurrences=newer))
        assert counted(index, ACME) == [("takeover", 0), ("decision", 7_000), ("rating", 5)]
    index.forget(["c1"])
    index.put(SPACE, document("c1", tenant="acme", events=12, occurrences=newer))
    assert counted(index, ACME) == []


def test_scores_are_those_of_conversations_that_are_there_each_once(index: SearchIndex) -> None:
    index.put(SPACE, document("c1", tenant="acme"))
    index.put(SPACE, document("c2", tenant="globex"))
    for _ in range(2):
        index.put_scores(SPACE, [score(), score("c2", at_ms=6), score("unknown")])
    assert index.scores(SPACE, EVERYTHING, 0) == [score(), score("c2", at_ms=6)]
    assert index.scores(SPACE, EVERYTHING, 6) == [score("c2", at_ms=6)]
    assert index.scores(SPACE, ACME, 0) == [score()]
    assert index.scores("default 2222", EVERYTHING, 0) == []
    index.put_scores(SPACE, [score(score=1)])
    assert index.scores(SPACE, ACME, 0) == [score(score=1)]
    index.forget(["c1"])
    index.put_scores(SPACE, [score()])
    index.put(SPACE, document("c1", tenant="acme"))
    assert index.scores(SPACE, ACME, 0) == []
