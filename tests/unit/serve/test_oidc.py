"""Logins at a provider, honest or not, and the sessions that they begin."""

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import jwt
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response

from outlast.agents.errors import UserError
from outlast.contract.identity import IdentityKeys, new_key_pair, new_shared_key, read_keys
from outlast.serve import oidc, oidc_provider, sse
from outlast.serve.access import RoleRules, Staff
from outlast.serve.oidc import OpenIDConnect, local_path
from outlast.serve.routing import Desk, DeskRequest, route
from outlast.serve.sse import EventStream, ServerSentEvent
from outlast.serve.staff_sessions import SessionRules
from tests.unit.serve.scripted_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    ISSUER,
    Key,
    ScriptedProvider,
)

URL = "https://desk.test"
KEYS = IdentityKeys(read_keys(new_shared_key()))
COOKIE = "__Host-outlast-session"


async def say_who(asked: DeskRequest) -> Response:
    if not isinstance(asked.caller, Staff):
        return JSONResponse(None)
    person = asked.caller.person
    groups = list(person.groups)
    return JSONResponse([person.subject, person.display, groups, person.method])


async def _stream(_asked: DeskRequest) -> Response:
    async def events() -> AsyncGenerator[ServerSentEvent]:
        yield ServerSentEvent("first")
        await asyncio.Event().wait()

    return EventStream(events())


def _desk(login: OpenIDConnect, url: str = URL) -> Starlette:
    login.check_address(url)
    app = Starlette(
        routes=[
            route("/open", say_who, action=None),
            route("/runs", say_who, action="list_runs"),
            route("/stream", _stream, action="list_runs"),
            route("/hold", say_who, action="hold", methods=["POST"]),
            *login.routes,
        ]
    )
    parts: Any = {"client": None, "feed": None}
    roles = RoleRules({"support": ["viewer", "operator"]})
    app.state.desk = Desk(**parts, login=login, roles=roles, url=url)
    return app


@dataclass
class Story:
    """A provider, a desk, and a browser."""

    provider: ScriptedProvider
    desk: Starlette
    browser: httpx2.AsyncClient

    @classmethod
    def of(cls, provider: ScriptedProvider, *, url: str = URL, **options: Any) -> "Story":
        rules: dict[str, Any] = {"keys": KEYS} | options.pop("rules", {})
        login = OpenIDConnect(
            options.pop("issuer", ISSUER),
            options.pop("client_id", CLIENT_ID),
            options.pop("client_secret", CLIENT_SECRET),
            sessions=SessionRules(**rules),
            transport=provider.transport,
            **options,
        )
        desk = _desk(login, url)
        return cls(provider, desk, _browser(desk, url))

    async def begin(self, path: str = "/login") -> str:
        answer = await self.browser.get(path)
        assert answer.status_code == 303, answer.text
        return answer.headers["Location"]

    async def log_in(self, path: str = "/login", **further: str) -> httpx2.Response:
        address = await self.begin(path)
        return await self.browser.get(self.provider.answer(address, **further))

    async def who(self) -> Any:
        return (await self.browser.get("/open")).json()

    def session(self) -> str:
        return self.browser.cookies[COOKIE]


def _browser(desk: Starlette, url: str = URL) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(desk, client=("192.0.2.1", 5000))
    return httpx2.AsyncClient(transport=transport, base_url=url)


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider()


@pytest.fixture
def story(provider: ScriptedProvider) -> Story:
    return Story.of(provider)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Lets time pass, for sessions; the provider's tokens have the time of the machine."""
    passed = timedelta()
    real = time.time

    def let_pass(length: timedelta) -> None:
        nonlocal passed
        passed += length

    later = SimpleNamespace(time=lambda: real() + passed.total_seconds())
    for module in (oidc, sse):
        monkeypatch.setattr(module, "time", later)
    return let_pass


ANN = ["user-1", "Ann", ["support"], "oidc"]


# --- Logging in ----------------------------------------------------------------------------------


async def test_a_person_logs_in_and_comes_back_to_the_page_they_wanted(story: Story) -> None:
    refused = await story.browser.get("/runs")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "not_logged_in")
    answer = await story.log_in("/login?next=/runs?group=billing%26mine")
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        f"{URL}/runs?group=billing&mine",
    )
    assert (await story.browser.get("/runs")).json() == ANN
    again = await story.browser.get("/login?next=/runs")
    assert again.headers["Location"] == f"{URL}/runs"


async def test_cookies_are_for_this_host_https_and_no_script(story: Story) -> None:
    begun = await story.browser.get("/login")
    finished = await story.browser.get(story.provider.answer(begun.headers["Location"]))
    cookies = [*begun.headers.get_list("Set-Cookie"), *finished.headers.get_list("Set-Cookie")]
    assert len(cookies) == 4
    for one in cookies:
        assert one.startswith("__Host-outlast-")
        assert all(
            word in one for word in ("; Path=/;", "; HttpOnly", "; SameSite=Lax", "; Secure")
        )
        assert "Domain" not in one
    content = base64.urlsafe_b64decode(story.session() + "===")
    assert not {b"Ann", b"refresh", b"support"} & {*re.findall(rb"\w+", content)}


async def test_at_this_machine_cookies_need_no_https(provider: ScriptedProvider) -> None:
    story = Story.of(provider, url="http://127.0.0.1:8090")
    answer = await story.log_in()
    cookie = next(one for one in answer.headers.get_list("Set-Cookie") if "session-8090=" in one)
    assert "Secure" not in cookie
    assert "HttpOnly" in cookie
    assert await story.who() == ANN


async def test_the_login_of_a_mounted_desk_is_below_its_path(provider: ScriptedProvider) -> None:
    login = OpenIDConnect(
        ISSUER,
        CLIENT_ID,
        CLIENT_SECRET,
        sessions=SessionRules(keys=KEYS),
        transport=provider.transport,
    )
    site = Starlette()
    site.mount("/desk", _desk(login, f"{URL}/desk"))
    async with _browser(site) as browser:
        begun = await browser.get("/desk/login?next=/desk/runs")
        back = provider.answer(begun.headers["Location"])
        assert back.startswith(f"{URL}/desk/login/callback?")
        assert (await browser.get(back)).headers["Location"] == f"{URL}/desk/runs"
        assert (await browser.get("/desk/open")).json() == ANN


async def test_claims_may_come_from_the_userinfo_endpoint(story: Story) -> None:
    story.provider.claims = {"name": None, "groups": None}
    story.provider.userinfo = {"sub": "user-1", "name": "Ann", "groups": ["support"], "aud": "x"}
    await story.log_in()
    assert await story.who() == ANN
    story.provider.userinfo["sub"] = "user-2"
    other = Story.of(story.provider)
    assert "about another person" in (await other.log_in()).text


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"email": "ann@test", "email_verified": False}, "not verified"),
        ({"email": "ann@test"}, "not verified"),
        ({"email": "ann@test", "email_verified": "true"}, "not verified"),
        ({}, "has no claim 'email'"),
    ],
)
async def test_an_address_names_somebody_only_if_it_is_verified(
    provider: ScriptedProvider, claims: dict[str, Any], words: str
) -> None:
    story = Story.of(provider, subject_claim="email")
    provider.claims = claims
    refused = await story.log_in()
    assert (refused.status_code, words in unescape(refused.text)) == (403, True)
    provider.claims = {"email": "ann@test", "email_verified": True}
    await story.log_in()
    assert (await story.who())[0] == "ann@test"


async def test_groups_come_from_the_claim_that_the_program_names(
    provider: ScriptedProvider,
) -> None:
    provider.claims = {"roles": ["support", "leads"], "groups": ["admin"]}
    story = Story.of(provider, groups_claim="roles")
    await story.log_in()
    assert (await story.who())[2] == ["support", "leads"]
    provider.claims = {"groups": None, "_claim_names": {"groups": "src1"}}
    assert "there are too many" in (await Story.of(provider).log_in()).text


async def test_many_groups_have_two_cookies_and_too_many_none(provider: ScriptedProvider) -> None:
    story = Story.of(provider)
    groups = ["support", *(new_shared_key() for _ in range(80))]
    provider.claims = {"groups": groups}
    await story.log_in()
    assert (await story.who())[2] == groups
    assert "__Host-outlast-session2" in story.browser.cookies
    provider.claims = {"groups": groups * 3 + [new_shared_key() for _ in range(200)]}
    refused = await Story.of(provider).log_in()
    assert "do not fit into a cookie" in refused.text


# --- Answers that prove nothing ------------------------------------------------------------------


def _unsigned(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, None, "none", {"kid": "first"})  # type: ignore[arg-type]


def _with_secret(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, CLIENT_SECRET.ljust(32, "x"), "HS256", {"kid": "first"})


def _with_other_key(claims: dict[str, Any]) -> str:
    return Key("first").signed(claims)


def _with_unknown_key(claims: dict[str, Any]) -> str:
    return Key("other").signed(claims)


def _no_token(_claims: dict[str, Any]) -> str:
    return "no.token.this"


def _changed(claims: dict[str, Any]) -> str:
    head, _, signature = Key("first").signed(claims).split(".")
    body = base64.urlsafe_b64encode(json.dumps(claims | {"sub": "eve"}).encode()).decode()
    return f"{head}.{body.rstrip('=')}.{signature}"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (_unsigned, "algorithm is not allowed"),
        (_with_secret, "algorithm is not allowed"),
        (_with_other_key, "signature is not of the issuer"),
        (_changed, "signature is not of the issuer"),
        (_no_token, "is no JSON Web Token"),
        (_with_unknown_key, "names no key"),
    ],
)
async def test_a_forged_token_logs_nobody_in(story: Story, token: Any, words: str) -> None:
    story.provider.token = token
    refused = await story.log_in()
    assert (refused.status_code, words in unescape(refused.text)) == (403, True), refused.text
    assert await story.who() is None


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"aud": "another desk"}, "for another program (aud)"),
        ({"aud": [CLIENT_ID, "another"]}, "'azp' does not fit"),
        ({"azp": "another"}, "'azp' does not fit"),
        ({"iss": "https://evil.test"}, "of another issuer (iss)"),
        ({"exp": 1_000_000_000}, "has expired"),
        ({"exp": None}, "no claim 'exp'"),
        ({"iat": int(time.time()) + 3_600}, "not valid yet"),
        ({"nonce": "of another login"}, "'nonce' does not fit"),
        ({"nonce": None}, "'nonce' does not fit"),
        ({"at_hash": "x" * 22}, "'at_hash' does not fit"),
        ({"sub": None}, "no claim 'sub'"),
        ({"sub": "ann\u202e"}, "characters that people cannot see"),
        ({"groups": [{"admin": True}]}, "is no list of names"),
    ],
)
async def test_a_token_of_another_login_logs_nobody_in(
    story: Story, claims: dict[str, Any], words: str
) -> None:
    story.provider.claims = claims
    refused = await story.log_in()
    assert (refused.status_code, words in unescape(refused.text)) == (403, True), refused.text
    assert await story.who() is None


async def test_new_keys_of_the_provider_count(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    await story.log_in()
    story.provider.keys = [Key("second"), *story.provider.keys]
    other = Story(story.provider, story.desk, _browser(story.desk))
    # Tokens with keys that nobody has do not let the desk ask for each of them.
    assert "names no key" in (await other.log_in()).text
    assert story.provider.requests.count("jwks") == 1
    monkeypatch.setattr(oidc_provider, "FEWEST_SECONDS", 0)
    await other.log_in()
    assert await other.who() == ANN
    assert story.provider.requests.count("jwks") == 2
    assert story.provider.requests.count("settings") == 1


async def test_an_answer_counts_once_and_in_its_browser(story: Story) -> None:
    back = story.provider.answer(await story.begin())
    async with _browser(story.desk) as eve:
        stolen = await eve.get(back)
        assert (stolen.status_code, "another browser" in stolen.text) == (400, True)
    kept = dict(story.browser.cookies)
    assert (await story.browser.get(back)).status_code == 303
    assert (await story.browser.get(back)).status_code == 400
    async with _browser(story.desk) as replay:
        replay.cookies.update(kept)
        refused = await replay.get(back)
        assert (refused.status_code, "provider refuses" in refused.text) == (403, True)
        assert "\x1b" not in refused.text


@pytest.mark.parametrize(
    "query",
    [
        "",
        "code=code-0",
        "state=x&code=code-0",
        "state={state}",
        "state={state}&state={state}&code=1",
    ],
)
async def test_an_incomplete_answer_begins_nothing(story: Story, query: str) -> None:
    address = await story.begin()
    state = dict(httpx2.URL(address).params)["state"]
    refused = await story.browser.get(f"/login/callback?{query.format(state=state)}&iss={ISSUER}")
    assert (refused.status_code, "Log in again" in refused.text) == (400, True)


async def test_a_login_that_took_long_has_to_begin_again(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    back = story.provider.answer(await story.begin())
    cookies = dict(story.browser.cookies)
    clock(timedelta(minutes=11))
    async with _browser(story.desk) as browser:
        browser.cookies.update(cookies)
        assert (await browser.get(back)).status_code == 400


async def test_answers_of_another_provider_are_refused(story: Story) -> None:
    for issuer in ("https://evil.test", ""):
        refused = await story.log_in(iss=issuer)
        assert (refused.status_code, "another provider" in refused.text) == (400, True)


async def test_what_the_provider_says_is_shown_and_does_nothing(story: Story) -> None:
    address = await story.begin()
    hostile = "<script>alert(1)</script>\u202e"
    back = story.provider.answer(address, error="access_denied", error_description=hostile, code="")
    refused = await story.browser.get(back)
    assert refused.status_code == 403
    assert "The provider refuses the login: &lt;script&gt;" in refused.text
    assert "<script>" not in refused.text
    assert "\u202e" not in refused.text


async def test_unfinished_logins_do_not_fill_the_browser(story: Story) -> None:
    for _ in range(9):
        await story.begin()
    assert len(story.browser.cookies) <= 5
    assert (await story.log_in()).status_code == 303


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"issuer": "https://evil.test"}, "calls itself https://evil.test"),
        ({"issuer": f"{ISSUER}/"}, "letter by letter"),
        ({"authorization_endpoint": None}, "have no authorization_endpoint"),
        ({"authorization_endpoint": "http://evil.test"}, "has to begin with https://"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "is no address"),
    ],
)
async def test_settings_that_cannot_be_right_are_named(
    story: Story, settings: dict[str, Any], words: str
) -> None:
    story.provider.settings = settings
    refused = await story.browser.get("/login")
    assert (refused.status_code, words in unescape(refused.text)) == (503, True), refused.text


async def test_a_wrong_secret_is_a_mistake_of_the_operator(provider: ScriptedProvider) -> None:
    refused = await Story.of(provider, client_secret="wrong").log_in()
    assert (refused.status_code, "Check the client's id and secret" in unescape(refused.text)) == (
        503,
        True,
    )


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.test",
        "//evil.test",
        "///evil.test",
        "/\\evil.test",
        "\\\\evil.test",
        "/\t/evil.test",
        "/%0d%0aSet-Cookie:x\r\n",
        "javascript:alert(1)",
        "/../x",
        "/a/%2e%2E/x",
        "@evil.test",
        ".evil.test",
        "/\u2215evil.test",
        "/x y",
        "/" + "x" * 2_000,
        "",
    ],
)
async def test_a_link_leads_to_pages_of_this_desk_only(story: Story, target: str) -> None:
    assert local_path(URL, target) == "/"
    begun = await story.browser.get("/login", params={"next": target})
    back = await story.browser.get(story.provider.answer(begun.headers["Location"]))
    assert back.headers["Location"] == f"{URL}/"


def test_a_link_stays_below_the_path_of_a_mounted_desk() -> None:
    assert local_path(f"{URL}/desk", "/desk/a%2Fb?x=//y#z") == "/desk/a%2Fb?x=//y#z"
    for other in ("/", "/admin", "/deskx", "/desk/../admin"):
        assert local_path(f"{URL}/desk", other) == "/desk/"


# --- Sessions ------------------------------------------------------------------------------------


async def test_a_session_ends_with_its_lifetime(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    await story.log_in()
    cookies = dict(story.browser.cookies)
    for _ in range(47):
        clock(timedelta(minutes=10))
        assert await story.who() == ANN
    async with _browser(story.desk) as browser:
        browser.cookies.update(dict(story.browser.cookies) or cookies)
        clock(timedelta(minutes=11))
        assert (await browser.get("/open")).json() is None


async def test_the_provider_is_asked_and_new_groups_count(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    await story.log_in()
    story.provider.claims = {"groups": ["support", "leads"], "sid": None}
    clock(timedelta(minutes=9))
    assert (await story.who())[2] == ["support"]
    clock(timedelta(minutes=2))
    answers = await asyncio.gather(*(story.browser.get("/open") for _ in range(5)))
    assert {tuple(answer.json()[2]) for answer in answers} == {("support", "leads")}
    # The provider takes each refresh token once, as strict ones do.
    assert story.provider.requests.count("refresh_token") == 1
    clock(timedelta(minutes=11))
    assert (await story.who())[2] == ["support", "leads"]
    assert story.provider.requests.count("refresh_token") == 2


async def test_a_check_without_an_id_token_keeps_the_groups(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    await story.log_in()
    story.provider.sends_id_token = False
    clock(timedelta(minutes=11))
    assert await story.who() == ANN


async def test_who_may_not_log_in_any_more_is_out_at_the_next_check(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    await story.log_in()
    story.provider.refresh = "invalid_grant"
    assert await story.who() == ANN
    clock(timedelta(minutes=11))
    assert await story.who() is None
    assert await story.who() is None
    assert story.provider.requests.count("refresh_token") == 1


async def test_another_person_in_a_check_ends_the_session(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    await story.log_in()
    story.provider.claims = {"sub": "user-2"}
    clock(timedelta(minutes=11))
    assert await story.who() is None


@pytest.mark.parametrize("answer", [503, 403, 200, "temporarily_unavailable", "invalid_client"])
async def test_without_the_providers_word_a_session_lasts_an_hour(
    story: Story, clock: Callable[[timedelta], None], answer: Any
) -> None:
    await story.log_in()
    story.provider.refresh = answer
    for _ in range(5):
        clock(timedelta(minutes=11))
        assert await story.who() == ANN
        assert await story.who() == ANN
    assert story.provider.requests.count("refresh_token") == 5
    clock(timedelta(minutes=6))
    assert await story.who() is None


async def test_without_a_refresh_token_a_session_lasts_an_hour(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    story.provider.gives_refresh_token = False
    await story.log_in()
    clock(timedelta(minutes=59))
    assert await story.who() == ANN
    clock(timedelta(minutes=2))
    assert await story.who() is None


async def test_a_copy_of_a_cookie_is_refused_after_the_logout(story: Story) -> None:
    await story.log_in()
    copy = dict(story.browser.cookies)
    page = await story.browser.post("/logout", headers={"Origin": URL})
    assert page.status_code == 200
    assert f'href="{ISSUER}/end?client_id=desk"' in page.text
    assert story.provider.revoked == ["refresh-1"]
    assert not story.browser.cookies
    async with _browser(story.desk) as thief:
        thief.cookies.update(copy)
        assert (await thief.get("/open")).json() is None


async def test_a_provider_that_is_away_or_odd_does_not_stop_a_logout(story: Story) -> None:
    for settings in ({"revocation_endpoint": "javascript:1"}, {"issuer": "https://evil.test"}):
        await story.log_in()
        login: OpenIDConnect = story.desk.state.desk.login
        login._provider._settings = None
        story.provider.settings = settings
        page = await story.browser.post("/logout", headers={"Origin": URL})
        assert (page.status_code, dict(story.browser.cookies)) == (200, {})
        login._provider._settings = None
        story.provider.settings = {}


async def test_another_process_refuses_the_copy_when_it_asks(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    await story.log_in()
    other = Story.of(story.provider)
    other.browser.cookies.update(dict(story.browser.cookies))
    assert await other.who() == ANN
    await story.browser.post("/logout", headers={"Origin": URL})
    story.provider.refresh = "invalid_grant"  # the token is revoked
    clock(timedelta(minutes=11))
    assert await other.who() is None


async def test_a_logout_during_a_check_is_not_undone_by_it(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    await story.log_in()
    clock(timedelta(minutes=11))
    await story.browser.post("/logout", headers={"Origin": URL})
    assert not story.browser.cookies


async def test_a_page_of_somebody_else_logs_nobody_out(story: Story) -> None:
    await story.log_in()
    for origin in ({}, {"Origin": "https://evil.test"}, {"Origin": "null"}):
        refused = await story.browser.post("/logout", headers=origin)
        assert (refused.status_code, refused.headers.get_list("Set-Cookie")) == (403, [])
        # A browser sends no cookie then; the answer must not delete it either.
        async with _browser(story.desk) as browser:
            refused = await browser.post("/logout", headers=origin)
            assert (refused.status_code, refused.headers.get_list("Set-Cookie")) == (403, [])
    assert (await story.browser.get("/logout")).status_code == 405
    assert await story.who() == ANN


async def test_changes_need_a_page_of_the_desk(story: Story) -> None:
    await story.log_in()
    refused = await story.browser.post("/hold", headers={"Origin": "https://evil.test"})
    assert refused.json()["error"]["code"] == "other_origin"
    assert (await story.browser.post("/hold", headers={"Origin": URL})).status_code == 200


async def test_a_cookie_counts_at_its_desk_its_provider_and_its_client_only(story: Story) -> None:
    await story.log_in()
    session = story.session()
    others = {
        "desk": Story.of(story.provider, url="https://other.test"),
        "client": Story.of(story.provider, client_id="other"),
        "issuer": Story.of(story.provider, issuer="https://login2.test"),
        "key": Story.of(story.provider, rules={"keys": IdentityKeys(read_keys(new_shared_key()))}),
        "same": Story.of(story.provider),
    }
    for name, other in others.items():
        other.browser.cookies.set(COOKIE, session)
        assert await other.who() == (ANN if name == "same" else None), name


async def test_cookies_are_no_logins_and_logins_no_cookies(story: Story) -> None:
    await story.begin()
    (name,) = story.browser.cookies
    story.browser.cookies.set(COOKIE, story.browser.cookies[name])
    assert await story.who() is None


def _cut(text: str) -> str:
    return text[1:]


def _with_other_end(text: str) -> str:
    # The last character of base64 has bits that mean nothing, so one before it is another one.
    return text[:-6] + ("A" if text[-6] != "A" else "B") + text[-5:]


@pytest.mark.parametrize("change", [_cut, _with_other_end, str.upper])
async def test_a_changed_cookie_is_none(story: Story, change: Callable[[str], str]) -> None:
    await story.log_in()
    story.browser.cookies.set(COOKIE, change(story.session()), domain="desk.test", path="/")
    async with _browser(story.desk) as browser:
        answer = await browser.get(
            "/open", headers={"Cookie": f"{COOKIE}={change(story.session())}"}
        )
        assert answer.json() is None
        for hostile in ("", "a", "=", "a b", '"', "\u00e4", "." * 9_000):
            raw: Any = [(b"Cookie", f"{COOKIE}={hostile}".encode())]
            assert (await browser.get("/open", headers=raw)).json() is None


async def test_a_new_key_goes_to_the_front_and_an_old_one_out(story: Story) -> None:
    await story.log_in()
    new = read_keys(new_shared_key())
    both = Story.of(story.provider, rules={"keys": IdentityKeys((*new, *KEYS.trusted))})
    both.browser.cookies.set(COOKIE, story.session())
    assert await both.who() == ANN
    async with _browser(both.desk) as browser:
        begun = await browser.get("/login")
        await browser.get(story.provider.answer(begun.headers["Location"]))
        only_new = Story.of(story.provider, rules={"keys": IdentityKeys(new)})
        only_new.browser.cookies.set(COOKIE, browser.cookies[COOKIE])
        assert await only_new.who() == ANN


async def test_the_operator_ends_the_sessions_of_earlier_logins(story: Story) -> None:
    await story.log_in()
    for days, who in ((-1, ANN), (1, None)):
        valid_from = datetime.fromtimestamp(time.time() + days * 86_400, UTC)
        other = Story.of(story.provider, rules={"valid_from": valid_from})
        other.browser.cookies.set(COOKIE, story.session())
        assert await other.who() == who


async def test_a_stream_ends_when_its_session_has_to_be_checked(
    story: Story, clock: Callable[[timedelta], None]
) -> None:
    await story.log_in()
    ends: list[float] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body" and message.get("more_body") is False:
            ends.append(asyncio.get_running_loop().time())

    clock(timedelta(minutes=10) - timedelta(seconds=0.5))
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/stream",
        "raw_path": b"/stream",
        "query_string": b"",
        "scheme": "https",
        "server": ("desk.test", 443),
        "client": ("192.0.2.1", 5000),
        "headers": [
            (b"host", b"desk.test"),
            (b"cookie", f"{COOKIE}={story.session()}".encode()),
        ],
    }

    async def receive() -> Any:
        await asyncio.Event().wait()

    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(5):
        await story.desk(scope, receive, cast("Any", send))
    assert ends
    assert 0.2 < ends[0] - began < 3


# --- Arguments -----------------------------------------------------------------------------------


def test_without_a_key_there_are_no_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_DESK_KEY", raising=False)
    with pytest.raises(UserError, match="OUTLAST_DESK_KEY is not set"):
        OpenIDConnect(ISSUER, CLIENT_ID)
    monkeypatch.setenv("OUTLAST_DESK_KEY", "short")
    with pytest.raises(UserError, match="Key 1 of 1 in OUTLAST_DESK_KEY") as refused:
        OpenIDConnect(ISSUER, CLIENT_ID)
    assert "short" not in str(refused.value).replace("too short", "")
    monkeypatch.setenv("OUTLAST_DESK_KEY", new_key_pair()[0])
    with pytest.raises(UserError, match="encrypts nothing"):
        OpenIDConnect(ISSUER, CLIENT_ID)
    monkeypatch.setenv("OUTLAST_DESK_KEY", f"{new_shared_key()}, {new_shared_key()}")
    OpenIDConnect(ISSUER, CLIENT_ID)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"issuer": "login.test"}, "is no address such as"),
        ({"issuer": "http://login.test"}, "has to begin with https://"),
        ({"issuer": "https://a@login.test"}, "is no address"),
        ({"client_id": ""}, "client_id= is empty"),
        ({"scopes": ["email"]}, "must be a list with"),
        ({"scopes": "openid"}, "must be a list with"),
        ({"url": ""}, "needs its own address"),
        ({"url": "http://desk.test"}, "has to begin with https://"),
        ({"rules": {"lifetime": timedelta(seconds=1)}}, "lifetime of sessions must be"),
        ({"rules": {"check_after": timedelta(hours=2)}}, "check_after= must be"),
        ({"rules": {"valid_from": datetime(2026, 1, 1)}}, "needs a time zone"),  # noqa: DTZ001
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_once(
    provider: ScriptedProvider, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        Story.of(provider, **options)
