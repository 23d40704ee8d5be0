"""Tools that a model calls with plain text instead of JSON."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeAlias, Unpack

from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.callables import call, check_callable
from outlast.agents.context.codec import context_type_of
from outlast.agents.context.wrapper import RunContextWrapper, ToolContext
from outlast.agents.items.tool_output import encode_output
from outlast.agents.schemas.provider_names import provider_name
from outlast.agents.tools.definition import DEFAULT_RETRY
from outlast.agents.tools.hosted import tool_entry
from outlast.agents.tools.local import LocalTool, LocalToolOptions, OnApproval
from outlast.loop.values import JsonObject

CustomToolExecutor: TypeAlias = Callable[[ToolContext[Any], str], Any]
"""Called with (context, the model's text); returns the result; sync or async."""

CustomToolApproval: TypeAlias = Callable[[RunContextWrapper[Any], str, str], bool | Awaitable[bool]]
"""Called with (context, the model's text, call id); true means that a human decides."""


class CustomTool(LocalTool):
    """A tool that takes the model's text unparsed, such as a query or a program.

    Attributes:
        format: the required format of the text, such as a grammar; None for any text.
    """

    form: ClassVar[str] = "custom_tool_call"

    def __init__(
        self,
        name: str,
        description: str,
        on_invoke_tool: CustomToolExecutor,
        format: object | None = None,  # noqa: A002  the SDK's
        needs_approval: bool | CustomToolApproval | ApprovalPolicy = False,  # noqa: FBT001, FBT002  the SDK's
        on_approval: OnApproval | None = None,
        defer_loading: bool = False,  # noqa: FBT001, FBT002  the SDK's
        **options: Unpack[LocalToolOptions],
    ) -> None:
        """Make a tool from a function.

        Args:
            name: the tool's name for the model.
            description: the tool's description for the model.
            on_invoke_tool: called with (context, the model's text); the result is encoded as a
                function tool's result is, including parts such as images.
            format: such as `{"type": "grammar", "syntax": "lark", "definition": ...}`; None for
                any text.
            needs_approval: whether a human decides before each call: a flag, an
                `ApprovalPolicy`, or a predicate that is called with (context, text, call id).
            on_approval: called first for a call that needs approval; may decide instead of a
                person.
            defer_loading: whether the model only reads the tool after a `ToolSearchTool` found it.
            **options: see `LocalToolOptions`.
        """
        owner = f"CustomTool {name!r}"
        check_callable(on_invoke_tool, ("context", "input"), what=f"{owner}: on_invoke_tool")

        async def invoke(context: ToolContext[Any], text: str) -> Any:
            return encode_output(await call(on_invoke_tool, context, text), tool_name=name)

        self.format = format
        super().__init__(
            name,
            invoke,
            validate=lambda _: None,
            options={"retry": DEFAULT_RETRY, **options},
            description=description,
            needs_approval=needs_approval,
            on_approval=on_approval,
            context_type=context_type_of(on_invoke_tool),
        )
        self.defer_loading = defer_loading
        self.to_tool_param()

    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in a request."""
        return tool_entry(
            "custom",
            name=provider_name(self.name),
            description=self.description,
            format=self.format,
            defer_loading=self.defer_loading or None,
            allowed_callers=self.allowed_callers,
        )

    def approval_subject(self, context: RunContextWrapper[Any], arguments: str) -> str:
        """Return the model's text."""
        return arguments
