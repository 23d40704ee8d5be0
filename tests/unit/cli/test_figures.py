"""`outlast figures`, and what `outlast quality` shows: what an index has, in a terminal."""

import json
from pathlib import Path

from temporalio.client import Client

from outlast.client.search import space_of
from outlast.edges.clock import now_ms
from outlast.search import open_index
from outlast.search.occurrences import Occurrence
from outlast.search.scores import Score
from tests.hostile_text import assert_visible
from tests.unit.cli.conftest import Invoke
from tests.unit.search.documents import document

HOSTILE = "r\x1b[2K\u202e[bold]x[/bold]"


async def test_figures_and_scores_of_an_index_are_shown(
    cli: Invoke, client: Client, tmp_path: Path
) -> None:
    place = ("--search-index", str(tmp_path / "search.db"))
    missing = await cli("figures", *place)
    assert (missing.exit_code, "There is no index at" in missing.stderr) == (1, True)
    assert "Say where the index of search is" in (await cli("quality", "scores")).stderr
    index, space, at = open_index(tmp_path / "search.db"), await space_of(client), now_ms()
    index.prepare()
    nothing = await cli("quality", "scores", *place)
    assert "No scores." in nothing.stderr
    found = (
        Occurrence("decision", at, "a1", 90_000, "billing"),
        Occurrence("rating", at, value=2),
    )
    index.put(space, document("c1", run_id=HOSTILE, occurrences=found))
    score = Score(
        check=HOSTILE, run_id=HOSTILE, execution_id="c1", agent=HOSTILE, instructions="ab12",
        score=0, at_ms=at,
    )  # fmt: skip
    index.put_scores(space, [score, score])

    shown = await cli("figures", "--days", "2", *place)
    assert shown.stdout.splitlines()[-1].split() == [
        "all", "0", "-", "1", "90", "s", "0", "0", "1", "2"
    ]  # fmt: skip
    assert "The index has not been made yet" in shown.stderr
    record = json.loads((await cli("figures", "--json", "--team", "billing", *place)).stdout)
    assert (record["total"]["decisions"], record["total"]["ratings"]) == (1, 0)
    wrong = await cli("figures", "--time-zone", "Nowhere", *place)
    assert (wrong.exit_code, "is no time zone" in wrong.stderr) == (2, True)

    scores = await cli("quality", "scores", *place)
    assert "0 of 1" in scores.stdout
    assert "does not pass" in scores.stdout
    assert_visible(scores.stdout, layout="\n")
    listed = json.loads((await cli("quality", "scores", "--json", *place)).stdout)
    assert [one["run_id"] for one in listed["worst"]] == [HOSTILE]
