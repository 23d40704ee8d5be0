"""Both programs of each page of docs/coming-from, as they stand there, in processes of their own.

`ask` runs to a refund that waits for a person, and ends. `decide` is a new process, which approves
it and writes once more to the same conversation.
"""

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.coming_from.conftest import PYTHON
from tests.coming_from.model_server import ARGUMENTS, PAID, THANKED, model_server
from tests.servers import TemporalServer

DOCS = Path(__file__).parents[2] / "docs" / "coming-from"
PAGES = sorted(page.stem for page in DOCS.glob("*.md"))
PATIENCE_SECONDS = 60


def program(page: str, name: str) -> str:
    text = (DOCS / f"{page}.md").read_text("utf-8")
    [code] = re.findall(rf'^```py title="{name}"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    return code


async def run(python: str, file: Path, action: str, environment: Mapping[str, str]) -> list[str]:
    """Run a program to its end, and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        python, str(file), action,
        cwd=file.parent, env={**os.environ, **environment}, stdout=-1, stderr=-1,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    return out.decode().splitlines()


THERE = [(page, "theirs.py") for page in PAGES if PYTHON]
HERE = (PAGES[0], "ours.py")


def test_every_page_has_the_same_program_for_outlast_and_names_versions_that_are_installed() -> (
    None
):
    assert len(PAGES) == 5
    assert len({program(page, "ours.py") for page in PAGES}) == 1
    pinned = (Path(__file__).parent / "requirements.txt").read_text("utf-8")
    for page in PAGES:
        opening = (DOCS / f"{page}.md").read_text("utf-8").split("\n## ")[0]
        versions = re.findall(r"\b\d+\.\d+\.\d+\b", opening.split("Compared with")[1])
        assert versions
        assert [one for one in versions if f"=={one}\n" not in pinned] == [], page


@pytest.mark.full
@pytest.mark.parametrize(("page", "whose"), [*THERE, HERE])
async def test_a_refund_waits_for_a_person_while_no_process_runs(
    page: str, whose: str, server: TemporalServer, tmp_path: Path
) -> None:
    file = tmp_path / whose
    file.write_text(program(page, whose).replace("case-1", f"case-{page}-{whose[:4]}"), "utf-8")
    python = PYTHON if whose == "theirs.py" else sys.executable
    async with model_server() as url:
        environment = {
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "no key",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "TEMPORAL_ADDRESS": server.address,
            "TEMPORAL_NAMESPACE": server.namespace,
            "PYTHONPATH": str(Path(__file__).parents[2]) if whose == "ours.py" else "",
        }
        asked = await run(python, file, "ask", environment)
        assert asked[-1:] == [f"refund {ARGUMENTS}"]
        decided = await run(python, file, "decide", environment)
        assert decided[-2:] == [PAID, THANKED]
