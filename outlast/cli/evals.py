"""`outlast evals`: data sets of cases from runs, and agents evaluated on them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server, say_limit
from outlast.cli.described import described
from outlast.cli.durations import past_time
from outlast.cli.exit_codes import ExitCode
from outlast.cli.record import RedactBy, Unredacted, redactor
from outlast.cli.search import AgentName, Archived, Search, Since
from outlast.edges.clock import now
from outlast.edges.rendering import counted

if TYPE_CHECKING:
    from outlast.evals import RunDataset
    from outlast.evals.task import Task

DataSet: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="DATASET", help="A file that ends in .yaml or .json.", show_default=False
    ),
]


Cases: TypeAlias = Annotated[
    list[str] | None, typer.Option("--case", metavar="NAME", help="Only this case; repeatable.")
]


# --- A data set -----------------------------------------------------------------------------------


@on_server
async def dataset(
    caller: Caller,
    search: Search,
    file: DataSet,
    run_ids: list[str] | None = None,
    files: list[Path] | None = None,
    unredacted: Unredacted = False,
    redact: RedactBy = None,
    app_dir: options.AppDir = Path(),
) -> ExitCode:
    """Add runs to a data set, each as a case that is expected to go as it went.

    DATASET has the cases, for people to change, and the file beside it with the ending .jsonl the
    recordings. Cases that are there stay as they are. Exits with 1 if a run cannot be read or has no
    case, or if there are more runs than the limit.

    Command line:
        run_ids (--run ID): This run of the server; repeatable.
        files (--from FILE): A file of recordings, instead of a server's runs.
    """
    _require_extra()
    if bool(files) + bool(run_ids) + search.is_given != 1:
        raise UserError(
            "Name a run, or files, or which runs: `outlast evals dataset refunds.yaml --since 30d`."
        )
    from outlast.evals.collected import NewCases

    new, left_out = NewCases.at(file, redactor(redact, app_dir)), 0
    reading = search.reading(caller, run_ids or (), files, redact=not unredacted)
    async with reading as runs:
        async for one in runs:
            if problem := new.add(one):
                left_out += 1
                terminal.say(terminal.err(), "Left out: ", problem)
    new.save()
    caller.show(
        {
            "dataset": str(file),
            "added": len(new.found),
            "unread": runs.unread,
            "left_out": left_out,
        },
        f"{counted(len(new.found), 'case')} added to {file}.",
    )
    search.warn_if_cut()
    is_whole = not (runs.unread or left_out or search.is_cut)
    return ExitCode.OK if is_whole else ExitCode.FAILED


@on_server
async def collect(
    caller: Caller,
    file: DataSet,
    since: Since = None,
    agent: AgentName = None,
    tenant: str | None = None,
    rubric: str = "",
    archived: Archived = False,
    limit: options.Limit = 1_000,
    redact: RedactBy = None,
    app_dir: options.AppDir = Path(),
) -> ExitCode:
    """Add conversations that customers rated 1 or 2 to a data set, with what they thought.

    Its cases expect nothing: write into the file what should have happened. Cases that are there
    stay as they are. Exits with 1 if a conversation cannot be read or has no case, or if there are
    more than the limit.

    Command line:
        tenant: Only conversations of this tenant.
        rubric: What has to be true of each case, for a model to judge, if the file is new.
    """
    _require_extra()
    from outlast.client.runs import RunFilter
    from outlast.evals import collect_bad_ratings

    change, began = redactor(redact, app_dir), None if since is None else past_time(since, now())
    criteria = RunFilter(agent=agent, tenant=tenant, since=began)
    client = (await caller.connect()).client
    async with terminal.waiting(terminal.err(), "reading histories"):
        done = await collect_bad_ratings(
            client,
            file,
            criteria,
            rubric=rubric,
            archived=archived,
            limit=limit,
            change=change,
        )
    for sentence in done.left_out:
        terminal.say(terminal.err(), "Left out: ", sentence)
    record = {"dataset": str(file), "added": list(done.added), "left_out": len(done.left_out)}
    caller.show(record, f"{counted(len(done.added), 'case')} added to {file}.")
    if done.is_cut:
        say_limit(limit, " runs", is_sure=True)
    return ExitCode.FAILED if done.left_out or done.is_cut else ExitCode.OK


# --- An evaluation --------------------------------------------------------------------------------


@described
def run(
    file: DataSet,
    target: str,
    baseline: Path | None = None,
    bar: Annotated[float, typer.Option(min=0, max=1)] = 1.0,
    output: Path | None = None,
    recorded: bool = False,
    real_tools: list[str] | None = None,
    cases: Cases = None,
    concurrency: Annotated[int, typer.Option(min=1)] = 4,
    repeat: Annotated[int, typer.Option(min=1)] = 1,
    approvals: options.Approvals = None,
    evaluators: str | None = None,
    app_dir: options.AppDir = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Run the agents of a target on the cases of a data set, with their models.

    Tools answer from the recordings. With --repeat, a case passes if all its runs do, and pass^k says
    how likely k runs of a case all pass. Exits with 1 if fewer cases pass than the bar says, or if a
    case got worse than in the baseline. Needs no server.

    Command line:
        target (TARGET): Where the agents are.
        baseline (REPORT): A report to compare with.
        bar: The share of cases that has to pass.
        output (--output -o REPORT): Write the report to this file.
        recorded: Let the recordings reply instead of models, which costs nothing.
        real_tools (--real-tool NAME): A tool that really runs; repeatable.
        concurrency: How many cases run at once.
        repeat: How often each case runs; it passes if all runs do.
        evaluators (MODULE:NAME): A list of evaluator classes of your own that the file names.
    """
    _require_extra()
    from outlast.cli.application import load_config
    from outlast.evals import check_report, load_dataset, load_report, save_report, task_of
    from outlast.models import MultiProvider

    known = load_dataset(file, evaluators=_evaluator_types(evaluators, app_dir))
    chosen = _chosen(known, cases, file)
    before = None if baseline is None else load_report(baseline)
    config: dict[str, Any] = dict(load_config(target, app_dir))
    model = None if recorded else config.get("model_provider") or MultiProvider()
    files, real = approvals or config.get("approvals"), tuple(real_tools or ())
    run_case = task_of(config["agents"], model=model, real_tools=real, approvals=files)
    given = {"name": target, "max_concurrency": concurrency, "repeat": repeat}
    evaluated = _evaluated(chosen, run_case, model, config.get("model_provider"), given)
    report = asyncio.run(evaluated)
    if output is not None:
        save_report(report, output)
    checked = check_report(report, bar=bar, baseline=before)
    screen = terminal.out()
    if as_json:
        terminal.print_json(checked.record())
    else:
        for text in (report.render(width=screen.width, baseline=before), checked.report()):
            terminal.say_text(screen, text)
    if not checked.is_good:
        raise typer.Exit(ExitCode.FAILED)


def _chosen(whole: "RunDataset", names: list[str] | None, file: Path) -> "RunDataset":
    if names:
        missing = set(names) - {one.name for one in whole.cases}
        if missing:
            raise UserError(f"{file} has no case {min(missing)!r}.")
        whole.cases = [one for one in whole.cases if one.name in names]
    if not whole.cases:
        raise UserError(f"{file} has no cases. Add runs with `outlast evals dataset`.")
    return whole


def _evaluator_types(target: str | None, app_dir: Path) -> Sequence[type[Any]]:
    if target is None:
        return ()
    from outlast.cli.application import load_object

    found: Any = load_object(target, app_dir)
    listed = cast("list[Any]", [*found] if isinstance(found, list | tuple) else [found])
    if not all(isinstance(one, type) for one in listed):
        raise UserError(f"--evaluators {target}: this is no list of evaluator classes.")
    return listed


async def _evaluated(
    chosen: "RunDataset", run_case: "Task", model: Any, own: Any, options: "dict[str, Any]"
) -> Any:
    """Return the report of an evaluation; a model that is nobody's own is closed after it."""
    from outlast.evals.judge import judging_with

    times = f" {options['repeat']:,} times" if options["repeat"] > 1 else ""
    said = f"running {counted(len(chosen.cases), 'case')}{times}"
    try:
        with judging_with(own):
            async with terminal.waiting(terminal.err(), said):
                return await chosen.evaluate(run_case, progress=False, **options)
    finally:
        if model is not None and own is None:
            await model.aclose()


def _require_extra() -> None:
    try:
        import pydantic_evals  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError as error:
        raise UserError(
            f"`outlast evals` needs {error.name}. Install it: pip install 'outlast[evals]'"
        ) from error
