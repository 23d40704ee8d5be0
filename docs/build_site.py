"""Builds the site of the documentation: a folder for each version, with a menu of them.

python docs/build_site.py [VERSION]    site/VERSION, site/versions.json, and site/index.html, which leads to
                                 the newest release; VERSION is that of the package, or `next`

Folders of other versions stay as they are, so a host that serves `site/` keeps what it had.
"""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from packaging.version import InvalidVersion, Version

import outlast

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
NEXT = "next"
"""The documentation of what no release has yet."""

REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>outlast</title>
<meta http-equiv="refresh" content="0; url={version}/">
<a href="{version}/">The documentation of outlast {version}</a>
</html>
"""


def versions_in(site: Path) -> list[str]:
    """Return the versions whose folders a site has, the newest first: `next`, then releases."""
    found: dict[str, Version] = {}
    names = [page.parent.name for page in site.glob("*/index.html")]
    for name in names:
        with suppress(InvalidVersion):
            found[name] = Version(name)
    releases = sorted(found, key=found.__getitem__, reverse=True)
    return [NEXT, *releases] if NEXT in names else releases


def list_versions(site: Path) -> str:
    """Write the menu of versions, and the first page; return the version that it leads to."""
    versions = versions_in(site)
    newest = next((one for one in versions if one != NEXT), NEXT)
    rows = [
        {"version": one, "title": one, "aliases": ["latest"] if one == newest else []}
        for one in versions
    ]
    (site / "versions.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (site / "index.html").write_text(REDIRECT.format(version=newest), encoding="utf-8")
    shutil.copyfile(site / newest / "404.html", site / "404.html")
    return newest


def main() -> int:
    """Build the site of one version."""
    version = sys.argv[1] if len(sys.argv) > 1 else outlast.__version__
    if version not in {NEXT, outlast.__version__}:
        sys.stderr.write(
            f"make site: this is the documentation of {outlast.__version__}, not of {version}. "
            f"Build the tag of that release, or leave VERSION out; `{NEXT}` is for the unreleased.\n"
        )
        return 2
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(SITE / version)],
        cwd=ROOT,
        env={**os.environ, "OUTLAST_SITE_VERSION": version, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    if built.returncode == 0:
        list_versions(SITE)
        sys.stdout.write(f"site/index.html leads to the first page, site/{version}/index.html\n")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
