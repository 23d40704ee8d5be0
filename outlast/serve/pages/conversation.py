"""One conversation: what the customer sees, and what the run did."""

from typing import Final

from starlette.routing import BaseRoute

ROUTES: Final[list[BaseRoute]] = []
