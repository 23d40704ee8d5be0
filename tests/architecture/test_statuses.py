"""Every surface has a word for every status that a run can have, and for every kind of its steps."""

from collections.abc import Collection
from typing import get_args

from outlast.cli import list_runs, report
from outlast.client import runs
from outlast.client.timeline import StepKind
from outlast.contract import names
from outlast.loop.state import Outcome, Status
from outlast.serve.pages import conversation_view

EVERY = set(get_args(names.ListedStatus))
ENDED = set(get_args(Outcome))


def test_lists_have_the_statuses_of_runs_and_of_calls_by_voice() -> None:
    assert set(get_args(Status)) | {"on_call"} == EVERY
    works = EVERY - ENDED - names.WAITING
    assert works == {"running"}


TABLES: dict[str, tuple[Collection[str], set[str]]] = {
    "the colors of lists": (list_runs._STATUS_STYLES, EVERY),
    "the desk's words": (conversation_view.BADGES, EVERY),
    "the words of `show`": (report._STATUS_WORDS, {*names.WAITING} - {"on_call"}),
    "how Temporal calls it": (runs._CLOSED, ENDED),
    "the desk's steps": (conversation_view._TITLES, {*get_args(StepKind)}),
}


def test_a_table_has_every_status() -> None:
    lacking = {name: wanted ^ set(table) for name, (table, wanted) in TABLES.items()}
    assert {name: missing for name, missing in lacking.items() if missing} == {}
