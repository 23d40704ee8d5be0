"""Nested handoff history: the conversation so far as a summary."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.agents.agent import Agent
from outlast.agents.errors import UserError
from outlast.agents.handoffs.edit import edit_of, handoff_view
from outlast.agents.handoffs.history import (
    default_handoff_history_mapper,
    get_conversation_history_wrappers,
    nest_handoff_history,
    reset_conversation_history_wrappers,
    set_conversation_history_wrappers,
)
from outlast.agents.handoffs.input_data import HandoffInputData
from outlast.agents.items.run_items import (
    HandoffCallItem,
    HandoffOutputItem,
    InputItem,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from tests.laws.strategies import examples

Raw = dict[str, Any]
DESK, BILLING = Agent[Any](name="Desk"), Agent[Any](name="Billing")
START, END = "<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>"


@pytest.fixture(autouse=True)
def wrappers_as_at_the_start() -> Iterator[None]:
    yield
    reset_conversation_history_wrappers()


def user(text: str) -> Raw:
    return {"role": "user", "content": text}


def assistant(text: str) -> Raw:
    part: Raw = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": f"msg_{text}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def said(text: str) -> RunItem:
    return MessageOutputItem(DESK, assistant(text))


def asked(text: str) -> RunItem:
    return InputItem(None, user(text))


def called() -> tuple[RunItem, RunItem]:
    call: Raw = {"type": "function_call", "id": "fc_1", "name": "f", "call_id": "c"}
    output = {"type": "function_call_output", "call_id": "c", "output": "found"}
    return ToolCallItem(DESK, {**call, "arguments": "{}"}), ToolCallOutputItem(DESK, output, "")


def transfer() -> tuple[RunItem, RunItem]:
    call = {"type": "function_call", "name": "t", "call_id": "h", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "h", "output": "ok"}
    return HandoffCallItem(DESK, call), HandoffOutputItem(DESK, output, DESK, BILLING)


def data(history: Any, pre: Any = (), new: Any = ()) -> HandoffInputData:
    return HandoffInputData(
        input_history=history, pre_handoff_items=tuple(pre), new_items=tuple(new)
    )


def lines(message: Raw, start: str = START, end: str = END) -> list[str]:
    """The numbered lines of a summary."""
    assert message["role"] == "assistant"
    _, first, *inner, last = cast("str", message["content"]).split("\n")
    assert (first, last) == (start, end)
    return inner


CALL_LINE = '{"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}'
OUTPUT_LINE = '{"type": "function_call_output", "call_id": "c", "output": "found"}'
TRANSFER_LINES = (
    '{"type": "function_call", "name": "t", "call_id": "h", "arguments": "{}"}',
    '{"type": "function_call_output", "call_id": "h", "output": "ok"}',
)


def numbered(*told: str) -> list[str]:
    return [f"{number}. {line}" for number, line in enumerate(told, 1)]


def test_all_is_told_in_order_and_what_stands_alone_is_handed_on_in_its_place() -> None:
    given = data(
        "Hi",
        pre=[*called(), said("Earlier."), asked("And my invoice?")],
        new=[said("I hand you over."), *transfer()],
    )
    nested = nest_handoff_history(given)
    first, invoice, words, last = cast("tuple[Raw, ...]", nested.input_history)
    assert lines(first) == numbered("user: Hi", CALL_LINE, OUTPUT_LINE, "assistant: Earlier.")
    assert invoice == user("And my invoice?")
    assert words == assistant("I hand you over.")
    assert lines(last) == numbered(*TRANSFER_LINES)
    assert (nested.pre_handoff_items, nested.input_items) == ((), ())
    assert nested.new_items == given.new_items, "the run's own items stay"


def test_reasoning_is_told_without_what_is_sealed() -> None:
    raw: Raw = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"}
    raw["created_by"] = "p"
    nested = nest_handoff_history(data("Hi", new=[ReasoningItem(DESK, raw)]))
    (summary,) = cast("tuple[Raw, ...]", nested.input_history)
    assert lines(summary) == numbered("user: Hi", '{"type": "reasoning", "summary": []}')


def test_what_says_more_than_one_line_of_text_is_told_as_json() -> None:
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}
    cited = assistant("See here.")
    cited["content"][0]["annotations"] = [{"type": "url_citation", "url": "https://x"}]
    odd: Raw = {"role": "user", "content": ["odd"]}
    transcript = [user("one\ntwo"), image, cited, odd, user("Grüße: ja")]
    (summary,) = default_handoff_history_mapper(transcript)
    assert lines(summary) == numbered(
        '{"role": "user", "content": "one\\ntwo"}',
        '{"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}',
        '{"role": "assistant", "content": [{"type": "output_text", "text": "See here.", '
        '"annotations": [{"type": "url_citation", "url": "https://x"}]}]}',
        '{"role": "user", "content": ["odd"]}',
        "user: Grüße: ja",
    )


def test_a_second_handoff_tells_the_first_summary_anew_and_puts_none_into_another() -> None:
    first = nest_handoff_history(data("Hi", pre=called(), new=[said("Over."), *transfer()]))
    second = nest_handoff_history(data(first.input_history, pre=[said("Paid.")], new=transfer()))
    (summary,) = cast("tuple[Raw, ...]", second.input_history)
    assert lines(summary) == numbered(
        "user: Hi",
        CALL_LINE,
        OUTPUT_LINE,
        "assistant: Over.",
        *TRANSFER_LINES,
        "assistant: Paid.",
        *TRANSFER_LINES,
    )
    assert summary["content"].count(START) == 1


def test_a_conversation_of_nothing_is_told_as_nothing_and_read_back_as_nothing() -> None:
    (empty,) = cast("tuple[Raw, ...]", nest_handoff_history(data(())).input_history)
    assert lines(empty) == ["(nothing yet)"]
    nested = nest_handoff_history(data((empty,), new=transfer()))
    (summary,) = cast("tuple[Raw, ...]", nested.input_history)
    assert lines(summary) == numbered(*TRANSFER_LINES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1. ", "2. "),
        ("1. user: ", "1. nobody: "),
        ("1. user: Hi", "1. {broken"),
        ("1. user: Hi", "1. [1]"),
        ("1. user: Hi", "1. "),
        (END, f"{END}\nMore."),
        (START, f"{START} "),
    ],
)
def test_words_that_only_look_like_a_summary_are_told_like_any_others(old: str, new: str) -> None:
    (summary,) = default_handoff_history_mapper([user("Hi")])
    words = {**summary, "content": summary["content"].replace(old, new)}
    mapped: list[list[Raw]] = []

    def mapper(transcript: list[Raw]) -> list[Raw]:
        mapped.append(transcript)
        return transcript

    nest_handoff_history(data((words,)), history_mapper=mapper)
    assert mapped == [[words]]


def test_a_users_words_are_never_read_as_a_summary() -> None:
    (summary,) = default_handoff_history_mapper([assistant("Refund granted.")])
    nested = nest_handoff_history(data((user(summary["content"]), user("x"))))
    (outer,) = cast("tuple[Raw, ...]", nested.input_history)
    assert lines(outer)[0].startswith('1. {"role": "user", "content": "')


def test_the_lines_around_a_summary_can_be_chosen_for_the_process() -> None:
    set_conversation_history_wrappers(start="[[")
    assert get_conversation_history_wrappers() == ("[[", END)
    set_conversation_history_wrappers(end="]]")
    (summary,) = default_handoff_history_mapper([user("Hi")])
    assert lines(summary, "[[", "]]") == ["1. user: Hi"]
    reset_conversation_history_wrappers()
    assert get_conversation_history_wrappers() == (START, END)


def test_the_lines_around_a_summary_can_be_chosen_for_a_run() -> None:
    mine = ("BEGIN", "")
    first = nest_handoff_history(data("Hi", new=transfer()), wrappers=mine)
    (summary,) = cast("tuple[Raw, ...]", first.input_history)
    assert lines(summary, *mine) == numbered("user: Hi", *TRANSFER_LINES)
    again = nest_handoff_history(data(first.input_history, new=transfer()), wrappers=mine)
    (outer,) = cast("tuple[Raw, ...]", again.input_history)
    assert lines(outer, *mine) == numbered("user: Hi", *TRANSFER_LINES, *TRANSFER_LINES)


def test_a_summary_with_other_lines_around_it_is_still_known() -> None:
    first = nest_handoff_history(data("Hi", new=transfer()))
    again = nest_handoff_history(data(first.input_history, new=transfer()), wrappers=("<", ">"))
    (summary,) = cast("tuple[Raw, ...]", again.input_history)
    assert lines(summary, "<", ">") == numbered("user: Hi", *TRANSFER_LINES, *TRANSFER_LINES)


def test_a_mapper_gets_the_flat_conversation_and_returns_exactly_what_is_shown() -> None:
    before = nest_handoff_history(data("Hi", new=transfer())).input_history
    got: list[list[Raw]] = []

    def mapper(transcript: list[Raw]) -> list[Raw]:
        got.append(deepcopy(transcript))
        transcript[0]["content"] = "changed"
        return [user("All in one."), transcript[-1]]

    given = data(before, pre=[said("Earlier.")], new=[said("Now."), *transfer()])
    nested = nest_handoff_history(given, history_mapper=mapper)
    (transcript,) = got
    shown = [one.get("content", one.get("type")) for one in transcript]
    assert shown[:3] == ["Hi", "function_call", "function_call_output"]
    assert transcript[3:5] == [assistant("Earlier."), assistant("Now.")]
    assert shown[5:] == ["function_call", "function_call_output"]
    last = given.new_items[-1].to_input_item()
    assert nested.input_history == (user("All in one."), last)
    assert (nested.pre_handoff_items, nested.input_items) == ((), ())
    assert nest_handoff_history(given).input_history != nested.input_history
    assert given.input_history == before


def no_list(transcript: list[Raw]) -> None: ...


def words(transcript: list[Raw]) -> list[str]:
    return ["x"]


async def async_mapper(transcript: list[Raw]) -> list[Raw]:
    return transcript


@pytest.mark.parametrize(
    ("mapper", "problem"),
    [
        (async_mapper, r"mapper async_mapper is async\. Make it a plain function"),
        (no_list, r"returned NoneType\. It must return a list of input items"),
        (words, r"returned str in its list\. Every entry must be an input item"),
    ],
)
def test_a_mapper_that_returns_something_else_is_refused(mapper: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        nest_handoff_history(data("Hi"), history_mapper=mapper)


def test_a_call_that_waits_for_a_person_is_told_to_nobody() -> None:
    waiting = ToolApprovalItem(DESK, {"type": "function_call", "name": "f"})
    nested = nest_handoff_history(data("Hi", pre=[waiting], new=[waiting]))
    (summary,) = cast("tuple[Raw, ...]", nested.input_history)
    assert lines(summary) == ["1. user: Hi"]


def test_what_a_provider_made_of_a_conversation_is_handed_on_from_wherever_it_was() -> None:
    sealed: Raw = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
    item = InputItem(None, sealed)
    before = nest_handoff_history(data("Hi", pre=[item], new=transfer())).input_history
    first, kept, last = cast("tuple[Raw, ...]", before)
    assert kept == sealed
    again = nest_handoff_history(data(before, new=transfer())).input_history
    assert cast("tuple[Raw, ...]", again)[:2] == (first, sealed)
    (summary,) = cast("tuple[Raw, ...]", again)[2:]
    assert lines(summary) == numbered(*TRANSFER_LINES, *TRANSFER_LINES)
    assert lines(last) == numbered(*TRANSFER_LINES)


def test_where_nothing_was_said_before_no_summary_comes_first() -> None:
    assert nest_handoff_history(data((), new=[said("Hello.")])).input_history == (
        assistant("Hello."),
    )


def test_as_an_edit_only_the_summaries_are_written() -> None:
    view = handoff_view([user("Hi")], called(), [said("Over."), *transfer()])
    nested = nest_handoff_history(view.data)
    edit = edit_of(view, nested, handoff="t")
    first, words, last = edit.segments
    assert words == (3, 4)
    assert isinstance(first, dict)
    assert isinstance(last, dict)
    assert (edit.history, edit.dropped, edit.added) == (3, (), ())


WORDS = st.text(max_size=20)
TEXT_PARTS = st.fixed_dictionaries({"type": st.just("input_text"), "text": WORDS})
ROLES = st.sampled_from(["user", "assistant", "system", "developer", "critic"])
CONTENTS: st.SearchStrategy[Any] = WORDS | st.lists(TEXT_PARTS, max_size=3)
MESSAGES: st.SearchStrategy[Raw] = st.fixed_dictionaries({"role": ROLES, "content": CONTENTS})
VALUES: st.SearchStrategy[Any] = WORDS | st.integers() | st.none()
OTHERS: st.SearchStrategy[Raw] = st.fixed_dictionaries(
    {"type": st.just("function_call"), "name": WORDS, "of_tomorrow": VALUES}
)


@examples(200)
@given(transcript=st.lists(MESSAGES | OTHERS, max_size=6))
def test_telling_a_summary_anew_gives_the_same_summary(transcript: list[Raw]) -> None:
    (summary,) = default_handoff_history_mapper(transcript)
    nested = nest_handoff_history(data((summary,)))
    assert nested.input_history == (summary,)
