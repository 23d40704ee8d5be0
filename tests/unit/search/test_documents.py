"""What the index keeps of a run, and what it never has."""

import json
from dataclasses import replace

from outlast.loop.case import Case, Comment
from outlast.loop.items import Item
from outlast.loop.start import Customer
from outlast.loop.state import LoopState
from outlast.search import documents
from outlast.search.documents import Document, Part, with_words
from tests.unit.search.documents import document

EMPTY = document()


def words(state: LoopState) -> list[tuple[str, str]]:
    return [(one.by, one.text) for one in with_words(EMPTY, state).parts]


def test_a_document_is_what_the_team_may_read_of_a_conversation() -> None:
    secret = '{"iban": "DE42424242", "amount": 5}'
    state = LoopState(
        phase="idle",
        items=(
            Item("input", {"role": "user", "content": "Where is it?"}),
            Item("reasoning", {"type": "reasoning", "summary": [{"text": "I wonder"}]}, turn=1),
            Item(
                "tool_call", {"type": "function_call", "name": "pay", "arguments": secret}, turn=1
            ),
            Item("tool_output", {"type": "function_call_output", "output": "an output"}, turn=1),
            Item("note", {"role": "developer", "content": "for the model"}),
        ),
        case=Case(tags=("vip",), comments=(Comment(id="c", by="bob", text="A case.", at_ms=1),)),
        at_ms=77,
    )
    state = replace(state, start=replace(state.start, customer=Customer(id="ann@x", name="Ann")))
    found = with_words(EMPTY, state)
    assert words(state) == [
        ("customer", "Where is it?"),
        ("comment", "A case."),
        ("tag", "vip"),
        ("name", "ann@x"),
        ("name", "Ann"),
    ]
    assert (found.customer, found.tags, found.changed_ms) == ("Ann", ("vip",), 77)
    assert [one.message for one in found.parts][:2] == ["i0", ""]


def test_of_a_long_conversation_names_and_the_newest_words_are_kept() -> None:
    texts = [
        Item("input", {"role": "user", "content": f"{at} {'x' * documents.LONGEST_DOCUMENT}"})
        for at in range(2)
    ]
    state = LoopState(phase="idle", items=tuple(texts), case=Case(tags=("vip",)))
    found = with_words(EMPTY, state)
    assert [one.by for one in found.parts] == ["customer", "tag"]
    assert found.parts[0].text.startswith("1 x")
    assert sum(len(one.text) for one in found.parts) == documents.LONGEST_DOCUMENT


def test_a_document_is_read_back_as_it_was() -> None:
    odd = document("c1", "a\0b <b>", people=("x",), tags=("t\u202e",), tenant="é\0")
    odd = replace(odd, parts=(*odd.parts, Part("tag", "t")))
    assert Document.decoded(odd.encoded()) == odd
    assert odd.encoded().isascii()
    assert json.loads(odd.encoded())["run_id"] == "run-c1"
