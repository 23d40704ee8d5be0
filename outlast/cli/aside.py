"""`outlast set-aside` and `take-back`: a person says what the model does not read any more."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from outlast.cli.caller import PersonCaller, on_server

if TYPE_CHECKING:
    from outlast.client.people.actions import AsideReceipt

_Item: TypeAlias = Annotated[int, typer.Argument(min=0, show_default=False)]
_Part: TypeAlias = Annotated[int | None, typer.Option(min=0)]


@on_server
async def set_aside(
    caller: PersonCaller, item: _Item, part: _Part = None, reason: str = ""
) -> None:
    """Leave an item out of what the model reads; the transcript keeps it.

    A short note stands in its place in the next request. Whoever may take the conversation over may
    do it.

    Command line:
        item (ITEM): The number of the item, which `outlast show` prints.
        part: A part of it alone, such as a photo. Default: all of the item.
        reason: Why, for people.
    """
    receipt = await caller.act(
        lambda run: run.set_aside(item, by=caller.person, part=part, reason=reason)
    )
    _show(caller, receipt, f"The model does not read {_named(item, part)} any more.")


@on_server
async def take_back(caller: PersonCaller, item: _Item, part: _Part = None) -> None:
    """Let the model read an item again that a person or a provider's refusal set aside.

    Command line:
        item (ITEM): The number of the item, which `outlast show` prints.
        part: A part of it alone, such as a photo. Default: all of the item.
    """
    receipt = await caller.act(lambda handle: handle.take_back(item, by=caller.person, part=part))
    done = f"The model reads {_named(item, part)} again."
    left = [_named(item, one) for one in receipt.parts if one is not None]
    if None in receipt.parts:
        done = f"All of item {item} is still set aside."
    elif left:
        done += f" Still set aside: {'; '.join(left)}."
    _show(caller, receipt, done)


def _named(item: int, part: int | None) -> str:
    return f"item {item}" if part is None else f"part {part} of item {item}"


def _show(caller: PersonCaller, receipt: "AsideReceipt", sentence: str) -> None:
    record = {
        "item": receipt.item,
        "set_aside": bool(receipt.parts),
        "parts": list(receipt.parts),
    }
    caller.show(record, sentence)
