"""Names of this package that stand for something in a higher layer, or behind an extra.

Owns: finding such a name when it is first used. Must not know: what the names stand for.
"""

import pkgutil
import sys
from collections.abc import Callable, Mapping
from typing import Any


def late_names(
    module: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a module's `__getattr__` and `__dir__`.

    Args:
        module: the module's `__name__`.
        homes: where each name is found, as `package.module:name`.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return pkgutil.resolve_name(homes[name])

    def names() -> list[str]:
        return [*vars(sys.modules[module]), *homes]

    return find, names
