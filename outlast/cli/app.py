"""The commands of `outlast`, and what every one of them does with an error.

Owns: the list of commands, `--debug`, and the way from an exception to one sentence and an exit
code. Must not know: what commands do. Commands import what is slow when they run, so that help is
there at once.
"""

import functools
import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import outlast
from outlast.agents.errors import AgentsException
from outlast.cli import (
    deciding,
    demo,
    doctor,
    looking,
    options,
    running,
    serving,
    tailing,
    terminal,
)
from outlast.cli.exit_codes import ExitCode, epilog, exit_code_of

_HELP = "Agents that outlast the process. Try `outlast demo`, then `outlast dev`."
_DEBUG = "--debug"


class ErrorsInWords(TyperGroup):
    """Says what went wrong in one sentence; with `--debug`, anywhere on the line, where, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` wherever it stands, so that it can be added to a line that failed."""
        end = args.index("--") if "--" in args else len(args)
        ctx.obj = _DEBUG in args[:end]
        rest = [one for one in args[:end] if one != _DEBUG] + args[end:]
        return super().parse_args(ctx, rest)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and turn what it raises into words and an exit code."""
        try:
            return super().invoke(ctx)
        except AgentsException as error:
            _explain(error, debug=bool(ctx.obj))
            raise typer.Exit(exit_code_of(error)) from error
        except (typer.TyperException, typer.Exit, typer.Abort, EOFError, BrokenPipeError):
            raise
        except Exception as error:
            # A person at a terminal is told in a sentence, also of what nobody thought of.
            _explain(error, debug=bool(ctx.obj))
            raise typer.Exit(ExitCode.FAILED) from error


def _explain(error: Exception, *, debug: bool) -> None:
    if debug:
        terminal.report_traceback(error)
    if isinstance(error, AgentsException):
        terminal.report(str(error) or type(error).__name__)
    else:
        terminal.report(f"{type(error).__name__}: {error} (unexpected; --debug shows where)")


def _show_version(wanted: bool) -> None:
    if wanted:
        terminal.say(terminal.out(), f"outlast {outlast.__version__}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
    _debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    """Take the options that belong to no command; what they do is done elsewhere."""


app = typer.Typer(
    name="outlast",
    cls=ErrorsInWords,
    help=_HELP,
    epilog=epilog(),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.callback()(_options)


def _add(panel: str, command: Callable[..., None], name: str | None = None) -> None:
    """Add a command; its docstring is its help, with the lines of each paragraph joined."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(name, help=text, rich_help_panel=panel)(_with_codec(command))


def _with_codec(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that connects to a server the option `--codec`, which connecting heeds."""
    signature = inspect.signature(command)
    if "address" not in signature.parameters:
        return command

    @functools.wraps(command)
    def run(*, codec: str | None = None, **arguments: Any) -> None:
        if codec:
            os.environ["OUTLAST_CODEC"] = codec
        command(**arguments)

    kind = inspect.Parameter.KEYWORD_ONLY
    added = inspect.Parameter("codec", kind, default=None, annotation=options.Codec)
    parameters = [one.replace(kind=kind) for one in signature.parameters.values()]
    vars(run)["__signature__"] = signature.replace(parameters=[*parameters, added])
    run.__annotations__ = {**command.__annotations__, "codec": options.Codec}
    return run


_add("Start here", demo.demo)
_add("Start here", doctor.doctor)
_add("Processes", serving.dev)
_add("Processes", serving.worker)
_add("Runs", running.run)
_add("Runs", running.send)
_add("Runs", looking.list_runs, "list")
_add("Runs", looking.show)
_add("Runs", tailing.tail)
_add("Runs", deciding.cancel)
_add("Approvals", deciding.approve)
_add("Approvals", deciding.reject)
