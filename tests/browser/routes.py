"""The desk's pages, found by their routes: a page that is added is tested without being named here."""

import pkgutil
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from urllib.parse import quote

import httpx2
from starlette.routing import Route

from outlast.serve import pages

_FILES = ("/static/", "/files", "/temporal", "/look/", "/embed.js", "/export")
"""Parts of the paths of files, and of ways to other sites."""

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


def page_routes() -> Iterator[str]:
    """Yield the paths of all routes with GET in the modules of `outlast.serve.pages`."""
    for found in pkgutil.walk_packages(pages.__path__, f"{pages.__name__}."):
        module = import_module(found.name)
        for route in getattr(module, "ROUTES", ()):
            is_file = any(one in route.path for one in _FILES)
            if isinstance(route, Route) and "GET" in (route.methods or ()) and not is_file:
                yield route.path


def filled(path: str, values: Mapping[str, str]) -> str:
    """Return a path with its parameters.

    Raises:
        AssertionError: a parameter has no value; add one to the test.
    """
    missing = {name for name in _PARAMETER.findall(path) if name not in values}
    assert not missing, f"{path} has a parameter that the tests do not know: {missing}"
    return _PARAMETER.sub(lambda found: quote(values[found[1]], safe=""), path)


async def is_page(http: httpx2.AsyncClient, url: str) -> bool:
    """Return whether an address has a whole page: not a part of one, a stream or a file."""
    async with http.stream("GET", url, headers={"Accept": "text/html"}) as response:
        assert response.status_code < 400, f"{response.status_code} from {url}"
        if not response.headers.get("content-type", "").startswith("text/html"):
            return False
        begun = (await response.aread())[:200].lower()
    return begun.lstrip().startswith(b"<!doctype html")
