"""What a session's memory and a run's new input make together."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from outlast.agents.config.session_input import (
    SessionSettings,
    check_session,
    deduplicated,
    merge_history,
    merge_with_callback,
    plain_item,
    without_reasoning_ids,
)
from outlast.agents.errors import UserError
from outlast.loop.call_forms import CALL_OF_OUTPUT, OUTPUT_OF_CALL

Raw = dict[str, Any]


def said(text: str) -> Raw:
    return {"role": "user", "content": text}


def answered(text: str, id_: str = "") -> Raw:
    message = {"type": "message", "role": "assistant", "content": text}
    return {**message, "id": id_} if id_ else message


def thought(id_: str) -> Raw:
    return {"type": "reasoning", "id": id_, "summary": []}


def called(call_id: str, arguments: str = "{}", kind: str = "function_call") -> Raw:
    return {"type": kind, "call_id": call_id, "name": "look", "arguments": arguments}


def returned(call_id: str, output: str = "ok", kind: str = "function_call_output") -> Raw:
    return {"type": kind, "call_id": call_id, "output": output}


def searched(status: str) -> Raw:
    return {"type": "web_search_call", "id": "ws_1", "status": status}


HELLO, ORDER, BYE = said("hello"), said("where is my order?"), said("bye")


class TestSettings:
    def test_what_a_run_sets_goes_before_what_the_session_sets(self) -> None:
        assert SessionSettings(limit=5).resolve(SessionSettings(limit=2)).limit == 2
        assert SessionSettings(limit=5).resolve(SessionSettings(limit=0)).limit == 0
        assert SessionSettings(limit=5).resolve(SessionSettings()).limit == 5
        assert SessionSettings(limit=5).resolve(None).limit == 5
        assert SessionSettings().resolve(SessionSettings(limit=3)).limit == 3

    def test_they_are_plain_data(self) -> None:
        assert SessionSettings(**SessionSettings(limit=4).to_dict()) == SessionSettings(4)

    @pytest.mark.parametrize("limit", [-1, "3", 2.5, True])
    def test_a_limit_that_is_no_count_is_refused(self, limit: Any) -> None:
        with pytest.raises(UserError, match="limit"):
            SessionSettings(limit=limit)


class TestMerging:
    def test_new_items_stand_behind_the_history(self) -> None:
        merged = merge_history([HELLO, answered("hi")], [ORDER])
        assert merged.items == (HELLO, answered("hi"), ORDER)
        assert merged.new == (False, False, True)
        assert merged.history == 2
        assert merged.to_save == (ORDER,)

    def test_without_a_history_the_input_is_what_is_new(self) -> None:
        merged = merge_history([], [HELLO, returned("nobody asked")])
        assert merged.items == merged.to_save == (HELLO, returned("nobody asked"))
        assert merged.history == 0

    def test_equal_messages_without_an_id_are_all_kept(self) -> None:
        merged = merge_history([HELLO, HELLO], [HELLO])
        assert merged.items == (HELLO, HELLO, HELLO)
        assert merged.to_save == (HELLO,)

    @pytest.mark.parametrize("kind", OUTPUT_OF_CALL)
    def test_a_call_without_its_output_leaves_the_history(self, kind: str) -> None:
        history = [HELLO, called("a", kind=kind), answered("hi")]
        assert merge_history(history, [BYE]).items == (HELLO, answered("hi"), BYE)

    @pytest.mark.parametrize("kind", CALL_OF_OUTPUT)
    def test_an_output_whose_call_a_limit_cut_off_leaves_the_history(self, kind: str) -> None:
        history = [returned("a", kind=kind), answered("hi")]
        assert merge_history(history, [BYE]).items == (answered("hi"), BYE)

    @pytest.mark.parametrize("kind", OUTPUT_OF_CALL)
    def test_a_pair_stays(self, kind: str) -> None:
        history = [HELLO, called("a", kind=kind), returned("a", kind=OUTPUT_OF_CALL[kind])]
        assert merge_history(history, [BYE]).items == (*history, BYE)

    def test_an_output_before_its_call_is_none_for_it(self) -> None:
        assert merge_history([returned("a"), called("a")], [BYE]).items == (BYE,)

    def test_a_call_of_one_kind_has_no_output_of_another(self) -> None:
        history = [called("a", kind="shell_call"), returned("a")]
        assert merge_history(history, [BYE]).items == (BYE,)

    def test_new_items_that_answer_a_call_of_the_history_keep_it(self) -> None:
        merged = merge_history([HELLO, called("a")], [returned("a")])
        assert merged.items == (HELLO, called("a"), returned("a"))

    def test_new_items_are_not_judged(self) -> None:
        new = [called("a"), returned("b")]
        assert merge_history([HELLO], new).items == (HELLO, *new)

    def test_items_that_a_provider_made_alone_stay(self) -> None:
        search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
        hosted = {"type": "tool_search_call", "call_id": None, "id": "ts_1"}
        assert merge_history([HELLO, search, hosted], []).items == (HELLO, search, hosted)

    def test_reasoning_goes_with_the_call_it_led_to(self) -> None:
        history = [HELLO, thought("1"), thought("2"), called("a"), answered("hi")]
        assert merge_history(history, []).items == (HELLO, answered("hi"))

    def test_reasoning_stays_with_a_sibling_of_a_call_that_goes(self) -> None:
        history = [HELLO, thought("1"), called("a"), called("b"), returned("b")]
        assert merge_history(history, []).items == (HELLO, thought("1"), called("b"), returned("b"))

    def test_reasoning_of_a_message_stays(self) -> None:
        history = [called("a"), thought("1"), answered("hi")]
        assert merge_history(history, []).items == (thought("1"), answered("hi"))

    @pytest.mark.parametrize(
        ("history", "left"),
        [
            ([called("a"), returned("a"), answered("hi")], [answered("hi")]),
            ([thought("1"), called("a"), returned("a"), ORDER], [ORDER]),
            (
                [returned("a"), thought("2"), answered("hi"), ORDER],
                [thought("2"), answered("hi"), ORDER],
            ),
            ([searched("done"), answered("hi")], [answered("hi")]),
            ([answered("welcome"), ORDER], [answered("welcome"), ORDER]),
            ([answered("welcome"), called("a"), returned("a")], [answered("welcome")]),
            ([called("a"), ORDER, returned("a")], [ORDER]),
            ([{"role": "developer", "content": "go"}, called("a"), returned("a")], None),
            ([{"type": "compaction", "id": "c"}, called("a"), returned("a")], None),
        ],
    )
    def test_a_history_never_begins_with_what_was_done_for_a_question_that_is_lost(
        self, history: list[Raw], left: list[Raw] | None
    ) -> None:
        kept = history if left is None else left
        assert merge_history(history, [BYE]).items == (*kept, BYE)

    def test_a_call_whose_question_is_lost_stays_where_its_output_is_new(self) -> None:
        history = [called("b"), returned("b"), called("a")]
        merged = merge_history(history, [returned("a")])
        assert merged.items == (called("a"), returned("a"))

    @pytest.mark.parametrize("after", [[], [ORDER], [ORDER, answered("yes")]])
    def test_reasoning_whose_result_is_lost_goes(self, after: list[Raw]) -> None:
        history = [HELLO, thought("1"), thought("2"), *after]
        assert merge_history(history, [BYE]).items == (HELLO, *after, BYE)

    @given(st.lists(st.booleans(), min_size=15, max_size=15), st.integers(0, 15))
    def test_whatever_rows_are_lost_nothing_is_left_without_what_belongs_to_it(
        self, is_there: list[bool], limit: int
    ) -> None:
        turn = [said("1"), thought("1"), called("a"), called("b"), returned("a"), returned("b")]
        rows = [*turn, thought("2"), answered("one"), said("2"), called("c"), returned("c")]
        rows += [thought("3"), called("d"), returned("d"), answered("two")]
        left = [row for row, there in zip(rows, is_there, strict=True) if there]
        merged = merge_history(left[len(left) - min(limit, len(left)) :], [BYE])
        assert merged.items[-1] == BYE
        for at, item in enumerate(merged.items):
            kind, before = item.get("type"), merged.items[:at]
            following = merged.items[at + 1 : at + 2]
            if kind == "function_call":
                assert returned(item["call_id"]) in merged.items[at + 1 :]
                assert any(one.get("role") == "user" for one in before)
            if kind == "function_call_output":
                assert called(item["call_id"]) in before
            if kind == "reasoning":
                assert following[0].get("type") in {"message", "function_call", "reasoning"}

    def test_a_history_that_is_passed_again_as_input_is_shown_once(self) -> None:
        """As with `result.to_input_list()` and a session in the same call."""
        turn = [thought("1"), called("a"), returned("a"), answered("hi", "m1")]
        merged = merge_history(turn, [*turn, BYE])
        assert merged.items == (*turn, BYE)
        assert merged.new == (True,) * 5
        assert merged.to_save == (*turn, BYE)

    def test_the_newest_value_of_an_item_wins(self) -> None:
        merged = merge_history(
            [HELLO, called("a", "old"), returned("a", "old"), searched("old")], [searched("new")]
        )
        assert merged.items[3] == searched("new")
        assert merged.new == (False, False, False, True)

    def test_a_model_that_gives_all_it_says_one_id_is_remembered_in_full(self) -> None:
        history = [HELLO, answered("hi", "m"), ORDER, answered("on its way", "m")]
        assert merge_history(history, [BYE]).items == (*history, BYE)

    def test_ids_of_reasoning_leave_the_history_only_when_that_is_asked_for(self) -> None:
        history, new = [thought("1"), answered("hi", "m1")], [thought("2"), answered("x", "m2")]
        assert merge_history(history, new).items[0] == thought("1")
        kept = merge_history(history, new, reasoning_item_id_policy="preserve")
        assert kept.items == (*history, *new)
        merged = merge_history(history, new, reasoning_item_id_policy="omit")
        assert merged.items == ({"type": "reasoning", "summary": []}, history[1], *new)
        assert history[0] == thought("1")


class TestDeduplication:
    def test_a_call_that_comes_again_after_its_output_stays_before_it(self) -> None:
        items = [called("a", "old"), returned("a"), called("a", "new")]
        assert deduplicated(items) == [called("a", "new"), returned("a")]

    def test_reasoning_comes_with_the_call_that_stays(self) -> None:
        items = [thought("1"), called("a"), returned("a"), thought("1"), called("a")]
        assert deduplicated(items) == [thought("1"), called("a"), returned("a")]

    def test_a_call_id_that_a_provider_uses_again_means_the_later_pair(self) -> None:
        early = [called("call_0", "1"), returned("call_0", "one"), answered("first")]
        late = [BYE, called("call_0", "2"), returned("call_0", "two")]
        assert deduplicated([*early, *late]) == [answered("first"), *late]

    def test_one_id_in_two_kinds_of_items_is_two(self) -> None:
        items = [thought("1"), answered("hi", "1"), called("1"), returned("1")]
        assert deduplicated(items) == items

    def test_what_is_said_twice_is_no_repetition(self) -> None:
        items = [{"id": "m1", "role": "user", "content": "a"}, {**answered("b"), "id": "m1"}]
        assert deduplicated([*items, *items]) == [*items, *items]

    def test_what_stands_for_an_id_makes_nothing_the_same(self) -> None:
        items = [thought("__fake_id__"), called("a"), returned("a"), thought("__fake_id__"), BYE]
        assert deduplicated(items) == items


calls = st.builds(called, st.sampled_from("abc"), st.sampled_from(["1", "2"]))
outputs = st.builds(returned, st.sampled_from("abc"), st.sampled_from(["1", "2"]))
messages = st.builds(answered, st.just("hi"), st.sampled_from(["", "m1", "m2"]))
anything = st.lists(
    st.one_of(calls, outputs, messages, st.just(HELLO), st.builds(thought, st.sampled_from("12")))
)


class TestLaws:
    @given(anything, anything)
    def test_no_history_is_shown_that_a_provider_refuses(
        self, history: list[Raw], new: list[Raw]
    ) -> None:
        merged = merge_history(history, new)
        assert len(merged.items) == len(merged.new)
        for at, (item, is_new) in enumerate(zip(merged.items, merged.new, strict=True)):
            if is_new:
                continue
            if item.get("type") == "function_call":
                assert any(_answers(other, item) for other in merged.items[at:])
            if item.get("type") == "function_call_output":
                assert any(_answers(item, other) for other in merged.items[:at])

    @given(anything, anything)
    def test_what_is_new_is_saved_and_shown_whatever_the_history(
        self, history: list[Raw], new: list[Raw]
    ) -> None:
        merged = merge_history(history, new)
        assert list(merged.to_save) == new
        for item in deduplicated(new):
            assert item in merged.items

    @given(anything)
    def test_each_item_but_messages_is_there_once_with_its_newest_value(
        self, items: list[Raw]
    ) -> None:
        newest = {_key(item): item for item in items if "role" not in item}
        once = [item for item in deduplicated(items) if "role" not in item]
        assert len(once) == len(newest)
        assert all(newest[_key(item)] == item for item in once)
        assert deduplicated(deduplicated(items)) == deduplicated(items)


def _key(item: Raw) -> tuple[str, str]:
    return item["type"], item.get("call_id") or item["id"]


def _answers(output: Raw, call: Raw) -> bool:
    kinds = (call.get("type"), output.get("type"))
    same = output.get("call_id") == call.get("call_id")
    return same and kinds == ("function_call", "function_call_output")


class TestCallback:
    async def test_it_decides_the_input_and_only_what_is_new_is_saved(self) -> None:
        hint = {"role": "developer", "content": "be short"}

        def callback(history: list[Raw], new: list[Raw]) -> list[Raw]:
            return [*new, hint, history[-1]]

        merged = await merge_with_callback([HELLO, ORDER], [BYE], callback)
        assert merged.items == (BYE, hint, ORDER)
        assert merged.new == (True, True, False)
        assert merged.to_save == (BYE, hint)

    async def test_what_it_cuts_takes_along_what_it_belonged_to(self) -> None:
        """A provider refuses reasoning without what it led to, and ids without their reasoning."""
        one = [HELLO, thought("1"), called("a"), returned("a"), thought("2"), answered("hi", "m1")]
        two = [ORDER, thought("3"), answered("sent", "m2")]

        def callback(history: list[Raw], new: list[Raw]) -> list[Raw]:
            no_tools = [item for item in history if "call_id" not in item]
            return [item for item in no_tools if item.get("id") != "3"] + new

        merged = await merge_with_callback([*one, *two], [BYE], callback)
        left = (HELLO, thought("2"), answered("hi", "m1"), ORDER, answered("sent"), BYE)
        assert merged.items == left

    async def test_an_async_one_may_drop_what_is_new(self) -> None:
        async def callback(history: list[Raw], new: list[Raw]) -> list[Raw]:
            return history

        merged = await merge_with_callback([HELLO], [BYE], callback)
        assert merged.items == (HELLO,)
        assert merged.to_save == ()

    async def test_a_new_message_like_an_old_one_is_new(self) -> None:
        merged = await merge_with_callback([HELLO, ORDER], [HELLO], lambda _, new: list(new))
        assert merged.to_save == (HELLO,)

    async def test_a_copy_of_what_is_old_is_old_as_often_as_it_was_there(self) -> None:
        def callback(history: list[Raw], new: list[Raw]) -> list[Raw]:
            return [dict(item) for item in [*history, history[0], *new]]

        merged = await merge_with_callback([HELLO, HELLO], [HELLO], callback)
        assert merged.new == (False, False, True, True)
        assert merged.to_save == (HELLO, HELLO)

    async def test_a_copy_with_another_order_of_keys_is_the_same_item(self) -> None:
        def callback(history: list[Raw], new: list[Raw]) -> list[Raw]:
            return [dict(reversed(item.items())) for item in history]

        assert (await merge_with_callback([HELLO], [], callback)).to_save == ()

    async def test_what_it_changes_in_an_old_item_is_shown_and_not_saved(self) -> None:
        history = [said("hello")]

        def callback(given: list[Raw], new: list[Raw]) -> list[Raw]:
            given[0]["content"] = "***"
            return given + new

        merged = await merge_with_callback(history, [BYE], callback)
        assert merged.items == (said("***"), BYE)
        assert merged.to_save == (BYE,)
        assert history == [HELLO]

    async def test_it_may_change_the_lists_it_gets(self) -> None:
        def callback(history: list[Raw], new: list[Raw]) -> list[Raw]:
            history.extend(new)
            new.clear()
            return history

        merged = await merge_with_callback([HELLO], [BYE], callback)
        assert merged.new == (False, True)

    async def test_an_object_of_the_history_that_is_returned_twice_is_not_saved_again(self) -> None:
        merged = await merge_with_callback(
            [HELLO, answered("hi")], [BYE], lambda old, new: [*old, old[0], *new]
        )
        assert merged.items == (HELLO, answered("hi"), HELLO, BYE)
        assert merged.to_save == (BYE,)

    async def test_an_object_that_is_in_the_history_twice_is_old_twice(self) -> None:
        merged = await merge_with_callback([HELLO, HELLO], [], lambda history, _: history)
        assert merged.new == (False, False)

    async def test_what_it_cut_apart_is_cleaned(self) -> None:
        history = [called("a"), returned("a"), answered("hi")]
        merged = await merge_with_callback(history, [BYE], lambda old, new: old[1:] + new)
        assert merged.items == (answered("hi"), BYE)

    async def test_models_among_what_it_returns_are_written(self) -> None:
        class Said(BaseModel):
            role: str
            content: str

        def callback(history: list[Any], new: list[Any]) -> list[Any]:
            return [Said(role="user", content="hello"), Said(role="user", content="extra"), *new]

        merged = await merge_with_callback([HELLO], [BYE], callback)
        assert merged.items == (HELLO, said("extra"), BYE)
        assert merged.to_save == (said("extra"), BYE)

    @pytest.mark.parametrize("answer", [None, "hello", (HELLO,), {"items": []}])
    async def test_what_is_no_list_is_refused_and_the_callback_named(self, answer: Any) -> None:
        def trim_history(history: list[Raw], new: list[Raw]) -> Any:
            return answer

        with pytest.raises(UserError, match=r"trim_history.*must return a list"):
            await merge_with_callback([HELLO], [BYE], trim_history)

    @pytest.mark.parametrize("item", ["hello", None, {"content": object()}])
    async def test_a_list_of_other_things_is_refused(self, item: Any) -> None:
        with pytest.raises(UserError, match="session_input_callback"):
            await merge_with_callback([HELLO], [BYE], lambda history, new: [*history, item])

    async def test_what_it_raises_is_raised(self) -> None:
        def callback(history: list[Raw], new: list[Raw]) -> list[Raw]:
            raise LookupError("no such customer")

        with pytest.raises(LookupError, match="no such customer"):
            await merge_with_callback([HELLO], [BYE], callback)


class Complete:
    session_id = "a"

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return []

    async def add_items(self, items: Sequence[Any]) -> None: ...

    async def pop_item(self) -> Any: ...

    async def clear_session(self) -> None: ...


class TestCheck:
    def test_what_has_all_methods_and_an_id_is_a_session(self) -> None:
        check_session(Complete())

    @pytest.mark.parametrize("method", ["get_items", "add_items", "pop_item", "clear_session"])
    def test_a_method_that_is_missing_is_named(self, method: str) -> None:
        kind = type("Notebook", (Complete,), {method: None})
        with pytest.raises(UserError, match=rf"Notebook has no method {method}\(\)"):
            check_session(kind())

    @pytest.mark.parametrize("session_id", [None, "", 7])
    def test_an_id_that_is_none_is_refused(self, session_id: Any) -> None:
        session = Complete()
        session.session_id = session_id
        with pytest.raises(UserError, match="session_id"):
            check_session(session)

    def test_a_class_in_place_of_a_session_is_refused(self) -> None:
        with pytest.raises(UserError, match=r"the class Complete.*Complete\("):
            check_session(Complete)

    @pytest.mark.parametrize("session", [None, "support-7", {}])
    def test_other_things_are_refused(self, session: Any) -> None:
        with pytest.raises(UserError, match="get_items"):
            check_session(session)


def test_a_plain_item_is_the_item_itself() -> None:
    assert plain_item(HELLO, what="the input") is HELLO


def test_an_item_that_refers_to_itself_is_refused() -> None:
    item: Raw = {"type": "function_call"}
    item["self"] = item
    with pytest.raises(UserError, match=r"'function_call' in the input cannot be written"):
        plain_item(item, what="the input")


def test_ids_of_reasoning_are_taken_off_under_one_policy_only() -> None:
    items = [thought("1"), answered("hi", "m1")]
    assert without_reasoning_ids(items, None) == tuple(items)
    assert without_reasoning_ids(items, "preserve") == tuple(items)
    assert without_reasoning_ids(items, "omit")[0] == {"type": "reasoning", "summary": []}
    assert without_reasoning_ids(items, "omit")[1] == answered("hi", "m1")
