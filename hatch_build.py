"""Adds the modules that stand for the SDK's to a wheel; see `outlast/edges/sdk.py`."""

import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SDKModules(BuildHookInterface[Any]):
    """Writes a file for each of the SDK's modules into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them, but for an editable install, where a finder makes the modules."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from outlast.edges import sdk

        place = Path(mkdtemp())
        for module in sdk.MODULES:
            text = place / f"{module}.py"
            text.write_text(sdk.source(module), encoding="utf-8")
            build_data["force_include"][str(text)] = sdk.path(module)
