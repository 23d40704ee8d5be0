"""The signature of a tool's function: the context and the model's parameters."""

import functools
import inspect
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from traceback import walk_stack
from types import FrameType, SimpleNamespace
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from typing_extensions import TypeAliasType

from outlast.agents.callables import callable_name, implementation
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.installed_sdk import sdk_context, sdk_names_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSignature:
    """The parameters and the return type of a function.

    Attributes:
        parameters: those that the model supplies, in order, with resolved annotations.
        is_sdk_context: whether the function takes a context of the installed OpenAI Agents SDK.
        context_type: the type argument of the context's annotation, or None.
        names: the names of all parameters, including those that the model does not supply.
        result_type: the annotated return type; None for any type.
    """

    parameters: tuple[inspect.Parameter, ...]
    context: inspect.Parameter | None = None
    is_sdk_context: bool = False
    context_type: Any = None
    names: frozenset[str] = frozenset()
    result_type: Any = None

    def arguments(
        self, context: Any, values: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments for a call."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        parameters = list(self.parameters)
        if self.context is not None:
            parameters.insert(0, self.context)
            context = sdk_context(context) if self.is_sdk_context else context
            values = {**values, self.context.name: context}
        for parameter in parameters:
            value = values[parameter.name]
            match parameter.kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    positional.extend(value)
                case inspect.Parameter.VAR_KEYWORD:
                    named.update(value)
                case inspect.Parameter.KEYWORD_ONLY:
                    named[parameter.name] = value
                case _:
                    positional.append(value)
        return tuple(positional), named


def read_signature(
    function: Callable[..., Any], *, owner: str, frame: FrameType | None = None
) -> FunctionSignature:
    """Read a function's signature, without parameters that a `functools.partial` fills."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"{owner}: the signature of {callable_name(function)} cannot be read: {error}. "
            "Wrap it in a function of your own."
        ) from error
    filled = _bound_parameters(function)
    scope = _Scope(function, owner, frame)
    names = frozenset(signature.parameters)
    result_type = scope.result_type(signature)
    parameters = tuple(
        parameter.replace(annotation=scope.resolve(parameter))
        for parameter in signature.parameters.values()
        if parameter.name not in filled
    )
    if not parameters:
        return FunctionSignature(parameters=(), names=names, result_type=result_type)
    first, rest = parameters[0], parameters[1:]
    if first.name in {"self", "cls"} and first.annotation is inspect.Parameter.empty:
        raise UserError(
            f"{owner}: {callable_name(function)} is a method without its object. Make the tool "
            "of the bound method: function_tool(shop.refund), not of the one in the class body."
        )
    for parameter in rest:
        if _mentions_context(parameter.annotation):
            raise UserError(
                f"{owner}: {callable_name(function)} takes the context in "
                f"{parameter.name!r}; it must be the first parameter."
            )
    if not _mentions_context(first.annotation):
        return FunctionSignature(parameters=parameters, names=names, result_type=result_type)
    return FunctionSignature(
        parameters=rest,
        context=first,
        is_sdk_context=not _sdk_context_names(_plain(first.annotation)).isdisjoint(_CONTEXTS),
        context_type=_context_type(first, owner),
        names=names,
        result_type=result_type,
    )


class _Scope:
    def __init__(self, function: Callable[..., Any], owner: str, frame: FrameType | None) -> None:
        target = inspect.unwrap(implementation(function))
        self._globals: dict[str, Any] = getattr(target, "__globals__", {})
        self._frame = frame
        self._owner = owner

    def resolve(self, parameter: inspect.Parameter) -> Any:
        if parameter.annotation is inspect.Parameter.empty:
            return parameter.annotation
        try:
            return self._evaluate(parameter.annotation)
        except Exception as error:  # evaluating an annotation may raise any error
            raise UserError(
                f"{self._owner}: the annotation of {parameter.name!r} cannot be resolved: {error}. "
                "What it names must exist when the tool is made: at the top of the module, and "
                "not under TYPE_CHECKING."
            ) from error

    def result_type(self, signature: inspect.Signature) -> Any:
        """Return the return annotation; None if it is missing or unresolvable."""
        annotation = signature.return_annotation
        try:
            found = None if annotation is signature.empty else self._evaluate(annotation)
        except Exception:  # noqa: BLE001  evaluating it may raise anything, and nobody has to know it
            return None
        return None if found in (Any, type(None)) else found

    def _evaluate(self, annotation: Any) -> Any:
        # Resolve only this annotation: others may be unresolvable and unused.
        holder = SimpleNamespace(__annotations__={"it": annotation})
        try:
            hints = get_type_hints(holder, self._globals, include_extras=True)
        except NameError:
            hints = get_type_hints(holder, self._globals, self._locals(), include_extras=True)
        return hints["it"]

    def _locals(self) -> Mapping[str, Any]:
        stack = () if self._frame is None else walk_stack(self._frame)
        own = (frame for frame, _ in stack if frame.f_globals is self._globals)
        return ChainMap(*(dict(frame.f_locals) for frame in own))


def _bound_parameters(function: Callable[..., Any]) -> set[str]:
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names |= function.keywords.keys()
        function = function.func
    return names


def _plain(annotation: Any) -> Any:
    """Return the annotation without `Annotated`, and with type aliases resolved."""
    while True:
        if isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        elif get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        else:
            return annotation


_CONTEXTS = frozenset({"RunContextWrapper", "ToolContext"})


def _sdk_context_names(annotation: Any) -> frozenset[str]:
    origin = get_origin(annotation) or annotation
    return sdk_names_of(origin) if inspect.isclass(origin) else frozenset()


def _mentions_context(annotation: Any) -> bool:
    annotation = _plain(annotation)
    origin = get_origin(annotation) or annotation
    if inspect.isclass(origin) and issubclass(origin, RunContextWrapper):
        return True
    if not _sdk_context_names(annotation).isdisjoint(_CONTEXTS):
        return True
    return any(_mentions_context(argument) for argument in get_args(annotation))


def _context_type(parameter: inspect.Parameter, owner: str) -> Any:
    annotation = _plain(parameter.annotation)
    is_sdk = not _sdk_context_names(annotation).isdisjoint(_CONTEXTS)
    if not is_sdk and (get_origin(annotation) or annotation) not in (
        RunContextWrapper,
        ToolContext,
    ):
        raise UserError(
            f"{owner}: {parameter.name!r} must be annotated with RunContextWrapper or ToolContext "
            f"itself, with or without a type argument, not with {parameter.annotation}."
        )
    arguments = get_args(annotation)
    if not arguments or arguments[0] is Any or isinstance(arguments[0], TypeVar):
        return None
    return arguments[0]
