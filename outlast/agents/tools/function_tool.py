"""The decorator `function_tool`, which makes tools from functions."""

import inspect
from collections.abc import Callable
from types import FrameType
from typing import Any, Unpack, get_args, overload

from pydantic import TypeAdapter

from outlast.agents.approvals.policy import NeedsApproval, ToolEffect
from outlast.agents.callables import call, callable_name, implementation, shown, unwrap_partial
from outlast.agents.checks import check_choice, check_options
from outlast.agents.context.waits import is_wait
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import UserError
from outlast.agents.schemas.docstrings import DocstringStyle
from outlast.agents.schemas.function_schema import function_schema
from outlast.agents.tools.definition import (
    FUNCTION_ATTRIBUTE,
    AttemptOptions,
    FunctionTool,
    check_tool_name,
)
from outlast.agents.tools.programs import (
    checked_output,
    schema_of_annotation,
    schema_of_type,
)
from outlast.loop.values import JsonObject

_NOT_FIELDS = frozenset({
    "name_override", "description_override", "docstring_style", "use_docstring_info",
    "strict_mode", "output_type", "output_json_schema",
})  # fmt: skip
"""The options that are no fields of `FunctionTool`, or not as they are."""


class ToolOptions(AttemptOptions, total=False):
    """The options of `function_tool`; all are optional.

    The others have the meaning and the default of the fields of `FunctionTool`.

    Attributes:
        name_override: the tool's name for the model; default the function's name.
        description_override: the tool's description for the model; default the docstring.
        docstring_style: `google`, `numpy` or `sphinx`; default `auto`, which detects the style.
        use_docstring_info: whether the docstring is read; default true.
        strict_mode: whether the provider enforces the schema; default true. A dict with free keys
            is an error in strict mode. With values of any type, as without an annotation, the
            tool is offered without strict mode, and the log has a warning.
        retry: how calls are retried, also those that raised; a number is the total number of
            attempts. Default: see `FunctionTool`.
        allowed_callers: as in `FunctionTool`. Programs know the output by the return annotation.
        output_type: the type of the output for programs, instead of the annotation.
        output_json_schema: the schema of the output for programs, instead of a type.
    """

    name_override: str | None
    description_override: str | None
    title: str | None
    docstring_style: DocstringStyle | None
    use_docstring_info: bool
    strict_mode: bool
    needs_approval: NeedsApproval
    effect: ToolEffect | None
    defer_loading: bool
    output_type: Any
    output_json_schema: JsonObject | None


@overload
def function_tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


@overload
def function_tool(func: Callable[..., Any], **options: Unpack[ToolOptions]) -> FunctionTool: ...


def function_tool(
    func: Callable[..., Any] | None = None, **options: Unpack[ToolOptions]
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool from a function; use it as a decorator.

    The function may be sync or async, a bound method, a partial or a callable object. A sync one
    runs in a thread. A first parameter annotated `RunContextWrapper` or `ToolContext` receives the
    context. The model supplies all other parameters, described by their annotations, by
    `Annotated[..., "text"]` or `Field(description=...)`, or by the docstring. Parameters that a
    partial fills are hidden from the model.

    The function runs at least once per call: an attempt whose worker died is retried. Pass
    `ToolContext.idempotency_key` to services with side effects.

    The tool's `__wrapped__` is the function, for tests; calling it bypasses validation.

    Args:
        func: the function, if this is not used as a decorator with options.
        **options: see `ToolOptions`.

    Raises:
        UserError: the function or an option is invalid. The message names the tool and the
            fix.
    """
    if func is not None:
        return _make_tool(func, _caller(), options)
    check_options("function_tool", options, ToolOptions)  # now: what follows may never be called

    def decorate(function: Callable[..., Any]) -> FunctionTool:
        return _make_tool(function, _caller(), options)

    return decorate


def _make_tool(
    function: Callable[..., Any], frame: FrameType | None, options: ToolOptions
) -> FunctionTool:
    of_output = options.get("output_json_schema")
    name = _tool_name(function, options.get("name_override"))
    owner = f"Tool {name!r}"
    check_options(f"{owner}: function_tool", options, ToolOptions)
    style = options.get("docstring_style") or "auto"
    check_choice(f"{owner}: docstring_style", style, get_args(DocstringStyle))
    schema = function_schema(
        function,
        name=name,
        docstring_style=style,
        use_docstring_info=options.get("use_docstring_info", True),
        strict=options.get("strict_mode", True),
        frame=frame,
    )
    adapter = None
    if of_output is None or options.get("output_type") is not None:
        of_output, adapter = _declared_output(options, schema.signature.result_type)

    async def invoke(ctx: ToolContext[Any], input: str) -> Any:  # noqa: A002  the SDK's names
        positional, named = schema.arguments(ctx, input)
        value = await call(function, *positional, **named)
        if adapter is None or is_wait(value):  # its value comes later
            return value
        return checked_output(name, adapter, value)

    setattr(invoke, FUNCTION_ATTRIBUTE, function)
    description = options.get("description_override")
    # The others have the names and the defaults of the tool's fields.
    fields: Any = {name: value for name, value in options.items() if name not in _NOT_FIELDS}
    return FunctionTool(
        **fields,
        name=name,
        description=schema.description if description is None else description,
        params_json_schema=schema.params_json_schema,
        on_invoke_tool=invoke,
        validate=schema.check,
        altered=schema.altered,
        defaults=schema.defaults(),
        read=schema.read,
        strict_json_schema=options.get("strict_mode", True),
        output_json_schema=of_output,
        context_type=schema.signature.context_type,
        result_type=schema.signature.result_type,
    )


def _declared_output(
    options: ToolOptions, annotation: object
) -> tuple[JsonObject | None, TypeAdapter[Any] | None]:
    output_type = options.get("output_type")
    if output_type is None:
        is_for_programs = "programmatic" in (options.get("allowed_callers") or ())
        return schema_of_annotation(annotation) if is_for_programs else (None, None)
    if options.get("output_json_schema") is not None:
        raise UserError("output_type and output_json_schema cannot both be provided.")
    return schema_of_type(output_type, "output_type")


def _tool_name(function: object, override: str | None) -> str:
    if not callable(function) or inspect.isclass(function):
        what = repr(function) if inspect.isclass(function) else shown(function)
        raise UserError(f"function_tool makes tools of functions, not of {what}.")
    target = implementation(function)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise UserError(
            f"{callable_name(function)} is a generator. A tool returns one result: return a list."
        )
    inner = unwrap_partial(function)
    name = override if override is not None else getattr(inner, "__name__", type(inner).__name__)
    if name == "<lambda>":
        raise UserError(
            "A lambda has no name that a model could call. Use a def, or pass name_override=."
        )
    check_tool_name(name)
    return name


def _caller() -> FrameType | None:
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    return frame
