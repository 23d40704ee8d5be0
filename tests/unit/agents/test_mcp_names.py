"""What the tools of MCP servers are called."""

import re

import pytest

from outlast.agents.errors import UserError
from outlast.agents.mcp.names import LONGEST, names_with_server, own_names

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def test_a_name_tells_the_server() -> None:
    assert names_with_server([("shelf", "find")]) == ["mcp_shelf__find"]


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("http://host/mcp", "find.book", "mcp_http___host_mcp__find_book"),
        ("_Büro_", "такой", "mcp_B_ro__tool"),
        ("", "-", "mcp_server__tool"),
    ],
)
def test_what_no_provider_takes_is_replaced(server: str, tool: str, name: str) -> None:
    assert names_with_server([(server, tool)]) == [name]


def test_names_that_are_too_long_or_would_clash_end_in_a_hash() -> None:
    tools = [("a b", "find"), ("a_b", "find"), ("shelf", "x" * 80)]
    names = names_with_server(tools)
    assert len(set(names)) == 3
    assert all(len(name) <= LONGEST for name in names)
    assert names[0].startswith("mcp_a_b__find_")
    assert names_with_server(tools) == names  # in every process
    assert names_with_server(tools[::-1]) == names[::-1]


def test_a_name_that_is_taken_is_not_given_again() -> None:
    names = names_with_server([("s", "find"), ("s", "find")], reserved=["mcp_s__find"])
    assert len({*names, "mcp_s__find"}) == 3
    (name,) = names_with_server([("s", "find")], reserved=["mcp_s__find"])
    assert name.startswith("mcp_s__find_")


def test_names_of_their_own_stay() -> None:
    assert own_names([("a", "find"), ("b", "найти")], owner="A") == ["find", "найти"]


def test_a_name_that_two_servers_have_is_refused_with_what_to_do() -> None:
    with pytest.raises(UserError, match=r"A: the MCP servers 'a' and 'b' both have.*'find'") as it:
        own_names([("a", "find"), ("b", "find")], owner="A")
    assert "include_server_in_tool_names" in str(it.value)


@pytest.mark.parametrize("tool", ["find.book", "x" * 65, "найти книгу", "/"])
def test_a_name_that_no_provider_takes_has_one_that_does_not_depend_on_others(tool: str) -> None:
    [name] = own_names([("a", tool)], owner="A")
    assert ACCEPTED.fullmatch(name)
    assert own_names([("b", "find_book"), ("a", tool)], owner="A") == ["find_book", name]
