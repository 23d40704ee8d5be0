"""What a tool waits for outside of its run: a webhook, a reply, the end of a job."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar, cast

from pydantic import TypeAdapter

from outlast.agents.calendars import Calendar, check_calendar_name, find_calendar
from outlast.agents.callables import AwaitableResult
from outlast.agents.checks import InvalidType
from outlast.agents.errors import UserError, WaitDropped, WaitTimeout
from outlast.agents.user_types import schema_errors
from outlast.edges.clock import now
from outlast.loop.calls import Arrival, OnWaitEnd, OutsideWait
from outlast.loop.values import Json, JsonObject

T_co = TypeVar("T_co", covariant=True)

SHORTEST_LOOK: Final = timedelta(seconds=1)
"""How often a tool may look for itself: each time is a timer and an activity in the run's history."""

LONGEST_NAME: Final = 100
"""The maximum length of the name of a wait, in characters."""


class _Nothing:
    """Tells a value that was not given from None."""


NOTHING: Final = _Nothing()


class WaitBegins(BaseException):
    """Ends the attempt of a tool that waits: the run goes on without a worker.

    Not an `Exception`, so that the tool's own `except` clauses let it pass.
    """

    def __init__(self, wait: OutsideWait) -> None:
        super().__init__(f"the tool waits for {wait.name!r}")
        self.wait = wait


@dataclass(kw_only=True)
class Waits:
    """The waits of one call, as its context has them.

    Attributes:
        arrivals: what came of the call's earlier waits.
        done: the results of `ToolContext.once`, by name.
        question: how many questions of the run were settled before that of the call.
        dropped: the call is dropped, and the tool runs to end what it began.
        unproven: why an arrival is no signed delivery that counts, by the names of the waits.
        checks_proofs: whether the worker can check signed deliveries; in memory, all of them count.
        calendar: finds a calendar of the worker by its name.
    """

    arrivals: tuple[Arrival, ...] = ()
    done: JsonObject = field(default_factory=dict[str, Json])
    question: int = 0
    dropped: bool = False
    unproven: Mapping[str, str] = field(default_factory=dict[str, str])
    checks_proofs: bool = True
    calendar: Callable[[str], Calendar] = find_calendar

    def arrival(self, name: str) -> Arrival | None:
        """Return what came of a wait; None if it has not ended."""
        return next((one for one in self.arrivals if one.name == name), None)

    def counted(
        self, name: str, timeout: timedelta | None, within: Calendar | str | None
    ) -> timedelta | None:
        """Return how long a time in hours of a calendar lasts by the clock, from the first wait on.

        Raises:
            UserError: there is no such calendar, no time, or it does not end within three years.
        """
        if within is None:
            return timeout
        _check_duration(name, "timeout", timeout, timedelta())
        if timeout is None:
            raise UserError(
                f"wait_for({name!r}): within= says which hours of timeout= count. Set it."
            )
        is_name = not isinstance(cast("object", within), Calendar)
        if is_name:
            check_calendar_name(f"wait_for({name!r}): within", within)
        calendar = self.calendar(cast("str", within)) if is_name else cast("Calendar", within)
        start, key = now(), f"{name}: {timeout} within {calendar.name}"
        # The tool runs again while it waits: the time does not begin anew.
        lasts = self.done.get(key)
        if not isinstance(lasts, int):
            lasts = (calendar.after(start, timeout) - start) // timedelta(milliseconds=1)
            self.done[key] = lasts
        return timedelta(milliseconds=lasts)


class Wait(AwaitableResult, Generic[T_co]):
    """A wait for something outside of the run, as `ToolContext.wait_for` returns it.

    A tool returns it, or awaits it; see there.
    """

    def __init__(
        self, waits: Waits, wait: OutsideWait, adapter: TypeAdapter[Any] | None, default: Any
    ) -> None:
        self._waits = waits
        self._wait = wait
        self._adapter = adapter
        self._default = default

    def __repr__(self) -> str:
        return f"Wait({self._wait.name!r})"

    def __await__(self) -> Generator[Any, None, T_co]:
        """Return what arrived, or end the attempt until something has.

        Raises:
            WaitTimeout: nothing came in time.
            WaitDropped: the call is dropped.
        """
        yield from ()
        if self.arrival is None and self._waits.dropped:
            raise WaitDropped(f"The call does not wait for {self._wait.name!r} any more.")
        if self.arrival is None:
            raise WaitBegins(self.begun(is_output=False))
        return self.result()

    @property
    def arrival(self) -> Arrival | None:
        """What came of the wait; None if it has not ended.

        A signed wait has not ended as long as nothing has come whose proof the worker has checked,
        whatever the run says.
        """
        name = self._wait.name
        if self._wait.signed and name in self._waits.unproven:
            return None
        return self._waits.arrival(name)

    def begun(self, *, is_output: bool) -> OutsideWait:
        """Return the wait with everything that the tool has noted so far.

        Raises:
            UserError: the tool returns a wait that is only for one that runs again, or the worker
                cannot check signed deliveries.
        """
        wait = self._wait
        if is_output and (wait.every_ms is not None or wait.cleanup or wait.signed):
            raise UserError(
                f"wait_for({wait.name!r}): a wait with every=, cleanup= or signed= must be awaited: "
                "the tool runs again."
            )
        if wait.signed and not self._waits.checks_proofs:
            raise UserError(
                f"wait_for({wait.name!r}, signed=True): this worker has no identity key to check "
                "deliveries with. Set OUTLAST_IDENTITY_PUBLIC_KEYS, or OUTLAST_IDENTITY_KEY for a shared "
                "secret."
            )
        return replace(wait, is_output=is_output, done=self._waits.done or None)

    def result(self) -> T_co:
        """Return what arrived, as an object of the schema's type.

        Raises:
            WaitTimeout: nothing came in time.
        """
        arrival = self.arrival
        assert arrival is not None  # noqa: S101  the caller's case
        if arrival.is_default and self._default is NOTHING:  # only a forged one says so
            raise WaitTimeout(f"Nothing came for {arrival.name!r} in time.")
        if arrival.is_default:  # need not fit the schema: None says that nothing came
            return cast("T_co", self._default)
        value = arrived_value(arrival)
        return cast(
            "T_co", value if self._adapter is None else self._adapter.validate_python(value)
        )


def is_wait(value: object) -> bool:
    """Whether a tool has returned a wait instead of a value."""
    return isinstance(value, Wait)


def arrived_value(arrival: Arrival) -> Json:
    """Return the value of a wait that has ended.

    Raises:
        WaitTimeout: nothing came in time.
    """
    if arrival.timed_out:
        raise WaitTimeout(f"Nothing came for {arrival.name!r} in time.")
    return arrival.value


def checked_name(name: str) -> str:
    """Return the name of a wait.

    Raises:
        UserError: it is no short text.
    """
    if not isinstance(cast("object", name), str) or not 0 < len(name) <= LONGEST_NAME:
        raise UserError(
            f"A wait is named by a text of up to {LONGEST_NAME} characters, such as 'courier', not "
            f"by {name!r:.80}."
        )
    return name


def outside_wait(  # noqa: PLR0913  the options of `wait_for`
    name: str,
    timeout: timedelta | None,
    schema: Any,
    default: Any,
    *,
    ask: bool,
    until_message: bool,
    every: timedelta | None,
    cleanup: bool,
    signed: bool = False,
) -> tuple[OutsideWait, TypeAdapter[Any] | None]:
    """Return the record of a wait, and what makes an object of its value.

    Raises:
        UserError: an argument is invalid.
    """
    name = checked_name(name)
    _check_duration(name, "timeout", timeout, timedelta())
    _check_duration(name, "every", every, SHORTEST_LOOK)
    if ask and default is not NOTHING:
        raise UserError(f"wait_for({name!r}): pass default= or ask=, not both.")
    if timeout is None and (ask or (default is not NOTHING and not until_message)):
        raise UserError(f"wait_for({name!r}): default= and ask= need a timeout=.")
    if ask and until_message:
        raise UserError(
            f"wait_for({name!r}): pass ask= or until_message=, not both: a message would ask people."
        )
    if ask and signed:
        raise UserError(
            f"wait_for({name!r}): pass ask= or signed=, not both: a value that people give has no "
            "proof of a delivery."
        )
    json_schema, adapter = _schema(name, schema)
    on_timeout: OnWaitEnd = "ask" if ask else "tool" if default is NOTHING else "value"
    return OutsideWait(
        name=name,
        timeout_ms=None if timeout is None else max(round(timeout.total_seconds() * 1000), 1),
        schema=json_schema,
        on_timeout=on_timeout,
        until_message=until_message,
        every_ms=None if every is None else round(every.total_seconds() * 1000),
        cleanup=cleanup,
        signed=signed,
        value=None if default is NOTHING else _json(name, default),
    ), adapter


def _check_duration(name: str, what: str, given: object, least: timedelta) -> None:
    if given is None:
        return
    if not isinstance(given, timedelta):
        raise InvalidType(f"wait_for({name!r}): {what} must be a timedelta or None.")
    if given < least or given <= timedelta():
        bound = f"at least {least.total_seconds():g} second" if least else "longer than zero"
        raise UserError(f"wait_for({name!r}): {what} must be {bound}.")


def _schema(name: str, schema: Any) -> tuple[JsonObject | None, TypeAdapter[Any] | None]:
    if schema is None or isinstance(schema, dict):
        return cast("JsonObject | None", schema), None
    with schema_errors(
        f"wait_for({name!r}): schema={schema!r:.80} has no JSON Schema",
        "Use a type that pydantic knows, or a JSON Schema as a dict.",
    ):
        adapter = TypeAdapter[Any](schema)
        return adapter.json_schema(), adapter


def _json(name: str, value: Any) -> Json:
    try:
        return TypeAdapter[Any](Any).dump_python(value, mode="json")
    except ValueError as error:
        raise UserError(f"wait_for({name!r}): default must be a JSON value: {error}") from error
