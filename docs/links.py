"""Asks other sites whether the pages that the documentation links to are there: `make links`.

Ends with 1 if a page is gone, and with 3 if no other site answers, as without a network: then nothing
was checked.
"""

import asyncio
import re
import sys
from pathlib import Path

import httpx2

ROOT = Path(__file__).parents[1]
ADDRESS = re.compile(r"\]\((https?://[^)\s]+)\)|^site_url: .*|^repo_url: (\S+)", re.MULTILINE)
EXAMPLES = re.compile(
    r"//[^/]*(localhost|127\.0\.0\.1|\.example)\b|//([^/]+\.)?example\.(com|org)\b"
)
GONE = {404, 410}
BAD_REQUEST = 400
AT_ONCE = 8
PATIENCE_SECONDS = 20


def links_of(texts: dict[str, str]) -> dict[str, list[str]]:
    """Return the addresses on other sites, each with the pages that link to it."""
    found: dict[str, list[str]] = {}
    for page, text in texts.items():
        for match in ADDRESS.finditer(text):
            address = next((one for one in match.groups() if one), "").partition("#")[0]
            if (
                address
                and not EXAMPLES.search(address)
                and page not in found.setdefault(address, [])
            ):
                found[address].append(page)
    return found


async def status_of(client: httpx2.AsyncClient, address: str) -> int | None:
    """Return the status of a page; None if its site cannot be reached."""
    try:
        async with client.stream("GET", address) as response:
            return response.status_code
    except httpx2.HTTPError:
        return None


def report(links: dict[str, list[str]], statuses: dict[str, int | None]) -> tuple[int, str]:
    """Return the exit code, and what to print."""
    gone = [one for one, status in statuses.items() if status in GONE]
    unsure = {
        one: f"answered {status}" if status else "did not answer"
        for one, status in statuses.items()
        if one not in gone and (status is None or status >= BAD_REQUEST)
    }
    if len(unsure) == len(statuses):
        return 3, f"NOT CHECKED: none of {len(statuses)} addresses was shown. Is there a network?\n"
    lines = [f"{one} is gone ({statuses[one]}); see {', '.join(links[one])}\n" for one in gone]
    lines += [f"NOT CHECKED: {one} {what}\n" for one, what in unsure.items()]
    lines.append(f"{len(statuses) - len(unsure)} addresses checked, {len(gone)} gone\n")
    return (1 if gone else 0), "".join(lines)


async def check(links: dict[str, list[str]]) -> tuple[int, str]:
    """Ask for every address, a few at once."""
    turns = asyncio.Semaphore(AT_ONCE)
    async with httpx2.AsyncClient(follow_redirects=True, timeout=PATIENCE_SECONDS) as client:

        async def ask(address: str) -> tuple[str, int | None]:
            async with turns:
                return address, await status_of(client, address)

        return report(links, dict(await asyncio.gather(*map(ask, links))))


def main() -> int:
    """Check the links of all documents."""
    files = [*ROOT.glob("*.md"), ROOT / "mkdocs.yml", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
        for file in files
        if "node_modules" not in file.parts
    }
    code, text = asyncio.run(check(links_of(texts)))
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
