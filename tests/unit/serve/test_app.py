"""The application as a whole: what no route takes, and its settings."""

from typing import Any

import httpx2
import pytest
from temporalio.client import Client

from outlast.agents.errors import UserError
from outlast.client.identity import person
from outlast.serve.app import desk
from outlast.serve.login import ThisMachine, TrustedProxy


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
