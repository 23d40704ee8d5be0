"""Whom a trusted proxy may name, and whom nobody else may."""

from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response

from outlast.agents.errors import UserError
from outlast.serve.access import RoleRules, Staff
from outlast.serve.login import TrustedProxy
from outlast.serve.routing import Desk, DeskRequest, route

PROXY = "10.0.0.7"


async def _say_who(asked: DeskRequest) -> Response:
    caller = asked.caller
    if not isinstance(caller, Staff):
        return JSONResponse(None)
    person = caller.person
    return JSONResponse(
        {"name": person.subject, "groups": list(person.groups), "method": person.method}
    )


def _app(login: TrustedProxy) -> Starlette:
    app = Starlette(
        routes=[
            route("/open", _say_who, action=None),
            route("/runs", _say_who, action="list_runs"),
            route("/hold", _say_who, action="hold", methods=["POST"]),
        ]
    )
    parts: Any = {"client": None, "feed": None}
    roles = RoleRules({"support": ["viewer", "operator"]})
    app.state.desk = Desk(**parts, login=login, roles=roles, url="https://desk.test")
    return app


async def _ask(
    headers: Sequence[tuple[str, str]],
    *,
    peer: str = PROXY,
    path: str = "/runs",
    method: str = "GET",
    **settings: Any,
) -> httpx2.Response:
    app = _app(TrustedProxy([PROXY, "fd00::/64"], **settings))
    transport = httpx2.ASGITransport(app, client=(peer, 5000))
    async with httpx2.AsyncClient(transport=transport, base_url="https://desk.test") as http:
        return await http.request(method, path, headers=list(headers))


ANN = [("X-Forwarded-User", "ann"), ("X-Forwarded-Groups", "support, billing")]


async def test_the_proxy_says_who_it_is() -> None:
    answer = await _ask(ANN)
    assert answer.json() == {"name": "ann", "groups": ["support", "billing"], "method": "proxy"}
    assert (await _ask(ANN, peer="fd00::5")).status_code == 200


async def test_headers_of_the_program_s_choice_count() -> None:
    headers = [("Remote-User", "ann"), ("Remote-Groups", "cn=a,ou=b|support")]
    names = {"user_header": "Remote-User", "groups_header": "Remote-Groups"}
    answer = await _ask(headers, **names, groups_separator="|")
    assert answer.json()["groups"] == ["cn=a,ou=b", "support"]
    assert (await _ask(ANN, **names)).status_code == 401


@pytest.mark.parametrize("peer", ["10.0.0.8", "127.0.0.1", "fd01::5", "testclient"])
async def test_nobody_else_names_anybody(peer: str) -> None:
    forged = [("X-Forwarded-For", PROXY), ("Forwarded", f"for={PROXY}"), ("X-Real-IP", PROXY)]
    refused = await _ask([*ANN, *forged], peer=peer)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "identity_refused")
    assert "ann" not in refused.text


@pytest.mark.parametrize(
    "headers",
    [
        [*ANN, ("X-Forwarded-User", "eve")],
        [*ANN, ("X_Forwarded_User", "eve")],
        [*ANN, ("X-Forwarded-Groups", "admin")],
        [("X_Forwarded_User", "eve")],
        [("X-Forwarded-User", "ann,eve")],
        [("X-Forwarded-User", "")],
        [("X-Forwarded-User", "ann\u00a0")],
    ],
)
async def test_a_header_that_a_client_adds_is_refused(headers: list[tuple[str, str]]) -> None:
    raw: Any = [(name.encode(), value.encode()) for name, value in headers]
    assert (await _ask(raw, path="/open")).status_code == 403


async def test_a_request_without_a_name_is_nobodys() -> None:
    for peer in (PROXY, "192.0.2.1"):
        assert (await _ask([], peer=peer, path="/open")).json() is None
        refused = await _ask([("X-Forwarded-Groups", "support")], peer=peer)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "not_logged_in")


async def test_a_page_of_somebody_else_changes_nothing() -> None:
    for origin in ([], [("Origin", "https://evil.test")], [("Origin", "null")]):
        refused = await _ask([*ANN, *origin], path="/hold", method="POST")
        assert refused.json()["error"]["code"] == "other_origin"
    own = await _ask([*ANN, ("Origin", "https://desk.test")], path="/hold", method="POST")
    assert own.status_code == 200


@pytest.mark.parametrize(
    ("trusted", "settings", "words"),
    [
        ([], {}, "is empty"),
        (["0.0.0.0/0"], {}, "is every address"),
        (["proxy"], {}, "is no address or network"),
        ("10.0.0.7", {}, "must be a list"),
        ([PROXY], {"user_header": "X: y"}, "is no name of a header"),
        ([PROXY], {"groups_separator": ""}, "groups_separator= is empty"),
    ],
)
def test_a_proxy_that_does_not_fit_is_refused_at_once(
    trusted: Any, settings: Any, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        TrustedProxy(trusted, **settings)
