"""Valid and unique names of MCP tools, with or without the server's name."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha1

from outlast.agents.errors import UserError
from outlast.agents.schemas.provider_names import is_tool_name

LONGEST = 64
"""The maximum number of characters of a tool's name."""

_HASH_LENGTH = 8  # of a name of 64 characters, little is lost


def names_with_server(
    tools: Sequence[tuple[str, str]], *, reserved: Iterable[str] = ()
) -> list[str]:
    """Return `mcp_<server>__<tool>` for each (server, tool), with none of the reserved names.

    Invalid characters become `_`. A name that is too long or not unique ends with a hash. The same
    tools have the same names in every process.
    """
    plain = [f"mcp_{_safe(server, 'server')}__{_safe(tool, 'tool')}" for server, tool in tools]
    often = Counter(plain)
    used = set(reserved)
    names: list[str] = []
    for (server, tool), name in zip(tools, plain, strict=True):
        seed, count = f"{server}\0{tool}", 0
        chosen = name
        if len(name) > LONGEST or often[name] > 1:
            chosen = _shorten(name, seed)
        while chosen in used:
            count += 1
            chosen = _shorten(name, f"{seed}\0{count}")
        used.add(chosen)
        names.append(chosen)
    return names


def own_names(tools: Sequence[tuple[str, str]], *, owner: str) -> list[str]:
    """Return the servers' own names of the tools, with a valid name for each that has none.

    Such a name ends with a hash of the server's: it does not depend on other tools.

    Raises:
        UserError: two servers have a tool of the same name.
    """
    home: dict[str, str] = {}
    names: list[str] = []
    for server, tool in tools:
        if tool in home:
            raise UserError(
                f"{owner}: the MCP servers {home[tool]!r} and {server!r} both have a tool "
                f"{tool!r}. Tell them apart with "
                "mcp_config={'include_server_in_tool_names': True}, or leave one out with "
                "tool_filter=create_static_tool_filter(blocked_tool_names=[...])."
            )
        home[tool] = server
        names.append(tool if is_tool_name(tool) else _shorten(_safe(tool, "tool"), tool))
    return names


def _safe(name: str, otherwise: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name).strip("_-") or otherwise


def _shorten(name: str, seed: str) -> str:
    ending = "_" + sha1(seed.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    return (name[: LONGEST - len(ending)].rstrip("_-") or "mcp") + ending
