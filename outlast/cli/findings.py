"""What the checks of `outlast doctor` find."""

from dataclasses import dataclass
from functools import partial
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: `optional` is needed for some commands, `missing` for all."""

    level: Literal["ok", "optional", "missing"]
    what: str
    detail: str

    @property
    def title(self) -> str:
        """What was checked, for people."""
        return self.what

    @property
    def sentence(self) -> str:
        """What was found, for people."""
        return self.detail


ok: Final = partial(Finding, "ok")
optional: Final = partial(Finding, "optional")
missing: Final = partial(Finding, "missing")
