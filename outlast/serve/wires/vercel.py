"""The UI message stream of the Vercel AI SDK."""

from typing import Final

from starlette.routing import BaseRoute

ROUTES: Final[list[BaseRoute]] = []
