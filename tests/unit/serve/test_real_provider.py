"""Logins at a real OpenID Connect provider, over HTTP, as a browser goes through them."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from outlast.agents.hosts import free_port
from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.serve import oidc, oidc_provider
from outlast.serve.access import RoleRules
from outlast.serve.feed import Feed
from outlast.serve.http_server import serve_desk
from outlast.serve.oidc import OpenIDConnect
from outlast.serve.routing import Desk, route
from outlast.serve.staff_sessions import SessionRules
from tests.oidc_provider.running import NEEDED, SECRET, RealProvider, outlast_serve
from tests.servers import TemporalServer
from tests.unit.serve.test_oidc import say_who

KEYS = IdentityKeys(read_keys(new_shared_key()))

pytestmark = [pytest.mark.full, *NEEDED]


def _application(provider: RealProvider, url: str, **options: Any) -> Starlette:
    login = OpenIDConnect(
        provider.issuer,
        options.pop("client_id", "desk"),
        options.pop("client_secret", SECRET),
        sessions=SessionRules(keys=KEYS),
        **options,
    )
    login.check_address(url)
    app = Starlette(routes=[route("/open", say_who, action=None), *login.routes])
    parts: Any = {"client": None, "feed": Feed(lambda _run_id: _no_states())}
    app.state.desk = Desk(**parts, login=login, roles=RoleRules(anybody=["viewer"]), url=url)
    return app


async def _no_states() -> AsyncGenerator[Any]:
    return
    yield


@asynccontextmanager
async def _served(application: Starlette, port: int) -> AsyncGenerator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve_desk(application, "127.0.0.1", port, stop, lambda _port: ready.set())
    )
    try:
        async with asyncio.timeout(10):
            await ready.wait()
        yield
    finally:
        stop.set()
        await serving


@dataclass
class Place:
    """The provider, and the address where desks are."""

    provider: RealProvider
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def desk(self, **options: Any) -> Any:
        return _served(_application(self.provider, self.url, **options), self.port)


@pytest.fixture(scope="module")
async def place() -> AsyncGenerator[Place]:
    port = free_port()
    provider = RealProvider(f"http://127.0.0.1:{port}")
    await provider.start()
    yield Place(provider, port)
    await provider.stop()


@pytest.fixture
async def browser() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as client:
        yield client


async def _goes_back(browser: httpx2.AsyncClient, address: str, name: str, back_to: str) -> str:
    """Fill in the provider's forms as a person does, and return where it sends them back to."""
    answer = await browser.get(address)
    for _ in range(12):
        if answer.is_redirect:
            address = str(answer.url.join(answer.headers["Location"]))
            if address.startswith(back_to):
                return address
            answer = await browser.get(address)
            continue
        form = re.search(r'<form[^>]*action="([^"]+)"(.*?)</form>', answer.text, re.DOTALL)
        assert answer.status_code == 200, answer.text
        assert form is not None, answer.text
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[2]))
        fields |= {"login": name, "password": "any"} if 'name="login"' in form[2] else {}
        answer = await browser.post(str(answer.url.join(unescape(form[1]))), data=fields)
    raise AssertionError("the provider sends nobody back")


async def _begin(browser: httpx2.AsyncClient, place: Place, name: str = "ann") -> str:
    begun = await browser.get(f"{place.url}/login?next=/open")
    assert begun.status_code == 303, begun.text
    return await _goes_back(browser, begun.headers["Location"], name, place.url)


async def _log_in(browser: httpx2.AsyncClient, place: Place, name: str = "ann") -> httpx2.Response:
    return await browser.get(await _begin(browser, place, name))


async def _who(browser: httpx2.AsyncClient, place: Place) -> Any:
    return (await browser.get(f"{place.url}/open")).json()


def _desk_cookies(browser: httpx2.AsyncClient) -> dict[str, str]:
    """Return what a thief would copy; ports of a machine share cookies."""
    return {one.name: str(one.value) for one in browser.cookies.jar if "outlast" in one.name}


@pytest.fixture
def let_pass(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Lets time pass for the sessions of desks, and not for the provider."""
    passed, real = timedelta(), time.time

    def later(length: timedelta) -> None:
        nonlocal passed
        passed += length

    clock = SimpleNamespace(time=lambda: real() + passed.total_seconds())
    monkeypatch.setattr(oidc, "time", clock)
    return later


ANN = ["ann", "ann of the team", ["support"], "oidc"]


async def test_a_person_logs_in_is_checked_and_logs_out(
    place: Place, browser: httpx2.AsyncClient, let_pass: Callable[[timedelta], None]
) -> None:
    scopes = ["openid", "profile", "email", "groups"]
    async with place.desk(scopes=scopes):
        assert await _who(browser, place) is None
        done = await _log_in(browser, place)
        assert (done.status_code, done.headers["Location"]) == (303, f"{place.url}/open")
        assert await _who(browser, place) == ANN
        for _ in range(2):  # the provider takes each refresh token once
            let_pass(timedelta(minutes=11))
            answers = await asyncio.gather(*(_who(browser, place) for _ in range(4)))
            assert answers == [ANN] * 4
        copy = _desk_cookies(browser)
        page = await browser.post(f"{place.url}/logout", headers={"Origin": place.url})
        assert f"Log out of {place.provider.issuer}" in page.text
        assert await _who(browser, place) is None
    # Another process did not see the logout; the provider knows of it.
    async with place.desk(scopes=scopes), httpx2.AsyncClient() as thief:
        thief.cookies.update(copy)
        assert await _who(thief, place) == ANN
        let_pass(timedelta(minutes=11))
        assert await _who(thief, place) is None


async def test_any_process_finishes_a_login_and_knows_its_session(
    place: Place, browser: httpx2.AsyncClient
) -> None:
    async with place.desk():
        back = await _begin(browser, place, "bob")
    async with place.desk():
        assert (await browser.get(back)).status_code == 303
    async with place.desk():
        assert (await _who(browser, place))[0] == "bob"


async def test_a_code_and_a_state_count_once(place: Place, browser: httpx2.AsyncClient) -> None:
    async with place.desk():
        back = await _begin(browser, place)
        cookies = _desk_cookies(browser)
        async with httpx2.AsyncClient() as eve:
            assert (await eve.get(back)).status_code == 400
        assert (await browser.get(back)).status_code == 303
        async with httpx2.AsyncClient() as replay:
            replay.cookies.update(cookies)
            refused = await replay.get(back)
            assert (refused.status_code, "provider refuses" in refused.text) == (403, True)
            assert await _who(replay, place) is None


async def test_who_is_blocked_at_the_provider_is_out_at_the_next_check(
    place: Place, browser: httpx2.AsyncClient, let_pass: Callable[[timedelta], None]
) -> None:
    async with place.desk():
        await _log_in(browser, place, "carl")
        await place.provider.block("carl")
        assert (await _who(browser, place))[0] == "carl"
        let_pass(timedelta(minutes=11))
        assert await _who(browser, place) is None


async def test_an_address_that_is_not_verified_names_nobody(
    place: Place, browser: httpx2.AsyncClient
) -> None:
    async with place.desk(subject_claim="email"):
        assert "not verified" in (await _log_in(browser, place, "eve")).text
        async with httpx2.AsyncClient() as other:
            await _log_in(other, place, "ann")
            assert (await _who(other, place))[0] == "ann@example.com"


async def test_another_site_ends_no_session(place: Place, browser: httpx2.AsyncClient) -> None:
    async with place.desk():
        await _log_in(browser, place, "dora")
        page = await browser.post(f"{place.url}/logout", headers={"Origin": "https://evil.test"})
        assert page.status_code == 403
        assert (await _who(browser, place))[0] == "dora"


async def test_a_wrong_secret_is_named(place: Place, browser: httpx2.AsyncClient) -> None:
    async with place.desk(client_secret="wrong"):
        refused = await _log_in(browser, place)
        assert (refused.status_code, "Check the client" in refused.text) == (503, True)


async def test_a_provider_with_new_keys_and_one_that_is_away(
    browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc_provider, "FEWEST_SECONDS", 0)
    port = free_port()
    place = Place(RealProvider(f"http://127.0.0.1:{port}"), port)
    await place.provider.start()
    async with place.desk():
        await _log_in(browser, place)
        await place.provider.stop()
        monkeypatch.setattr(oidc_provider, "SETTINGS_SECONDS", 0)
        away = await browser.get(f"{place.url}/logout")
        assert away.status_code == 405
        async with httpx2.AsyncClient() as other:
            away = await other.get(f"{place.url}/login")
            assert (away.status_code, "gives no answer" in away.text) == (503, True)
        assert (await _who(browser, place))[0] == "ann"
        monkeypatch.setattr(oidc_provider, "SETTINGS_SECONDS", 3_600)
        await place.provider.start()
        async with httpx2.AsyncClient() as other:
            await _log_in(other, place)
            assert (await _who(other, place))[0] == "ann"
    await place.provider.stop()


async def test_a_login_outlives_the_desk(
    place: Place, browser: httpx2.AsyncClient, server: TemporalServer
) -> None:
    key = new_shared_key()
    async with outlast_serve(place.provider, server.address, key) as serving:
        sent = await browser.get(f"{place.url}/conversations")
        assert sent.headers["Location"].startswith("/login?next=%2Fconversations"), sent.text
        back = await browser.get(
            await _goes_back(
                browser,
                (await browser.get(f"{place.url}{sent.headers['Location']}")).headers["Location"],
                "ann",
                place.url,
            )
        )
        assert back.headers["Location"] == f"{place.url}/conversations"
        page = await browser.get(f"{place.url}/conversations")
        assert (page.status_code, "ann of the team" in page.text) == (200, True)
        assert 'action="/logout"' in page.text
        serving.kill()
        await serving.wait()
    async with outlast_serve(place.provider, server.address, f"{new_shared_key()},{key}"):
        page = await browser.get(f"{place.url}/conversations")
        assert (page.status_code, "ann of the team" in page.text) == (200, True)
    async with outlast_serve(place.provider, server.address, new_shared_key()):
        assert (await browser.get(f"{place.url}/conversations")).status_code == 303
