"""The checks of a release find what they look for; `make release-check` and `make scan` run them."""

from email.message import Message

import pytest

from tests.release import packages, scan


@pytest.mark.parametrize(
    ("name", "is_stray"),
    [
        ("outlast/py.typed", False),
        ("outlast/serve/pages/static/desk.js", False),
        ("outlast/cli/new_project/tests/test_agents.py.tmpl", False),
        ("tests/conftest.py", True),
        ("outlast/loop/__pycache__/state.cpython-311.pyc", True),
        ("examples/agui_chat/node_modules/a/index.js", True),
        ("examples/support_desk/shop.db", True),
    ],
)
def test_a_stray_file_is_found(name: str, *, is_stray: bool) -> None:
    assert packages.stray([name]) == ([name] if is_stray else [])


def test_a_wheel_has_the_files_of_the_repository_and_the_written_modules() -> None:
    tracked = ["outlast/a.py", "outlast/py.typed", "examples/support_desk/app.py", "README.md"]
    desk = "outlast/examples/support_desk/app.py"
    wheel = [
        "outlast/a.py",
        "outlast/py.typed",
        "outlast/items.py",
        desk,
        "outlast-1.dist-info/RECORD",
    ]
    assert packages.differences(wheel, tracked, ["outlast/items.py"]) == []
    assert packages.differences([*wheel[1:], "outlast/b.py"], tracked, ["outlast/items.py"]) == [
        "the wheel lacks outlast/a.py",
        "the wheel has outlast/b.py besides",
    ]


def test_incomplete_metadata_is_found() -> None:
    metadata = Message()
    for field in packages.FIELDS:
        metadata[field] = "cli" if field == "Provides-Extra" else "1.0"
    assert packages.metadata_problems(metadata, "1.0", ["cli"]) == []
    del metadata["Summary"]
    metadata.set_payload(
        "See [the guide](docs/guide.md).\n![The desk](https://github.com/a/b/blob/main/desk.png)"
    )
    assert packages.metadata_problems(metadata, "2.0", ["cli", "dev"]) == [
        "the metadata has no Summary",
        "the version is 1.0, and not 2.0",
        "the extras are not those of pyproject.toml",
        "the readme has links that work only in the repository",
        "a picture of the readme is the address of a page",
    ]


def test_a_vulnerability_fails_the_scan_and_no_database_is_said() -> None:
    sound: dict[str, object] = {"name": "a", "version": "1", "vulns": []}
    bad = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
    skipped = {"name": "c", "skip_reason": "not found"}
    assert scan.verdict({"dependencies": [sound, bad]}, 2) == (
        1,
        "scan: 1 known vulnerabilities\n  b 2: PYSEC-1, fixed in 3",
    )
    assert scan.verdict({"dependencies": [sound]}, 1) == (
        0,
        "scan: no known vulnerability in 1 packages",
    )
    assert "in 1 packages; 2 are locked" in scan.verdict({"dependencies": [sound, skipped]}, 2)[1]
    for nothing in ({"dependencies": [skipped]}, scan.report_of("cannot connect")):
        code, words = scan.verdict(nothing, 2)
        assert code == 0
        assert "NOT SCANNED" in words
        assert "about 2 packages" in words
