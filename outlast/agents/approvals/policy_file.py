"""The operators' file: approval policies in TOML, which outrank those of the code.

    [tool.refund]                    # a tool of every agent
    when = "amount > 5000"
    audience = "billing"
    quorum = 2
    expires_in = "8h"

    [agent.Desk.tool.refund]         # of one agent; it outranks the table above
    [handoff.transfer_to_billing]    # a handoff
    [answer.Desk]                    # an agent's answers
    [group.billing]                  # people who belong to a group
    subjects = ["ann", "bob"]

The keys are the fields of `ApprovalPolicy`, and `needs_approval = false`, which lets calls run without
a person. Mistakes are reported with their line and column, all at once.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from outlast.agents.approvals.conditions import Condition, ConditionError, type_problem
from outlast.agents.approvals.policy import (
    ApprovalPolicy,
    Audience,
    Escalation,
    NeedsApproval,
    argument_names,
)
from outlast.agents.approvals.toml_places import TomlPlaces
from outlast.agents.durations import parse_duration
from outlast.agents.errors import UserError
from outlast.loop.approvals import DecisionType
from outlast.loop.values import JsonObject

ENVIRONMENT_VARIABLE: Final = "OUTLAST_APPROVALS"

LARGEST_BYTES: Final = 1_000_000

PointKind: TypeAlias = Literal["tool", "handoff", "answer"]
Key: TypeAlias = tuple[PointKind, str, str]
"""What a table is about: the kind, the agent (empty for all), the tool or handoff."""

_POLICY_KEYS: Final = [one.name for one in fields(ApprovalPolicy)]
KEYS: Final = ["needs_approval", *_POLICY_KEYS]
_TABLES: Final = ["tool", "handoff", "answer", "agent", "group"]
_OF_AGENT: Final = ["tool", "handoff", "answer"]
_DURATIONS: Final = "a duration such as '90s', '45m', '2h' or '3d'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPoint:
    """Something that a person can decide about.

    Attributes:
        kind: a tool, a handoff, or an agent's answers.
        agent: the name of the agent.
        name: the name of the tool or handoff; empty for answers.
        decisions: the types of decision that fit.
        schema: JSON Schema of the arguments; None if they have no names.
        problem: why a policy does not fit it; empty if one does.
    """

    kind: PointKind
    agent: str
    name: str = ""
    decisions: tuple[DecisionType, ...]
    schema: JsonObject | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPoints:
    """Everything that policies can be about on a worker.

    Attributes:
        agents: the names of all agents.
        points: the tools, handoffs and answers of the agents.
        open_agents: the agents with MCP servers, whose tools are listed when they run.
    """

    agents: tuple[str, ...]
    points: tuple[ApprovalPoint, ...]
    open_agents: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePolicy:
    """One table of the file.

    Attributes:
        key: what it is about.
        table: the path of the table in the file.
        policy: the policy; None: calls run without a person.
    """

    key: Key
    table: tuple[str, ...]
    policy: ApprovalPolicy | None

    @property
    def title(self) -> str:
        """The table as people write it."""
        return f"[{'.'.join(_quoted(part) for part in self.table)}]"


@dataclass(frozen=True, slots=True)
class ApprovalFile:
    """The policies of an operators' file.

    Attributes:
        source: the name of the file, for messages.
        text: its text.
        entries: its tables by what they are about.
    """

    source: str
    text: str = field(repr=False)
    entries: Mapping[Key, FilePolicy] = field(init=False)

    def __post_init__(self) -> None:
        """Read the text.

        Raises:
            UserError: the text has mistakes; the message has a line for each.
        """
        try:
            read = tomllib.loads(self.text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UserError(_syntax_problem(self.source, self.text, str(error))) from None
        reader = _FileReader(self.source, TomlPlaces(self.text))
        entries = {entry.key: entry for entry in reader.entries(read)}
        reader.raise_problems()
        object.__setattr__(self, "entries", entries)

    @classmethod
    def load(cls, path: str | Path) -> "ApprovalFile":
        """Read a file.

        Raises:
            UserError: the file cannot be read, or has mistakes.
        """
        place = Path(path)
        try:
            if place.stat().st_size > LARGEST_BYTES:
                raise UserError(f"{place} has more than {LARGEST_BYTES:,} bytes.")
            text = place.read_text(encoding="utf-8-sig")
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"The approvals file {place} cannot be read: {reason}.") from None
        except UnicodeDecodeError as error:
            raise UserError(
                f"{place}: byte {error.start} is not UTF-8. Save the file as UTF-8."
            ) from None
        return cls(str(place), text)

    def entry(self, kind: PointKind, agent: str, name: str = "") -> FilePolicy | None:
        """Return the table about a tool, handoff or answer, if there is one."""
        return self.entries.get((kind, agent, name)) or self.entries.get((kind, "", name))

    def needs_approval(
        self, kind: PointKind, agent: str, name: str, otherwise: NeedsApproval
    ) -> NeedsApproval:
        """Return the setting that holds: the file's, or the code's if the file says nothing."""
        entry = self.entry(kind, agent, name)
        if entry is None:
            return otherwise
        return False if entry.policy is None else entry.policy

    def check(self, known: ApprovalPoints) -> None:
        """Check the file's names against a worker's agents and tools.

        Raises:
            UserError: a table is about something that does not exist, or does not fit it; the
            message has a line for each mistake.
        """
        reader = _FileReader(self.source, TomlPlaces(self.text))
        for entry in self.entries.values():
            _compare(entry, known, reader)
        reader.raise_problems()


class _FileReader:
    """Collects the entries and the mistakes of a file."""

    def __init__(self, source: str, places: TomlPlaces) -> None:
        self._source = source
        self._places = places
        self._problems: list[tuple[tuple[int, int], str]] = []
        self._groups: dict[str, tuple[str, ...]] = {}

    def raise_problems(self) -> None:
        """Raise all mistakes, in the order of the file.

        Raises:
            UserError: there are some.
        """
        if self._problems:
            lines = [
                f"{self._source}:{line}:{column}: {problem}"
                for (line, column), problem in sorted(self._problems)
            ]
            raise UserError("\n".join(lines))

    def add(self, path: Sequence[str], problem: str) -> None:
        """Add a mistake at a key or table."""
        self._problems.append((self._places.of(path), problem))

    def entries(self, read: JsonObject) -> Iterator[FilePolicy]:
        """Read the tables of the file."""
        self._groups = self._read_groups(read.get("group", {}))
        for name, tables in read.items():
            if name not in _TABLES:
                self.add((name,), _unknown("table", name, _TABLES))
            elif name == "agent":
                yield from self._of_agents(tables)
            elif name != "group":
                yield from self._of_kind(cast("PointKind", name), tables)

    def _read_groups(self, groups: object) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, table in self._tables(("group",), groups):
            path = ("group", name)
            for key in table:
                if key != "subjects":
                    self.add((*path, key), _unknown("key", key, ["subjects"]))
            group = self._checked(path, partial(Audience, subjects=table.get("subjects", ())))
            found[name] = tuple(group.subjects) if isinstance(group, Audience) else ()
        return found

    def _of_agents(self, agents: object) -> Iterator[FilePolicy]:
        for agent, kinds in self._tables(("agent",), agents):
            for kind, tables in kinds.items():
                path = ("agent", agent, kind)
                if kind not in _OF_AGENT:
                    self.add(path, _unknown("table", kind, _OF_AGENT))
                elif kind == "answer":
                    if isinstance(tables, dict):
                        yield self._entry(("answer", agent, ""), path, cast("JsonObject", tables))
                    else:
                        self.add(path, f"{kind} must be a table, as [agent.{agent}.answer].")
                else:
                    for name, table in self._tables(path, tables):
                        key: Key = (cast("PointKind", kind), agent, name)
                        yield self._entry(key, (*path, name), table)

    def _of_kind(self, kind: PointKind, tables: object) -> Iterator[FilePolicy]:
        for name, table in self._tables((kind,), tables):
            key: Key = (kind, name, "") if kind == "answer" else (kind, "", name)
            yield self._entry(key, (kind, name), table)

    def _tables(self, path: tuple[str, ...], value: object) -> Iterator[tuple[str, JsonObject]]:
        """Return the tables of a table; anything else in it is a mistake."""
        header = ".".join(path)
        if not isinstance(value, dict):
            self.add(path, f"{header} must be a table of tables, as [{header}.NAME].")
            return
        for name, table in cast("JsonObject", value).items():
            if isinstance(table, dict):
                yield name, cast("JsonObject", table)
            else:
                self.add(
                    (*path, name),
                    f"{name!r} stands directly under [{header}]. Write it in a table of its own, "
                    f"as [{header}.NAME].",
                )

    def _entry(self, key: Key, path: tuple[str, ...], table: JsonObject) -> FilePolicy:
        nobody = FilePolicy(key=key, table=path, policy=None)
        for name in table:
            if name not in KEYS:
                self.add((*path, name), _unknown("key", name, KEYS))
        needed: object = table.get("needs_approval", True)
        if not isinstance(needed, bool):
            self.add((*path, "needs_approval"), "needs_approval must be true or false.")
            return nobody
        if not needed:
            others = [name for name in table if name != "needs_approval"]
            if others:
                self.add(
                    (*path, others[0]),
                    f"with needs_approval = false, nobody is asked, and {others[0]!r} means "
                    "nothing. Take one of them out.",
                )
            return nobody
        before = len(self._problems)
        values: dict[str, Any] = {"name": ".".join(path)}
        for name in table:
            if name in _POLICY_KEYS:
                make = partial(self._value, name, table[name])
                values[name] = self._checked((*path, name), make)
        if len(self._problems) > before:  # the rest would follow from these
            return nobody
        policy = self._checked(path, lambda: ApprovalPolicy(**values))
        return FilePolicy(key=key, table=path, policy=policy)

    def _checked(self, path: tuple[str, ...], make: Callable[[], Any]) -> Any:
        """Return a value, or None after adding the mistake that its maker raised."""
        try:
            return make()
        except ConditionError as error:
            place = self._places.of_value(path, error.condition, error.at)
            self._problems.append((place, f"when: {error.message}."))
        except UserError as error:
            found = re.match(
                r"(?:ApprovalPolicy|Audience|Escalation)\((\w+)=\.\.\.\)", error.message
            )
            key = found[1] if found else ""
            at = path if key in path else (*path, key)
            self.add(at, re.sub(r"\b[A-Z]\w+\((\w+)=\.\.\.\)", r"\1", error.message))
        return None

    def _value(self, name: str, value: object) -> Any:
        """Return the value of a key as `ApprovalPolicy` takes it.

        Raises:
            UserError: the value has the wrong form.
        """
        if name in {"expires_in", "remind_every"}:
            return _duration(name, value)
        if name == "audience":
            return self._audience(name, value)
        if name == "escalate":
            return [self._escalation(one) for one in _list(name, value)]
        if name == "when":
            if not isinstance(value, str):
                raise UserError('when must be a condition in quotes, such as "amount > 5000".')
            return Condition(value)
        return value

    def _audience(self, name: str, value: object) -> Audience:
        if isinstance(value, str):
            value = {"groups": [value]}
        if not isinstance(value, dict):
            raise UserError(
                f"{name} must be the name of a group, or a table with subjects, groups and "
                f"exclude_requester, not {value!r:.80}."
            )
        table = cast("JsonObject", value)
        keys = [one.name for one in fields(Audience)]
        for key in table:
            if key not in keys:
                raise UserError(f"{name}: {_unknown('key', key, keys)}")
        audience = Audience(**table)
        people = [one for group in audience.groups for one in self._groups.get(group, ())]
        return Audience(
            subjects=[*audience.subjects, *people],
            groups=audience.groups,
            exclude_requester=audience.exclude_requester,
        )

    def _escalation(self, value: object) -> Escalation:
        if not isinstance(value, dict) or set(cast("JsonObject", value)) != {"after", "to"}:
            raise UserError(
                f'escalate must be a list of tables such as {{ after = "4h", to = "leads" }}, '
                f"not {value!r:.80}."
            )
        step = cast("JsonObject", value)
        return Escalation(
            after=_duration("after", step["after"]), to=self._audience("to", step["to"])
        )


def _duration(name: str, value: object) -> timedelta:
    length = parse_duration(value) if isinstance(value, str) else None
    if length is None:
        raise UserError(f"{name} must be {_DURATIONS}, not {value!r:.80}.")
    return length


def _list(name: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise UserError(f"{name} must be a list in brackets, not {value!r:.80}.")
    return cast("list[object]", value)


# --- Comparing with a worker -------------------------------------------------------------------------


def _compare(entry: FilePolicy, known: ApprovalPoints, reader: _FileReader) -> None:
    kind, agent, name = entry.key
    where = entry.table
    if agent and agent not in known.agents:
        reader.add(where[:2], _missing("agent", agent, known.agents))
        return
    meant = [
        one
        for one in known.points
        if one.kind == kind and one.name == name and agent in {"", one.agent}
    ]
    if not meant:
        is_open = known.open_agents if not agent else known.open_agents & {agent}
        if kind == "tool" and is_open:
            return  # perhaps a tool of an MCP server
        names = [one.name for one in known.points if one.kind == kind and agent in {"", one.agent}]
        reader.add(where, _missing(kind, name, names))
    for point in meant:
        _compare_with_point(entry, point, reader)


def _compare_with_point(entry: FilePolicy, point: ApprovalPoint, reader: _FileReader) -> None:
    policy, where = entry.policy, entry.table
    if policy is None:
        return
    if point.problem:
        reader.add(where, point.problem)
        return
    owner = f"agent {point.agent!r}" + (f", {point.kind} {point.name!r}" if point.name else "")
    try:
        policy.check_fits(owner, possible=point.decisions, schema=point.schema)
    except UserError as error:
        reader.add((*where, "redact" if "redact" in error.message else "allow"), error.message)
    if not isinstance(policy.when, Condition):
        return
    if point.schema is None and point.kind == "tool":
        reader.add(
            (*where, "when"),
            f"{owner}: its calls have no named arguments to compare. Take `when` out.",
        )
        return
    names = argument_names(point.schema)
    for name in sorted(policy.when.names - names) if names is not None else ():
        reader.add((*where, "when"), f"{owner}: {_missing('argument', name, names or ())}")
    properties = cast("JsonObject", (point.schema or {}).get("properties") or {})
    if problem := type_problem(policy.when, properties):
        reader.add((*where, "when"), f"{owner}: {problem}.")


# --- Messages ----------------------------------------------------------------------------------------


def _unknown(what: str, name: str, allowed: Sequence[str]) -> str:
    return f"unknown {what} {name!r}.{_guess(name, allowed)} Possible: {', '.join(allowed)}."


def _missing(what: str, name: str, names: Iterable[str]) -> str:
    found = sorted(set(names))
    listed = ", ".join(repr(one) for one in found) or "none"
    return f"there is no {what} {name!r}.{_guess(name, found)} There is: {listed}."


def _guess(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _quoted(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"'


def _syntax_problem(source: str, text: str, message: str) -> str:
    """Return the parser's message with the place in front."""
    place = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if place is not None:
        at = f"{place[1]}:{place[2]}"
    else:
        lines = text.splitlines() or [""]
        at = f"{len(lines)}:{len(lines[-1]) + 1}"
    problem = re.sub(r" \(at .*\)$", "", message)
    return f"{source}:{at}: this is not valid TOML: {problem}."
