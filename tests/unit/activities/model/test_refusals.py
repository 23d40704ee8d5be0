"""What a provider refuses is found and left out, and nothing else is."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.errors import EffectError, of_model
from outlast.activities.model.refusals import (
    MOST_PAID,
    MOST_TRIES,
    Found,
    Unit,
    answer_without,
    refusal_about,
)
from outlast.loop.aside import RefusedEntry
from outlast.loop.items import Item
from outlast.loop.values import JsonObject
from outlast.models.failures import Target, reported_failure
from outlast.ports.model import ModelError
from tests.laws.strategies import examples

TARGET = Target(base_url="https://api.example", path="/responses", model="gpt")
BAD = "BAD"


def refusal(message: str = "Bad request.", status: int = 400, **fields: Any) -> EffectError:
    """Return the failure of a call that the provider refused, in the provider's format."""
    return of_model(reported_failure({"message": message, **fields}, TARGET, status=status))


def user(*texts: str) -> Item:
    parts: list[JsonObject] = [
        {"type": "input_image", "image_url": text}
        if text.startswith("data:")
        else {"type": "input_text", "text": text}
        for text in texts
    ]
    return Item("input", {"role": "user", "content": parts})


def said(text: str) -> Item:
    part: JsonObject = {"type": "output_text", "text": text, "annotations": []}
    raw: JsonObject = {"type": "message", "role": "assistant", "id": "m1", "content": [part]}
    return Item("message", raw, "A", 1)


def called(arguments: str, output: Any) -> tuple[Item, Item]:
    call: JsonObject = {
        "type": "function_call",
        "call_id": "c1",
        "name": "look",
        "arguments": arguments,
    }
    result: JsonObject = {"type": "function_call_output", "call_id": "c1", "output": output}
    return Item("tool_call", call, "A", 1), Item("tool_output", result, "A", 1)


@dataclass
class Provider:
    """Refuses what a rule says, with an error of its own.

    Attributes:
        refuses: whether it refuses a request, from its items as JSON text.
        error: the error for a request.
        sent: every request.
        taken: how many of them it took.
    """

    refuses: Callable[[str], bool]
    error: Callable[[Sequence[Item]], EffectError] = lambda items: refusal()
    sent: list[tuple[Item, ...]] = field(default_factory=list[Any])
    taken: int = 0

    async def send(self, items: tuple[Item, ...]) -> str:
        self.sent.append(items)
        if self.refuses(json.dumps([one.raw for one in items])):
            raise self.error(items)
        self.taken += 1
        return f"answer {self.taken}"


def found(provider: Provider, items: Sequence[Item]) -> Found[str] | None:
    """Return what comes of a request that the provider refused."""
    return asyncio.run(answer_without(provider.error(items), items, provider.send))


def left_out(result: Found[str] | None) -> set[Unit] | None:
    return None if result is None else {Unit(one.entry, one.part) for one in result.refused}


def has_bad(text: str) -> bool:
    return BAD in text


# --- What is searched ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "about"),
    [
        (refusal("Invalid image data.", code="image_parse_error"), "media"),
        (refusal("Invalid base64.", param="input[0].content[1].image_url"), "media"),
        (refusal("Could not process image", type="invalid_request_error"), "media"),
        (refusal("Error while downloading https://a.example/cat.heic"), "media"),
        (refusal("Filtered.", code="content_filter", param="prompt"), "flagged"),
        (refusal("It was flagged.", code="invalid_prompt"), "flagged"),
        (refusal("Too long.", code="context_length_exceeded", param="messages"), "size"),
        (refusal("prompt is too long: 250000 tokens > 200000 maximum"), "size"),
        (refusal("Request Entity Too Large", status=413), "size"),
        (refusal("Invalid value.", param="input[3].content"), "entry"),
        (refusal("Bad Request"), "entry"),
        (refusal("Invalid schema for function 'look'.", param="tools[0].parameters"), ""),
        (refusal("tools.0.custom.input_schema: Field required"), ""),
        (refusal("Unsupported parameter: 'temperature' is not supported."), ""),
        (refusal("Unsupported value.", param="reasoning.effort"), ""),
        (refusal("Invalid schema for response_format 'Out'."), ""),
        (refusal("No such model", status=404), ""),
        (refusal("Wrong key", status=401), ""),
        (refusal("Slow down", status=429), ""),
        (refusal("Oops", status=500), ""),
        (EffectError("user_error", "A filter raised.", retryable=False), ""),
    ],
)
def test_only_a_refusal_of_the_conversation_is_searched(error: EffectError, about: str) -> None:
    assert refusal_about(error) == about


@pytest.mark.parametrize(
    "message", ["Invalid schema for function 'look'.", "Unsupported parameter: 'top_p'."]
)
def test_a_refusal_of_a_deploys_mistake_costs_no_request(message: str) -> None:
    provider = Provider(lambda text: True, lambda items: refusal(message))
    assert found(provider, [user("Hi")]) is None
    assert provider.sent == []


def test_what_helps_nobody_sets_nothing_aside() -> None:
    provider = Provider(lambda text: True)
    assert found(provider, [user("Hi", "data:x"), said("Hello"), user("More")]) is None
    assert 0 < len(provider.sent) <= MOST_TRIES


def test_another_failure_on_the_way_is_that_failure() -> None:
    busy = ModelError("busy", code="overloaded", retryable=True, status=503)
    provider = Provider(lambda text: True, lambda items: refusal("Invalid image"))

    async def send(items: tuple[Item, ...]) -> str:
        raise of_model(busy)

    with pytest.raises(EffectError, match="busy"):
        asyncio.run(answer_without(refusal("Invalid image"), [user("data:x")], send))
    assert provider.sent == []


# --- What is left out ----------------------------------------------------------------------------


def test_a_photo_that_the_newest_message_brought_costs_one_request_and_no_words() -> None:
    provider = Provider(has_bad, lambda _: refusal("Invalid image."))
    items = [user("Hi"), said("Hello"), user("What is this?", "data:BAD")]
    result = found(provider, items)
    assert result == Found(
        "answer 1", (RefusedEntry(entry=2, part=1, reason="Invalid image."),), ()
    )
    assert len(provider.sent) == 1
    assert provider.sent[0][2].raw["content"] == [
        {"type": "input_text", "text": "What is this?"},
        {
            "type": "input_text",
            "text": "[Here was an image. It was left out, because the model provider did not take "
            "it.]",
        },
    ]


def test_a_refusal_that_says_nothing_and_passes_sets_nothing_aside() -> None:
    provider = Provider(lambda text: False)
    assert found(provider, [user("Hi")]) == Found("answer 1", (), ())
    assert provider.sent == [(user("Hi"),)]


def test_the_named_entry_is_tried_first() -> None:
    items = [user("a", "data:BAD"), said("ok"), user("b", "data:good"), user("c", "data:good")]
    provider = Provider(
        has_bad, lambda _: refusal("Invalid image", param="input[0].content[1].image_url")
    )
    assert left_out(found(provider, items)) == {Unit(0, 1)}
    assert len(provider.sent) == 1


def test_the_named_address_is_tried_first() -> None:
    image: JsonObject = {"type": "input_image", "image_url": "https://a.example/BAD.png"}
    items = [
        Item("input", {"role": "user", "content": [image]}),
        said("ok"),
        user("c", "data:good"),
    ]
    words = "Error while downloading https://a.example/BAD.png."
    provider = Provider(has_bad, lambda _: refusal(words))
    assert left_out(found(provider, items)) == {Unit(0, 0)}
    assert len(provider.sent) == 1


def test_each_refusal_may_name_the_next_of_two() -> None:
    items = [user("a", "data:BAD1"), said("ok"), user("b", "data:BAD2"), user("c")]

    def error(sent: Sequence[Item]) -> EffectError:
        at = next((at for at, one in enumerate(sent) if BAD in str(one.raw)), 0)
        return refusal("Invalid image", param=f"input[{at}].content[1].image_url")

    provider = Provider(has_bad, error)
    result = found(provider, items)
    assert left_out(result) == {Unit(0, 1), Unit(2, 1)}
    assert (len(provider.sent), provider.taken) == (3, 1)


def test_a_message_of_chat_completions_is_found_by_its_number() -> None:
    call, output = called("{}", "BAD")
    items = [user("a"), call, output, said("ok"), user("b")]
    provider = Provider(has_bad, lambda _: refusal("Invalid.", param="messages[3].content"))
    assert left_out(found(provider, items)) == {Unit(2)}
    assert len(provider.sent) == 1


def test_what_a_refusal_names_wrongly_is_not_left_out() -> None:
    items = [user("fine"), said("ok"), user("BAD"), user("c")]
    provider = Provider(has_bad, lambda _: refusal("Invalid.", param="input[0].content"))
    assert left_out(found(provider, items)) == {Unit(2)}


def test_a_result_of_a_call_stays_the_result_of_that_call() -> None:
    call, output = called("{}", [{"type": "input_image", "image_url": "data:BAD"}])
    provider = Provider(has_bad)
    assert left_out(found(provider, [user("a"), call, output])) == {Unit(2, 0)}
    kept = provider.sent[-1]
    assert kept[1] == call
    assert kept[2].raw["call_id"] == "c1"
    assert "left out" in str(kept[2].raw["output"])


def test_a_flagged_call_keeps_its_pair() -> None:
    call, output = called('{"text": "BAD"}', "done")
    provider = Provider(has_bad, lambda _: refusal("flagged", code="content_policy_violation"))
    items = [user("a"), call, output, said("ok"), user("b")]
    assert left_out(found(provider, items)) == {Unit(1)}
    kept = provider.sent[-1]
    assert [one.raw.get("call_id") for one in kept[1:3]] == ["c1", "c1"]
    assert json.loads(kept[1].raw["arguments"]).keys() == {"left_out"}


def test_instructions_are_never_left_out() -> None:
    note = Item("note", {"role": "developer", "content": "BAD"})
    assert found(Provider(has_bad), [note, user("a")]) is None


def test_a_message_that_no_window_holds_is_left_out_alone() -> None:
    items = [user("a"), said("b"), user("x" * 50_000), said("c"), user("short")]
    provider = Provider(
        lambda text: len(text) > 20_000,
        lambda _: refusal("Too long", code="context_length_exceeded"),
    )
    assert left_out(found(provider, items)) == {Unit(2)}
    assert provider.taken == 1


def test_a_conversation_that_is_too_long_loses_its_older_part() -> None:
    items = [one for at in range(200) for one in (user(f"{at} " * 50), said("ok " * 50))]
    items.append(user("The question."))
    size = len(json.dumps([one.raw for one in items]))
    provider = Provider(
        lambda text: len(text) > size * 0.9,
        lambda _: refusal("maximum context length is 8192 tokens"),
    )
    out = left_out(found(provider, items))
    assert out
    assert max(one.entry for one in out) < len(items) / 2
    assert provider.sent[-1][-1] == items[-1]


# --- Any conversation ----------------------------------------------------------------------------

KINDS = st.sampled_from(["user", "photo", "said", "call", "reasoning", "summary"])


def conversation(kinds: Sequence[str], bad: set[int]) -> list[Item]:
    items: list[Item] = []
    for at, kind in enumerate(kinds):
        text = f"{BAD if at in bad else 'fine'} {at}"
        match kind:
            case "user":
                items.append(user(text))
            case "photo":
                items.append(user("look", f"data:{text}", f"data:good{at}"))
            case "said":
                items.append(said(text))
            case "call":
                items += called("{}", text)
            case "summary":
                items.append(Item("input", {"type": "compaction", "encrypted_content": text}))
            case _:
                raw: JsonObject = {"type": "reasoning", "id": f"r{at}", "summary": [{"text": text}]}
                items.append(Item("reasoning", raw, "A", 1))
    return [*items, user("The question.")]


@given(st.lists(KINDS, min_size=1, max_size=30), st.data())
@examples(150)
def test_what_is_refused_anywhere_is_found_and_nothing_else(kinds: list[str], data: Any) -> None:
    places = st.sets(st.integers(0, len(kinds) - 1), min_size=1, max_size=2)
    items = conversation(kinds, data.draw(places))
    words = data.draw(st.sampled_from(["Bad request.", "Invalid image.", "It was flagged."]))
    provider = Provider(has_bad, lambda _: refusal(words))
    result = found(provider, items)
    assert len(provider.sent) <= MOST_TRIES
    assert provider.taken <= MOST_PAID
    assert result is not None, "the next question works"
    last = provider.sent[-1] if provider.taken == 1 else None
    assert last is None or BAD not in str(last)
    for one in result.refused:
        raw = items[one.entry].raw
        held = str(raw if one.part is None else (raw.get("content") or raw["output"])[one.part])
        assert BAD in held or provider.taken == MOST_PAID
