"""Pages of other sites: which of them may read what the wires answer."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from outlast.contract.identity import IdentityKeys, new_shared_key, read_keys
from outlast.serve.app import desk
from outlast.serve.tokens import ConversationTokens
from tests.unit.serve.test_app import CLIENT

SHOP = "https://shop.example.com"
TOKENS = ConversationTokens(IdentityKeys(read_keys(new_shared_key())), audience="test")
PATHS = ("/agui/Triage", "/vercel/Triage", "/v1/responses", "/api/conversations/mine/messages")


@pytest.fixture
async def http() -> AsyncGenerator[Any]:
    app = desk(CLIENT, origins=[SHOP], tokens=TOKENS)
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8090") as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
async def test_a_browser_learns_which_sites_may_send_what(http: Any, path: str) -> None:
    asks = {"Access-Control-Request-Method": "POST"}
    asks["Access-Control-Request-Headers"] = "authorization, x-stainless-lang"
    allowed = await http.options(path, headers={"Origin": SHOP, **asks})
    assert allowed.status_code == 204
    assert allowed.headers["Access-Control-Allow-Origin"] == SHOP
    assert allowed.headers["Access-Control-Allow-Headers"] == "authorization, x-stainless-lang"
    assert "Access-Control-Allow-Credentials" not in allowed.headers
    other = await http.options(path, headers={"Origin": "https://evil.example", **asks})
    assert not [name for name in other.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("path", PATHS)
async def test_such_a_page_reads_why_a_customer_is_refused_and_nobody_else_s_answer(
    http: Any, path: str
) -> None:
    token = {"Authorization": f"Bearer {TOKENS.mint('mine')}"}
    for_customer = await http.post(path, headers={"Origin": SHOP, **token}, json={"no": "sense"})
    assert 400 <= for_customer.status_code < 500
    assert for_customer.headers["Access-Control-Allow-Origin"] == SHOP
    for headers in ({"Origin": SHOP}, {"Origin": "https://evil.example", **token}):
        answer = await http.post(path, headers=headers, json={"no": "sense"})
        assert "Access-Control-Allow-Origin" not in answer.headers
