"""Guardrails on agents: checks of a run's input and of its final output.

The loop decides when guardrails run and what a tripwire ends.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, overload

from outlast.agents.callables import call, check_callable, unwrap_partial
from outlast.agents.checks import check_flag
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import UserError
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


@dataclass
class InputGuardrail(Generic[TContext]):
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

    def __post_init__(self) -> None:
        parameters = ("context", "agent", "input")
        check_guardrail("Input guardrail", self.guardrail_function, self.name, parameters)
        place = f"Input guardrail {self.get_name()!r}: run_in_parallel"
        check_flag(place, self.run_in_parallel)

    def get_name(self) -> str:
        """Return the guardrail's name, or that of its function."""
        return self.name or function_name(self.guardrail_function)

    async def run(
        self,
        agent: Any,
        input: str | list[JsonObject],  # noqa: A002  (the name in the SDK)
        context: RunContextWrapper[TContext],
    ) -> "InputGuardrailResult":
        """Check an input.

        Args:
            agent: the agent that the run starts with.
            input: the run's input: text or items.
            context: the run's context.

        Raises:
            UserError: the function did not return a `GuardrailFunctionOutput`.
        """
        output = await call(self.guardrail_function, context, agent, input)
        checked = _verdict(output, f"Input guardrail {self.get_name()!r}")
        return InputGuardrailResult(guardrail=self, output=checked)


@dataclass
class OutputGuardrail(Generic[TContext]):
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

    def __post_init__(self) -> None:
        parameters = ("context", "agent", "agent_output")
        check_guardrail("Output guardrail", self.guardrail_function, self.name, parameters)
        check_flag(f"Output guardrail {self.get_name()!r}: judges_people", self.judges_people)

    def get_name(self) -> str:
        """Return the guardrail's name, or that of its function."""
        return self.name or function_name(self.guardrail_function)

    async def run(
        self, context: RunContextWrapper[TContext], agent: Any, agent_output: Any
    ) -> "OutputGuardrailResult":
        """Check a final output.

        Args:
            context: the run's context.
            agent: the agent that produced the output.
            agent_output: the output: text, or a value of the agent's output type.

        Raises:
            UserError: the function did not return a `GuardrailFunctionOutput`.
        """
        output = await call(self.guardrail_function, context, agent, agent_output)
        checked = _verdict(output, f"Output guardrail {self.get_name()!r}")
        return OutputGuardrailResult(
            guardrail=self, agent_output=agent_output, agent=agent, output=checked
        )


@dataclass
class InputGuardrailResult:
    """The result of an input guardrail in a run."""

    guardrail: InputGuardrail[Any]
    output: GuardrailFunctionOutput


@dataclass
class OutputGuardrailResult:
    """The result of an output guardrail in a run.

    Attributes:
        guardrail: the guardrail.
        agent_output: the output that the guardrail checked.
        agent: the agent that produced the output.
        output: the result of the guardrail function.
    """

    guardrail: OutputGuardrail[Any]
    agent_output: Any
    agent: Any
    output: GuardrailFunctionOutput


@overload
def input_guardrail(func: InputGuardrailFunction[TContext], /) -> InputGuardrail[TContext]: ...


@overload
def input_guardrail(
    *, name: str | None = None, run_in_parallel: bool = True
) -> Callable[[InputGuardrailFunction[TContext]], InputGuardrail[TContext]]: ...


def input_guardrail(
    func: InputGuardrailFunction[Any] | None = None,
    /,
    *,
    name: str | None = None,
    run_in_parallel: bool = True,
) -> InputGuardrail[Any] | Callable[[InputGuardrailFunction[Any]], InputGuardrail[Any]]:
    """Make an input guardrail from a function; use it as a decorator.

    Args:
        func: the function, if the decorator is used without options.
        name: the guardrail's name; default the function's name.
        run_in_parallel: whether the first turn runs in parallel with the check or waits for it.

    Raises:
        UserError: the function cannot be called with (context, agent, input).
    """

    def decorate(function: InputGuardrailFunction[Any]) -> InputGuardrail[Any]:
        return InputGuardrail(
            function, name=decorated_name(function, name), run_in_parallel=run_in_parallel
        )

    return decorate if func is None else decorate(func)


@overload
def output_guardrail(func: OutputGuardrailFunction[TContext], /) -> OutputGuardrail[TContext]: ...


@overload
def output_guardrail(
    *, name: str | None = None, judges_people: bool = False
) -> Callable[[OutputGuardrailFunction[TContext]], OutputGuardrail[TContext]]: ...


def output_guardrail(
    func: OutputGuardrailFunction[Any] | None = None,
    /,
    *,
    name: str | None = None,
    judges_people: bool = False,
) -> OutputGuardrail[Any] | Callable[[OutputGuardrailFunction[Any]], OutputGuardrail[Any]]:
    """Make an output guardrail from a function; use it as a decorator.

    Args:
        func: the function, if the decorator is used without options.
        name: the guardrail's name; default the function's name.
        judges_people: whether it also checks what a person says who has taken the conversation
            over.

    Raises:
        UserError: the function cannot be called with (context, agent, agent_output).
    """

    def decorate(function: OutputGuardrailFunction[Any]) -> OutputGuardrail[Any]:
        return OutputGuardrail(
            function, name=decorated_name(function, name), judges_people=judges_people
        )

    return decorate if func is None else decorate(func)


def decorated_name(function: object, name: str | None) -> str | None:
    """Return the name of a decorated guardrail: its own, or that of its function."""
    return function_name(function) if name is None and callable(function) else name


def function_name(function: Callable[..., Any]) -> str:
    """Return a function's name, also inside partials, or a callable object's class."""
    inner = unwrap_partial(function)
    name = getattr(inner, "__name__", None)
    return name if isinstance(name, str) else type(inner).__name__


def check_guardrail(kind: str, function: object, name: object, parameters: tuple[str, ...]) -> None:
    """Raise an error if a new guardrail's name or function is invalid."""
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise UserError(f"{kind}: name must be a non-empty string or None, not {name!r}.")
    shown = name or (function_name(function) if callable(function) else None)
    owner = kind if shown is None else f"{kind} {shown!r}"
    check_callable(function, parameters, what=f"{owner}: its function")


def _verdict(output: object, owner: str) -> GuardrailFunctionOutput:
    if not isinstance(output, GuardrailFunctionOutput):
        raise UserError(
            f"{owner} returned {type(output).__name__}: return "
            "GuardrailFunctionOutput(output_info=..., tripwire_triggered=...)."
        )
    return output
