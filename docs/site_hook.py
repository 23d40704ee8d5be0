"""Hook of the site: links to files outside of docs/ lead to the repository."""

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)\s#]+)([^)\s]*)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page that leave docs/, so that they work on the site, too."""
    home = posixpath.dirname(f"docs/{page.file.src_uri}")

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(home, link[1]))
        if target.startswith("docs/"):
            return link[0]
        return f"]({config.repo_url}/blob/main/{target}{link[2]})"

    return _LINK.sub(rewritten, markdown)
