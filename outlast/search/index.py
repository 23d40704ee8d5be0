"""The index of search: documents of conversations in a SQL database, and who may find which.

One process writes it, and any number read it. Each change is one transaction, so that the index is
whole after a kill, and each document says how much of its run's history it has.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from typing import Any, ClassVar, Final, Protocol

from outlast.agents.errors import AgentsException
from outlast.contract.searchability import searchable
from outlast.edges.clock import now_ms
from outlast.loop.values import JsonObject
from outlast.search.documents import Document
from outlast.search.excerpts import Excerpt, excerpts_of
from outlast.search.letters import terms_of
from outlast.search.occurrences import Occurrence
from outlast.search.scores import Score
from outlast.temporal.visibility.scopes import EVERYTHING, Scopes, any_covers

FORMAT: Final = 2
"""The format of the tables. Another one is rebuilt, never converted."""

LEASE_MS: Final = 60_000
"""How long a writer counts as present that has said nothing more."""

LONGEST_SEARCH: Final = 5.0
"""The seconds that a search may take."""

SLOW: Final = "The search takes too long. Add a word of three letters or more."
MAKE: Final = "`outlast search run` makes it."
REBUILD: Final = "`outlast search rebuild` makes it anew."
WITHOUT: Final = "The desk works without it."
OTHER_FORMAT: Final = "was made by another version of outlast"


class SearchUnavailable(AgentsException):
    """The index of search is not there, or cannot be read or written."""

    code = "search_unavailable"


class SearchIndexMissing(SearchUnavailable):
    """Nobody has made the index of search yet."""


class SearchIndexDamaged(SearchUnavailable):
    """The index of search cannot be read any more, and has to be rebuilt."""

    code = "search_index_damaged"


class Rows(Protocol):
    """A connection to the database, within a transaction."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        """Run a statement, with a `?` for each parameter, and return its rows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A conversation that was found.

    Attributes:
        document: the conversation.
        excerpts: where the words occur in it.
    """

    document: Document
    excerpts: tuple[Excerpt, ...]

    def record(self) -> JsonObject:
        """Return it for programs."""
        record = asdict(self.document)
        del record["parts"], record["occurrences"]
        found = [{"by": one.by, "message": one.message, "text": one.text} for one in self.excerpts]
        return record | {"excerpts": found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a run is in the index.

    Attributes:
        events: how many events of its newest execution were read.
        is_open: whether the run went on then.
    """

    events: int
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """How far the index is with a namespace.

    Attributes:
        as_of_ms: everything that happened before is in the index; 0 if that was never so.
        whole_ms: when it was last compared with all that the server and the archive have.
        unread: how many runs could not be read, and are missing.
        documents: the number of conversations.
        writer: the process that writes it; empty for none at present.
    """

    as_of_ms: int = 0
    whole_ms: int = 0
    unread: int = 0
    documents: int = 0
    writer: str = ""


class SearchIndex(ABC):
    """An index of conversations, by their words.

    The methods block: call them in a thread. A namespace is given as its name and id, because other
    servers have namespaces of the same name.

    Attributes:
        has_remains: whether words were removed since `purge` was called.
    """

    has_remains: bool = False
    _word_id: ClassVar[str]
    """The column of the table of words with the number of their document."""

    # --- The database ----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the index, if there is none.

        Raises:
            SearchUnavailable: the database is not there, or has something else in it.
        """
        try:
            with self._reading():
                return
        except SearchIndexMissing:
            self.create()

    def check(self) -> None:
        """Look for damage in an index that is there.

        Raises:
            SearchIndexDamaged: it is damaged, or another version has made it.
            SearchUnavailable: what is there is no index of outlast.
        """
        with suppress(SearchIndexMissing), self._reading():
            pass

    @abstractmethod
    def create(self) -> None:
        """Create an index without documents, in the place of one that is there, damaged or not.

        Raises:
            SearchUnavailable: what is there is no index of outlast.
        """

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Rows]:
        """Open the database for one transaction that only reads."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Rows]:
        """Open the database for one transaction; other writers wait for its end."""

    @abstractmethod
    def _matching(self, term: str) -> tuple[str, str]:
        """Return the condition that a document `d` has a term, and its parameter."""

    def purge(self) -> None:
        """Overwrite what the database still has of removed words, in steps that block no reader.

        Raises:
            SearchUnavailable: the database cannot be written.
        """
        self.has_remains = False

    # --- Writing ---------------------------------------------------------------------------------

    def put(self, namespace: str, document: Document) -> bool:
        """Store a document in the place of an earlier one of its conversation.

        Returns:
            False if the index has a later one, or if the conversation was deleted on request.

        Raises:
            SearchUnavailable: the database cannot be written.
        """
        ids = document.chain_id, document.execution_id
        with self._writing() as rows:
            if rows.execute("SELECT 1 FROM gone WHERE id IN (?, ?)", ids).fetchone():
                return False
            known = rows.execute(_KNOWN, (namespace, document.chain_id)).fetchone()
            if known is not None:
                before = Document.decoded(known[0])
                if _is_later(before, document):
                    return False
                document = document.after(before)
                if set(before.parts) - set(document.parts):  # such as what is redacted now
                    self.has_remains = True
            record = document.encoded()
            if known is None or known[0] != record:
                values = (namespace, *_values(document), record)
                number = int(rows.execute(_PUT, values).fetchone()[0])
                self._forget_parts(rows, number)
                rows.execute(
                    f"INSERT INTO words ({self._word_id}, letters) VALUES (?, ?)",  # noqa: S608
                    (number, document.letters),
                )
                for one in document.occurrences:
                    rows.execute(
                        _COUNT, (number, one.kind, one.at_ms, one.value, _stored(one.team))
                    )
        return True

    def forget(self, ids: Iterable[str], *, for_good: bool = True) -> int:
        """Remove conversations, by the ids of their executions; return how many there were.

        Args:
            ids: the ids.
            for_good: whether what is fed later about them is not stored, as it was deleted on
                request; False if only the server and the archive have lost them.

        Raises:
            SearchUnavailable: the database cannot be written.
        """
        with self._writing() as rows:
            return sum([self._drop(rows, one, for_good=for_good) for one in dict.fromkeys(ids)])

    def _drop(self, rows: Rows, one: str, *, for_good: bool) -> int:
        if for_good:
            rows.execute("INSERT INTO gone (id) VALUES (?) ON CONFLICT DO NOTHING", (one,))
        deleting = (
            "DELETE FROM documents WHERE chain_id = ? OR execution_id = ? "
            "RETURNING id, execution_id"
        )
        found = rows.execute(deleting, (one, one)).fetchall()
        self.has_remains |= bool(found)
        for newest in {one, *(newest for _, newest in found)}:
            rows.execute("DELETE FROM scores WHERE execution_id = ?", (newest,))
        for number, _ in found:
            self._forget_parts(rows, int(number))
        return len(found)

    def _forget_parts(self, rows: Rows, number: int) -> None:
        """Remove the folded text of a document, and what the figures count of it."""
        rows.execute(f"DELETE FROM words WHERE {self._word_id} = ?", (number,))  # noqa: S608
        rows.execute("DELETE FROM occurrences WHERE document = ?", (number,))

    def drop_other_servers(self, namespace: str) -> None:
        """Remove what was indexed of namespaces with this name on other servers.

        Raises:
            SearchUnavailable: the database cannot be written.
        """
        name = namespace.rpartition(" ")[0]
        with self._writing() as rows:
            found = rows.execute("SELECT DISTINCT namespace, chain_id FROM documents").fetchall()
            for other, chain in found:
                if other != namespace and other.rpartition(" ")[0] == name:
                    self._drop(rows, chain, for_good=False)

    def take_lease(self, namespace: str, holder: str) -> bool:
        """Become the writer of a namespace for a while, or stay it; False if another process is.

        Raises:
            SearchUnavailable: the database cannot be written.
        """
        with self._writing() as rows:
            rows.execute(
                "INSERT INTO feeds (namespace) VALUES (?) ON CONFLICT DO NOTHING", (namespace,)
            )
            now = now_ms()
            found = rows.execute(
                "UPDATE feeds SET holder = ?, until_ms = ? WHERE namespace = ? "
                "AND (holder = ? OR until_ms < ? OR until_ms > ?) RETURNING 1",
                (holder, now + LEASE_MS, namespace, holder, now, now + 2 * LEASE_MS),
            )
            return found.fetchone() is not None

    def leave_lease(self, namespace: str, holder: str) -> None:
        """Let another process write at once.

        Raises:
            SearchUnavailable: the database cannot be written.
        """
        with self._writing() as rows:
            rows.execute(
                "UPDATE feeds SET until_ms = 0 WHERE namespace = ? AND holder = ?",
                (namespace, holder),
            )

    def note(self, namespace: str, status: IndexStatus) -> None:
        """Store how far the index is with a namespace.

        Raises:
            SearchUnavailable: the database cannot be written.
        """
        with self._writing() as rows:
            rows.execute(
                "INSERT INTO feeds (namespace, as_of_ms, whole_ms, unread) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (namespace) DO UPDATE SET as_of_ms = excluded.as_of_ms, "
                "whole_ms = excluded.whole_ms, unread = excluded.unread",
                (namespace, status.as_of_ms, status.whole_ms, status.unread),
            )

    # --- Reading ---------------------------------------------------------------------------------

    def search(
        self, namespace: str, query: str, scopes: Scopes = EVERYTHING, *, limit: int
    ) -> list[Hit]:
        """Return the conversations that have every word of a query, the newest first.

        Args:
            namespace: the name and the id of the namespace.
            query: words, and phrases in double quotes. None finds nothing.
            scopes: whose conversations are searched: others are as if they were not there.
            limit: the most conversations.

        Raises:
            UserError: the query is too long.
            SearchUnavailable: the index is not there, or the search takes too long.
        """
        terms = terms_of(query)
        if not terms:
            return []
        with self._reading() as rows:
            numbers = self._found(rows, namespace, terms, scopes, limit)
            records = [
                rows.execute("SELECT record FROM documents WHERE id = ?", (one,)).fetchone()
                for one in numbers
            ]
        documents = [Document.decoded(one[0]) for one in records if one is not None]
        return [Hit(document=one, excerpts=excerpts_of(one.parts, terms)) for one in documents]

    def _found(
        self, rows: Rows, namespace: str, terms: Sequence[str], scopes: Scopes, limit: int
    ) -> list[int]:
        # The longest term finds the fewest; the others are looked for in what it has found.
        conditions = [self._matching(one) for one in sorted(terms, key=len, reverse=True)]
        whose, tenants = _whose(scopes)
        sql = (
            f"SELECT d.id, d.facts FROM documents d WHERE d.namespace = ?{whose} AND "  # noqa: S608
            f"{' AND '.join(one for one, _ in conditions)} ORDER BY d.changed_ms DESC, d.id DESC"
        )
        found = rows.execute(sql, (namespace, *tenants, *(one for _, one in conditions)))
        return [int(number) for (number,) in islice(_covered(found, scopes), limit)]

    def occurrences(
        self, namespace: str, scopes: Scopes, between: tuple[int, int], *, team: str | None = None
    ) -> list[Occurrence]:
        """Return what happened in the conversations of some scopes, oldest first.

        Args:
            namespace: the name and the id of the namespace.
            scopes: whose conversations count.
            between: the times, in milliseconds since the epoch: from the first, before the second.
            team: only of conversations that were assigned to this team then.

        Raises:
            SearchUnavailable: the index is not there, or cannot be read.
        """
        whose, tenants = _whose(scopes)
        theirs = "" if team is None else " AND o.team = ?"
        sql = (
            "SELECT o.kind, o.at_ms, o.value, o.team, d.facts FROM occurrences o "  # noqa: S608
            "JOIN documents d ON d.id = o.document WHERE o.at_ms >= ? AND o.at_ms < ? "
            f"AND d.namespace = ?{whose}{theirs} ORDER BY o.at_ms, o.document"
        )
        given = (*between, namespace, *tenants, *(() if team is None else (_stored(team),)))
        with self._reading() as rows:
            found = rows.execute(sql, given).fetchall()
        return [
            Occurrence(kind, int(at_ms), value=int(value), team=json.loads(of))
            for kind, at_ms, value, of in _covered(found, scopes)
        ]

    def put_scores(self, namespace: str, scores: Iterable[Score]) -> None:
        """Store scores, each in the place of an earlier one of its run by its check.

        Raises:
            SearchUnavailable: the database cannot be written.
        """
        with self._writing() as rows:
            for one in scores:
                ids = (one.execution_id,)
                if rows.execute("SELECT 1 FROM gone WHERE id = ?", ids).fetchone():
                    continue
                values = (one.execution_id, one.score, one.at_ms, json.dumps(asdict(one)))
                rows.execute(_SCORE, (namespace, _stored(one.check), *values))

    def scores(self, namespace: str, scopes: Scopes, since_ms: int) -> list[Score]:
        """Return the scores of conversations that the index has, the oldest first.

        Raises:
            SearchUnavailable: the index is not there, or cannot be read.
        """
        whose, tenants = _whose(scopes)
        sql = (
            "SELECT s.record, d.facts FROM scores s JOIN documents d "  # noqa: S608
            "ON d.execution_id = s.execution_id AND d.namespace = s.namespace "
            f"WHERE s.namespace = ? AND s.at_ms >= ?{whose} ORDER BY s.at_ms, s.execution_id"
        )
        with self._reading() as rows:
            found = rows.execute(sql, (namespace, since_ms, *tenants)).fetchall()
        return [Score(**json.loads(record)) for (record,) in _covered(found, scopes)]

    def positions(self, namespace: str, execution_ids: Sequence[str]) -> dict[str, Position]:
        """Return how far some runs are in the index, by their newest executions.

        Raises:
            SearchUnavailable: the database cannot be read.
        """
        found: dict[str, Position] = {}
        with self._reading() as rows:
            for one in execution_ids:
                row = rows.execute(
                    "SELECT events, is_open FROM documents WHERE execution_id = ? "
                    "AND namespace = ?",
                    (one, namespace),
                ).fetchone()
                if row is not None:
                    found[one] = Position(events=int(row[0]), is_open=bool(row[1]))
        return found

    def identities(self, namespace: str) -> dict[str, tuple[str, str]]:
        """Return the run's id and the newest execution of each conversation, by its first.

        Raises:
            SearchUnavailable: the database cannot be read.
        """
        with self._reading() as rows:
            found = rows.execute(
                "SELECT chain_id, run_id, execution_id FROM documents WHERE namespace = ?",
                (namespace,),
            )
            return {chain: (json.loads(run_id), newest) for chain, run_id, newest in found}

    def status(self, namespace: str) -> IndexStatus | None:
        """Return how far the index is with a namespace; None if it knows nothing of it.

        Raises:
            SearchUnavailable: the index is not there, or cannot be read.
        """
        with self._reading() as rows:
            found = rows.execute(
                "SELECT as_of_ms, whole_ms, unread, holder, until_ms FROM feeds "
                "WHERE namespace = ?",
                (namespace,),
            ).fetchone()
            if found is None:
                return None
            count = rows.execute(
                "SELECT count(*) FROM documents WHERE namespace = ?", (namespace,)
            ).fetchone()
        as_of, whole, unread, holder, until = found
        return IndexStatus(
            as_of_ms=int(as_of),
            whole_ms=int(whole),
            unread=int(unread),
            documents=int(count[0]),
            writer=holder if until > now_ms() else "",
        )


def _is_later(known: Document, document: Document) -> bool:
    """Whether the index has a later state of a run than the one that is fed."""
    if known.execution_id == document.execution_id:
        return known.events > document.events
    return known.started_ms > document.started_ms


def _values(document: Document) -> tuple[Any, ...]:
    one = document
    facts = {"tenant": one.tenant, "agent": one.agent, "people": one.people}
    ids = (one.chain_id, json.dumps(one.run_id), one.execution_id)
    tenant = searchable(one.tenant)
    return (*ids, one.events, int(one.is_open), one.changed_ms, tenant, json.dumps(facts))


def _stored(text: str) -> str:
    """Return a text of others as the database keeps it: some store no NUL."""
    return json.dumps(text)


def _whose(scopes: Scopes) -> tuple[str, list[str]]:
    """Return the condition that a document `d` is of a tenant of the scopes, and its parameters."""
    if not (scopes and all(one.tenants for one in scopes)):
        return "", []
    tenants = sorted({searchable(name) for one in scopes for name in one.tenants})
    return f" AND d.tenant IN ({', '.join('?' * len(tenants))})", tenants


def _covered(found: Iterable[Sequence[Any]], scopes: Scopes) -> Iterator[list[Any]]:
    """Yield the rows of documents of the scopes, without their last column: the document's facts."""

    @cache
    def covers(facts: str) -> bool:
        return any_covers(scopes, **json.loads(facts))

    return (values for *values, facts in found if covers(facts))


_COLUMNS: Final = (
    *("namespace", "chain_id", "run_id", "execution_id", "events", "is_open", "changed_ms"),
    *("tenant", "facts", "record"),
)
_KNOWN: Final = "SELECT record FROM documents WHERE namespace = ? AND chain_id = ?"
_VALUES: Final = ", ".join("?" * len(_COLUMNS))
_REPLACED: Final = ", ".join(f"{one} = excluded.{one}" for one in _COLUMNS)
_PUT: Final = (
    f"INSERT INTO documents ({', '.join(_COLUMNS)}) VALUES ({_VALUES}) ON CONFLICT "  # noqa: S608
    f"(namespace, chain_id) DO UPDATE SET {_REPLACED} RETURNING id"
)

_COUNT: Final = (
    "INSERT INTO occurrences (document, kind, at_ms, value, team) VALUES (?, ?, ?, ?, ?)"
)

_SCORE: Final = (
    "INSERT INTO scores (namespace, name, execution_id, score, at_ms, record) "
    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (namespace, name, execution_id) DO UPDATE SET "
    "score = excluded.score, at_ms = excluded.at_ms, record = excluded.record"
)

TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS documents (
    id {number}, namespace TEXT NOT NULL, chain_id TEXT NOT NULL, run_id TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    events BIGINT NOT NULL, is_open INTEGER NOT NULL, changed_ms BIGINT NOT NULL,
    tenant TEXT NOT NULL, facts TEXT NOT NULL, record TEXT NOT NULL, UNIQUE (namespace, chain_id)
    )""",
    "CREATE INDEX IF NOT EXISTS by_execution ON documents (execution_id)",
    "CREATE INDEX IF NOT EXISTS by_change ON documents (namespace, changed_ms)",
    """CREATE TABLE IF NOT EXISTS occurrences (
    document BIGINT NOT NULL, kind TEXT NOT NULL, at_ms BIGINT NOT NULL, value BIGINT NOT NULL,
    team TEXT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS by_document ON occurrences (document)",
    "CREATE INDEX IF NOT EXISTS by_time ON occurrences (at_ms)",
    """CREATE TABLE IF NOT EXISTS scores (
    namespace TEXT NOT NULL, name TEXT NOT NULL, execution_id TEXT NOT NULL, score INTEGER NOT NULL,
    at_ms BIGINT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (namespace, name, execution_id)
    )""",
    """CREATE TABLE IF NOT EXISTS feeds (
    namespace TEXT PRIMARY KEY, as_of_ms BIGINT NOT NULL DEFAULT 0,
    whole_ms BIGINT NOT NULL DEFAULT 0, unread INTEGER NOT NULL DEFAULT 0,
    holder TEXT NOT NULL DEFAULT '', until_ms BIGINT NOT NULL DEFAULT 0
    )""",
    "CREATE TABLE IF NOT EXISTS gone (id TEXT PRIMARY KEY)",
)
"""The tables of both databases, but for the index of words."""
