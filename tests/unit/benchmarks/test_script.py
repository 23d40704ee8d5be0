"""The message of a benchmark says how its model replies."""

import json

from benchmarks.model_server import Script, question, script_of


def body(text: str) -> bytes:
    return json.dumps({"input": [{"role": "user", "content": text}]}).encode()


def test_a_plain_question_says_how_many_turns_there_are():
    assert script_of(body(question(8))) == Script(turns=8)


def test_a_question_may_ask_for_handoffs_and_for_words_at_a_pace():
    asked = question(50, handoff_every=5, words=30, words_per_second=20)
    assert script_of(body(asked)) == Script(50, 5, 30, 20)


def test_a_request_without_a_script_is_answered_at_once():
    assert script_of(b"{}") == Script(turns=0)
