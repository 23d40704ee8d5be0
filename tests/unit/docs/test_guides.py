"""The guides: their code runs, from top to bottom, on a server, and prints what they say.

A block marked `python` is run; one marked `py` is only shown. Of `print(...)  # text` the text is
what is printed. Only the model is replaced: one script answers for all agents of a guide.
"""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from outlast.local.engine import LocalEngine
from outlast.models.openai.provider import OpenAIProvider
from outlast.testing import ScriptedModel, call, custom_call, patch_call, shell_call
from tests.servers import TemporalServer

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to"

SCRIPTS: dict[str, list[Any]] = {
    "agents": [
        [call("find_order", "c1", order_id="A-17")],
        "Sie ist seit Montag unterwegs.",
        '{"refundable": true, "reason": "It is new."}',
        [call("ask_judge", "c2", input="May it be paid back?")],
        '{"refundable": true, "reason": "It is new."}',
        "Yes, you may.",
    ],
    "handoffs": [
        [call("transfer_to_complaints", "c1", reason="third wrong invoice")],
        "I am sorry.",
        [call("transfer_to_billing", "c2")],
        "Let me see.",
    ],
    "guardrails": [
        [call("refund", "c1", amount=9)],
        "Only less than 9 EUR.",
        "Tomorrow, I promise.",
    ],
    "models": ["On Monday at nine."],
    "sessions": ["Hello Ann.", "Ann.", "Still Ann.", "Hello.", "Hello again."],
    "streaming": [
        [call("hours", "c1", day="Monday")],
        "Yes, 9 to 18.",
        "No.",
        [call("plan", "c2", input="When to come?")],
        [call("hours", "n1", day="Monday")],
        "On Monday.",
        "Come on Monday.",
    ],
    "approvals": [
        [call("refund", "c1", order_id="A-42", amount=389)],
        "Done.",
        [call("refund", "c2", order_id="A-1", amount=500)],
        "That was refused.",
    ],
    "local-tools": [
        [
            patch_call("c1", "create_file", "notes.txt", "+3 orders"),
            custom_call("sql", "c2", "orders"),
        ],
        "There are 3.",
        [shell_call("c1", "cat notes.txt"), shell_call("c2", "rm notes.txt")],
        "Deleted.",
    ],
    "deployment": [[call("find_order", "c1", order_id="A-17")], "On its way."],
    "large-content": ["A cat."],
    "testing": [],
    "mcp": [[call("find", "c1", title="Dune")], "On shelf 3."],
}


def blocks(guide: str) -> list[str]:
    """Return the code of a guide that is run."""
    text = (HOW_TO / f"{guide}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


async def run(code: str, namespace: dict[str, Any], guide: str) -> None:
    """Run code that may await at its top level."""
    compiled = compile(code, f"{guide}.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(compiled, namespace)
    if inspect.isawaitable(made):
        await made


@pytest.mark.parametrize("guide", SCRIPTS)
async def test_the_code_of_a_guide_does_what_it_says(
    guide: str,
    server: TemporalServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    model = ScriptedModel(*SCRIPTS[guide])
    monkeypatch.setattr(OpenAIProvider, "get_model", staticmethod(model.get_model))
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    monkeypatch.chdir(tmp_path)
    code = blocks(guide)
    namespace: dict[str, Any] = {"__name__": f"guide_{guide}"}
    try:
        for block in code:
            await run(block, namespace, guide)
    finally:
        await LocalEngine.close_shared()
    assert model.calls == len(SCRIPTS[guide])
    printed = iter(capsys.readouterr().out.splitlines())
    for expected in re.findall(r"^ *print\(.*\)  # (.+)$", "".join(code), re.MULTILINE):
        assert expected in printed, f"{guide}.md says {expected!r}, which was not printed then"
