"""`outlast demo`: a support desk that survives kill -9, and the proof of it."""

import asyncio
import signal
import sys

import typer

from outlast.cli import options, terminal
from outlast.cli.described import described
from outlast.cli.exit_codes import ExitCode
from outlast.cli.serve import check_desk_installed


@described
def demo(
    yes: bool = False,
    offline: bool = False,
    keep: bool = False,
    desk: bool = False,
    as_json: options.AsJson = False,
) -> None:
    """Watch a support desk survive kill -9, three times, decide like its people, and see the proof.

    Starts a Temporal server and workers of its own and clears them away at the end. With --desk,
    these, the desk and the server are also killed in the middle of an answer that a page shows, and
    whoever has the page open can decide, take the conversation over and write as the customer. With
    OPENAI_API_KEY it talks to OpenAI. Without a key a script answers in place of a model: it knows
    this one desk and nothing else.

    Command line:
        yes (--yes -y): Do not prompt: do what is suggested, and end after the story.
        offline: Use the scripted model even with OPENAI_API_KEY.
        keep: Keep the databases and logs, and print their directory.
        desk: Also show it in a web browser, and leave that desk open until Ctrl-C.
    """
    if desk:
        check_desk_installed()
    asks = not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        asyncio.run(_play(asks=asks, offline=offline, keep=keep, desk=desk, as_json=as_json))
    except (asyncio.CancelledError, EOFError) as ending:
        raise typer.Exit(ExitCode.INTERRUPTED) from ending


async def _play(*, asks: bool, offline: bool, keep: bool, desk: bool, as_json: bool) -> None:
    from outlast.cli.demo_screen import PatientStaff, TerminalNarrator, TerminalStaff
    from outlast.testing.demo.stage import play
    from outlast.testing.demo.story import Staff

    if (task := asyncio.current_task()) is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    console = terminal.out()
    narrator = TerminalNarrator(console, as_json=as_json)
    waits = PatientStaff(narrator) if desk else Staff()
    staff = TerminalStaff(console, has_desk=desk) if asks else waits
    await play(narrator, staff, offline=offline, keep=keep, desk=desk)
