"""Compares what a surface says with what is kept in a file.

`OUTLAST_SNAPSHOTS=write pytest tests/snapshots` writes the files anew; each change of one needs its
reason in the commit.
"""

import json
import os
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
VARIABLE = "OUTLAST_SNAPSHOTS"


def compare(name: str, found: Any) -> None:
    """Compare a text, or what JSON can hold, with a file; or write the file, if that is asked for.

    Raises:
        AssertionError: the file has something else.
    """
    text = found if isinstance(found, str) else json.dumps(found, indent=1, ensure_ascii=False)
    path = FOLDER / name
    if os.environ.get(VARIABLE) == "write":
        path.write_text(f"{text}\n", encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    assert f"{text}\n" == kept, f"{name} differs. {VARIABLE}=write writes it anew."
