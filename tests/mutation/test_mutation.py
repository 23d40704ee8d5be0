"""`make mutate` takes the same changes each time, tries tests that reach them, and compares fairly."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.areas import AREAS, area_of, files_that_notice, modules_of
from tests.mutation.meaning import meaning
from tests.mutation.reach import (
    MOST_ON_SERVER,
    MOST_SECONDS,
    Reaching,
    Recordings,
    chosen,
    first_failed,
    recording_of,
)
from tests.mutation.report import Share, comparison, left_to_try, share, table

ROOT = Path(__file__).parents[2]


def test_every_module_is_in_one_area() -> None:
    modules = [str(path.relative_to(ROOT)) for path in (ROOT / "outlast").rglob("*.py")]
    assert [one for one in modules if not area_of(one)] == []
    assert sorted(one for name in AREAS for one in modules_of(name, ROOT)) == sorted(modules)


@pytest.mark.parametrize("name", AREAS)
def test_the_code_and_the_tests_of_an_area_are_there(name: str) -> None:
    area = AREAS[name]
    served = [f"tests/workflow/test_{one}.py" for one in area.on_server.split()]
    places = [*area.code, *area.tests, *served]
    assert [place for place in places if not list(ROOT.glob(place))] == []
    assert files_that_notice(name, ROOT)


def test_files_at_the_top_belong_to_the_area_that_names_them() -> None:
    assert area_of("outlast/edges/lazy.py") == "tools"
    assert area_of("outlast/agents/hosts.py") == "worker"
    assert area_of("outlast/client/lazy.py") == "client"


def reaching(
    test: str, seconds: float = 1, functions: int = 5, *, on_server: bool = False
) -> Reaching:
    return Reaching(test, seconds, on_server, functions)


def test_near_tests_and_those_that_reach_little_come_first_and_a_server_last() -> None:
    tests = [
        reaching("tests/workflow/test_inbox.py::b", on_server=True),
        reaching("tests/unit/test_all.py::a", functions=900),
        reaching("tests/unit/test_some.py::a", functions=3),
        reaching("tests/unit/test_inbox.py::a", functions=99),
    ]
    names = [tests[3].test, tests[2].test, tests[1].test, tests[0].test]
    assert chosen(tests, "outlast/client/_inbox.py") == names
    assert chosen(tests, "outlast/client/inbox.py", {tests[3].test}) == names[1:]


def test_a_change_costs_at_most_twenty_tests_on_a_server_and_few_seconds() -> None:
    served = [reaching(f"tests/s.py::{n:02}", 0.5, on_server=True) for n in range(30)]
    assert len(chosen(served, "outlast/a.py")) == MOST_ON_SERVER
    slow = [reaching(f"tests/u.py::{n:02}", 6) for n in range(30)]
    assert len(chosen(slow, "outlast/a.py")) == MOST_SECONDS // 6
    long = [reaching("tests/u.py::a", MOST_SECONDS + 1, 1), reaching("tests/u.py::b")]
    assert chosen(long, "outlast/a.py") == ["tests/u.py::b"]


def test_a_recording_says_what_reaches_a_function_and_which_files_have_none(tmp_path: Path) -> None:
    kept = {
        "tests": {"tests/a.py::one": [0.5, True], "tests/a.py::two": [0.1, False]},
        "functions": {"outlast/b.py:C.d": [0, 1], "outlast/b.py:e": [0]},
    }
    recording_of(tmp_path, "tests/a.py").write_text(json.dumps(kept))
    recordings = Recordings(tmp_path, ["tests/a.py", "tests/b.py"])
    assert recordings.missing == ["tests/b.py"]
    one, two = recordings.reaching("outlast/b.py", "C.d")
    assert one == Reaching("tests/a.py::one", 0.5, on_server=True, functions=2)
    assert two == Reaching("tests/a.py::two", 0.1, on_server=False, functions=1)
    assert recordings.reaching("outlast/b.py", "f") == []


def test_what_failed_is_a_test_and_no_line_of_a_log() -> None:
    tests = ["tests/a.py::one[a - b]", "tests/a.py::one", "tests/a.py::two"]
    log = "ERROR    outlast.serve.problems:problems.py:76 A request failed"
    assert first_failed(log, tests) == ""
    assert first_failed(f"{log}\nFAILED tests/a.py::two - assert 1 == 2", tests) == tests[2]
    assert first_failed("ERROR tests/a.py::one", tests) == tests[1]
    assert first_failed("FAILED tests/a.py::one[a - b] - why", tests) == tests[0]
    assert first_failed("1 passed", tests) == ""


BEFORE = '''
def told(a):
    """Say it."""
    return cast(int, a) or say("It is so")
'''


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ("It is so", "XXIt is soXX", False),
        ("Say it", "Say nothing", False),
        ("cast(int", "cast(None", False),
        (" or ", " and ", True),
        ("cast(int, a)", "cast(int, None)", True),
    ],
)
def test_words_and_casts_do_not_count(old: str, new: str, *, differs: bool) -> None:
    after = BEFORE.replace(old, new)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(BEFORE))
    assert (meaning(BEFORE, "told") != meaning(after, "told")) == differs


def results(**areas: str) -> Any:
    """Return results: `n` a noticed change, `h` one that hung, other letters unnoticed ones."""
    ends = {"n": "noticed", "h": "hung", "u": "not noticed", "r": "not reached"}
    return {
        "areas": {
            name: {
                "sample": 60,
                "missing": 0,
                "changes": {
                    f"{name}-{n}": {"result": ends[letter], "by": f"test_{n}"}
                    for n, letter in enumerate(letters)
                },
            }
            for name, letters in areas.items()
        }
    }


def test_what_was_not_tried_is_never_noticed_and_never_missed() -> None:
    kept = results(client="nnhur")
    assert share(kept["areas"]["client"]) == Share(3, 5)
    assert "| client | 60 % | ± 33 | 5 | 1 | 1 | 1 | 55 | 0 |" in table(kept)
    assert Share(0, 0).chance == 100
    assert round(Share(42, 60).chance) == 11


def test_an_area_may_be_lower_by_chance_and_what_was_lost_is_named() -> None:
    before = results(client="n" * 50 + "u" * 10, cli="n" * 60, serve="n")
    after = results(client="u" + "n" * 49 + "u" * 10, cli="u" * 8 + "n" * 52)
    said, lower = comparison(before, after)
    assert lower == ["cli", "serve"]
    assert "| client | 83 % of 60 | 82 % of 60 | -2 | 60 | 1 | 0 |" in said
    assert "  client-0: test_0" in said
    assert comparison(before, before)[1] == []


def test_what_was_not_noticed_is_tried_again_when_more_is_recorded() -> None:
    area = results(cli="nhur")["areas"]["cli"]
    for kept in area["changes"].values():
        kept["missing"] = 2
    taken = ["cli-0", "cli-1", "cli-2", "cli-3", "cli-4"]
    assert left_to_try(taken, area | {"missing": 2}) == ["cli-4"]
    assert left_to_try(taken, area | {"missing": 1}) == ["cli-4", "cli-2", "cli-3"]


def test_a_comparison_says_where_tests_were_not_recorded() -> None:
    kept = results(cli="n")
    kept["areas"]["cli"]["missing"] = 3
    assert "before, 3 files of tests of cli were not recorded" in comparison(kept, kept)[0]
