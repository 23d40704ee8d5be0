"""The forms of `require_approval`: which tools of an MCP server need an approval."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict, cast

from outlast.agents.callables import check_callable
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError


class RequireApprovalToolList(TypedDict, total=False):
    """A list of tools.

    Attributes:
        tool_names: the server's names of the tools.
    """

    tool_names: list[str]


class RequireApprovalObject(TypedDict, total=False):
    """Tools that need an approval, and tools that do not.

    Tools in neither list need none.

    Attributes:
        always: the tools that need an approval.
        never: the tools that need none.
    """

    always: RequireApprovalToolList
    never: RequireApprovalToolList


RequireApprovalPolicy: TypeAlias = Literal["always", "never"]
LocalMCPApprovalCallable: TypeAlias = Callable[
    [RunContextWrapper[Any], Any, Any], bool | Awaitable[bool]
]
"""A function that returns whether a person decides about a call; sync or async.

Called with (context, agent, the server's tool) for each call.
"""

RequireApprovalSetting: TypeAlias = (
    RequireApprovalPolicy
    | RequireApprovalObject
    | dict[str, RequireApprovalPolicy]
    | dict[str, bool]
    | LocalMCPApprovalCallable
    | bool
    | None
)

ApprovalPolicy: TypeAlias = bool | dict[str, bool] | LocalMCPApprovalCallable
"""One answer for all tools, an answer by tool name, or a callable."""

_FORMS = (
    "'always', 'never', True, False, a dict from a tool's name to one of these, "
    "{'always': {'tool_names': [...]}, 'never': {'tool_names': [...]}}, or a callable that takes "
    "(context, agent, tool)"
)


def approval_policy(setting: object) -> ApprovalPolicy:
    """Return the policy of a `require_approval` setting.

    Raises:
        UserError: the setting is invalid.
    """
    if setting is None:
        return False
    if isinstance(setting, Mapping):
        entries = cast("Mapping[object, object]", setting)
        if _is_object_form(entries):
            return _named_policy(entries)
        return {str(name): _answer(one, f"for {name!r}") for name, one in entries.items()}
    if callable(setting):
        check_callable(setting, ("context", "agent", "tool"), what="require_approval")
        return cast("LocalMCPApprovalCallable", setting)
    return _answer(setting, "")


def _answer(given: object, where: str) -> bool:
    if isinstance(given, bool):
        return given
    if given in ("always", "never"):
        return given == "always"
    place = f"require_approval {where}".rstrip()
    raise UserError(f"{place} is {given!r}: it must be {_FORMS}.")


def _is_object_form(entries: Mapping[object, object]) -> bool:
    """Whether the keys are the `always` and `never` lists, and not tool names."""
    return any(
        isinstance(one, Mapping) and "tool_names" in one
        for one in (entries.get("always"), entries.get("never"))
    )


def _named_policy(entries: Mapping[object, object]) -> dict[str, bool]:
    if unknown := sorted(str(key) for key in entries if key not in ("always", "never")):
        raise UserError(
            f"require_approval has no key {', '.join(unknown)} beside 'always' and 'never'."
        )
    named = {key: _names(entries.get(key, {}), key) for key in ("always", "never")}
    if both := sorted(set(named["always"]) & set(named["never"])):
        raise UserError(f"require_approval has {both[0]!r} under both 'always' and 'never'.")
    return dict.fromkeys(named["always"], True) | dict.fromkeys(named["never"], False)


def _names(entry: object, key: str) -> list[str]:
    fields = cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else {"": None}
    names = fields.get("tool_names", [])
    listed = cast("list[object]", names) if isinstance(names, list | tuple) else [None]
    if set(fields) - {"tool_names"} or not all(isinstance(name, str) for name in listed):
        raise UserError(
            f"require_approval[{key!r}] must be {{'tool_names': [...]}} with names of tools, "
            f"not {entry!r}."
        )
    return cast("list[str]", listed)
