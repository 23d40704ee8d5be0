"""The AG-UI protocol, and the routes of CopilotKit."""

from typing import Final

from starlette.routing import BaseRoute

ROUTES: Final[list[BaseRoute]] = []
