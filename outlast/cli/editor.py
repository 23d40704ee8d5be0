"""Lets a person change the arguments of a call in a text editor."""

import asyncio
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast

from outlast.agents.errors import UserError
from outlast.cli.json_values import json_object, parse_json
from outlast.edges.rendering import excerpt, joined, json_text
from outlast.views.records import REDACTED, ApprovalRequest, Json, JsonObject

_EDITORS: Final = ("sensible-editor", "nano", "vi", "notepad")
"""Tried in this order where neither VISUAL nor EDITOR is set."""

_COMMENT: Final = "#"


def is_interactive() -> bool:
    """Whether a person at a terminal can use an editor."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def edit_arguments(
    request: ApprovalRequest, problem_of: Callable[[JsonObject], str | None]
) -> JsonObject:
    """Return the arguments of a call after a person has changed them.

    The editor opens again with the problem as a comment, until the arguments fit or the person
    saves them unchanged.
    """
    text, problem = first_text(request.arguments), ""
    before = _original(request.arguments)
    while True:
        shown = screen_of(request, text, problem)
        changed = _without_comments(await _open(shown))
        if changed.strip() == _without_comments(shown).strip():
            raise UserError(problem or "The arguments are unchanged, so nothing was sent.")
        try:
            found = json_object(parse_json(changed, "The text"), "The text")
        except UserError as error:
            problem = error.message
        else:
            if found == before:
                raise UserError("The arguments are unchanged, so nothing was sent.")
            problem = problem_of(found) or ""
            if not problem:
                return found
        text = changed.lstrip("\n").rstrip("\n")


def screen_of(request: ApprovalRequest, text: str, problem: str) -> str:
    """Return what the editor shows: a problem or what to do, hints, and the arguments as text."""
    status = problem or "Change the arguments, save, and close the editor."
    comments = [excerpt(status, 500), *_hints(request)]
    return "\n".join([*(joined(_COMMENT, " ", one) for one in comments), text])


def _original(arguments: str) -> Json:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def first_text(arguments: str) -> str:
    """Return arguments for the editor: with every character visible, and parsed the same."""
    value = _original(arguments)
    return json_text(value if isinstance(value, dict) else {}, indent=2)


def _hints(request: ApprovalRequest) -> Iterator[str]:
    schema = request.schema or {}
    required = cast("list[object]", schema.get("required") or [])
    properties = cast("JsonObject", schema.get("properties") or {})
    for name, rules in properties.items():
        rule = cast("JsonObject", rules) if isinstance(rules, dict) else {}
        facts = [str(rule.get("type") or "any type"), *(["required"] if name in required else [])]
        if "enum" in rule:
            facts.append(f"one of {json.dumps(rule['enum'])}")
        said = f": {rule['description']}" if rule.get("description") else ""
        yield excerpt(f"{name} ({', '.join(facts)}){said}", 300)
    if request.terms.redact:
        yield excerpt(f'"{REDACTED}" stands for a value that stays as it is.')


def _without_comments(text: str) -> str:
    """Return a text with empty lines for its comments, so that the numbers of lines stay."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("" if line.startswith(_COMMENT) else line for line in lines)


async def _open(text: str) -> str:
    command = _editor()
    with tempfile.TemporaryDirectory(prefix="outlast-") as folder:  # only its owner can read it
        file = Path(folder) / "arguments.json"
        file.write_text(text + "\n", encoding="utf-8")
        try:
            process = await asyncio.create_subprocess_exec(*command, str(file))
        except OSError as error:
            raise UserError(f"The editor {command[0]!r:.80} cannot be started: {error}.") from None
        if await process.wait() != 0:
            raise UserError(f"The editor {command[0]!r:.80} failed, so nothing was sent.")
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(f"The text cannot be read: {error}.") from None


def _editor() -> list[str]:
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UserError(f"The editor {named!r:.80} is no command: {error}.") from None
    if words:
        return words
    found = next((path for one in _EDITORS if (path := shutil.which(one))), None)
    if found is None:
        raise UserError("There is no editor. Set EDITOR, or write --arguments.")
    return [found]
