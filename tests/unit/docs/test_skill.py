"""The skill for coding agents, followed step by step in an empty directory, and the list of pages."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.llms_text import SKILL, WRITTEN, raw_skill, text

DOCS = Path(__file__).parents[3] / "docs"
STEPS = re.findall(
    r'^```(python title="(?P<file>[^"]+)"|sh|text)\n(?P<body>.*?)^```$',
    (DOCS / SKILL).read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
INSTALL = 'pip install "outlast[cli,dev]" pytest\n'


@pytest.mark.full
def test_whoever_follows_the_skill_gets_what_it_says(tmp_path: Path) -> None:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TEMPORAL_", "OPENAI_", "OUTLAST_", "PYTEST_"))
    }
    environment = kept | {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TEMPORAL_CONFIG_FILE": os.devnull,
    }
    assert STEPS[0][2] == INSTALL, "what is installed here is what it says"
    printed = ""
    for kind, file, body in STEPS[1:]:
        if file:
            (tmp_path / file).write_text(body, encoding="utf-8")
        elif kind == "text":
            assert printed == body
        else:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", body],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            assert done.returncode == 0, f"{body}\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}"
            printed = done.stdout
    assert len(STEPS) == 9


def test_the_list_of_pages_is_that_of_the_navigation() -> None:
    listed = WRITTEN.read_text(encoding="utf-8")
    assert listed == text(), "write it with `make docs`"
    assert listed.startswith("# outlast\n\n> A Python agent framework")
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", listed, re.MULTILINE)
    assert {SKILL, "how-to/agents/", "concepts/run-is-a-fold/", "reference/api/"} <= set(links)
    lacking = [
        link
        for link in links
        if not any(
            (DOCS / f"{link.rstrip('/')}{end}").is_file() for end in ("", ".md", "/index.md")
        )
    ]
    assert lacking == []


def test_the_raw_skill_leads_to_the_site() -> None:
    raw = raw_skill((DOCS / SKILL).read_text(encoding="utf-8"), "https://outlast.example/0.1.0/")
    assert raw.startswith("---\nname: outlast\ndescription: ")
    assert "(https://outlast.example/0.1.0/llms.txt)" in raw
    assert "(https://outlast.example/0.1.0/how-to/testing/)" in raw
    assert "](../" not in raw
