"""The application as a whole: what no route takes, and its settings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import Response
from starlette.routing import Route
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.approvals.policy_file import ApprovalFile
from outlast.agents.errors import UserError
from outlast.client.identity import person
from outlast.loop.start import Customer
from outlast.serve.app import desk
from outlast.serve.login import ThisMachine, TrustedProxy
from outlast.serve.routing import Desk
from outlast.views.run import RunSnapshot, snapshot_of
from tests.laws.driver import Play


class _Nowhere(Client):
    """Connected to nothing: these tests ask no server."""

    def __init__(self) -> None:
        pass

    @property
    def namespace(self) -> str:
        return "default"


CLIENT = _Nowhere()


def _http() -> Any:
    transport = httpx2.ASGITransport(desk(CLIENT), client=("127.0.0.1", 5000))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8090")


async def test_a_person_reads_a_page_where_there_is_nothing_and_a_program_json() -> None:
    async with _http() as http:
        page = await http.get("/nothing", headers={"Accept": "text/html,*/*"})
        assert (page.status_code, page.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        answer = await http.get("/nothing")
        assert answer.json() == {"error": {"code": "not_found", "message": "Not Found."}}


async def test_a_load_balancer_asks_under_any_name() -> None:
    async with _http() as http:
        answer = await http.get("/health", headers={"Host": "10.0.0.9:8090"})
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _fail(_request: object) -> Response:
    raise ValueError("A mistake.")


async def test_no_answer_may_be_framed_or_taken_for_another_type() -> None:
    app = desk(CLIENT, agents=[Agent(name="A")])
    app.router.routes.append(Route("/fails", _fail))
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000), raise_app_exceptions=False)
    found: set[int] = set()
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8090") as http:
        paths = [one.path for one in app.routes if isinstance(one, Route)]
        for path in (re.sub(r"\{[^}]*\}", "A", one) for one in [*paths, "/nothing"]):
            # What asks the server, which is not there, is a failure; with PUT, nothing is.
            for method, host in (
                ("GET", "elsewhere"),
                ("PUT", "localhost"),
                ("OPTIONS", "localhost"),
            ):
                for accepted in ("text/html", "*/*"):
                    headers = {"Accept": accepted, "Host": host}
                    async with http.stream(method, path, headers=headers) as answer:
                        found.add(answer.status_code)
                        assert GUARDS.items() <= dict(_titled(answer.headers)).items(), path
                        policy = answer.headers["Content-Security-Policy"]
                        assert "frame-ancestors 'none'" in policy or "sandbox" in policy
    assert {200, 204, 404, 405, 421, 500} <= found


def _titled(headers: Any) -> Iterator[tuple[str, str]]:
    return ((name.title(), value) for name, value in headers.items())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "desk.example.com"}, "must be an address"),
        ({"url": "https://desk.example.com"}, "needs a login"),
        ({"url": "https://desk.example.com", "login": ThisMachine(person("ann"))}, "needs a login"),
        ({"url": "https://desk.example.com", "login": TrustedProxy(["10.0.0.7"])}, "needs roles="),
        ({"login": TrustedProxy(["10.0.0.7"])}, "needs its own address"),
        ({"api_keys": {"shop": "short"}}, "at least 24 letters"),
    ],
)
async def test_settings_that_do_not_fit_are_refused(options: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        desk(CLIENT, **options)


async def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        desk(CLIENT, colour="blue")  # pyright: ignore[reportCallIssue]


def test_saved_replies_come_from_the_operators_file_whose_mistakes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "policies.toml"
    place.write_text('[reply.sent]\ntext = "It is on its way."\n', encoding="utf-8")
    assert [one.name for one in desk(CLIENT, approvals=place).state.desk.replies] == ["sent"]
    assert desk(CLIENT).state.desk.replies == ()
    monkeypatch.setenv("OUTLAST_APPROVALS", str(place))
    assert [one.name for one in desk(CLIENT).state.desk.replies] == ["sent"]
    place.write_text('[reply.sent]\ntext = "Dear {order}"\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"policies\.toml:2:1: text has \{order\}"):
        desk(CLIENT)


async def test_programs_read_saved_replies_with_the_name_of_the_customer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = desk(CLIENT, approvals=ApprovalFile("f", '[reply.a]\ntext = "Dear {customer}"\n'))
    play = Play.ready(customer=Customer("c-1", name="Zoë\u202e"))

    class Handle:
        async def state(self) -> RunSnapshot:
            return snapshot_of(play.state)

    def handle(*_: object) -> Handle:
        return Handle()

    monkeypatch.setattr(Desk, "handle", handle)
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8090") as http:
        answer = await http.get("/api/conversations/run/replies")
    assert answer.json() == {"replies": [{"name": "a", "title": "a", "text": "Dear Zoë"}]}
