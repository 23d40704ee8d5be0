"""The commands of `outlast`, and the conversion of errors to exit codes.

Commands import slow modules when they run, so that help appears at once.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import outlast
from outlast.agents.errors import AgentsException
from outlast.cli import identity, policy, terminal
from outlast.cli.audit import audit
from outlast.cli.bulk import approve_all, reject_all
from outlast.cli.decide import (
    approve,
    ask,
    claim,
    edit,
    reject,
    respond,
    unclaim,
    withdraw,
)
from outlast.cli.demo import demo
from outlast.cli.dev import dev
from outlast.cli.doctor import doctor
from outlast.cli.exit_codes import ExitCode, epilog, exit_code_of
from outlast.cli.hold import hold, release, say
from outlast.cli.inbox import inbox, inbox_show
from outlast.cli.init import init
from outlast.cli.list_runs import list_runs
from outlast.cli.run import retry, run, send
from outlast.cli.show import cancel, show
from outlast.cli.tail import tail
from outlast.cli.worker import worker

_HELP = "Agents that outlast the process. Try `outlast demo`, then `outlast dev`."
_DEBUG = "--debug"


class ErrorsInWords(TyperGroup):
    """Prints errors as one sentence; `--debug` adds the traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` anywhere, so that it can be appended to a failed command."""
        end = args.index("--") if "--" in args else len(args)
        ctx.obj = _DEBUG in args[:end]
        rest = [arg for arg in args[:end] if arg != _DEBUG] + args[end:]
        return super().parse_args(ctx, rest)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and turn its error into a sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except AgentsException as error:
            _explain(error, debug=bool(ctx.obj))
            raise typer.Exit(exit_code_of(error)) from error
        except (typer.TyperException, typer.Exit, typer.Abort, EOFError, BrokenPipeError):
            raise
        except Exception as error:
            # Report unexpected errors as one sentence, too.
            _explain(error, debug=bool(ctx.obj))
            raise typer.Exit(ExitCode.FAILED) from error


def _explain(error: Exception, *, debug: bool) -> None:
    if debug:
        terminal.report_traceback(error)
    if isinstance(error, AgentsException):
        terminal.report(str(error) or type(error).__name__)
    else:
        terminal.report(f"{type(error).__name__}: {error} (unexpected; --debug shows where)")
    for note in getattr(error, "__notes__", ()):
        terminal.say_text(terminal.err(), str(note))


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
    """Accept the options of `outlast` itself; `ErrorsInWords` reads `--debug`."""


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


def _add(
    panel: str, command: Callable[..., None], name: str | None = None, *, to: typer.Typer = app
) -> None:
    to.command(name, help=_help_of(command), rich_help_panel=panel)(command)


def _add_group(panel: str, command: Callable[..., None], name: str) -> typer.Typer:
    """Add a command that works by itself and has further commands, and return their group."""
    group = typer.Typer(invoke_without_command=True, help=_help_of(command))
    group.callback()(command)
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group


def _help_of(command: Callable[..., None]) -> str:
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


_add("Start here", demo)
_add("Start here", init)
_add("Start here", doctor)
_add("Processes", dev)
_add("Processes", worker)
_add("Runs", run)
_add("Runs", send)
_add("Runs", retry)
_add("Runs", list_runs, "list")
_add("Runs", show)
_add("Runs", tail)
_add("Runs", cancel)
policies = typer.Typer(help="Check and try a file of approval policies.", no_args_is_help=True)
app.add_typer(policies, name="policy", rich_help_panel="Approvals")

_add("Approvals", approve)
_add("Approvals", reject)
_add("Approvals", hold)
_add("Approvals", say)
_add("Approvals", release)
_add("Approvals", audit)

inboxes = _add_group("Approvals", inbox, "inbox")
_add("Look", inbox_show, "show", to=inboxes)
for action in (approve, edit, reject, respond, ask, withdraw):
    _add("Decide", action, to=inboxes)
_add("Decide", approve_all, "approve-all", to=inboxes)
_add("Decide", reject_all, "reject-all", to=inboxes)
_add("Work on a request", claim, to=inboxes)
_add("Work on a request", unclaim, to=inboxes)

identities = typer.Typer(
    help="Make identity keys, and show which ones are used.", no_args_is_help=True
)
app.add_typer(identities, name="identity", rich_help_panel="Approvals")
_add("Keys", identity.new, to=identities)
_add("Keys", identity.show, to=identities)

_add("Policies", policy.check, to=policies)
_add("Policies", policy.try_on_runs, "try", to=policies)
