"""Work that is done again and again: a problem of it is said once, and so is its end."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from temporalio.service import RPCError

from outlast.agents.errors import AgentsException

logger: Final = logging.getLogger("outlast")


@dataclass(kw_only=True)
class RepeatedWork:
    """Logs what goes wrong in work that is tried again, each problem once.

    Attributes:
        fails: says that the work fails, such as `Runs are not counted`.
        works: says that it works again.
        then: what happens next, in a sentence.
        crashes: says that it fails as nobody expects, before a traceback.
        problem: what went wrong the last time; empty for nothing.
    """

    fails: str
    works: str
    then: str = "It is tried again."
    crashes: str = ""
    problem: str = ""

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Do the work once in this block: no error leaves it, but for a cancellation."""
        said, self.problem = self.problem, ""
        try:
            yield
        except (AgentsException, RPCError) as error:
            self.problem = error.message
        except Exception as error:
            logger.exception(self.crashes or self.fails)
            self.problem = said = str(error)
        if self.problem and self.problem != said:
            logger.warning("%s: %s %s", self.fails, self.problem, self.then)
        elif said and not self.problem:
            logger.warning(self.works)
