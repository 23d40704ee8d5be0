"""The forms of `require_approval`: which tools of an MCP server need an approval."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, cast

from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.callables import check_callable
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.json_values import is_mapping


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
"""A function called with (context, agent, tool): whether a person decides."""

RequireApprovalMapping: TypeAlias = dict[str, RequireApprovalPolicy]
"""The policies of tools by name."""

RequireApprovalSetting: TypeAlias = (
    RequireApprovalPolicy
    | RequireApprovalObject
    | Mapping[str, RequireApprovalPolicy | bool | ApprovalPolicy]
    | LocalMCPApprovalCallable
    | ApprovalPolicy
    | bool
    | None
)

ToolApproval: TypeAlias = bool | ApprovalPolicy
"""Whether a tool needs an approval, and under which policy."""


@dataclass(frozen=True, slots=True)
class ApprovalByName:
    """Answers by tool name.

    Attributes:
        named: the answers.
        unlisted: the answer for other tools, such as those that the server adds later. As in the
            SDK, they need none, unless a tool has an `ApprovalPolicy`: then that of the first.
    """

    named: Mapping[str, ToolApproval]
    unlisted: ToolApproval = False

    def of(self, name: str) -> ToolApproval:
        """Return the answer for a tool."""
        return self.named.get(name, self.unlisted)


ServerApproval: TypeAlias = ToolApproval | ApprovalByName | LocalMCPApprovalCallable
"""One answer for all tools of a server, answers by tool name, or a callable."""

_FORMS = (
    "'always', 'never', True, False, an ApprovalPolicy, a dict from a tool's name to one of these, "
    "{'always': {'tool_names': [...]}, 'never': {'tool_names': [...]}}, or a callable that takes "
    "(context, agent, tool)"
)


def server_approval(setting: object) -> ServerApproval:
    """Return the meaning of a `require_approval` setting."""
    if setting is None:
        return False
    if is_mapping(setting):
        if _is_object_form(setting):
            return ApprovalByName(_named_policy(setting))
        named = {str(name): _answer(rule, f"for {name!r}") for name, rule in setting.items()}
        policies = (one for one in named.values() if isinstance(one, ApprovalPolicy))
        return ApprovalByName(named, next(policies, False))
    if callable(setting):
        check_callable(setting, ("context", "agent", "tool"), what="require_approval")
        return cast("LocalMCPApprovalCallable", setting)
    return _answer(setting, "")


def _answer(rule: object, where: str) -> ToolApproval:
    if isinstance(rule, bool | ApprovalPolicy):
        return rule
    if rule in ("always", "never"):
        return rule == "always"
    place = f"require_approval {where}".rstrip()
    raise UserError(f"{place} is {rule!r}: it must be {_FORMS}.")


def _is_object_form(entries: Mapping[str, object]) -> bool:
    return any(
        isinstance(names, Mapping) and "tool_names" in names
        for names in (entries.get("always"), entries.get("never"))
    )


def _named_policy(entries: Mapping[str, object]) -> dict[str, ToolApproval]:
    if unknown := sorted(str(key) for key in entries if key not in ("always", "never")):
        raise UserError(
            f"require_approval has the keys 'always' and 'never', not {', '.join(unknown)}."
        )
    named = {key: _names(entries.get(key, {}), key) for key in ("always", "never")}
    if both := sorted(set(named["always"]) & set(named["never"])):
        raise UserError(f"require_approval has {both[0]!r} under both 'always' and 'never'.")
    always: dict[str, ToolApproval] = dict.fromkeys(named["always"], True)
    return always | dict.fromkeys(named["never"], False)


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
