"""The index in PostgreSQL: its rights, its errors, and what they never show."""

import subprocess
import sys

import psycopg
import pytest

from outlast.search import SearchIndexDamaged, SearchUnavailable, open_index
from outlast.search import postgres as postgres_module
from outlast.search.postgres import PostgresIndex
from tests.unit.search.documents import SPACE, document

pytestmark = pytest.mark.installed


@pytest.fixture
def index(postgres: str) -> PostgresIndex:
    index = PostgresIndex(postgres)
    index.create()
    return index


def plain(url: str) -> str:
    return url.replace("+psycopg", "")


def test_the_desk_needs_the_right_to_read_and_no_other(index: PostgresIndex, postgres: str) -> None:
    index.put(SPACE, document("c1", "a promise"))
    with psycopg.connect(plain(postgres), autocommit=True) as connection:
        connection.execute(
            "DROP OWNED BY desk" if _has_desk(connection) else "CREATE ROLE desk LOGIN"
        )
        connection.execute("GRANT USAGE ON SCHEMA outlast_search TO desk")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA outlast_search TO desk")
    reader = PostgresIndex(postgres.replace("test@", "desk@"))
    assert len(reader.search(SPACE, "promise", limit=1)) == 1
    reader.prepare()  # it is there
    with pytest.raises(SearchUnavailable, match="permission denied"):
        reader.put(SPACE, document("c2", "x"))


def _has_desk(connection: "psycopg.Connection[tuple[object, ...]]") -> bool:
    found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'desk'")
    return found.fetchone() is not None


def test_trigrams_find_words(index: PostgresIndex, postgres: str) -> None:
    for at in range(300):
        index.put(SPACE, document(f"c{at}", f"возврат {at} rückerstattung 订单退款"))
    with psycopg.connect(plain(postgres), options="-c search_path=outlast_search,public") as one:
        one.execute("SET enable_seqscan = off")
        for term in ("%возвр%", "%erstatt%"):
            rows = one.execute("EXPLAIN SELECT id FROM words WHERE letters LIKE %s", (term,))
            assert "by_trigram" in str(rows.fetchall())


def test_there_is_no_index_yet_and_no_password_is_shown(postgres: str) -> None:
    secret = "postgresql://bob:geheim@127.0.0.1:9/nowhere"
    index = PostgresIndex(secret)
    assert repr(index) == "PostgresIndex('postgresql://127.0.0.1/nowhere')"
    with pytest.raises(SearchUnavailable) as failed:
        index.search(SPACE, "x", limit=1)
    assert "geheim" not in f"{failed.value!r}{failed.value.__cause__!r}"
    with psycopg.connect(plain(postgres), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS outlast_search CASCADE")
    with pytest.raises(SearchUnavailable, match=r"There is no index in .* yet"):
        PostgresIndex(postgres).search(SPACE, "x", limit=1)
    PostgresIndex(postgres).check()


def test_another_version_and_a_slow_search_are_said(
    index: PostgresIndex, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(20):
        index.put(SPACE, document(f"c{at}", "xy " * 50_000))
    with monkeypatch.context() as patch:
        patch.setattr(postgres_module, "LONGEST_SEARCH", 0.001)
        with pytest.raises(SearchUnavailable, match="takes too long"):
            search_often(index)
    with psycopg.connect(plain(postgres), autocommit=True) as connection:
        connection.execute("UPDATE outlast_search.about SET format = 99")
    with pytest.raises(SearchIndexDamaged, match="another version"):
        index.prepare()


def search_often(index: PostgresIndex) -> None:
    for _ in range(50):
        index.search(SPACE, "zq yx qz", limit=1)


def test_without_its_package_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from outlast.search import open_index\n"
        "open_index('postgresql://host/database')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "needs psycopg: pip install 'outlast[search]'" in done.stderr
    assert isinstance(open_index("postgres://host/database"), PostgresIndex)
