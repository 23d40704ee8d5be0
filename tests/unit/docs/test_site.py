"""The site of the documentation: its checks find what they are for, and versions are listed."""

import json
from pathlib import Path

import pytest

from docs.build_site import list_versions
from docs.site_check import faults, other_hosts, strays


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://unpkg.com/x.js"></script>'),
        ("a.html", '<script src="//unpkg.com/x.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="https://fonts.example/css">'),
        ("a.html", '<link rel="preconnect" href="https://fonts.example">'),
        ("a.html", '<img alt="" src="https://img.example/badge.svg">'),
        ("a.html", '<iframe src="https://video.example/1"></iframe>'),
        ("a.html", "<style>body { background: url(https://img.example/1.png) }</style>"),
        ("a.css", "@import 'https://fonts.example/css';"),
        ("a.css", "@font-face { src: url('//fonts.example/a.woff2') }"),
        ("a.js", 'load("https://unpkg.com/mermaid@11/dist/mermaid.min.js")'),
        ("a.js", 'import("https://cdn.example/mermaid")'),
    ],
)
def test_what_is_loaded_from_another_host_is_found(name: str, text: str) -> None:
    assert list(other_hosts(name, text)) != []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<a href="https://temporal.io">Temporal</a><img alt="" src="../1.png">'),
        ("a.html", '<link rel="canonical" href="https://outlast.example/a/">'),
        ("a.html", '<script src="assets/a.js"></script><code>&lt;img src="https://x"&gt;</code>'),
        ("a.css", "@font-face { src: url(a.woff2) } /* https://fonts.example */"),
        ("a.js", 'const kind = "http://www.w3.org/2000/svg";'),
    ],
)
def test_links_and_own_files_are_no_fault(name: str, text: str) -> None:
    assert list(other_hosts(name, text)) == []


def test_a_file_that_no_page_leads_to_is_found() -> None:
    page = '<a href="../data.json">figures</a>'
    names = {"a/index.html", "data.json", "scaling.json", "__pycache__/hook.pyc", "assets/a.js"}
    assert strays(names, {"a/index.html": page}) == ["__pycache__/hook.pyc", "scaling.json"]


def test_the_faults_of_a_site_are_sentences_with_their_files(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<img alt="" src="https://img.example/badge.svg">')
    (tmp_path / "notes.py").write_text("")
    assert faults(tmp_path) == [
        "index.html loads https://img.example/badge.svg from another host",
        "notes.py is published, and no page leads to it: see exclude_docs in mkdocs.yml",
    ]


def versions(site: Path, *names: str) -> list[str]:
    """Make the folders of versions, and return the menu's entries."""
    for name in names:
        (site / name).mkdir()
        for page in ("index.html", "404.html"):
            (site / name / page).write_text(name)
    list_versions(site)
    return [
        " ".join([row["version"], *row["aliases"]])
        for row in json.loads((site / "versions.json").read_text())
    ]


def test_the_newest_release_is_first_and_the_site_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    rows = versions(tmp_path, "0.9.0", "0.10.0", "0.10.0rc1", "next")
    assert rows == ["next", "0.10.0 latest", "0.10.0rc1", "0.9.0"]
    assert "url=0.10.0/" in (tmp_path / "index.html").read_text()
    assert (tmp_path / "404.html").read_text() == "0.10.0"


def test_before_the_first_release_the_site_leads_to_the_unreleased(tmp_path: Path) -> None:
    assert versions(tmp_path, "next") == ["next latest"]
