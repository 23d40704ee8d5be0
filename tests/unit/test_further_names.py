"""The names that only the modules of the SDK have."""

import importlib
import subprocess
import sys
from typing import Any

import pytest

import outlast
from outlast import further_names


def test_each_is_there_and_is_no_public_name_of_the_package() -> None:
    assert all(getattr(further_names, name) is not None for name in further_names.__all__)
    assert not set(further_names.__all__) & set(outlast.__all__)
    assert set(further_names.__all__) <= set(dir(further_names))


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("items", "TResponseStreamEvent"),
        ("lifecycle", "RunHooksBase"),
        ("model_settings", "MCPToolChoice"),
        ("result", "ToInputListMode"),
        ("tool", "ShellOnApprovalFunctionResult"),
    ],
)
def test_the_sdks_modules_have_them(module: str, name: str) -> None:
    found: Any = getattr(importlib.import_module(f"outlast.{module}"), name)
    assert found is getattr(further_names, name)


def test_asking_for_one_loads_nothing_large() -> None:
    program = """
import sys
from outlast.lifecycle import RunHooksBase
from outlast.items import TResponseOutputItem
print([name for name in ("temporalio", "openai", "pydantic") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
