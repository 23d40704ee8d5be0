"""The input items of a model call, made from the items of the transcript."""

from collections.abc import Iterable, Sequence

from outlast.activities.invocation import Invocation
from outlast.activities.worker_memory import SentInput
from outlast.agents.config.session_input import ItemKey, deduplicated, item_key, without_unanswered
from outlast.agents.items.raw_items import as_input
from outlast.agents.schemas.provider_names import with_provider_names
from outlast.loop.items import Item
from outlast.loop.values import JsonObject


def shown_items(invocation: Invocation, items: Sequence[Item]) -> list[JsonObject]:
    """Return the items as input, without the ids of reasoning if the run omits them.

    Calls without an output, because a handoff's filter dropped it or the provider sent none, are
    left out: providers refuse them. The caller's own items stay unchanged. The items are not
    copies: user code must not get them.
    """
    omits = _omits_ids(invocation)
    shown = [
        {name: value for name, value in as_input(item.raw).items() if name != "id"}
        if omits and item.kind != "input" and item.raw.get("type") == "reasoning"
        else as_input(item.raw)
        for item in items
    ]
    if invocation.server_managed:
        return shown
    own = (item.kind not in {"input", "history", "note"} for item in items)
    return without_unanswered(zip(shown, own, strict=True))


def sent_items(shown: Sequence[JsonObject]) -> list[JsonObject]:
    """Return shown items as the provider gets them: each once, with the provider's names."""
    return with_provider_names(deduplicated(shown))


def sent_input(invocation: Invocation, items: Sequence[Item]) -> list[JsonObject]:
    """Return `sent_items` of all shown items, prepared from the new items if possible.

    The input of earlier turns stands if new items neither repeat an earlier one nor lack an output.
    """
    if invocation.server_managed:  # the items are new ones only, and outputs without their calls
        return sent_items(shown_items(invocation, items))
    key = f"{invocation.run_id} {_omits_ids(invocation)}"
    cache = invocation.worker.memory.sent
    count, before = cache.find(key, items) or (0, SentInput())
    new = items[count:]
    added = sent_items(shown_items(invocation, new))
    keys = frozenset(_keys(added))
    if len(added) < len(new) or not keys.isdisjoint(before.keys):
        return sent_items(shown_items(invocation, items))
    sent = [*before.input, *added]
    if added:
        cache.keep(key, items, SentInput(sent, before.keys | keys))
    return list(sent)


def _keys(raws: Iterable[JsonObject]) -> Iterable[ItemKey]:
    return (key for raw in raws if (key := item_key(raw)) is not None)


def _omits_ids(invocation: Invocation) -> bool:
    return invocation.settings.get("reasoning_item_id_policy") == "omit"
