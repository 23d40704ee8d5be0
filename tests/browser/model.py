"""The model of the desk's tests: a script that says what the customer's newest message asks for.

    say SOMETHING       the same words
    count to 40 ...     a long answer: `1 2 3 ...`, one number a word
    call TOOL {...}     a call with these arguments, and then an answer that has the output
    fail once, SOMETHING    an error of the provider, and the same words when it is asked again

To the support desk it answers as the script of `outlast demo` does.
"""

import json
import re
from typing import Any, Final, cast

from outlast.loop.values import JsonObject
from outlast.testing.demo import desk_model
from outlast.testing.demo.responses_server import InvalidRequest, function_call, message

_COMMAND = re.compile(r"(say|count to|call|fail once,)\s+(.*)", re.DOTALL)

_FAILED: Final = set[str]()
"""What an error was sent for."""


def answer(body: JsonObject) -> list[JsonObject]:
    """Return the next output items."""
    offered = cast("list[JsonObject]", body.get("tools") or [])
    tools = {tool.get("name") for tool in offered}
    if "look_up_order" in tools or "ask_human" in tools:
        return desk_model.answer(body)
    items = _items(body.get("input"))
    last = items[-1] if items else {}
    if last.get("type") == "function_call_output":
        return [message(f"Done: {_text(last.get('output'))}")]
    asked = next(
        (_text(one.get("content")) for one in reversed(items) if one.get("role") == "user"), ""
    )
    found = _COMMAND.fullmatch(asked.strip())
    if found is None:
        return [message(f"You wrote: {asked}")]
    what, rest = found.groups()
    if what == "fail once," and rest not in _FAILED:
        _FAILED.add(rest)
        raise InvalidRequest(f"Unsupported parameter, before {rest}.")  # no fault of the words
    if what in {"say", "fail once,"}:
        return [message(rest)]
    if what == "call":
        name, _, arguments = rest.partition(" ")
        return [function_call(name, json.loads(arguments))]
    return [message(counted(int(rest.split()[0])))]


def counted(end: int) -> str:
    """Return the numbers up to one, as the model says them."""
    return " ".join(f"n{number}" for number in range(1, end + 1))


def _items(sent: Any) -> list[JsonObject]:
    return [{"role": "user", "content": sent}] if isinstance(sent, str) else list(sent or [])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = cast("list[JsonObject]", content or [])
    return " ".join(str(part.get("text") or "") for part in parts)
