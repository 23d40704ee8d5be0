"""The SDK's form of a function's schema, for programs that build tools."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel

from outlast.agents.callables import callable_name
from outlast.agents.schemas import function_schema as schemas
from outlast.agents.schemas.docstrings import DocstringStyle, read_docs
from outlast.agents.schemas.strict_schema import strict_schema
from outlast.loop.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class FuncDocumentation:
    """The content of a function's docstring; None is what it does not have."""

    name: str
    description: str | None
    param_descriptions: dict[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FuncSchema:
    """The schema of a function, and the conversion of arguments.

    `takes_context` says whether the first parameter is the context.
    """

    name: str
    description: str | None
    params_pydantic_model: type[BaseModel]
    params_json_schema: JsonObject
    signature: inspect.Signature
    takes_context: bool = False
    strict_json_schema: bool = True
    return_annotation: Any = inspect.Signature.empty
    source: "schemas.FunctionSchema"

    def to_call_args(self, data: BaseModel) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and keyword arguments of a call, without the context.

        Raises:
            ModelBehaviorError: a key of `**kwargs` is the name of another parameter.
        """
        signature = replace(self.source.signature, context=None)
        args, kwargs = signature.arguments(None, self.source.values(vars(data)))
        return list(args), kwargs


def function_schema(
    func: Callable[..., Any],
    docstring_style: Literal["google", "numpy", "sphinx"] | None = None,
    name_override: str | None = None,
    description_override: str | None = None,
    use_docstring_info: bool = True,  # noqa: FBT001, FBT002  the SDK's
    strict_json_schema: bool = True,  # noqa: FBT001, FBT002  the SDK's
) -> FuncSchema:
    """Return the schema of a function, from its signature and docstring.

    Args:
        func: the function.
        docstring_style: the style of the docstring; None to find out.
        name_override: the tool's name; default: the function's name.
        description_override: the tool's description; default: from the docstring.
        use_docstring_info: whether to read the docstring.
        strict_json_schema: whether the schema is made strict.

    Raises:
        UserError: the signature is not one of a tool, or has no strict schema.
    """
    name = name_override or _name_of(func)
    made = schemas.function_schema(
        func,
        name=name,
        docstring_style=docstring_style or "auto",
        use_docstring_info=use_docstring_info,
        strict=strict_json_schema,
    )
    schema = {**made.params_json_schema, "title": f"{name}_args"}
    signature = inspect.signature(func)
    return FuncSchema(
        name=name,
        description=description_override or made.description or None,
        params_pydantic_model=made.model,
        params_json_schema=(
            {**strict_schema(schema, owner=f"Tool {name!r}"), "title": schema["title"]}
            if strict_json_schema
            else schema
        ),
        signature=signature,
        takes_context=made.signature.context is not None,
        strict_json_schema=strict_json_schema,
        return_annotation=made.signature.result_type or signature.return_annotation,
        source=made,
    )


def generate_func_documentation(
    func: Callable[..., Any], style: DocstringStyle | None = None
) -> FuncDocumentation:
    """Return the content of a function's docstring, of a style or of any."""
    docs = read_docs(func, style or "auto")
    return FuncDocumentation(
        name=_name_of(func),
        description=docs.description or None,
        param_descriptions=dict(docs.parameters) or None,
    )


def _name_of(func: Callable[..., Any]) -> str:
    return str(getattr(func, "__name__", callable_name(func)))
