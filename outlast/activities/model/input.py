"""The input items of a model call, made from the items of the transcript."""

from collections.abc import Sequence

from outlast.activities.invocation import Invocation
from outlast.activities.worker_memory import SentInput
from outlast.agents.config.session_input import deduplicated, newest_values
from outlast.agents.items.raw_items import ItemKey, as_input
from outlast.agents.items.repair import Links, Placed, readable, whole_pairs
from outlast.agents.schemas.provider_names import with_provider_names
from outlast.loop.call_forms import without_id
from outlast.loop.items import Item
from outlast.loop.values import JsonObject


def shown_items(invocation: Invocation, items: Sequence[Item]) -> list[JsonObject]:
    """Return the items as input, repaired, without the ids of reasoning if the run omits them.

    The items are not copies: user code must not get them.
    """
    placed = _placed(invocation, items)
    if invocation.server_managed:  # the items are new ones only, and outputs without their calls
        return [raw for raw, _ in placed]
    return whole_pairs(placed)[0]


def sent_items(shown: Sequence[JsonObject]) -> list[JsonObject]:
    """Return shown items as the provider gets them: each once, with the provider's names."""
    return _sent([(raw, 0) for raw in shown])[0]


def sent_after_filter(
    invocation: Invocation, shown: Sequence[JsonObject], chosen: Sequence[JsonObject]
) -> list[JsonObject]:
    """Return the items that a filter chose among the shown items as the provider gets them."""
    if invocation.server_managed:
        return _sent_new([one for raw in chosen if (one := readable(raw)) is not None])
    links = Links.of(shown)
    full = [one for raw in chosen if (one := readable(raw)) is not None]
    whole = sent_items([raw for raw in links.kept_in(full) if raw is not None])
    return [raw for raw in links.kept_in(whole) if raw is not None]


def sent_input(invocation: Invocation, items: Sequence[Item]) -> list[JsonObject]:
    """Return all items as the provider gets them, prepared from the new items if possible.

    The input of earlier turns stands unless a new item repeats or answers an earlier one.
    """
    if invocation.server_managed:
        return _sent_new(shown_items(invocation, items))
    key = f"{invocation.run_id} {_omits_ids(invocation)}"
    cache = invocation.worker.memory.sent
    count, before = cache.find(key, items) or (0, SentInput())
    if count == len(items):
        return list(before.input)
    added, keys, closed = _sent(_placed(invocation, items[count:]))
    if not before.keys.isdisjoint(keys):
        before = SentInput()
        added, keys, closed = _sent(_placed(invocation, items))
    sent = [*before.input, *added]
    if closed:
        cache.keep(key, items, SentInput(sent, before.keys | keys))
    return list(sent)


def _sent_new(shown: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the new items of a conversation that the provider's server has."""
    return with_provider_names(deduplicated(shown))


def _sent(placed: Sequence[Placed]) -> tuple[list[JsonObject], set[ItemKey], bool]:
    """Return items as the provider gets them; see `whole_pairs`."""
    every = [raw for raw, _ in placed]
    values = newest_values(every)
    if len(values) < len(placed):
        turns = [placed[at][1] for at, _ in values]
        chosen = Links.of(every).kept_in([every[newest] for _, newest in values])
        placed = [(raw, turn) for raw, turn in zip(chosen, turns, strict=True) if raw is not None]
    raws, keys, closed = whole_pairs(placed)
    return with_provider_names(raws), keys, closed


def _placed(invocation: Invocation, items: Sequence[Item]) -> list[Placed]:
    omits = _omits_ids(invocation)
    lost = _lost_reasoning(invocation, items)
    placed: list[Placed] = []
    for item in items:
        raw = readable(as_input(item.raw))
        if raw is None:
            continue
        if omits and item.kind != "input" and raw.get("type") == "reasoning":
            raw = {name: value for name, value in raw.items() if name != "id"}
        elif item.turn in lost:
            raw = without_id(raw)
        placed.append((raw, item.turn))
    return placed


def _lost_reasoning(invocation: Invocation, items: Sequence[Item]) -> set[int]:
    """Return the model calls of other agents whose reasoning a handoff's filter may have cut."""
    if not invocation.usage.output_tokens_details.reasoning_tokens:
        return set()
    own = invocation.agent_name
    others = {item.turn for item in items if item.agent != own}
    return others - {item.turn for item in items if item.kind == "reasoning"} - {0}


def _omits_ids(invocation: Invocation) -> bool:
    return invocation.settings.get("reasoning_item_id_policy") == "omit"
