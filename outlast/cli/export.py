"""`outlast export`: runs as JSON lines, to keep them, to test with them and to learn from them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.exit_codes import ExitCode
from outlast.cli.record import RedactBy, Unredacted, redactor, remarks
from outlast.cli.search import Search
from outlast.views.records import JsonObject

if TYPE_CHECKING:
    from outlast.agents.agent import Agent
    from outlast.client.recordings import Recording
    from outlast.client.recordings.reading import Key


@on_server
async def export(
    caller: Caller,
    search: Search,
    run_id: Annotated[str | None, typer.Argument(show_default=False)] = None,
    person: str | None = None,
    form: Literal["jsonl", "chat"] = "jsonl",
    target: str | None = None,
    app_dir: options.AppDir = Path(),
    output: Path | None = None,
    unredacted: Unredacted = False,
    redact: RedactBy = None,
) -> ExitCode:
    """Print runs as JSON lines: one recording a line, open runs first, then the newest.

    Read from the runs' histories, a few at a time; needs no worker. Exits with 1 if something is
    missing: a run that cannot be read, a lost history, an example, or runs beyond the limit.

    Command line:
        run_id ([ID]): The run's id; without one, all runs that match.
        person: All runs that worked for the customer with this id, archived ones, too.
        form (--format): Recordings, or examples for fine-tuning a model.
        target: Where the agents are, as for `outlast worker`: for --format chat.
        output (--output -o): A file. Recordings that it has are left out, others added.
    """
    if person is not None and (run_id is not None or search.is_given):
        raise UserError("--person takes all runs of a person. Leave out what else chooses runs.")
    if run_id is None and person is None and not search.is_given:
        raise UserError("Name a run, or which runs: `outlast export --since 30d`.")
    redacts = not unredacted
    convert = _lines_of(form, target, app_dir, redacts=redacts)
    change = redactor(redact, app_dir)
    written = _Written(output, can_resume=form == "jsonl" and run_id is None and person is None)
    redact_now, named = redacts and form == "jsonl", () if run_id is None else (run_id,)
    with written:
        async with search.reading(
            caller, named, redact=redact_now, skip=written.has, person=person
        ) as runs:
            async for one in runs:
                await written.add(one, convert, change)
    written.report()
    search.warn_if_cut()
    is_whole = not (runs.unread or written.lacks or search.is_cut)
    return ExitCode.OK if is_whole else ExitCode.FAILED


Convert = Callable[["Recording"], Any]


def _lines_of(form: str, target: str | None, app_dir: Path, *, redacts: bool) -> Convert:
    """Return what makes the documents of a recording, remarks, and whether something is missing."""
    if form == "jsonl":

        async def recordings(recording: "Recording") -> tuple[list[JsonObject], list[str], bool]:
            return [recording.record()], remarks(recording), bool(recording.lost)

        return recordings
    if target is None:
        raise UserError(
            "--format chat needs --target: instructions and tools are not in the history of a run. "
            "The examples have those of the agents there."
        )
    from outlast.cli.application import load_config

    agents: list[Agent[Any]] = list(load_config(target, app_dir)["agents"])

    async def examples(recording: "Recording") -> tuple[list[JsonObject], list[str], bool]:
        from outlast.testing import chat_examples

        made = await chat_examples(recording, agents, redact=redacts)
        notes = [f"Left out: {one}" for one in made.skipped]
        return list(made.examples), notes, bool(made.skipped)

    return examples


@dataclass
class _Written:
    """What an export has written: to a file that may have earlier lines, or to the terminal.

    Attributes:
        lacks: how many runs have lost histories, or have left out examples.
    """

    path: Path | None
    can_resume: bool
    lines: int = 0
    lacks: int = 0
    has: "set[Key]" = field(default_factory=set["Key"])
    _file: TextIO | None = None

    def __enter__(self) -> None:
        if self.path is None:
            return
        try:
            if self.path.exists() and self.path.stat().st_size and not self.can_resume:
                raise UserError(f"{self.path} exists. Choose another file, or remove it.")
            self.path.touch(mode=0o600)
            self._file = self.path.open("r+", encoding="utf-8", newline="\n")
        except OSError as error:
            raise UserError(f"{self.path} cannot be written: {error.strerror}.") from error
        try:
            self._resume(self._file)
        except BaseException:
            self._file.close()
            raise

    def __exit__(self, *raised: object) -> None:
        if self._file is not None:
            self._file.close()

    def _resume(self, file: TextIO) -> None:
        """Go to the end of the last whole line, and note which runs the file has."""
        end = 0
        while line := file.readline():
            if not line.endswith("\n"):
                break  # an earlier export was stopped while it wrote
            end = file.tell()
            if line.strip():
                self.has.update(_key_in(line, self.path))
        file.seek(end)
        file.truncate()

    async def add(
        self,
        one: "Recording",
        convert: Convert,
        change: Callable[[JsonObject], JsonObject | None],
    ) -> None:
        """Write what comes of a run."""
        documents, notes, is_lacking = await convert(one)
        self.lacks += is_lacking
        for document in documents:
            changed = change(document)
            if changed is not None:
                self._write(changed)
        for note in notes:
            terminal.say(terminal.err(), f"{one.run_id}: ", note)

    def _write(self, document: JsonObject) -> None:
        self.lines += 1
        terminal.print_json_line(document, self._file)

    def report(self) -> None:
        """Say what was written where, if not to the terminal."""
        if self.path is not None:
            had = f", {len(self.has):,} were there" if self.has else ""
            lines = "line" if self.lines == 1 else "lines"
            terminal.say(terminal.err(), f"{self.lines:,} {lines} added to {self.path}{had}.")


def _key_in(line: str, path: Path | None) -> "list[Key]":
    """Return the run of a line, unless it was open when it was written."""
    try:
        document = json.loads(line)
        is_whole = document["format"] == "outlast.recording" and document["complete"]
        return [(document["run_id"], document["execution_id"])] if is_whole else []
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(
            f"{path} holds other lines than recordings. Choose another file."
        ) from error
