"""Our HTTP API: conversations, messages, live events, requests, the inbox."""

from typing import Final

from starlette.routing import BaseRoute

ROUTES: Final[list[BaseRoute]] = []
