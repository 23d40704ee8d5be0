"""`outlast doctor`: says what is missing on this machine, and how to get it.

Owns: the command and how findings look. What is checked is in `doctor_checks.py`.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.cli import options, terminal
from outlast.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from outlast.cli.doctor_checks import Finding

_STYLES = {"ok": "green", "optional": "yellow", "missing": "bold red"}


def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="Add the search attributes where they are missing.")
    ] = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Check this machine and the server, and say how to get what is missing.

    What is called optional is needed for some things only. Exits with 1 when something that
    everything needs is missing.
    """
    from outlast.cli.doctor_checks import examine

    async def look() -> "list[Finding]":
        async with terminal.waiting(terminal.err(), "looking around"):
            return await examine(address, namespace, fix=fix)

    findings = asyncio.run(look())
    if as_json:
        terminal.print_json([finding.record() for finding in findings])
    else:
        _show(findings)
    if any(finding.level == "missing" for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def _show(findings: "list[Finding]") -> None:
    console = terminal.out()
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        terminal.say(
            console,
            (f"{finding.level:<9}", _STYLES[finding.level]),
            (f"{finding.what:<{width}}  ", "bold"),
            finding.detail,
        )
