"""Each change that CONTRIBUTING.md shows applies, and does what the guide says."""

from pathlib import Path

import pytest

from tests.guide.changes import CHANGES, PROGRAMS, ROOT, Change, changes_of
from tests.servers import TemporalServer

FILES = {"adding_an_effect": 5, "adding_a_human_action": 4, "adding_a_kind_of_change": 2}
"""How many files each change touches. Whoever raises a number says why.

An effect: what it is, how it is carried out, its row, its answer, and the transition that asks. A
human action: its record, why somebody may not, what it does, and its row. A kind of change: when it
happened, and how one reader shows it.
"""

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PLANTED = """
## Adding a thing

```diff
--- a/outlast/loop/effects.py
+++ b/outlast/loop/effects.py
@@ -1,1 +1,1 @@
-no line of this file
+another line
```
"""


def test_every_change_has_a_program_and_every_program_a_change() -> None:
    programs = {path.stem for path in PROGRAMS.glob("*.py")}
    assert CHANGES.keys() == FILES.keys() == programs
    assert GUIDE.count("```diff") == len(CHANGES)


@pytest.mark.parametrize("name", FILES)
def test_a_change_touches_no_more_files_than_before(name: str) -> None:
    assert len(CHANGES[name].files) == FILES[name]


def test_a_change_that_no_longer_fits_is_found() -> None:
    (change,) = changes_of(PLANTED).values()
    assert change.name == "adding_a_thing"
    assert change.files == ["outlast/loop/effects.py"]
    assert "patch does not apply" in change.misfit()


@pytest.mark.full
@pytest.mark.parametrize("name", FILES)
def test_a_change_does_what_its_program_asserts(
    name: str, server: TemporalServer, tmp_path: Path
) -> None:
    CHANGES[name].apply(tmp_path)
    done = CHANGES[name].run(tmp_path, server.address)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("name", FILES)
def test_without_the_change_its_program_fails(
    name: str, server: TemporalServer, tmp_path: Path
) -> None:
    nothing = Change(name, diff="")
    (tmp_path / "outlast").symlink_to(ROOT / "outlast")
    assert nothing.run(tmp_path, server.address).returncode == 1
