"""The chat: the customer's page, to try an agent and as an example to copy."""

from typing import Final

from starlette.routing import BaseRoute

ROUTES: Final[list[BaseRoute]] = []
