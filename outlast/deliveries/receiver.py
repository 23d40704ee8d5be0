"""Receives deliveries over HTTP: as an application of its own, and in `outlast serve`.

    POST /deliveries/{token}?expires=…&signature=…    a signed URL of a wait
    POST /webhooks/{name}                             a webhook whose signature is verified

The signature is the right: nobody logs in. A request is answered with 200 only when the run has
taken the value, and with 202 when the Temporal server keeps it for the run, because no worker is
there. A sender that repeats until then loses nothing, and nothing counts twice.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.client import Client

from outlast.agents.context.wait_address import WaitAddress
from outlast.agents.context.wait_urls import KEYS_VARIABLE, WaitUrlKeys, keys_from_environment
from outlast.agents.errors import RunClosed, UserError
from outlast.client.background import look_for_response
from outlast.client.deliveries import LONGEST_ID, DeliveryReceipt, finish
from outlast.client.handle import RunHandle
from outlast.deliveries.bodies import BodyReader, delivery_id_of, value_of
from outlast.deliveries.endpoints import WAIT_URL, WEBHOOK
from outlast.deliveries.problems import NO_STORE, JSONAnswer, answer_of
from outlast.deliveries.receipts import known_receipt, token_of
from outlast.deliveries.webhooks import (
    Deliver,
    Outcome,
    ResponseReady,
    Webhooks,
    challenge_of,
)
from outlast.loop.values import Json, JsonObject
from outlast.ports.engine import check_client

PATIENCE_SECONDS: Final = 8.0
"""How long a request waits for the run. Most senders give up after ten seconds, and then repeat."""


def deliveries_app(
    client: Client, *, webhooks: Webhooks | None = None, patience: float = PATIENCE_SECONDS
) -> Starlette:
    """Return an ASGI application that receives deliveries, and nothing else.

    It keeps nothing, so any number of processes may run it. `outlast serve` has the same routes.

    Args:
        client: connected to the runs' server.
        webhooks: the webhooks that it takes.
        patience: how long a request may take, in seconds; then it is answered with 503, so that the
            sender repeats it. After five seconds without a worker, the server keeps the value.

    Raises:
        UserError: there is nothing to receive: OUTLAST_DELIVERY_KEYS is not set, and there are no
            webhooks.
    """
    check_client(client, what="deliveries_app(client)")
    routes = delivery_routes(client, webhooks=webhooks, patience=patience)
    if not routes:
        raise UserError(
            f"There is nothing to receive: set {KEYS_VARIABLE} for signed URLs of waits, or pass "
            "webhooks=."
        )
    return Starlette(
        routes=[Route("/health", _health), *routes],
        exception_handlers={HTTPException: _show, Exception: _show},
    )


def delivery_routes(
    client: Client, *, webhooks: Webhooks | None = None, patience: float = PATIENCE_SECONDS
) -> list[Route]:
    """Return the routes of what can be received; none if there is neither a key nor a webhook.

    Raises:
        UserError: a key is too short.
    """
    keys = keys_from_environment()
    receiver = _Receiver(client, keys, webhooks or Webhooks(), patience)
    routes: list[Route] = []
    if keys is not None:
        routes.append(Route(WAIT_URL.path, _endpoint(receiver.take_delivery), methods=["POST"]))
    if webhooks:
        routes.append(Route(WEBHOOK.path, _endpoint(receiver.take_webhook), methods=["POST"]))
    return routes


@dataclass(frozen=True)
class _Receiver:
    client: Client
    keys: WaitUrlKeys | None
    webhooks: Webhooks
    patience: float
    bodies: BodyReader = field(default_factory=BodyReader)
    # Anybody may send a body to a webhook: such bodies take no room from those of signed URLs.
    unverified: BodyReader = field(default_factory=BodyReader)

    async def take_delivery(self, request: Request) -> Response:
        """Finish the wait of a signed URL."""
        token, query = request.path_params["token"], request.query_params
        assert self.keys is not None  # noqa: S101  without keys there is no such route
        # First of all: who has no signed URL sends no body.
        self.keys.check(token, query.getlist("expires"), query.getlist("signature"), time.time())
        body = await self.bodies.read(request)
        value = value_of(request.headers.get("Content-Type", ""), body)
        delivery_id = delivery_id_of(request.headers, body)
        async with asyncio.timeout(self.patience):
            receipt = await self._finish(token, value, delivery_id, "HTTP")
        return JSONAnswer(_shown(receipt), 202 if receipt.at is None else 200, NO_STORE)

    async def take_webhook(self, request: Request) -> Response:
        """Do what a verified webhook means for runs."""
        name = request.path_params["name"]
        scheme = self.webhooks.scheme(name)
        body = await self.unverified.read(request)
        verified = scheme.verify(request.headers, body, time.time())
        challenge = challenge_of(body)
        if challenge is not None:
            return JSONAnswer({"challenge": challenge}, headers=NO_STORE)
        delivery_id = f"{name}:{verified.delivery_id}"
        if len(delivery_id) > LONGEST_ID:
            digest = hashlib.sha256(delivery_id.encode(errors="surrogatepass")).hexdigest()
            delivery_id = f"{name}:sha256:{digest}"
        done: list[Json] = []
        async with asyncio.timeout(self.patience):
            outcomes = await self.webhooks.outcomes(name, request.headers, body, verified)
            for place, outcome in enumerate(outcomes):
                done.append(await self._do(outcome, delivery_id, place, f"webhook {name}"))
        return JSONAnswer({"done": done}, headers=NO_STORE)

    async def _do(self, outcome: Outcome, delivery_id: str, place: int, source: str) -> JsonObject:
        if isinstance(outcome, Deliver):
            token = outcome.token or await token_of(
                RunHandle(self.client, outcome.run_id), outcome.name, delivery_id
            )
            return _shown(await self._finish(token, outcome.value, delivery_id, source))
        if isinstance(outcome, ResponseReady):
            woken = await look_for_response(self.client, outcome.run_id)
            return {"run_id": outcome.run_id, "woken": woken}
        # One event may send several messages to a conversation.
        message_id = delivery_id if place == 0 else f"{delivery_id}:{place}"
        sent = await RunHandle(self.client, outcome.run_id).send(
            outcome.input, message_id=message_id
        )
        return {"run_id": outcome.run_id, "message_id": sent.id}

    async def _finish(
        self, token: str, value: Json, delivery_id: str, source: str
    ) -> DeliveryReceipt:
        try:
            return await finish(
                token, value, client=self.client, delivery_id=delivery_id, source=source
            )
        except RunClosed:
            # The run has ended since, and the answer to the first request was lost.
            address = WaitAddress.parse(token)
            known = await known_receipt(
                RunHandle(self.client, address.run_id), address, delivery_id
            )
            if known is None:
                raise
            return known


def _shown(receipt: DeliveryReceipt) -> JsonObject:
    at = None if receipt.at is None else receipt.at.isoformat()
    return {"run_id": receipt.run_id, "name": receipt.name, "at": at}


def _endpoint(
    take: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await take(request)
        except Exception as error:  # noqa: BLE001  every problem gets an answer
            return answer_of(error)

    return endpoint


async def _health(_request: Request) -> Response:
    """Answer load balancers: this process serves. It says nothing about Temporal."""
    return JSONResponse({"status": "ok"})


async def _show(_request: Request, error: Exception) -> Response:
    return answer_of(error)
