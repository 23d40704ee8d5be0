import sys
from types import ModuleType

import pytest

from outlast.extensions.late_names import late_names


def test_a_name_is_found_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("late")
    monkeypatch.setitem(sys.modules, "late", module)
    find, names = late_names("late", {"Token": "secrets:token_hex", "Gone": "nobodys.module:Gone"})
    assert find("Token") is __import__("secrets").token_hex
    assert {"Token", "Gone", "__name__"} <= set(names())
    with pytest.raises(ModuleNotFoundError, match="nobodys"):
        find("Gone")
    with pytest.raises(AttributeError, match="module 'late' has no attribute 'Other'"):
        find("Other")
