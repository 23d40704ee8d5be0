"""Nothing in this folder passes without having run."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

COMMAND: Final = [
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-c",
    "pyproject.toml",
    "-p",
    "no:cacheprovider",
]
PLANTED: Final = {
    "mark": """
import pytest
@pytest.mark.skipif(True, reason="there is no provider")
def test_planted(): pass
""",
    "test": """
import pytest
def test_planted(): pytest.skip("there is no provider")
""",
    "file": """
import pytest
pytest.skip("there is no provider", allow_module_level=True)
""",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_skipped_test_is_a_failure(planted: str, tmp_path: Path) -> None:
    source = Path(__file__).with_name("conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(source, encoding="utf-8")
    (tmp_path / "test_planted.py").write_text(PLANTED[planted], encoding="utf-8")
    ended = subprocess.run(
        [*COMMAND, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode != 0, ended.stdout
    assert "This did not run: " in ended.stdout
    assert "there is no provider" in ended.stdout
