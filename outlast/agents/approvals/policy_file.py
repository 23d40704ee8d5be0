"""The operators' file: tables in TOML that change the approval policies of the code.

    [tool.refund]                    # a tool of every agent
    audience = "billing"
    quorum = 2
    expires_in = "8h"

    [[tool.refund.tiers]]            # for some of its calls
    when = "amount > 1000"
    quorum = 3

    [agent.Desk.tool.refund]         # of one agent; it changes what the table above leaves
    [handoff.transfer_to_billing]    # a handoff
    [answer.Desk]                    # an agent's answers
    [group.billing]                  # people who belong to a group, in the code's policies, too
    subjects = ["ann", "bob"]

    [calendar.support-hours]         # hours that count for `within = "support-hours"`
    zone = "Europe/Berlin"
    hours = { mon-thu = "9:00-17:00", fri = ["9:00-12:00", "13:00-15:00"] }
    holidays = [2026-12-25]
    half_days = { 2026-12-24 = "9:00-12:00" }

    [reply.on-its-way]               # a text that colleagues write often, at the desk
    text = "Dear {customer}, your parcel is on its way."
    title = "It is on its way"

    [fallback]                       # what follows every agent's first model, where it does not answer
    models = ["gpt-5.5", "litellm/anthropic/claude-sonnet-4-5"]
    [agent.Desk.fallback]            # that of one agent; none with []
    models = []

The keys are the fields of `ApprovalPolicy`, and `needs_approval = false`, which lets calls run without
a person. A table changes the keys that it names and no others, and needs `loosens = true` to allow
what the policy did not allow. Mistakes are reported with their line and column, all at once.
"""

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from outlast.agents.approvals.conditions import Condition, ConditionError, type_problem
from outlast.agents.approvals.policy import (
    DEFAULT_OPTIONS,
    ApprovalPolicy,
    Audience,
    Escalation,
    NeedsApproval,
    argument_names,
    checked_field,
    names_of,
    policy_of,
)
from outlast.agents.argument_names import near_name
from outlast.agents.calendars import Calendar, check_calendar_name, find_calendar
from outlast.agents.durations import parse_duration
from outlast.agents.errors import UserError
from outlast.agents.json_values import is_list, is_object
from outlast.edges.bodies import DOORS, BodyRefused
from outlast.loop.approvals import ALL_DECISIONS, DecisionType
from outlast.loop.values import JsonObject

if TYPE_CHECKING:
    from outlast.agents.approvals.toml_places import KeyPath, TomlPlaces
    from outlast.agents.saved_replies import SavedReply

ENVIRONMENT_VARIABLE: Final = "OUTLAST_APPROVALS"

LARGEST_BYTES: Final = DOORS["policy"].size

PointKind: TypeAlias = Literal["tool", "handoff", "answer"]
Key: TypeAlias = tuple[PointKind, str, str]
"""What a table is about: the kind, the agent (empty for all), the tool or handoff."""

_POLICY_KEYS: Final = [one.name for one in fields(ApprovalPolicy) if one.name != "binds"]  # code
KEYS: Final = ["needs_approval", *_POLICY_KEYS, "loosens"]
_TIER_KEYS: Final = [name for name in _POLICY_KEYS if name != "tiers"]
_TABLES: Final = [
    "tool",
    "handoff",
    "answer",
    "agent",
    "group",
    "calendar",
    "reply",
    "fallback",
    "chat",
]
_REPLY_KEYS: Final = ["text", "title", "unnamed"]
_CALENDAR_KEYS: Final = ["zone", "hours", "holidays", "half_days"]
_OF_AGENT: Final = ["tool", "handoff", "answer", "fallback"]
_DURATIONS: Final = "a duration such as '90s', '45m', '2h' or '3d'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPoint:
    """Something that a person can decide about: calls of a tool or handoff, or answers.

    Attributes:
        schema: JSON Schema of the arguments; None if they have no names.
        problem: why a policy does not fit it; empty if one does.
    """

    kind: PointKind
    agent: str
    name: str = ""
    decisions: tuple[DecisionType, ...] = ALL_DECISIONS
    schema: JsonObject | None = None
    problem: str = ""
    setting: NeedsApproval = False
    effect: str | None = None

    @property
    def title(self) -> str:
        """The point as messages name it."""
        return f"agent {self.agent!r}" + (f", {self.kind} {self.name!r}" if self.name else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPoints:
    """Everything that policies can be about on a worker.

    The tools of `open_agents` are listed when they run: they have MCP servers.
    """

    agents: tuple[str, ...]
    points: tuple[ApprovalPoint, ...]
    open_agents: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePolicy:
    """One table of the file, or one of its tiers.

    Attributes:
        key: what it is about.
        table: the path of the table in the file; of a tier, with its index in the list.
        asks: whether a person decides at all.
        named: the fields of the policy that the table names. Of an audience, only the keys that
            it names; of tiers, the table of each.
        loosens: whether the table may allow more than the policy that it changes.
    """

    key: Key
    table: "KeyPath"
    asks: bool = True
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])
    loosens: bool = False

    @property
    def title(self) -> str:
        """The table as people write it."""
        return _title(self.table)

    @property
    def tiers(self) -> "tuple[FilePolicy, ...]":
        """The tiers that the table names."""
        return self.named.get("tiers") or ()

    @property
    def _name(self) -> str:
        name = ".".join(part for part in self.table if isinstance(part, str))
        return f"{name}: {self.named['when']}" if isinstance(self.table[-1], int) else name

    def changed(self, policy: ApprovalPolicy, left_out: Collection[str] = ()) -> ApprovalPolicy:
        """Return a policy with the fields that the table names, and with its name.

        Where the table makes requests expire sooner, the policy's reminders and steps of escalation
        that would come later never come. The tiers of the table come before those that it leaves.
        """
        values = {name: value for name, value in self.named.items() if name not in left_out}
        tiers: Sequence[FilePolicy] = values.pop("tiers", None) or ()
        if "audience" in values:
            values["audience"] = _audience_over(policy.audience, values["audience"])
        expires_in: timedelta | None = values.get("expires_in")
        inherited: dict[str, Any] = {}
        if expires_in is not None and values.get("on_expiry", policy.on_expiry) != "escalate":
            if policy.remind_every is not None and policy.remind_every >= expires_in:
                inherited["remind_every"] = None
            inherited["escalate"] = [step for step in policy.escalate if step.after < expires_in]
        name = {} if "name" in values else {"name": self._name}
        after = replace(policy, **(name | inherited | values))
        return replace(after, tiers=_tiers_over(after, tiers)) if tiers else after


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a table makes of the policy of one tool, handoff or answer.

    Attributes:
        policy: the policy after it; None: nobody is asked.
        loosened: what it allows more than the policy before it, by field.
        problem: why its fields contradict that policy; empty if they do not.
    """

    table: FilePolicy
    policy: ApprovalPolicy | None
    loosened: Mapping[str, str]
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What the tables mean for the agents of a worker.

    Attributes:
        loosened: what each table allows more than the code, by its title.
        policies: the policies that each table makes, by its title.
        warnings: probable mistakes.
    """

    loosened: Mapping[str, tuple[str, ...]]
    policies: Mapping[str, Sequence[ApprovalPolicy]]
    warnings: tuple[str, ...] = ()


_PEOPLE: Final = frozenset({"audience", "escalate", "tiers"})
"""The keys of a table that say who decides."""


@dataclass(frozen=True, slots=True)
class ApprovalFile:
    """An operators' file: policies, groups and fallback models. Its mistakes are a `UserError`.

    Attributes:
        fallbacks: the names of the models that follow an agent's first one, by the agent's name;
            those of every agent have an empty name.
        calendars: the calendars of the file, by name.
        replies: the saved replies of the file, in its order.
    """

    source: str
    text: str = field(repr=False)
    entries: Mapping[Key, FilePolicy] = field(init=False)
    groups: Mapping[str, tuple[str, ...]] = field(init=False)
    loosening: frozenset[str] = field(init=False)
    fallbacks: Mapping[str, tuple[str, ...]] = field(init=False)
    calendars: Mapping[str, Calendar] = field(init=False)
    replies: "tuple[SavedReply, ...]" = field(init=False)

    def __post_init__(self) -> None:
        try:
            read = tomllib.loads(self.text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UserError(_syntax_problem(self.source, self.text, str(error))) from None
        reader = _reader_of(self.source, self.text)
        entries = {entry.key: entry for entry in reader.entries(read)}
        reader.raise_problems()
        object.__setattr__(self, "entries", entries)
        object.__setattr__(self, "groups", reader.groups)
        object.__setattr__(self, "loosening", frozenset(reader.loosening))
        object.__setattr__(self, "fallbacks", reader.fallbacks)
        object.__setattr__(self, "calendars", reader.calendars)
        object.__setattr__(self, "replies", tuple(reader.replies))

    @classmethod
    def load(cls, path: str | Path) -> "ApprovalFile":
        """Read a file."""
        place = Path(path)
        try:
            text = DOORS["policy"].read_file(place)
        except BodyRefused as error:
            raise UserError(f"The approvals file {place} cannot be read: {error}") from None
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"The approvals file {place} cannot be read: {reason}.") from None
        except UnicodeDecodeError as error:
            raise UserError(
                f"{place}: byte {error.start} is not UTF-8. Save the file as UTF-8."
            ) from None
        return cls(str(place), text)

    def tables(self, kind: PointKind, agent: str, name: str = "") -> tuple[FilePolicy, ...]:
        """Return the tables about a tool, handoff or answer, that of the agent last."""
        keys: list[Key] = [(kind, "", name), (kind, agent, name)]
        return tuple(self.entries[key] for key in keys if key in self.entries)

    def models_after(self, agent: str) -> tuple[str, ...] | None:
        """Return what follows an agent's first model; None for what the code says."""
        return self.fallbacks.get(agent, self.fallbacks.get(""))

    def needs_approval(self, point: ApprovalPoint) -> NeedsApproval:
        """Return the setting that holds: the code's with what the tables change.

        What a table loosens without `loosens = true` stays as it is, and the reason of the policy
        says so: a worker that knows the tool at its start has refused the file.
        """
        changes, setting = self.changes(point), point.setting
        if changes:
            return changes[-1].policy or False
        return self._of_code(setting) if isinstance(setting, ApprovalPolicy) else setting

    def changes(self, point: ApprovalPoint) -> tuple[Change, ...]:
        """Return what each table changes, in order; see `needs_approval`."""
        asks = point.setting is not False
        policy = self._of_code(policy_of(point.setting) or DEFAULT_OPTIONS)
        changes: list[Change] = []
        for table in self.tables(point.kind, point.agent, point.name):
            change = self._change(table, policy, point.effect, asks=asks)
            changes.append(change)
            asks, policy = change.policy is not None, change.policy or policy
        return tuple(changes)

    def _change(
        self, table: FilePolicy, before: ApprovalPolicy, effect: str | None, *, asks: bool
    ) -> Change:
        from outlast.agents.approvals.loosening import loosened

        was = before if asks else None
        if not table.asks:
            found = loosened(was, None)
            after = None if was is None or table.loosens else _noted(was, table)
            return Change(table=table, policy=after, loosened=found)
        names_people = not _PEOPLE.isdisjoint(table.named)
        with_people = self._with_people if names_people else self._of_code
        try:
            after = with_people(table.changed(before))
            found = loosened(was, after, effect)
            if found and not table.loosens:
                after = _noted(self._of_code(table.changed(before, found)), table)
        except UserError as error:
            problem = _without_class(error.message)
            return Change(table=table, policy=_noted(before, table), loosened={}, problem=problem)
        return Change(table=table, policy=after, loosened=found)

    def _of_code(self, policy: ApprovalPolicy) -> ApprovalPolicy:
        """Return a policy of the code with the people whom the file lets decide, too."""
        return self._with_people(policy, self.loosening)

    def _with_people(
        self, policy: ApprovalPolicy, groups: Collection[str] | None = None
    ) -> ApprovalPolicy:
        """Return a policy with the people of groups of the file; default: of all of them."""
        groups = self.groups if groups is None else groups
        if not groups:
            return policy
        steps = [
            replace(step, to=self._named_people(cast("Audience", step.to), groups))
            for step in policy.escalate
        ]
        audience = cast("Audience | None", policy.audience)
        return replace(
            policy,
            audience=audience and self._named_people(audience, groups),
            escalate=steps,
            tiers=[self._with_people(tier, groups) for tier in policy.tiers],
        )

    def _named_people(self, audience: Audience, groups: Collection[str]) -> Audience:
        named = [group for group in audience.groups or () if group in groups]
        people = [one for group in named for one in self.groups.get(group, ())]
        if not people:
            return audience
        return replace(audience, subjects=[*(audience.subjects or ()), *people])

    def check(self, known: ApprovalPoints) -> FileReport:
        """Check the file's names against a worker's agents and tools."""
        reader = _reader_of(self.source, self.text)
        found = {
            entry.title: tuple(dict.fromkeys(_compare(self, entry, known, reader)))
            for entry in self.entries.values()
        }
        for agent in self.fallbacks:
            if agent and agent not in known.agents:
                reader.add(("agent", agent), _missing("agent", agent, known.agents))
        self._compare_groups(known, reader)
        reader.raise_problems()
        policies = {entry.title: list[ApprovalPolicy]() for entry in self.entries.values()}
        for point in known.points:
            for change in self.changes(point):
                policies[change.table.title] += [change.policy] if change.policy else []
        warnings = self._warnings(known, reader)
        return FileReport(loosened=found, policies=policies, warnings=warnings)

    def _compare_groups(self, known: ApprovalPoints, reader: "_FileReader") -> None:
        """Refuse people in a group of the code who may decide by their name alone."""
        from outlast.agents.approvals.loosening import loosened

        for group, people in self.groups.items():
            for point in known.points if people and group not in self.loosening else ():
                policy = policy_of(point.setting)
                if policy is None or not loosened(policy, self._with_people(policy, {group})):
                    continue
                reader.add(
                    ("group", group),
                    f"{point.title}: {', '.join(people)} may decide by name, where the code names the "
                    f"group {group!r} of people's identities. If that is meant, add loosens = true to "
                    f"[group.{_quoted(group)}].",
                )
                break

    def _warnings(self, known: ApprovalPoints, reader: "_FileReader") -> tuple[str, ...]:
        """Return the groups that only one side names, which are probably misspelt."""
        settings = (policy_of(point.setting) for point in known.points)
        of_code = {group for policy in settings if policy is not None for group in _groups(policy)}
        of_tables = {
            group: (*table.table, key)
            for entry in self.entries.values()
            for table in (*entry.tiers, entry)
            for key, names in _named_groups(table)
            for group in names
        }
        expected = sorted({*of_code, *self.groups})
        for group, place in of_tables.items():
            if group not in expected:
                reader.add(
                    place,
                    f"no [group.{_quoted(group)}] and no policy of the code names the group "
                    f"{group!r}, so only people whose identity says so belong to it."
                    f"{near_name(group, expected)}",
                )
        for group in self.groups:
            if group not in of_code and group not in of_tables:
                named = sorted({*of_code, *of_tables})
                problem = f"no policy names the group {group!r}.{near_name(group, named)}"
                reader.add(("group", group), problem)
        return reader.lines()


def calendars_of_file() -> tuple[str, ...]:
    """Return the names of the calendars of the operators' file; none if it cannot be read."""
    place = os.environ.get(ENVIRONMENT_VARIABLE)
    try:
        return tuple(ApprovalFile.load(place).calendars) if place else ()
    except (UserError, OSError):
        return ()


def calendar_of_file(name: str) -> Calendar:
    """Return a calendar of the operators' file that `OUTLAST_APPROVALS` names.

    Raises:
        UserError: it has no such calendar, or there is no file.
    """
    check_calendar_name("within", name)
    place = os.environ.get(ENVIRONMENT_VARIABLE)
    return find_calendar(name, ApprovalFile.load(place).calendars if place else {})


class _FileReader:
    """Collects the entries and the mistakes of a file."""

    def __init__(self, source: str, places: "TomlPlaces") -> None:
        self._source = source
        self._places = places
        self._problems: list[tuple[tuple[int, int], str]] = []
        self.groups: dict[str, tuple[str, ...]] = {}
        self.loosening: set[str] = set()
        self.fallbacks: dict[str, tuple[str, ...]] = {}
        self.calendars: dict[str, Calendar] = {}
        self.replies: list[SavedReply] = []

    def raise_problems(self) -> None:
        if self._problems:
            raise UserError("\n".join(self.lines()))

    def lines(self) -> tuple[str, ...]:
        return tuple(
            f"{self._source}:{line}:{column}: {problem}"
            for (line, column), problem in sorted(self._problems)
        )

    def add(self, path: "KeyPath", problem: str, place: tuple[int, int] | None = None) -> None:
        """Add a mistake at a key or table; one of a tier says which tier it is."""
        tier = next((at + 1 for at, part in enumerate(path) if isinstance(part, int)), 0)
        title = f"{_title(path[:tier])}: " if tier else ""
        self._problems.append((place or self._places.of(path), title + problem))

    def entries(self, read: JsonObject) -> Iterator[FilePolicy]:
        self.groups = self._read_groups(read.get("group", {}))
        self._read_calendars(read.get("calendar", {}))
        self._read_replies(read.get("reply", {}))
        for name, tables in read.items():
            if name not in _TABLES:
                self.add((name,), _unknown("table", name, _TABLES))
            elif name == "agent":
                yield from self._of_agents(tables)
            elif name == "fallback":
                self._read_fallback("", (name,), tables)
            elif name not in {"group", "calendar", "reply", "chat"}:  # the desk reads `chat`
                yield from self._of_kind(cast("PointKind", name), tables)

    def _read_groups(self, groups: object) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, table in self._tables(("group",), groups):
            path = ("group", name)
            for key in table:
                if key not in {"subjects", "loosens"}:
                    self.add((*path, key), _unknown("key", key, ["subjects", "loosens"]))
            loosens: object = table.get("loosens", False)
            if not isinstance(loosens, bool):
                self.add((*path, "loosens"), "loosens must be true or false.")
            elif loosens:
                self.loosening.add(name)
            people = partial(names_of, "Audience(subjects=...)", table.get("subjects", ()))
            found[name] = self._checked(path, people) or ()
        return found

    def _read_calendars(self, calendars: object) -> None:
        for name, table in self._tables(("calendar",), calendars):
            path = ("calendar", name)
            wrong = [key for key in table if key not in _CALENDAR_KEYS]
            for key in wrong:
                self.add((*path, key), _unknown("key", key, _CALENDAR_KEYS))
            if missing := [key for key in ("zone", "hours") if key not in table]:
                self.add(path, f"{_title(path)} needs {' and '.join(missing)}.")
            elif not wrong:
                found = self._checked(path, partial(Calendar, name, **table))
                self.calendars |= {} if found is None else {name: found}

    def _read_replies(self, replies: object) -> None:
        from outlast.agents.saved_replies import SavedReply

        for name, table in self._tables(("reply",), replies):
            path = ("reply", name)
            wrong = [key for key in table if key not in _REPLY_KEYS]
            for key in wrong:
                self.add((*path, key), _unknown("key", key, _REPLY_KEYS))
            if "text" not in table:
                self.add(path, f"{_title(path)} needs text.")
            elif not wrong:
                found = self._checked(path, partial(SavedReply, name, **cast("Any", table)))
                self.replies += [] if found is None else [found]

    def _read_fallback(self, agent: str, path: tuple[str, ...], table: object) -> None:
        header = ".".join(path)
        named = cast("JsonObject", table) if isinstance(table, dict) else {}
        for key in named:
            if key != "models":
                self.add((*path, key), _unknown("key", key, ["models"]))
        models: object = named.get("models")
        listed = cast("list[object]", models) if isinstance(models, list) else [None]
        if not all(isinstance(one, str) and one for one in listed):
            self.add(
                (*path, "models") if "models" in named else path,
                f"[{header}] needs models, a list of models' names in quotes, or [] for none.",
            )
            return
        self.fallbacks[agent] = tuple(str(one) for one in listed)

    def _of_agents(self, agents: object) -> Iterator[FilePolicy]:
        for agent, kinds in self._tables(("agent",), agents):
            for kind, tables in kinds.items():
                path = ("agent", agent, kind)
                if kind not in _OF_AGENT:
                    self.add(path, _unknown("table", kind, _OF_AGENT))
                elif kind == "fallback":
                    self._read_fallback(agent, path, tables)
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

    def _entry(self, key: Key, path: "KeyPath", table: JsonObject) -> FilePolicy:
        is_tier = isinstance(path[-1], int)
        keys = _TIER_KEYS if is_tier else KEYS
        for name in table:
            if name not in keys:
                self.add((*path, name), _unknown("key", name, keys))
        asks, loosens = (
            default if is_tier else self._flag(path, table, name, default=default)
            for name, default in (("needs_approval", True), ("loosens", False))
        )
        others = [name for name in table if name in keys and name in _POLICY_KEYS]
        if not asks and others:
            self.add(
                (*path, others[0]),
                f"with needs_approval = false, nobody is asked, and {others[0]!r} means "
                "nothing. Take one of them out.",
            )
        named = {
            name: self._tiers(key, (*path, name), table[name])
            if name == "tiers"
            else self._checked((*path, name), partial(self._value, name, table[name]))
            for name in others
        }
        return FilePolicy(key=key, table=path, asks=asks, named=named, loosens=loosens)

    def _tiers(self, key: Key, path: "KeyPath", value: object) -> tuple[FilePolicy, ...]:
        listed = cast("list[object]", value) if isinstance(value, list) else []
        if not listed or not all(isinstance(one, dict) for one in listed):
            header = _title(path)
            self.add(path, f"tiers must be tables, each under [{header}].")
            return ()
        tiers = [
            self._entry(key, (*path, at), cast("JsonObject", one)) for at, one in enumerate(listed)
        ]
        names: set[str] = set()
        for one, tier in zip(cast("list[JsonObject]", listed), tiers, strict=True):
            name: str = tier.named.get("name") or ""
            if one.get("when") is True:
                self.add((*tier.table, "when"), f"when = true is every call. {_NEEDS_WHEN}")
            elif "when" not in one and not name:
                self.add(tier.table, _NEEDS_WHEN)
            elif name in names:
                self.add((*tier.table, "name"), f"two tiers have the name {name!r}.")
            names |= {name} - {""}
        return tuple(tiers)

    def _flag(self, path: "KeyPath", table: JsonObject, name: str, *, default: bool) -> bool:
        value: object = table.get(name, default)
        if isinstance(value, bool):
            return value
        self.add((*path, name), f"{name} must be true or false.")
        return default

    def _checked(self, path: "KeyPath", make: Callable[[], Any]) -> Any:
        try:
            return make()
        except ConditionError as error:
            place = self._places.of_value(path, error.condition, error.at)
            self.add(path, f"when: {error.message}.", place)
        except UserError as error:
            found = re.match(
                r"(?:ApprovalPolicy|Audience|Escalation|Calendar|SavedReply)\((?:[^()]*, )?(\w+)=\.\.\.\)",
                error.message,
            )
            key = found[1] if found else ""
            at = path if key in path else (*path, key)
            self.add(at, _without_class(error.message))
        return None

    def _value(self, name: str, value: object) -> Any:
        """Return the value of a key as `ApprovalPolicy` takes it; an audience as a table of its keys."""
        if name in {"expires_in", "remind_every"}:
            value = _duration(name, value)
        elif name == "audience":
            return _audience_keys(name, value)
        elif name == "escalate":
            value = [_escalation(one) for one in _list(name, value)]
        elif name == "when":
            if value is True:
                return None  # every call
            if not isinstance(value, str):
                raise UserError(
                    'when must be a condition in quotes, such as "amount > 5000", or true for every '
                    "call."
                )
            value = Condition(value)
        return checked_field(name, value)


def _audience_keys(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = {"groups": [value]}
    if not is_object(value):
        raise UserError(
            f"{name} must be the name of a group, or a table with subjects, groups and "
            f"exclude_requester, not {value!r:.80}."
        )
    keys = [one.name for one in fields(Audience)]
    for key in value:
        if key not in keys:
            raise UserError(f"{name}: {_unknown('key', key, keys)}")
    audience = Audience(**value)
    return {key: getattr(audience, key) for key in value}


def _audience_over(before: Audience | str | None, named: Mapping[str, Any]) -> Audience:
    """Return an audience with the keys that a table names; people and groups change together."""
    kept = Audience() if before is None else cast("Audience", before)
    if "subjects" in named or "groups" in named:
        kept = Audience(exclude_requester=kept.exclude_requester)
    return replace(kept, **named)


def _escalation(value: object) -> Escalation:
    if not is_object(value) or set(value) != {"after", "to"}:
        raise UserError(
            f'escalate must be a list of tables such as {{ after = "4h", to = "leads" }}, '
            f"not {value!r:.80}."
        )
    to = Audience(**_audience_keys("to", value["to"]))
    return Escalation(after=_duration("after", value["after"]), to=to)


def _duration(name: str, value: object) -> timedelta:
    length = parse_duration(value) if isinstance(value, str) else None
    if length is None:
        raise UserError(f"{name} must be {_DURATIONS}, not {value!r:.80}.")
    return length


def _list(name: str, value: object) -> list[object]:
    if not is_list(value):
        raise UserError(f"{name} must be a list in brackets, not {value!r:.80}.")
    return value


# --- Changing a policy -------------------------------------------------------------------------------


def _tiers_over(policy: ApprovalPolicy, named: Sequence[FilePolicy]) -> tuple[ApprovalPolicy, ...]:
    """Return the tiers of a table, and after them those of the policy that it does not name.

    A tier with the name of one of the policy's changes that one; another one changes the policy
    itself, for its calls.
    """
    known = {tier.name: tier for tier in policy.tiers if tier.name}
    changed = list[ApprovalPolicy]()
    for tier in named:
        name: str = tier.named.get("name") or ""
        before = known.pop(name, None)
        if before is None and "when" not in tier.named:
            known_names = [one.name for one in policy.tiers if one.name]
            raise UserError(f"{tier.title}: {_missing('tier', name, known_names)} {_NEEDS_WHEN}")
        changed.append(tier.changed(before or replace(policy, tiers=())))
    left = [tier for tier in policy.tiers if not tier.name or tier.name in known]
    return (*changed, *left)


def _noted(policy: ApprovalPolicy, table: FilePolicy) -> ApprovalPolicy:
    note = f"What {table.title} of the operators' file would loosen does not hold."
    return replace(policy, reason=f"{policy.reason} {note}" if policy.reason else note)


# --- Comparing with a worker -------------------------------------------------------------------------


def _compare(
    file: ApprovalFile, entry: FilePolicy, known: ApprovalPoints, reader: _FileReader
) -> Iterator[str]:
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
        changes = file.changes(point)
        change = next(one for one in changes if one.table is entry)
        _compare_with_point(change, point, reader)
        yield from (f"{field}: {text}" for field, text in change.loosened.items())


def _compare_with_point(change: Change, point: ApprovalPoint, reader: _FileReader) -> None:
    table, policy = change.table, change.policy
    where, owner = table.table, point.title
    if policy is None:
        return
    if point.problem and table.asks:
        reader.add(where, point.problem)
        return
    if change.problem:
        reader.add(where, f"{owner}: {change.problem}")
        return
    if not table.loosens:
        for field_name, text in change.loosened.items():
            reader.add(
                (*where, field_name),
                f"{owner}: {text}. If that is meant, add loosens = true to {table.title}.",
            )
    try:
        policy.check_fits(owner, possible=point.decisions, schema=point.schema)
    except UserError as error:
        reader.add((*where, "redact" if "redact" in error.message else "allow"), error.message)
    for one in (table, *table.tiers):
        _compare_condition(one, point, reader)


def _compare_condition(table: FilePolicy, point: ApprovalPoint, reader: _FileReader) -> None:
    when, where, owner = table.named.get("when"), table.table, point.title
    if not isinstance(when, Condition):
        return
    if point.schema is None and point.kind == "tool":
        reader.add(
            (*where, "when"),
            f"{owner}: its calls have no named arguments to compare. Take `when` out.",
        )
        return
    names = argument_names(point.schema)
    for name in sorted(when.names - names) if names is not None else ():
        reader.add((*where, "when"), f"{owner}: {_missing('argument', name, names or ())}")
    properties = cast("JsonObject", (point.schema or {}).get("properties") or {})
    if problem := type_problem(when, properties):
        reader.add((*where, "when"), f"{owner}: {problem}.")


def _groups(policy: ApprovalPolicy) -> Iterator[str]:
    for one in (policy, *policy.tiers):
        for audience in (one.audience, *(step.to for step in one.escalate)):
            if audience is not None:
                yield from cast("Audience", audience).groups or ()


def _named_groups(table: FilePolicy) -> Iterator[tuple[str, Sequence[str]]]:
    yield "audience", table.named.get("audience", {}).get("groups") or ()
    for step in table.named.get("escalate", ()):
        yield "escalate", step.to.groups or ()


# --- Messages ----------------------------------------------------------------------------------------


def _unknown(what: str, name: str, allowed: Sequence[str]) -> str:
    return f"unknown {what} {name!r}.{near_name(name, allowed)} Possible: {', '.join(allowed)}."


def _missing(what: str, name: str, names: Iterable[str]) -> str:
    found = sorted(set(names))
    listed = ", ".join(repr(one) for one in found) or "none"
    return f"there is no {what} {name!r}.{near_name(name, found)} There is: {listed}."


def _without_class(message: str) -> str:
    return re.sub(r"\b[A-Z]\w+\((?:[^()]*, )?(\w+)=\.\.\.\)", r"\1", message)


def _reader_of(source: str, text: str) -> _FileReader:
    """Return a reader of a file; few workers have one."""
    from outlast.agents.approvals.toml_places import TomlPlaces

    return _FileReader(source, TomlPlaces(text))


def _title(table: "KeyPath") -> str:
    """Return a table as people write it, or the number of a tier in its table."""
    *around, last = table
    if isinstance(last, int):
        return f"tier {last + 1} of {_title(tuple(around[:-1]))}"
    return f"[{'.'.join(_quoted(str(part)) for part in table)}]"


_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_NEEDS_WHEN: Final = 'A tier needs when, such as "amount > 1000".'


def _quoted(part: str) -> str:
    return part if _BARE.fullmatch(part) else f'"{part}"'


def _syntax_problem(source: str, text: str, message: str) -> str:
    place = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if place is not None:
        at = f"{place[1]}:{place[2]}"
    else:
        lines = text.splitlines() or [""]
        at = f"{len(lines)}:{len(lines[-1]) + 1}"
    problem = re.sub(r" \(at .*\)$", "", message)
    return f"{source}:{at}: this is not valid TOML: {problem}."
