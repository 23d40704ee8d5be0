"""Local tools, which run on a worker and have their own Responses item types."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NotRequired, TypeAlias, TypedDict, cast

from outlast.agents.callables import check_callable
from outlast.agents.checks import check_options
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.items.call_outputs import output_content
from outlast.agents.items.run_items import ToolApprovalItem
from outlast.agents.tools.definition import (
    AttemptOptions,
    FunctionTool,
    ToolFunction,
    ToolRetry,
)
from outlast.loop.call_forms import output_item
from outlast.loop.values import Json, JsonObject

ONCE = ToolRetry(attempts=1)
"""No retry, because a repeated action on a machine may do harm."""


class OnApprovalResult(TypedDict):
    """The result of an `on_approval` callback.

    Attributes:
        approve: whether the call runs. A result without `approve` leaves the decision to a person.
        reason: the text that the model reads as the output of a rejected call.
    """

    approve: bool
    reason: NotRequired[str]


OnApproval: TypeAlias = Callable[
    [RunContextWrapper[Any], ToolApprovalItem], Mapping[str, Any] | Awaitable[Mapping[str, Any]]
]
"""Called with (context, the call); returns an `OnApprovalResult`; sync or async."""


class LocalToolOptions(AttemptOptions, total=False):
    """The keyword options of all local tools, as in `FunctionTool`.

    Attributes:
        retry: how calls are retried, also those that raised. Default one attempt; for a
            `CustomTool`, as for a function.
    """


class LocalTool(FunctionTool):
    """A tool that runs on a worker and has its own Responses item types.

    Calls of a local tool are planned, approved, run and traced as those of a function tool. Its
    `on_invoke_tool` returns the content of the output item: a text, or a dict of the item's fields.
    For a call that needs approval, `on_approval` is called first and may decide.
    """

    on_approval: OnApproval | None

    def __init__(
        self,
        name: str,
        invoke: ToolFunction,
        *,
        validate: Callable[[str], str | None],
        options: LocalToolOptions,
        description: str = "",
        needs_approval: Any = False,
        on_approval: OnApproval | None = None,
        context_type: Any = None,
    ) -> None:
        owner = f"{type(self).__name__} {name!r}"
        check_options(owner, options, LocalToolOptions)
        if on_approval is not None:
            check_callable(on_approval, ("context", "approval_item"), what=f"{owner}: on_approval")
        self.on_approval = on_approval
        super().__init__(
            name=name,
            description=description,
            params_json_schema={},
            on_invoke_tool=invoke,
            validate=validate,
            strict_json_schema=False,
            needs_approval=needs_approval,
            context_type=context_type,
            **cast("Any", {"retry": ONCE, **options}),
        )

    @abstractmethod
    def to_tool_param(self) -> JsonObject:
        """Return the tool's entry in `tools` of a request to the Responses API."""

    def param_for(self, model: str | None) -> JsonObject:
        """Return the tool's entry for a model: the same for every model, unless overridden."""
        return self.to_tool_param()

    @abstractmethod
    def approval_subject(self, context: RunContextWrapper[Any], arguments: str) -> Any:
        """Return the argument for the `needs_approval` predicate from a call's arguments."""

    async def release(self) -> None:
        """Free the resources of the tool's calls when the worker stops."""

    def shown(self, output: Json) -> Json:
        """Return an output as hooks and guardrails see it: as text if possible."""
        return output_content(output_item("", output, self.form))
