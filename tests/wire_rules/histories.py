"""Conversations as providers make them, and cuts of them, for laws about what is sent.

    @given(histories().flatmap(lambda items: tuples(just(items), cuts(items))))

`histories()` keeps every rule. With `odd=True` it also has what models and servers have sent: empty
messages, arguments that are no JSON, and ids that come again or are too long.
"""

from typing import Any

from hypothesis import strategies as st

Item = dict[str, Any]

_ARGUMENTS = ["{}", '{"zone": "Europe"}']
_ODD_ARGUMENTS = ["", '{"zone": "Eur', "[]", "null", "NaN", "{}{}", '{"zone": NaN}']
_TEXTS = ["Done.", "é\n"]
_ODD_TEXTS = ["", " \n"]


@st.composite
def histories(draw: st.DrawFn, *, odd: bool = False, hosted: bool = True) -> list[Item]:
    """Return the items of a conversation that waits for an answer.

    Args:
        draw: Hypothesis's.
        odd: whether it has what providers refuse.
        hosted: whether the provider calls tools of its own, which Chat Completions does not have.
    """
    items: list[Item] = []
    for _ in range(draw(st.integers(1, 4))):
        items.append(_question(draw))
        for _ in range(draw(st.integers(0, 3))):
            items += _called(draw, len(items), odd=odd)
        if hosted and draw(st.booleans()):
            items += _searched(draw, len(items))
        items += _answered(draw, len(items), odd=odd)
    return [*items, _question(draw)]


def cuts(items: list[Item]) -> st.SearchStrategy[list[Item]]:
    """Return what a limit, a callback, a filter or a compaction may leave of a history."""
    positions = st.integers(0, len(items))
    return st.one_of(
        positions.map(lambda start: items[start:]),
        positions.map(lambda end: items[:end]),
        st.tuples(positions, positions).map(lambda ends: items[: min(ends)] + items[max(ends) :]),
        st.lists(st.booleans(), min_size=len(items), max_size=len(items)).map(
            lambda kept: [item for item, stays in zip(items, kept, strict=True) if stays]
        ),
    )


def _question(draw: st.DrawFn) -> Item:
    part: Item = {"type": "input_text", "text": "And now?"}
    return draw(
        st.sampled_from([
            {"role": "user", "content": "And now?"},
            {"type": "message", "role": "user", "content": [part]},
        ])
    )  # fmt: skip


def _thought(draw: st.DrawFn, number: int) -> list[Item]:
    thought: Item = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
    return [thought] if draw(st.booleans()) else []


def _called(draw: st.DrawFn, number: int, *, odd: bool) -> list[Item]:
    long = "_" + "x" * 80 if odd and draw(st.booleans()) else ""
    again = odd and draw(st.booleans())
    calls: list[Item] = [
        {
            "type": "function_call",
            "id": f"fc_{number}_{n}",
            "call_id": f"look:{n}{long}" if again else f"call_{number}_{n}{long}",
            "name": "look",
            "arguments": draw(st.sampled_from(_ARGUMENTS + _ODD_ARGUMENTS * odd)),
            "status": "completed",
        }
        for n in range(draw(st.integers(1, 3)))
    ]
    outputs = [
        {"type": "function_call_output", "call_id": one["call_id"], "output": "done"}
        for one in draw(st.permutations(calls))
    ]
    return [*_thought(draw, number), *calls, *outputs]


def _searched(draw: st.DrawFn, number: int) -> list[Item]:
    found = {
        "id": f"ws_{number}",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    return [*_thought(draw, number), {"type": "web_search_call", **found}]


def _answered(draw: st.DrawFn, number: int, *, odd: bool) -> list[Item]:
    text = draw(st.sampled_from(_TEXTS + _ODD_TEXTS * odd))
    parts: list[Item] = [{"type": "output_text", "text": text, "annotations": []}]
    is_empty = odd and draw(st.booleans())
    answer: Item = {
        "type": "message",
        "id": "msg_1" if odd and draw(st.booleans()) else f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": [] if is_empty else parts,
    }
    return [*_thought(draw, number), answer]
