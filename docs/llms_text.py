"""Writes docs/llms.txt, the list of pages for programs that read (llmstxt.org).

`make docs` runs it. The pages are those of the navigation in mkdocs.yml, each with its first sentence.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import yaml

HERE = Path(__file__).parent
WRITTEN = HERE / "llms.txt"
SKILL = "skills/outlast/SKILL.md"
LEFT_OUT = ("Design notes", "Faults of Temporal")
"""Sections that nobody needs who writes a program."""

HEAD = f"""# outlast

> A Python agent framework with the programming model of the OpenAI Agents SDK, whose runs are durable Temporal workflows: they survive crashes and deploys, and wait for people as long as it takes.

Addresses are relative to this file. To write a program, begin with the skill: it was followed step by step by a test.

## Begin here

- [A skill for coding agents]({SKILL}): install, write, test and run an agent, in commands and files
"""


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without the Python objects that it names."""


def _nothing(_loader: object, _suffix: str, _node: object) -> None:
    return None


cast("Any", _Loader).add_multi_constructor("tag:yaml.org,2002:python/", _nothing)


def text() -> str:
    """Return the list of pages."""
    navigation = yaml.load((HERE.parent / "mkdocs.yml").read_text("utf-8"), _Loader)["nav"]  # noqa: S506  a safe one
    lines: list[str] = []
    for entry in navigation:
        ((title, below),) = entry.items()
        if isinstance(below, str) and below not in {SKILL, "index.md"}:
            lines.append(_line(title, below))
        if title not in LEFT_OUT and isinstance(below, list):
            lines += ["", f"## {title}", "", *_lines(cast("list[Any]", below))]
    return HEAD + "\n".join(lines) + "\n"


def _lines(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield _line("", entry)
            continue
        ((title, below),) = entry.items()
        if isinstance(below, str):
            yield _line(title, below)
        else:
            yield from _lines(below)


def _line(title: str, page: str) -> str:
    markdown = (HERE / page).read_text(encoding="utf-8")
    heading = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    said = _first_sentence(markdown)
    address = re.sub(r"(index)?\.md$", lambda end: "" if end[1] else "/", page)
    shown = title or (heading[1].replace("`", "") if heading else page)
    return f"- [{shown}]({address})" + (f": {said}" if said else "")


def _first_sentence(markdown: str) -> str:
    body = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    for paragraph in body.split("\n\n")[1:]:
        if not re.match(r"[#|`<:!>\-*]", paragraph):
            flat = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
            return re.split(r"(?<=[.:]) ", flat, maxsplit=1)[0].rstrip(".:")
    return ""


def raw_skill(markdown: str, site: str) -> str:
    """Return the skill as a file that is read anywhere: its links lead to the site."""
    return re.sub(
        r"\]\(\.\./\.\./([\w./-]+?)(?:\.md)?\)",
        lambda link: f"]({site}{link[1]}{'' if link[1].endswith('.txt') else '/'})",
        markdown,
    )


if __name__ == "__main__":
    WRITTEN.write_text(text(), encoding="utf-8")
