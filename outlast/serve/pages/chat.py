"""The customer's page."""

from typing import Final

from starlette.routing import BaseRoute

ROUTES: Final[list[BaseRoute]] = []
