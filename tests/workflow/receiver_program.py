"""A receiver of deliveries as a process of its own, which a test may kill at any moment.

    python -m tests.workflow.receiver_program ADDRESS NAMESPACE PORT SECONDS [MARK]

Its clock is SECONDS ahead. It takes webhooks of Stripe, with a secret of these tests.
With MARK, it never answers a delivery: when it would, it writes that file and waits to be killed.
"""

import asyncio
import sys
import time
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from temporalio.client import Client

from outlast.deliveries import Deliver, WebhookEvent, Webhooks, deliveries_app, stripe

SECRET = "a secret of Stripe for tests"

webhooks = Webhooks()


@webhooks.on("stripe", stripe([SECRET]))
@webhooks.on("patient", stripe([SECRET], tolerance=900))
def paid(event: WebhookEvent) -> Deliver:
    """Finish the wait whose token the event brings back."""
    return Deliver("paid", token=event.value["token"])


class Mute:
    """Holds back every answer to a delivery."""

    def __init__(self, app: ASGIApp, mark: Path) -> None:
        self._app = app
        self._mark = mark

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and no answer back."""

        async def hold(message: Message) -> None:
            if message["type"] == "http.response.start" and scope["method"] == "POST":
                self._mark.write_text(str(message["status"]))
                await asyncio.Event().wait()
            await send(message)

        await self._app(scope, receive, hold if scope["type"] == "http" else send)


async def main(address: str, namespace: str, port: str, ahead: str, *mark: str) -> None:
    """Receive until the process is killed."""
    right = time.time
    time.time = lambda: right() + float(ahead)
    client = await Client.connect(address, namespace=namespace)
    app: ASGIApp = deliveries_app(client, webhooks=webhooks)
    if mark:
        app = Mute(app, Path(mark[0]))
    config = uvicorn.Config(app, host="127.0.0.1", port=int(port), log_level="warning")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
