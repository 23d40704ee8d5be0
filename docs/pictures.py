"""Takes the pictures of the documentation: the Temporal UI, the demo, and the desk.

python docs/pictures.py ui      docs/pictures/waiting-run.png: the tutorial's run, in a real browser
python docs/pictures.py demo    docs/pictures/demo.svg: what `outlast demo` prints
python docs/pictures.py terminal  docs/pictures/terminal-*.svg: what commands print about the tutorial's run
python docs/pictures.py desk    docs/pictures/desk-*.png: each page of the desk, at desktop and phone
                                width, light and dark

The first and the last need Chromium and the package playwright: `apt-get install chromium`, and
`uv sync --inexact --group browser`.
"""

# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false

import asyncio
import base64
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rich.console import Console
from rich.text import Text

from outlast.client.identity import person
from outlast.contract import names
from outlast.dev import EmbeddedServer

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from tests.browser.stage import Stage

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"
TUTORIAL = DOCS / "tutorial" / "first-desk.md"
QUESTION = "Please refund 389 EUR for order A-42."
LARGEST_BYTES = 300_000
WIDTH, HEIGHT, COLUMNS = 1280, 800, 104
WAITS = 3
SPINNER = re.compile("\x1b\\[32m[\u2800-\u28ff]")


def files_of_the_tutorial() -> dict[str, str]:
    """Return the programs of the tutorial, by file name."""
    page = TUTORIAL.read_text(encoding="utf-8")
    return dict(re.findall(r'^```python title="(\S+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL))


async def picture_of_the_ui() -> Path:
    """Start the tutorial's run, wait until it needs an approval, and photograph it."""
    picture = PICTURES / "waiting-run.png"
    with tempfile.TemporaryDirectory() as folder:
        for name, program in files_of_the_tutorial().items():
            (Path(folder) / name).write_text(program, encoding="utf-8")
        async with EmbeddedServer(ui_port=0, search_attributes=names.SEARCH_ATTRIBUTES) as server:
            environment = {**os.environ, "TEMPORAL_ADDRESS": server.address}

            async def outlast(*arguments: str) -> asyncio.subprocess.Process:
                return await asyncio.create_subprocess_exec(
                    _beside("outlast"), *arguments, cwd=folder, env=environment
                )

            worker = await outlast("worker", "desk")
            try:
                asked = await outlast("run", "Desk", QUESTION, "--id", "case-1")
                assert await asked.wait() == WAITS, "the run does not wait for an approval"
                await photograph(f"{server.ui_url}/namespaces/default/workflows/case-1", picture)
            finally:
                worker.kill()
                await worker.wait()
    return picture


async def photograph(page: str, picture: Path) -> None:
    """Save a picture of a run's page, as Chromium shows it."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        await tab.goto(page, wait_until="domcontentloaded")
        await tab.get_by_text("User Metadata").click()
        await tab.get_by_text("Current Details").first.wait_for()
        await asyncio.sleep(3)  # what the page animates has come to rest
        await tab.screenshot(path=picture)
        await browser.close()


async def pictures_of_the_desk() -> list[Path]:
    """Photograph each page of the desk, with conversations in several states."""
    from playwright.async_api import async_playwright

    sys.path += [str(DOCS.parent), str(DOCS.parent / "examples")]
    from tests.browser.stage import LEE, Stage
    from tests.browser.window import DESKTOP, HEIGHTS, PHONE

    found: list[Path] = []
    with tempfile.TemporaryDirectory() as folder:
        async with Stage(Path(folder)) as stage, async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            pages = await _pages(stage)
            pages["chat-with-files"] = await _chat_with_files(browser, stage.url(LEE))
            pages["login"] = f"{await _desk_with_login(stage)}/login/callback"
            for width, theme in itertools.product((DESKTOP, PHONE), ("light", "dark")):
                context = await browser.new_context(
                    viewport={"width": width, "height": HEIGHTS[width]},
                    color_scheme="dark" if theme == "dark" else "light",
                    reduced_motion="reduce",
                )
                tab = await context.new_page()
                for name, path in pages.items():
                    await tab.goto(path if "://" in path else stage.url(LEE) + path)
                    if name == "takeover":
                        await tab.fill(
                            "#words", "You can hand the parcel back to the driver. I have"
                        )
                    await asyncio.sleep(1)  # what is streamed and loaded later has come
                    form = "phone" if width == PHONE else "desktop"
                    picture = PICTURES / f"desk-{name}-{form}-{theme}.png"
                    await tab.screenshot(path=picture)
                    found.append(picture)
                await context.close()
            await browser.close()
    return found


PARCEL = """<body style="margin:0;background:#8d7b68"><svg width="640" height="420">
<rect y="300" width="640" height="120" fill="#6f6152"/><path d="M150 150l170-50 170 50v190l-170 50-170-50z"
 fill="#c79a63"/><path d="M150 150l170 50 170-50-170-50z" fill="#dcb27c"/><path d="M320 200v190l170-50V150z"
 fill="#a97f4d"/><path d="M262 117l170 50 34-10-170-50z" fill="#efe3cf"/>
<path d="M360 235l24 30-20 14 34 40-12-2" stroke="#3c2d1c" stroke-width="7" fill="none"/></svg>"""
"""A parcel that has arrived broken."""


async def _chat_with_files(browser: "Browser", url: str) -> str:
    """Send a photo and a file as a customer does, and return the path of the chat."""
    tab = await browser.new_page(viewport={"width": 640, "height": 420})
    await tab.set_content(PARCEL)
    photo = await tab.screenshot(type="jpeg")
    await tab.goto(f"{url}/chat/Triage")
    files = [("parcel.jpg", "image/jpeg", photo), ("order.txt", "text/plain", b"Order A-42\n")]
    await tab.locator("#files").set_input_files(
        [{"name": name, "mimeType": kind, "buffer": content} for name, kind, content in files]
    )
    await tab.locator("#chosen li").nth(1).wait_for()
    await tab.fill("#text", "Please refund order A-42, it arrived broken.")
    await tab.click("#send")
    await tab.locator(".chat-photo img").wait_for()
    await asyncio.sleep(8)  # the agents have done what they can without a person
    path = urlsplit(tab.url).path
    await tab.context.close()
    return path


async def _desk_with_login(stage: "Stage") -> str:
    """Serve the desk with a login, of which one page needs no provider: that it did not work."""
    from tests.browser.stage import free_port

    url = f"http://127.0.0.1:{free_port()}"
    options = {
        "--port": url.rpartition(":")[2],
        "--url": url,
        "--oidc-issuer": "https://login.example.com",
        "--oidc-client-id": "outlast-desk",
        "--role": "leads=viewer,decider,operator",
    }
    key = base64.b64encode(os.urandom(32)).decode()
    secrets = {"OUTLAST_OIDC_CLIENT_SECRET": key, "OUTLAST_DESK_KEY": key}
    await stage.serve(*itertools.chain(*options.items()), **secrets)
    return url


async def _pages(stage: "Stage") -> dict[str, str]:
    """Start conversations as a desk has them, and return the paths of the pages by name."""
    questions = {
        "mara-lindholm": "Please refund order A-42, it arrived broken.",
        "jonas-weber": "Please refund order C-3, it is broken.",
        "case-2041": "Hi, where is my order A-17?",
        "case-2042": "Can I talk to a human, please?",
    }
    handles = [await stage.start_run("Triage", text, run_id) for run_id, text in questions.items()]
    for handle in handles:
        await handle.wait_for_people()
    lee = person("lee", groups=["leads", "billing"])
    taken = await stage.start_run("Triage", "Can I talk to a human?", "case-2043")
    await taken.wait_for_people()
    await taken.hold(by=lee)
    await taken.say("Hello, this is Lee. What can I do for you?", by=lee)
    await taken.send("My parcel A-42 is at the door, and it is open. Should I take it?")
    [request] = await handles[0].approvals()
    run, talk = handles[0].id, handles[2].id
    return {
        "inbox": "/inbox?show=all",
        "request": f"/conversations/{run}/requests/{request.id}",
        "conversations": "/conversations",
        "conversation": f"/conversations/{run}",
        "takeover": f"/conversations/{taken.id}",
        "agents": f"/agents?run={run}",
        "chat": f"/chat/c/{talk}",
    }


def picture_of_the_demo() -> Path:
    """Run the demo in a terminal of its own, and draw what it printed."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as record:
        command = f"{_beside('outlast')} demo --yes"
        subprocess.run(
            ["script", "--quiet", "--flush", "--return", "--command", command, record.name],
            env={**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"},
            check=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )
        printed = Path(record.name).read_text(encoding="utf-8")
    lines = [_last_state(line) for line in printed.split("\n")[1:-3]]  # without those of `script`
    lines = [line for line in lines if not SPINNER.match(line)]
    return draw("outlast demo", "\n".join(lines), PICTURES / "demo.svg")


COMMANDS = {
    "fork": ["fork case-1 --list"],
    "replay": ["replay desk.py case-1.json"],
    "evals": ["evals dataset refunds.yaml --since 1d", "evals run refunds.yaml desk.py"],
    "archive": ["archive status"],
}
"""What each picture of a terminal shows."""


async def pictures_of_commands() -> list[Path]:
    """Let the tutorial's run be approved, and draw what commands print about it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, program in files_of_the_tutorial().items():
            (Path(folder) / name).write_text(program, encoding="utf-8")
        async with EmbeddedServer(search_attributes=names.SEARCH_ATTRIBUTES) as server:
            environment = {
                **os.environ,
                "COLUMNS": str(COLUMNS),
                "OUTLAST_ARCHIVE": str(Path(folder) / "archive"),
                "TEMPORAL_ADDRESS": server.address,
            }

            async def outlast(*arguments: str) -> str:
                process = await asyncio.create_subprocess_exec(
                    _beside("outlast"),
                    *arguments,
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
                return (await process.communicate())[0].decode()

            worker = await asyncio.create_subprocess_exec(
                _beside("outlast"), "worker", "desk", cwd=folder, env=environment
            )
            try:
                asked = await outlast("run", "Desk", QUESTION, "--id", "case-1")
                (digest,) = set(re.findall(r"--digest ([0-9a-f]+)", asked))
                await outlast("approve", "case-1", "a1", "--digest", digest, "--yes")
                await outlast("tail", "case-1")
                record = await outlast("record", "case-1")
                (Path(folder) / "case-1.json").write_text(record, encoding="utf-8")
                return [
                    draw(
                        f"outlast {name}",
                        "\n".join(
                            [f"$ outlast {line}\n{await outlast(*line.split())}" for line in lines]
                        ),
                        PICTURES / f"terminal-{name}.svg",
                    )
                    for name, lines in COMMANDS.items()
                ]
            finally:
                worker.kill()
                await worker.wait()


def draw(title: str, printed: str, picture: Path) -> Path:
    """Draw what a terminal shows."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(printed))
        svg = console.export_svg(title=title)
        # No fonts from other hosts: the reader's own monospaced one will do.
        svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
        picture.write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE), encoding="utf-8")
    return picture


def _last_state(line: str) -> str:
    """Return what a line of the terminal shows after it was erased and written again."""
    return re.sub(r"\x1b\[\?25[hl]", "", line.rsplit("\x1b[2K", 1)[-1]).replace("\r", "").rstrip()


def _beside(program: str) -> str:
    return str(Path(sys.executable).with_name(program))


def main() -> None:
    """Take the pictures that the command line names, or all."""
    PICTURES.mkdir(exist_ok=True)
    for what in sys.argv[1:] or ["ui", "demo", "terminal", "desk"]:
        if what == "desk":
            pictures = asyncio.run(pictures_of_the_desk())
        elif what == "terminal":
            pictures = asyncio.run(pictures_of_commands())
        elif what == "ui":
            pictures = [asyncio.run(picture_of_the_ui())]
        else:
            pictures = [picture_of_the_demo()]
        for picture in pictures:
            size = picture.stat().st_size
            assert size < LARGEST_BYTES, f"{picture} has {size:,} bytes"
            sys.stdout.write(f"{picture}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
