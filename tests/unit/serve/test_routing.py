"""Which requests reach a handler, and as whose."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from outlast.agents.errors import RunNotFound, ServerUnavailable, UserError
from outlast.client.identity import person
from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.loop.approvals import Person
from outlast.serve import routing
from outlast.serve.access import Customer, Program, RoleRules, Staff
from outlast.serve.feed import TooManyReaders
from outlast.serve.keys import ApiKeys
from outlast.serve.login import ThisMachine
from outlast.serve.routing import Desk, DeskRequest, EscapedPaths, route
from outlast.serve.tokens import ConversationTokens
from outlast.serve.troubles import RunTroubles

KEY = "a-key-of-a-shop-that-nobody-guesses"
TOKENS = ConversationTokens(IdentityKeys(read_keys(new_shared_key())), audience="test")
ANN = person("ann", groups=["billing"])


class Nobody:
    """A login of which nobody has used the page."""

    routes = ()
    path = "/login"

    async def person(self, _connection: HTTPConnection) -> Person | None:
        return None


async def _say_who(asked: DeskRequest) -> Response:
    kind = type(asked.caller).__name__
    return JSONResponse({"caller": kind, "run_id": asked.run_id})


def _failing(error: Exception) -> Any:
    async def fail(_asked: DeskRequest) -> Response:
        raise error

    return fail


ERRORS: Mapping[str, Exception] = {
    "missing": RunNotFound("There is no run 'x'."),
    "half": RunNotFound("There is no run '\ud83d'."),
    "busy": TooManyReaders("100 readers follow the run already."),
    "away": ServerUnavailable("No server."),
    "defect": RuntimeError("secret of the program"),
}


def _app(**fields: Any) -> Starlette:
    app = Starlette(
        routes=[
            route("/open", _say_who, action=None),
            route("/runs", _say_who, action="list_runs"),
            route("/runs/{run_id}", _say_who, action="read_messages"),
            route("/runs/{run_id}/hold", _say_who, action="hold", methods=["POST"]),
            *(route(f"/{name}", _failing(error), action=None) for name, error in ERRORS.items()),
        ],
        middleware=[Middleware(EscapedPaths)],
    )
    settings: dict[str, Any] = {
        "client": None,
        "feed": None,
        "login": ThisMachine(ANN),
        "roles": RoleRules(anybody=["viewer", "operator"]),
        "tokens": TOKENS,
        "api_keys": ApiKeys({"shop": KEY}),
    }
    app.state.desk = Desk(**(settings | fields))
    return app


def _client(app: Starlette, peer: str = "127.0.0.1", host: str = "localhost:8090") -> Any:
    transport = httpx2.ASGITransport(app, client=(peer, 5000))
    return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}")


@pytest.fixture
async def http() -> AsyncGenerator[Any]:
    async with _client(_app()) as client:
        yield client


def _bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


async def test_an_id_may_have_any_characters(http: Any) -> None:
    for name in ("a/b", "a b", "ä%2F", "..", "x/hold", "?a=b#c"):
        escaped = "".join(f"%{byte:02X}" for byte in name.encode())
        answer = await http.get(f"/runs/{escaped}?later=1")
        assert answer.json() == {"caller": "Staff", "run_id": name}


async def test_a_token_opens_its_conversation_only(http: Any) -> None:
    headers = _bearer(TOKENS.mint("mine"))
    answer = await http.get("/runs/mine", headers=headers)
    assert answer.json() == {"caller": "Customer", "run_id": "mine"}
    for path in ("/runs/other", "/runs"):
        refused = await http.get(path, headers=headers)
        assert refused.status_code in {401, 403}
    forged = await http.get("/runs/mine", headers=_bearer(TOKENS.mint("mine")[:-4] + "AAAA"))
    other = await http.get("/runs/other", headers=headers)
    assert forged.status_code == other.status_code == 401
    assert forged.json() == other.json() | {"error": forged.json()["error"]}
    assert forged.json()["error"]["message"] == other.json()["error"]["message"]


async def test_a_desk_without_keys_lets_no_customer_in() -> None:
    async with _client(_app(tokens=None)) as http:
        assert (
            await http.get("/runs/mine", headers=_bearer(TOKENS.mint("mine")))
        ).status_code == 401


async def test_an_api_key_is_a_program(http: Any) -> None:
    answer = await http.get("/runs/any", headers=_bearer(KEY))
    assert answer.json()["caller"] == "Program"
    assert (await http.post("/runs/any/hold", headers=_bearer(KEY))).status_code == 403
    unknown = await http.get("/runs/any", headers=_bearer(KEY + "x"))
    assert (unknown.status_code, unknown.headers["WWW-Authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("value", ["", "Basic YTpi", "Bearer", "Bearer ", "Bearer ä"])
async def test_who_says_something_about_themselves_is_not_somebody_else(
    http: Any, value: str
) -> None:
    headers = [(b"Authorization", value.encode("latin-1"))]
    assert (await http.get("/open", headers=headers)).status_code == 401


async def test_nobody_is_asked_to_log_in() -> None:
    async with _client(_app(login=Nobody())) as http:
        refused = await http.get("/runs")
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "not_logged_in")
        assert (await http.get("/open")).json()["caller"] == "NoneType"


async def test_a_change_has_to_come_from_a_page_of_the_desk(http: Any) -> None:
    for origin in (
        None,
        "null",
        "http://evil.example",
        "http://localhost:8091",
        "https://localhost:8090",
    ):
        headers = {} if origin is None else {"Origin": origin}
        refused = await http.post("/runs/a/hold", headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "other_origin")
    own = await http.post("/runs/a/hold", headers={"Origin": "http://localhost:8090"})
    assert own.json() == {"caller": "Staff", "run_id": "a"}


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.7:8090", "a@b"])
async def test_a_name_of_somebody_else_that_leads_here_is_refused(host: str) -> None:
    async with _client(_app()) as http:
        refused = await http.get("/open", headers={"Host": host})
        assert (refused.status_code, refused.json()["error"]["code"]) == (421, "other_host")


async def test_a_desk_with_an_address_has_that_name_only() -> None:
    async with _client(_app(url="https://desk.example.com")) as http:
        assert (await http.get("/open", headers={"Host": "desk.example.com"})).status_code == 200
        assert (await http.get("/open", headers={"Host": "localhost"})).status_code == 421
        headers = {"Host": "desk.example.com", "Origin": "https://desk.example.com"}
        assert (await http.post("/runs/a/hold", headers=headers)).status_code == 200


async def test_without_a_login_other_machines_are_refused() -> None:
    async with _client(_app(), peer="10.0.0.7") as http:
        refused = await http.get("/runs")
        assert refused.status_code == 403
        assert "of its machine only" in refused.json()["error"]["message"]


async def test_errors_are_told_but_not_those_of_the_program(http: Any) -> None:
    statuses = {name: (await http.get(f"/{name}")).status_code for name in ERRORS}
    assert statuses == {"missing": 404, "half": 404, "busy": 429, "away": 503, "defect": 500}
    assert (await http.get("/busy")).headers["Retry-After"] == "5"
    assert "secret" not in (await http.get("/defect")).text


def test_callers_are_told_apart() -> None:
    kinds = {type(one) for one in (Staff(ANN), Customer("a", 0), Program("shop"))}
    assert len(kinds) == 3


def test_a_role_has_a_name() -> None:
    with pytest.raises(UserError, match="is no role"):
        RoleRules(anybody=["boss"])


async def test_a_page_waits_for_a_slow_answer_only_while_the_server_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "SOON_SECONDS", 0.01)
    there, asked, go_on = True, 0, asyncio.Event()
    given_up = asyncio.Event()

    async def slow(_asked: DeskRequest) -> Response:
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            given_up.set()
            raise
        return JSONResponse({})

    async def answers() -> bool:
        nonlocal asked
        asked += 1
        if there and asked == 3:
            go_on.set()
        return there

    app = _app(troubles=RunTroubles(answers=answers))
    app.router.routes.append(route("/slow", slow, action=None, soon=True))
    async with asyncio.timeout(10), _client(app) as http:
        assert (await http.get("/slow")).status_code == 200
        go_on.clear()
        there = False
        refused = await http.get("/slow")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_away")
        await given_up.wait()
        go_on.set()
        assert (await http.get("/slow")).status_code == 200, "what is there at once is answered"
