"""Data sets of cases from recorded runs: a file for people, and the recordings beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from pydantic import Field, PrivateAttr, ValidationError
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator
from yaml import AliasEvent, SafeLoader, YAMLError
from yaml import load as yaml_load
from yaml.nodes import Node

from outlast.agents.errors import UserError
from outlast.client.recordings.recording import Entry, RecordedStart, Recording
from outlast.edges.bodies import DOORS, BodyRefused
from outlast.evals.evaluators import AgentPath, MaxCost, NoEffectWithoutApproval, ToolsCalled
from outlast.evals.judge import Judge
from outlast.evals.trajectory import Compact, Trajectory, trajectory_of
from outlast.loop.items import text_of
from outlast.loop.values import JsonObject
from outlast.testing.recorded_runs import load_runs

Message: TypeAlias = str | list[dict[str, Any]]
"""A message of the user: a text, or items in the format of OpenAI's Responses API."""

DEFAULT_CHECKS: Final = (ToolsCalled(), AgentPath(), NoEffectWithoutApproval())
"""The evaluators of a data set that names none: the run goes as it went."""

EVALUATORS: Final[tuple[type[Evaluator[Any, Any, Any]], ...]] = (
    ToolsCalled,
    AgentPath,
    NoEffectWithoutApproval,
    MaxCost,
    Judge,
)
"""The evaluators that a file may name, beside those of `pydantic-evals`."""


class CaseInput(Compact):
    """The input of a case: what the user says, and the run that the rest comes from.

    Attributes:
        agent: the agent that starts; empty: the one of the recorded run.
        messages: what the user says, in order.
        context: the context as JSON; None: that of the recorded run.
        run: the id of the recorded run whose results tools return and whose decisions people make;
            empty for a case that somebody wrote.
        failure: the code of the failure that the last question has to end with, such as
            `input_guardrail_tripwire`; empty: it has to be answered.
    """

    agent: str = ""
    messages: list[Message] = Field(min_length=1)
    context: Any = None
    run: str = ""
    failure: str = ""
    _bound: Recording | None = PrivateAttr(default=None)

    @property
    def bound(self) -> Recording | None:
        """The recorded run as it was, until its last answer; None for a case without one."""
        return self._bound

    def bind(self, recording: Recording) -> None:
        """Set the recorded run, which the file of a data set does not have."""
        self._bound = recording

    @property
    def recording(self) -> Recording:
        """The recording to replay: that of the run, with this case's messages and context.

        Raises:
            UserError: the recording is missing, or it has another number of messages.
        """
        then = self._bound
        if then is None:
            if self.run:
                raise UserError(
                    f"The recording of {self.run!r} is missing. Read the data set with "
                    "outlast.evals.load_dataset, which reads the recordings beside it."
                )
            then = _written_case(self)
        said = [one for one in then.entries if one.kind == "message"]
        if len(said) != len(self.messages):
            raise UserError(
                f"The case has {len(self.messages)} messages, and the run {self.run!r} has "
                f"{len(said)}. Change their texts, and not their number."
            )
        messages = iter(self.messages)
        entries = [
            _said(one, next(messages)) if one.kind == "message" else one for one in then.entries
        ]
        start = replace(
            then.start,
            agent=self.agent or then.start.agent,
            context=then.start.context if self.context is None else self.context,
        )
        return replace(then, start=start, entries=tuple(entries))


RunCase: TypeAlias = Case[CaseInput, Trajectory, dict[str, Any]]
"""A case of a data set of runs."""

RunDataset: TypeAlias = Dataset[CaseInput, Trajectory, dict[str, Any]]
"""A data set of runs, for `evaluate`."""


def _written_case(case: CaseInput) -> Recording:
    """Return a recording of nothing but messages, each after the answer to the one before."""
    if not case.agent:
        raise UserError("A case without a recorded run has to name its agent.")
    entries = [
        Entry(kind="message", at_ms=0, question=number, name="steer", id=f"message-{number}")
        for number in range(len(case.messages))
    ]
    return Recording(
        run_id="case",
        status="completed",
        complete=True,
        start=RecordedStart(agent=case.agent, keep_open=len(entries) > 1),
        entries=tuple(entries),
    )


def _said(entry: Entry, message: Message) -> Entry:
    if message == _message_of(entry):
        return entry
    if isinstance(message, str):
        return replace(entry, items=({"role": "user", "content": message},))
    return replace(entry, items=tuple(message))


def _message_of(entry: Entry) -> Message:
    """Return a message as a text, if it is no more than that."""
    if len(entry.items) == 1:
        (item,) = entry.items
        content: Any = item.get("content")
        parts = cast("list[JsonObject]", content) if isinstance(content, list) else []
        is_text = isinstance(content, str) or [one.get("type") for one in parts] == ["input_text"]
        if is_text and item.get("role") == "user":
            return text_of(item)
    return [dict(one) for one in entry.items]


# --- From recordings ------------------------------------------------------------------------------


def dataset_of(
    recordings: Iterable[Recording],
    *,
    name: str = "runs",
    evaluators: Sequence[Evaluator[CaseInput, Trajectory, Any]] = DEFAULT_CHECKS,
) -> RunDataset:
    """Return a data set with a case for each recorded run, expected to go as it went.

    Args:
        recordings: the runs. Of several recordings of one run, the last counts.
        name: the name of the data set.
        evaluators: what to check of every case.

    Raises:
        UserError: a run has no answer, or cannot be replayed.
    """
    newest = {one.run_id: one for one in recordings}
    return RunDataset(
        name=name, cases=[case_of(one) for one in newest.values()], evaluators=evaluators
    )


def case_of(recording: Recording) -> RunCase:
    """Return the case of a recorded run.

    Raises:
        UserError: the run has no answer, or cannot be replayed.
    """
    settled = until_last_answer(recording)
    then = trajectory_of(settled)
    case = CaseInput(
        agent=settled.start.agent,
        messages=[_message_of(one) for one in settled.entries if one.kind == "message"],
        run=settled.run_id,
        failure=then.failure,
    )
    case.bind(settled)
    metadata = None if settled.rating is None else {"rating": settled.rating}
    expected = then.expectation()
    return RunCase(name=settled.run_id, inputs=case, expected_output=expected, metadata=metadata)


def until_last_answer(recording: Recording) -> Recording:
    """Return a recording without what came after its last answer.

    Raises:
        UserError: the run has no answer, or cannot be replayed.
    """
    kinds = [one.kind for one in recording.entries]
    if "line" in kinds:
        raise UserError(f"The run {recording.run_id} has no case: it is a realtime line.")
    if recording.starts_late or not kinds or kinds[0] != "message":
        raise UserError(
            f"The run {recording.run_id} has no case: its beginning is no longer retained, or is that "
            "of another run, which it was forked from."
        )
    if "lost" in kinds:
        raise UserError(
            f"The run {recording.run_id} has no case: its history {recording.lost[0]} is lost."
        )
    if "answer" not in kinds:
        raise UserError(f"The run {recording.run_id} has no case: it has no answer yet.")
    kept = len(kinds) - kinds[::-1].index("answer")
    return replace(recording, status="completed", complete=True, entries=recording.entries[:kept])


# --- Files ----------------------------------------------------------------------------------------


def recordings_beside(path: str | Path) -> Path:
    """Return where the recordings of a data set are: `refunds.jsonl` beside `refunds.yaml`."""
    return Path(path).with_suffix(".jsonl")


def save_dataset(dataset: RunDataset, path: str | Path) -> None:
    """Write a data set to a file, and add its recordings to the file beside it.

    `refunds.yaml` or `refunds.json` is for people to read and change, in the format of
    `pydantic-evals`; `refunds.jsonl` has the recordings, as `outlast export` writes them. Nothing
    is removed from it.

    Raises:
        UserError: the name ends otherwise, or the file beside it holds something else.
    """
    path = checked_path(path)
    beside = recordings_beside(path)
    bound = [one.inputs.bound for one in dataset.cases]
    has = {one.run_id: one for one in load_runs(beside)} if _has_text(beside) else {}
    lines = [
        f"{one.to_json()}\n"
        for one in bound
        if one is not None
        if one.run_id not in has or until_last_answer(has[one.run_id]) != one
    ]
    if lines:
        with beside.open("a", encoding="utf-8") as file:
            file.write("".join(lines))
    dataset.to_file(path, schema_path=None)


def _has_text(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def load_dataset(
    path: str | Path, *, evaluators: Sequence[type[Evaluator[Any, Any, Any]]] = ()
) -> RunDataset:
    """Read a data set from a file, and its recordings from the file beside it.

    Args:
        path: a file that `save_dataset` or `outlast evals dataset` wrote, or one of your own.
        evaluators: classes of your own that the file names.

    Raises:
        UserError: there is no such file, it is no data set, or a recording is missing.
    """
    path = checked_path(path)
    try:
        dataset = RunDataset.from_dict(
            _content(path),
            custom_evaluator_types=[*EVALUATORS, *evaluators],
            default_name=path.stem,
        )
    except BodyRefused as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise UserError(f"{path} cannot be read: {error!s:.500}") from error
    except (ValidationError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path} is no data set of runs: {error!s:.1000}") from error
    except ExceptionGroup as error:
        reasons = "; ".join(f"{one!s:.500}" for one in error.exceptions)
        raise UserError(f"{path} names evaluators that cannot be used: {reasons}") from error
    _bind(dataset, path)
    return dataset


def _content(path: Path) -> dict[str, Any]:
    """Return what a data set has.

    Raises:
        BodyRefused: it would cost too much to read.
        ValueError: it is no JSON.
        TypeError: it is no object.
        YAMLError: it is no YAML.
    """
    text = DOORS["data set"].read_file(path)
    is_json = path.suffix.lower() == ".json"
    found: Any = DOORS["data set"].parse(text) if is_json else yaml_load(text, _Bounded)  # noqa: S506  a safe loader
    if not isinstance(found, dict):
        raise TypeError(f"it has {type(found).__name__}, and no object with cases.")
    return cast("dict[str, Any]", found)


class _Bounded(SafeLoader):
    """Reads YAML without aliases, whose few lines can stand for any number of values."""

    _values = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Return the next value.

        Raises:
            BodyRefused: it is an alias, or one value too many.
        """
        event: Any = cast("Any", self).peek_event()
        if isinstance(event, AliasEvent):
            line = event.start_mark.line + 1
            raise BodyRefused(f"line {line} has an alias (*). Write what it stands for.")
        self._values += 1
        if self._values > DOORS["data set"].nodes:
            raise BodyRefused(
                f"The data set has more than {DOORS['data set'].nodes:,} values. Split the file."
            )
        return super().compose_node(parent, index)


def _bind(dataset: RunDataset, path: Path) -> None:
    if not any(one.inputs.run for one in dataset.cases):
        return
    beside = recordings_beside(path)
    runs = {one.run_id: one for one in load_runs(beside)}
    for case in dataset.cases:
        run = case.inputs.run
        if run and run not in runs:
            raise UserError(
                f"{path}: the case {case.name!r} needs the recording of {run!r}, which is not in "
                f"{beside}. Add it: outlast export {run} >> {beside}"
            )
        if run:
            case.inputs.bind(until_last_answer(runs[run]))


def checked_path(path: str | Path) -> Path:
    """Return the path of a data set.

    Raises:
        UserError: the name ends in something else than .yaml or .json.
    """
    path = Path(path)
    if path.suffix.lower() not in {".yaml", ".yml", ".json"}:
        raise UserError(f"{path}: the name of a data set ends in .yaml or .json.")
    return path
