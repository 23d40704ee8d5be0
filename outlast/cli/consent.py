"""The yes of a person to what a command shows, or of a script to what somebody has seen."""

from dataclasses import dataclass
from typing import Final

import typer

from outlast.agents.errors import UserError
from outlast.cli import terminal
from outlast.cli.exit_codes import ExitCode

SHORTEST_DIGEST: Final = 12
"""The fewest characters of a digest that name a request."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The options `--yes` and `--digest`.

    Command line:
        yes (--yes -y): Decide without a question; needs --digest.
        digest: The digest of the request or the list that you have seen, or its beginning; the
            decision counts for nothing else.
    """

    yes: bool = False
    digest: str | None = None

    def __post_init__(self) -> None:
        if self.yes and self.digest is None:
            raise UserError(
                "--yes decides without a question, so name what you have seen: add "
                "the --digest that was shown with them."
            )
        if self.digest is not None and len(self.digest) < SHORTEST_DIGEST:
            raise UserError(
                f"--digest {self.digest!r:.80} has {len(self.digest)} characters: write at least "
                f"{SHORTEST_DIGEST} of the digest."
            )

    def covers(self, digest: str) -> bool:
        """Whether the consent is for what has this digest."""
        return self.digest is None or digest.startswith(self.digest)

    def require(self, question: str, script: str) -> None:
        """Ask the person at the terminal, unless `--yes` has answered."""
        if self.yes:
            return
        if not terminal.is_attended():
            raise UserError(
                "Nobody is at a terminal to say yes. A script names the arguments that somebody "
                f"has seen: `{script}`."
            )
        if not terminal.confirmed(question):
            terminal.say(terminal.err(), "Nothing was decided.")
            raise typer.Exit(ExitCode.FAILED)
