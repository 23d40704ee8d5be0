"""Guardrails on agents: checks of a run's input and of its final output."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Final, Generic, TypeAlias, cast, overload

from outlast.agents.callables import call, check_callable, list_of, unwrap_partial
from outlast.agents.checks import InvalidType, Rule, check_fields, with_checked_fields
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import UserError
from outlast.agents.installed_sdk import as_ours, guardrail_parts, sdk_names
from outlast.loop.values import JsonObject

TRIPPED_RECORD: Final = "record"
"""The key of the guardrail's result in the details of a nested run's failure."""


@dataclass
class GuardrailFunctionOutput:
    """The result of a guardrail function.

    Attributes:
        output_info: details of the check: JSON, a pydantic model or a dataclass.
        tripwire_triggered: whether the run ends with the tripwire's error.
    """

    output_info: Any
    tripwire_triggered: bool


with_checked_fields(GuardrailFunctionOutput)

GuardrailVerdict: TypeAlias = GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]
"""The return type of a guardrail function, sync or async."""

InputGuardrailFunction: TypeAlias = Callable[
    [RunContextWrapper[TContext], Any, str | list[JsonObject]], GuardrailVerdict
]
"""Called with (context, agent, input); sync or async."""

OutputGuardrailFunction: TypeAlias = Callable[
    [RunContextWrapper[TContext], Any, Any], GuardrailVerdict
]
"""Called with (context, agent, the agent's output); sync or async."""


class AnyGuardrail:
    """What the four kinds of guardrails have in common."""

    guardrail_function: Any
    name: str | None
    kind: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    verdict: ClassVar[type] = GuardrailFunctionOutput
    verdict_form: ClassVar[str] = "GuardrailFunctionOutput(output_info=..., tripwire_triggered=...)"

    def __post_init__(self) -> None:
        name = cast("object", self.name)
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise UserError(f"{self.kind}: name must be a non-empty string or None, not {name!r}.")
        is_named = name is not None or callable(self.guardrail_function)
        owner = self._owner if is_named else self.kind
        check_callable(self.guardrail_function, self.parameters, what=f"{owner}: its function")
        check_fields(self, owner=owner)

    @property
    def _owner(self) -> str:
        return f"{self.kind} {self.get_name()!r}"

    def get_name(self) -> str:
        """Return the guardrail's name, or that of its function."""
        return self.name or function_name(self.guardrail_function)

    async def _judge(self, *arguments: Any) -> Any:
        output = as_ours(await call(self.guardrail_function, *arguments), self.verdict)
        if not isinstance(output, self.verdict):
            raise UserError(
                f"{self._owner} returned {type(output).__name__}: return {self.verdict_form}."
            )
        return output


@dataclass
class InputGuardrail(AnyGuardrail, Generic[TContext]):
    """A check of a run's input, which runs once, for the starting agent.

    Attributes:
        guardrail_function: called with (context, agent, input); sync or async.
        name: the guardrail's name in messages and traces; default the function's name.
        run_in_parallel: whether the first turn runs in parallel with the check or waits for it. In
            parallel, tools of the first turn may run before a tripwire ends the run.
    """

    guardrail_function: InputGuardrailFunction[TContext]
    name: str | None = None
    run_in_parallel: bool = True

    kind = "Input guardrail"
    parameters: ClassVar[tuple[str, ...]] = ("context", "agent", "input")

    async def run(
        self,
        agent: Any,
        input: str | list[JsonObject],  # noqa: A002  (the name in the SDK)
        context: RunContextWrapper[TContext],
    ) -> "InputGuardrailResult":
        """Check the input, text or items, of a run that starts with an agent.

        Raises:
            UserError: the function did not return a `GuardrailFunctionOutput`.
        """
        output = await self._judge(context, agent, input)
        return InputGuardrailResult(guardrail=self, output=output)


@dataclass
class OutputGuardrail(AnyGuardrail, Generic[TContext]):
    """A check of an agent's final output.

    Attributes:
        guardrail_function: called with (context, agent, the agent's output); sync or async.
        name: the guardrail's name in messages and traces; default the function's name.
        judges_people: whether it also checks what a person says who has taken the conversation
            over, before the user reads it. The function then gets a text, whatever the agent's
            output type is.
    """

    guardrail_function: OutputGuardrailFunction[TContext]
    name: str | None = None
    judges_people: bool = False

    kind = "Output guardrail"
    parameters: ClassVar[tuple[str, ...]] = ("context", "agent", "agent_output")

    async def run(
        self, context: RunContextWrapper[TContext], agent: Any, agent_output: Any
    ) -> "OutputGuardrailResult":
        """Check a final output: text, or a value of the agent's output type.

        Raises:
            UserError: the function did not return a `GuardrailFunctionOutput`.
        """
        output = await self._judge(context, agent, agent_output)
        return OutputGuardrailResult(
            guardrail=self, agent_output=agent_output, agent=agent, output=output
        )


_KINDS: Final[list[type[Any]]] = []
"""The four kinds of guardrails, whose names the SDK's have, too."""


def add_kind(kind: type[AnyGuardrail]) -> None:
    """Add a kind of guardrails; one that is made without its function says where that goes."""
    init: Callable[..., None] = kind.__init__

    @wraps(init)
    def advised(self: AnyGuardrail, *arguments: Any, **named: Any) -> None:
        if not arguments and "guardrail_function" not in named:
            raise InvalidType(f"{type(self).__name__}() has no function. {_advice(kind)}")
        init(self, *arguments, **named)

    setattr(kind, "__init__", advised)  # noqa: B010  a type checker refuses the assignment
    _KINDS.append(kind)


def _advice(kind: type[AnyGuardrail]) -> str:
    decorator = kind.kind.lower().replace(" ", "_")
    return (
        f"A guardrail is a function with @{decorator}, or {kind.__name__}(guardrail_function=...)."
    )


add_kind(InputGuardrail)
add_kind(OutputGuardrail)


def adopted_guardrail(entry: Any) -> Any:
    """Return a guardrail of the SDK as ours; any other object unchanged."""
    names = sdk_names(entry)
    kind = next((kind for kind in _KINDS if kind.__name__ in names), None)
    return entry if kind is None else kind(**guardrail_parts(entry))


def guardrails(kind: type[AnyGuardrail], *others: type) -> Rule:
    """Return the rule of a list of guardrails of a kind; entries of the other types also fit."""
    decorator = kind.kind.lower().replace(" ", "_")
    of_kind = list_of((kind, *others), f"decorate it with @{decorator}")

    def rule(place: str, value: Any) -> None:
        of_kind(place, value)
        for entry in value:
            if isinstance(entry, kind) and not hasattr(entry, "guardrail_function"):
                raise InvalidType(
                    f"{place} holds a {type(entry).__name__} without a function. {_advice(kind)}"
                )

    return rule


@dataclass
class InputGuardrailResult:
    """The result of an input guardrail in a run."""

    guardrail: InputGuardrail[Any]
    output: GuardrailFunctionOutput


@dataclass
class OutputGuardrailResult:
    """The result of an output guardrail for an agent's output in a run."""

    guardrail: OutputGuardrail[Any]
    agent_output: Any
    agent: Any
    output: GuardrailFunctionOutput


@overload
def input_guardrail(func: InputGuardrailFunction[TContext]) -> InputGuardrail[TContext]: ...


@overload
def input_guardrail(
    *, name: str | None = None, run_in_parallel: bool = True
) -> Callable[[InputGuardrailFunction[TContext]], InputGuardrail[TContext]]: ...


def input_guardrail(func: Any = None, *, name: str | None = None, **options: Any) -> Any:
    """Make an input guardrail from a function; use it as a decorator.

    Args:
        func: the function, if the decorator is used without options.
        name: the guardrail's name; default the function's name.
        **options: `run_in_parallel`, see `InputGuardrail`.

    Raises:
        UserError: the function cannot be called with (context, agent, input).
    """
    return decorated(InputGuardrail, func, name, **options)


@overload
def output_guardrail(func: OutputGuardrailFunction[TContext]) -> OutputGuardrail[TContext]: ...


@overload
def output_guardrail(
    *, name: str | None = None, judges_people: bool = False
) -> Callable[[OutputGuardrailFunction[TContext]], OutputGuardrail[TContext]]: ...


def output_guardrail(func: Any = None, *, name: str | None = None, **options: Any) -> Any:
    """Make an output guardrail from a function; use it as a decorator.

    Args:
        func: the function, if the decorator is used without options.
        name: the guardrail's name; default the function's name.
        **options: `judges_people`, see `OutputGuardrail`.

    Raises:
        UserError: the function cannot be called with (context, agent, agent_output).
    """
    return decorated(OutputGuardrail, func, name, **options)


def decorated(make: Callable[..., Any], func: Any, name: str | None, **options: Any) -> Any:
    """Return the guardrail of a function, or without one a decorator that makes it."""

    def decorate(function: Any) -> Any:
        is_unnamed = name is None and callable(function)
        own_name = function_name(function) if is_unnamed else name
        return make(function, name=own_name, **options)

    return decorate if func is None else decorate(func)


def function_name(function: Callable[..., Any]) -> str:
    """Return a function's name, also inside partials, or a callable object's class."""
    inner = unwrap_partial(function)
    name = getattr(inner, "__name__", None)
    return name if isinstance(name, str) else type(inner).__name__
