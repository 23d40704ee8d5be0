"""The commands of `outlast`, and the conversion of errors to exit codes.

Commands import slow modules when they run, so that help appears at once.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

import outlast
from outlast.agents.errors import AgentsException
from outlast.cli import (
    archive,
    case,
    evals,
    identity,
    keys,
    policy,
    quality,
    schedule,
    search_index,
    team,
    terminal,
)
from outlast.cli.aside import set_aside, take_back
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
from outlast.cli.export import export
from outlast.cli.figures import figures
from outlast.cli.fork import fork
from outlast.cli.hold import hold, release, say
from outlast.cli.inbox import inbox, inbox_show
from outlast.cli.init import init
from outlast.cli.list_runs import list_runs
from outlast.cli.monitor import monitor
from outlast.cli.record import record
from outlast.cli.replay import replay
from outlast.cli.run import retry, run, send
from outlast.cli.serve import serve
from outlast.cli.show import cancel, show
from outlast.cli.tail import tail
from outlast.cli.waits import finish, waits
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


app: Final = typer.Typer(
    name="outlast",
    cls=ErrorsInWords,
    help=_HELP,
    epilog=epilog(),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.callback()(_options)


def _help_of(command: Callable[..., None]) -> str:
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _add(to: typer.Typer, panel: str, *commands: Callable[..., None], **named: Any) -> None:
    names = {**{one.__name__.replace("_", "-"): one for one in commands}, **named}
    for name, command in names.items():
        to.command(name, help=_help_of(command), rich_help_panel=panel)(command)


def _group(name: str, panel: str, words: str) -> typer.Typer:
    made = typer.Typer(help=words, no_args_is_help=True)
    app.add_typer(made, name=name, rich_help_panel=panel)
    return made


_add(app, "Start here", demo, init, doctor)
_add(app, "Processes", dev, worker, serve, monitor)
_add(app, "Runs", run, send, retry, list=list_runs)
_add(app, "Runs", show, tail, waits, finish, cancel)
_add(app, "Recordings", record, export, replay, fork)
_add(app, "Approvals", approve, reject, hold, say, release)
_add(app, "Approvals", set_aside, take_back, audit, figures)

evaluations: Final = _group(
    "evals", "Recordings", "Make data sets of runs, and evaluate agents on them."
)
_add(evaluations, "Evaluations", evals.dataset, evals.collect, evals.run)

checks: Final = _group(
    "quality", "Recordings", "Score a sample of yesterday's conversations each day, by a judge."
)
_add(checks, "Quality checks", quality.create, quality.scores)

schedules: Final = _group("schedule", "Runs", "Start runs, and send messages, at set times.")
_add(schedules, "Schedules", schedule.create, list=schedule.list_schedules, show=schedule.show)
_add(schedules, "Schedules", schedule.pause, schedule.resume, schedule.trigger, schedule.delete)

teams: Final = _group(
    "team", "Approvals", "Who is on duty in a team, and whose each conversation is."
)
_add(teams, "Teams", team.show, team.on, team.off, team.rule)

archives: Final = _group("archive", "Runs", "Histories after retention: kept, checked, deleted.")
_add(archives, "Archive", archive.status, archive.verify, list=archive.list_archived)
_add(archives, "Archive", archive.run, archive.compare, archive.delete)

searches: Final = _group("search", "Runs", "Find conversations by their words, in an index.")
_add(searches, "Search", search_index.find, search_index.status)
_add(searches, "Search", search_index.run, search_index.rebuild)

inboxes: Final = typer.Typer(invoke_without_command=True, help=_help_of(inbox))
inboxes.callback()(inbox)
app.add_typer(inboxes, name="inbox", rich_help_panel="Approvals")
_add(inboxes, "Look", show=inbox_show)
_add(inboxes, "Decide", approve, edit, reject, respond, ask, withdraw, approve_all, reject_all)
_add(inboxes, "Work on a request", claim, unclaim)

cases: Final = _group(
    "case", "Approvals", "Share a conversation among colleagues: whose it is, and how it stands."
)
_add(cases, "Whose it is", case.assign, case.tag, case.link)
_add(cases, "How it stands", case.resolve, case.reopen, case.snooze, case.comment)
_add(cases, "How it stands", case.rate)

policies: Final = _group("policy", "Approvals", "Check, try and apply a file of approval policies.")
_add(policies, "Policies", policy.check, **{"try": policy.try_on_runs})
_add(policies, "Policies", policy.apply)

identities: Final = _group(
    "identity", "Approvals", "Make identity keys, and show which ones are used."
)
_add(identities, "Keys", identity.new, identity.show)

api_keys: Final = _group(
    "keys", "Approvals", "Make, list, replace and revoke the API keys of programs."
)
_add(api_keys, "Keys", keys.add, list=keys.list_keys)
_add(api_keys, "Keys", keys.rotate, keys.revoke)
