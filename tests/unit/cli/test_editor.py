"""What a person sees in the editor, and what becomes of the text."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from outlast.agents.errors import UserError
from outlast.cli import editor
from outlast.loop.approvals import ApprovalRequest, ApprovalTerms
from outlast.loop.values import JsonObject
from tests.hostile_text import JSON_VALUES, TEXTS, assert_visible
from tests.laws.strategies import examples

REQUEST = ApprovalRequest(
    id="a1",
    call_id="c1",
    name="refund",
    agent="Billing",
    arguments='{"order_id": "A-42"}',
    args_digest="d",
    requested_at_ms=1,
)


class Opened:
    """An editor that appends to the text, or replaces it, and keeps what it has shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[str] = []
        self.saves: list[str] = []
        monkeypatch.setattr(editor, "_open", self._open)

    async def _open(self, text: str) -> str:
        self.shown.append(text)
        return self.saves.pop(0) if self.saves else text


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(monkeypatch)


def fits(_arguments: JsonObject) -> str | None:
    return None


async def test_the_schema_explains_each_argument(opened: Opened) -> None:
    schema: JsonObject = {
        "properties": {
            "order_id": {"type": "string", "description": "The order,\nas on the bill."},
            "speed": {"enum": ["slow", "fast"]},
            "odd": True,
        },
        "required": ["order_id"],
    }
    terms = ApprovalTerms(redact=("iban",))
    opened.saves = ['{"order_id": "A-1"}']

    found = await editor.edit_arguments(replace(REQUEST, schema=schema, terms=terms), fits)

    assert found == {"order_id": "A-1"}
    assert opened.shown[0].splitlines() == [
        "# Change the arguments, save, and close the editor.",
        "# order_id (string, required): The order,\\u000aas on the bill.",
        '# speed (any type, one of ["slow", "fast"])',
        "# odd (any type)",
        '# "[redacted]" stands for a value that stays as it is.',
        "{",
        '  "order_id": "A-42"',
        "}",
    ]


async def test_arguments_that_are_not_json_begin_empty(opened: Opened) -> None:
    opened.saves = ["[1]", '{"order_id": "A-1"}']

    found = await editor.edit_arguments(replace(REQUEST, arguments="{order_id"), fits)

    assert found == {"order_id": "A-1"}
    assert opened.shown[0].splitlines()[1:] == ["{}"]
    assert opened.shown[1].startswith("# The text must be a JSON object with all arguments")
    assert opened.shown[1].endswith("\n[1]")


@examples(100)
@given(key=TEXTS, value=JSON_VALUES, words=TEXTS)
def test_the_text_is_visible_and_reads_back_as_the_same_arguments(
    key: str, value: Any, words: str
) -> None:
    written = json.dumps({key: value})
    arguments = json.loads(written)  # two surrogates of one character are that character, once read
    request = replace(
        REQUEST,
        arguments=written,
        schema={"properties": {key: {"type": words, "description": words}}},
    )

    text = editor.screen_of(request, editor.first_text(request.arguments), words)

    assert_visible(text, layout="\n")
    kept = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    assert json.loads(kept) == arguments


async def test_a_text_that_is_no_text_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "spoil"
    make_executable(script, '#!/bin/sh\nprintf "\\377" > "$1"\n')
    monkeypatch.setenv("VISUAL", str(script))

    with pytest.raises(UserError, match="The text cannot be read"):
        await editor.edit_arguments(REQUEST, fits)


def make_executable(script: Path, text: str) -> None:
    script.write_text(text)
    script.chmod(0o700)
