"""Hook of the site: a build fails if a page needs another host, or a file is published by accident."""

import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LOADING = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
}
"""The attributes with which a page loads something as soon as it is shown."""
NOT_LOADED = {"canonical", "next", "prev", "alternate"}
"""Kinds of <link> that only name another page."""
FROM_ELSEWHERE = re.compile(r"url\(\s*['\"]?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*;")
SCRIPT_ELSEWHERE = re.compile(
    r"['\"`](?:https?:)?//[^'\"`\s]+\.m?js['\"`]|//(?:unpkg|cdn)\.[^'\"`]*"
)
OLD_BROWSERS = "//unpkg.com/resize-observer-polyfill"
"""What the theme loads for browsers of before 2020."""
PUBLISHED = re.compile(
    r"assets/|pictures/|search/search_index\.json$|sitemap\.xml|objects\.inv$|404\.html$|versions\.json$"
)


class Page(HTMLParser):
    """Collects what a page loads, and which files it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the addresses of an element."""
        values = {name: value or "" for name, value in attrs}
        if "href" in values:
            self.linked.append(values["href"])
        if tag == "link" and NOT_LOADED & set(values.get("rel", "").split()):
            return
        self.loaded += [values[name] for name in LOADING.get(tag, ()) if name in values]


def read(text: str) -> Page:
    """Read a page."""
    page = Page()
    page.feed(text)
    return page


def other_hosts(name: str, text: str) -> Iterator[str]:
    """Yield the addresses on other hosts that a page, a style sheet or a script loads."""
    if name.endswith(".html"):
        for address in read(text).loaded:
            if urlsplit(address).netloc:
                yield address
        yield from FROM_ELSEWHERE.findall(text)
    elif name.endswith(".css"):
        yield from FROM_ELSEWHERE.findall(text)
    elif name.endswith(".js"):
        yield from (one for one in SCRIPT_ELSEWHERE.findall(text) if OLD_BROWSERS not in one)


def strays(names: set[str], pages: dict[str, str]) -> list[str]:
    """Return the files that are no pages, pictures or parts of the theme, and that no page leads to."""
    reached: set[str] = set()
    for name, text in pages.items():
        page = read(text)
        for address in (*page.loaded, *page.linked):
            path = unquote(urlsplit(address).path)
            reached.add(posixpath.normpath(posixpath.join(posixpath.dirname(name), path)))
    return sorted(
        name
        for name in names
        if name not in pages and name not in reached and not PUBLISHED.match(name)
    )


def faults(site: Path) -> list[str]:
    """Return what is wrong with a built site, one sentence for each fault."""
    files = {file.relative_to(site).as_posix(): file for file in site.rglob("*") if file.is_file()}
    texts = {
        name: file.read_text(encoding="utf-8")
        for name, file in files.items()
        if name.endswith((".html", ".css", ".js"))
    }
    found = [
        f"{name} loads {address[:200]} from another host"
        for name, text in texts.items()
        for address in other_hosts(name, text)
    ]
    pages = {name: text for name, text in texts.items() if name.endswith(".html")}
    return found + [
        f"{name} is published, and no page leads to it: see exclude_docs in mkdocs.yml"
        for name in strays(set(files), pages)
    ]


def on_post_build(config: Any) -> None:
    """Fail the build if something is wrong with the site."""
    found = faults(Path(config.site_dir))
    if found:
        from mkdocs.exceptions import PluginError

        raise PluginError("\n".join(found))
