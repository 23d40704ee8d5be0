"""`outlast replay`: which recorded runs would go another way with the agents of a target."""

from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from outlast.agents.errors import UserError
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.exit_codes import ExitCode
from outlast.cli.search import Search
from outlast.edges.rendering import counted, named
from outlast.views.records import JsonObject

if TYPE_CHECKING:
    from outlast.agents.agent import Agent
    from outlast.client.recordings import Recording
    from outlast.testing import Lanes, ModelLimit, Replay


@on_server
async def replay(
    caller: Caller,
    search: Search,
    target: str,
    files: Annotated[list[Path] | None, typer.Argument(show_default=False)] = None,
    run_id: str | None = None,
    changed: bool = False,
    baseline: str | None = None,
    call_models: bool = False,
    max_calls: Annotated[int | None, typer.Option(min=1)] = None,
    max_cost: Annotated[float | None, typer.Option(min=0.000001)] = None,
    approvals: options.Approvals = None,
    app_dir: options.AppDir = Path(),
) -> ExitCode:
    """Replay recorded runs with the agents of a target, before they are deployed.

    Models' replies and tools' results are as recorded, and no tool runs. Shows which decisions
    differ. Exits with 1 if any does, if no run was replayed, and if runs were left out because of a
    limit, because they cannot be read, or because the target lacks their agent.

    Command line:
        target (TARGET): Where the agents are.
        files ([FILE]...): Recordings; default: the runs of a server.
        run_id (--run ID): Replay this run of the server.
        changed: Show only runs that would go another way.
        baseline: Where the old version of the agents is: compare both with the runs.
        call_models: Let the models of the target reply instead of the recordings. It costs money.
        max_calls: With --call-models: the most calls of models.
        max_cost (USD): With --call-models: the most US dollars.
    """
    _check(target, has_limits=(max_calls, max_cost) != (None, None), call_models=call_models)
    if bool(files) + (run_id is not None) + search.is_given != 1:
        raise UserError(
            "Name files, or a run, or which runs: `outlast replay desk.py --since 30d --changed`."
        )
    replayer = _Replayer.of(target, baseline, app_dir, approvals=approvals, calls=call_models)
    replayer.set_limit(max_calls, max_cost)
    tally = _Tally(only_changed=changed, as_json=caller.as_json)
    named = () if run_id is None else (run_id,)
    async with (
        aclosing(replayer),
        search.reading(caller, named, files, what="replaying") as runs,
    ):
        async for one in runs:
            if not replayer.reached:
                await tally.add(one, replayer)
            elif files:
                tally.skip()
            else:
                break
    tally.report(replayer.reached, unread=runs.unread)
    search.warn_if_cut()
    is_good = tally.is_good and not (replayer.reached or runs.unread or search.is_cut)
    return ExitCode.OK if is_good else ExitCode.FAILED


def _check(target: str, *, has_limits: bool, call_models: bool) -> None:
    if Path(target).suffix in {".json", ".jsonl"}:
        raise UserError(
            f"{target} is no program with agents. It comes second: `outlast replay desk.py {target}`."
        )
    if has_limits and not call_models:
        raise UserError("--max-calls and --max-cost are for --call-models.")


Tried: TypeAlias = "Replay | Lanes"


@dataclass(slots=True, kw_only=True)
class _Replayer:
    """Replays runs with the agents of a target, or with those of two."""

    candidate: "Sequence[Agent[Any]]"
    baseline: "Sequence[Agent[Any]] | None"
    model: Any
    own_model: Any
    approvals: Any
    limit: "ModelLimit | None" = None

    @classmethod
    def of(
        cls,
        target: str,
        baseline: str | None,
        app_dir: Path,
        *,
        approvals: Path | None,
        calls: bool,
    ) -> "_Replayer":
        from outlast.agents.approvals.policy_file import ApprovalFile
        from outlast.cli.application import load_config
        from outlast.models import MultiProvider

        config: dict[str, Any] = dict(load_config(target, app_dir))
        place = approvals or config.get("approvals")
        given = config.get("model_provider") if calls else None
        made = MultiProvider() if calls and given is None else None
        return cls(
            candidate=config["agents"],
            baseline=None if baseline is None else [*load_config(baseline, app_dir)["agents"]],
            model=made if given is None else given,
            own_model=made,
            approvals=ApprovalFile.load(place) if isinstance(place, str | Path) else place,
        )

    def set_limit(self, calls: int | None, usd: float | None) -> None:
        """Limit what models may be called for."""
        from outlast.testing import ModelLimit

        self.limit = ModelLimit(calls=calls, usd=None if usd is None else Decimal(str(usd)))

    @property
    def reached(self) -> str:
        """Which limit is reached, in words; empty while none is."""
        return "" if self.limit is None else self.limit.reached

    async def replay(self, recording: "Recording") -> Tried:
        from outlast.testing import replay as replay_run
        from outlast.testing import replay_lanes

        given: Any = {"model": self.model, "approvals": self.approvals, "limit": self.limit}
        if self.baseline is None:
            return await replay_run(recording, self.candidate, **given)
        lanes: Any = {"baseline": self.baseline, "candidate": self.candidate}
        return await replay_lanes(recording, **lanes, **given)

    async def aclose(self) -> None:
        """Close the connections to models, if they were called."""
        if self.own_model is not None:
            await self.own_model.aclose()


@dataclass
class _Tally:
    """What came of the replays so far.

    Attributes:
        left_out: how many runs were not replayed, or not to their end.
        lacking: how many of them have an agent that the target lacks.
    """

    only_changed: bool
    as_json: bool
    count: int = 0
    differs: int = 0
    left_out: int = 0
    lacking: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])

    async def add(self, one: "Recording", replayer: _Replayer) -> None:
        """Replay a run, and show what differs."""
        from outlast.testing.run_replay import AgentMissingError

        self.count += 1
        try:
            tried = await replayer.replay(one)
        except UserError as error:
            self.lacking += isinstance(error, AgentMissingError)
            self._leave_out("Not replayed: ", error.message)
            return
        if any(one.stopped and one.stopped == replayer.reached for one in _replays_of(tried)):
            self._leave_out("Not replayed to its end: ", named(one.run_id), ".")
            return
        record = _record(tried)
        self.differs += bool(record["changed"])
        self.kinds.update(record.pop("kinds"))
        if self.only_changed and not record["changed"]:
            return
        if self.as_json:
            terminal.print_json_line(record)
        else:
            terminal.say_text(terminal.out(), tried.report())

    def _leave_out(self, *words: str) -> None:
        self.left_out += 1
        terminal.say(terminal.err(), *words)

    def skip(self) -> None:
        """Count a run that comes after a limit is reached."""
        self.count += 1
        self.left_out += 1

    @property
    def is_good(self) -> bool:
        """Whether runs were replayed, all went the same way, and none lacks what it needs."""
        return not self.differs and not self.lacking and self.count > self.left_out

    def report(self, reached: str, *, unread: int) -> None:
        """Say how many runs would go another way, and how many were left out."""
        if reached:
            terminal.say(terminal.err(), reached, " The runs after it were not replayed.")
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in self.kinds.most_common())
        said = (
            f"{self.differs:,} of {counted(self.count - self.left_out, 'run')} would go another way"
        )
        number = self.left_out + unread
        left_out = f" {counted(number, 'run')} left out." if number else ""
        terminal.say(
            terminal.err(), f"{said}: {kinds}.{left_out}" if kinds else f"{said}.{left_out}"
        )


def _replays_of(tried: Tried) -> "Sequence[Replay]":
    from outlast.testing import Lanes

    return (tried.baseline, tried.candidate) if isinstance(tried, Lanes) else (tried,)


def _record(tried: Tried) -> JsonObject:
    """Return what came of a replay as JSON."""
    from outlast.testing import Lanes

    head: JsonObject = {"run_id": tried.recording.run_id}
    if isinstance(tried, Lanes):
        rows = tried.rows()
        made = {
            "changed": tried.is_changed,
            "rows": [one.record() for one in rows],
            "baseline_stopped": tried.baseline.stopped,
            "candidate_stopped": tried.candidate.stopped,
        }
        kinds = ["decisions"] * sum(one.is_changed for one in rows)
    else:
        made = {
            "changed": not tried.is_same,
            "differences": [one.record() for one in tried.differences],
            "stopped": tried.stopped,
        }
        kinds = [one.kind for one in tried.differences]
    return {**head, **made, "kinds": kinds}
