"""How the effects of killed workers are counted."""

import json

from benchmarks.peers.kills import count_effects


def line(run: str, number: int, key: str = "k") -> str:
    return json.dumps({"run": run, "number": number, "key": key})


def test_every_effect_once_is_neither_lost_nor_repeated():
    counted = count_effects([line("a", 0), line("a", 1)], ["a"], 3)
    assert counted == {"effects": 2, "lost": 0, "repeated": 0, "repeated_with_key": 0}


def test_a_run_with_an_answer_but_without_an_effect_has_lost_it():
    assert count_effects([line("a", 1)], ["a"], 3)["lost"] == 1


def test_a_second_attempt_under_the_same_key_is_only_repeated_without_the_key():
    counted = count_effects([line("a", 0), line("a", 0), line("a", 0)], ["a"], 2)
    assert (counted["repeated"], counted["repeated_with_key"]) == (2, 0)


def test_a_call_that_the_model_makes_again_has_another_key():
    counted = count_effects([line("a", 0, "one"), line("a", 0, "two")], ["a"], 2)
    assert (counted["repeated"], counted["repeated_with_key"]) == (1, 1)


def test_a_run_that_never_ended_has_lost_nothing_yet_but_may_have_repeated():
    counted = count_effects([line("b", 0), line("b", 0)], [], 3)
    assert counted == {"effects": 0, "lost": 0, "repeated": 1, "repeated_with_key": 0}
