"""Every surface has a word for every status that a run can have."""

from collections.abc import Collection
from typing import get_args

import pytest

from outlast.cli import list_runs, report
from outlast.client import runs
from outlast.contract import names
from outlast.loop.state import Outcome, Status
from outlast.serve.pages import conversation_view

EVERY = set(get_args(names.ListedStatus))
ENDED = set(get_args(Outcome))


def test_lists_have_the_statuses_of_runs_and_of_calls_by_voice() -> None:
    assert set(get_args(Status)) | {"on_call"} == EVERY
    works = EVERY - ENDED - names.WAITING
    assert works == {"running"}


@pytest.mark.parametrize(
    ("table", "statuses"),
    [
        pytest.param(list_runs._STATUS_STYLES, EVERY, id="the colors of lists"),
        pytest.param(conversation_view.BADGES, EVERY, id="the desk's words"),
        pytest.param(report._STATUS_WORDS, names.WAITING - {"on_call"}, id="the words of `show`"),
        pytest.param(runs._CLOSED, ENDED, id="how Temporal calls it"),
    ],
)
def test_a_table_has_every_status(table: Collection[str], statuses: set[str]) -> None:
    assert set(table) == statuses
