"""Hook of the site: its version, links to the repository, and diagrams without other hosts.

docs/build_site.py sets `OUTLAST_SITE_VERSION`: the site is then one of several beside each other, and has a
menu of them. Without it, as with `mkdocs serve`, it is alone, and says its version in its name.
"""

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

import outlast
from docs.llms_text import SKILL, raw_skill

HERE = Path(__file__).parent
MERMAID = HERE / "npm/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js"
SERVED = "assets/javascripts/mermaid.js"
LOADED = '"https://unpkg.com/mermaid@11/dist/mermaid.min.js"'
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)\s#]+)([^)\s]*)\)")

BOOSTS = {"tutorial": 4, "how-to": 4, "concepts": 2, "design": 0.5}
"""What a search shows first, by folder: a guide before the names of the reference."""
DIAGRAM = re.compile(r'<pre class="mermaid">.*?</pre>', re.DOTALL)


def on_config(config: Any) -> Any:
    """Say which version the site documents."""
    version = os.environ.get("OUTLAST_SITE_VERSION")
    if version:
        config.extra["version"] = {"provider": "mike", "default": "latest"}
        config.site_url = f"{config.site_url}{version}/"
    else:
        config.site_name = f"outlast {outlast.__version__}"
    config.copyright = f"outlast {outlast.__version__}, MIT license"
    return config


def on_files(files: Any, config: Any) -> Any:
    """Serve the library that draws diagrams, where npm has installed it."""
    if MERMAID.exists():
        files.append(File.generated(config, SERVED, abs_src_path=str(MERMAID)))
    elif not os.environ.get("WITHOUT_NODE"):
        raise PluginError(f"{MERMAID} is missing: `make site` installs it with npm.")
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page that leave docs/, so that they work on the site, too."""
    folder = page.file.src_uri.partition("/")[0]
    page.meta.setdefault("search", {"boost": BOOSTS.get(folder, 1)})
    home = posixpath.dirname(f"docs/{page.file.src_uri}")

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(home, link[1]))
        if target.startswith("docs/"):
            return link[0]
        return f"]({config.repo_url}/blob/main/{target}{link[2]})"

    return LINK.sub(rewritten, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Put diagrams into boxes that scroll, also by keyboard."""
    box = '<div class="diagram" tabindex="0" role="group" aria-label="Diagram">'
    return DIAGRAM.sub(lambda found: f"{box}{found[0]}</div>", html)


def on_post_build(config: Any) -> None:
    """Let the theme load the library of diagrams from the site itself, on pages that have some.

    The theme's script names another host, and has no option for it. `__md_scope` is the address of
    the site, which each page of the theme sets.
    """
    (script,) = Path(config.site_dir).glob("assets/javascripts/bundle.*.js")
    text = script.read_text(encoding="utf-8")
    if text.count(LOADED) != 1:
        raise PluginError(
            f"{script.name} does not load {LOADED}: look how this theme draws diagrams"
        )
    here = f'"" + new URL("{SERVED}", __md_scope)'
    script.write_text(text.replace(LOADED, here), encoding="utf-8")
    raw = Path(config.site_dir) / SKILL
    raw.write_text(
        raw_skill((HERE / SKILL).read_text(encoding="utf-8"), config.site_url), encoding="utf-8"
    )
