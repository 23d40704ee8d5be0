"""Packages that import the OpenAI Agents SDK, in an environment of their own.

`make sdk-packages` installs them beside outlast, and names their Python in `OUTLAST_SDK_PACKAGES`.
Other runs of pytest leave this folder out.
"""

import os
from typing import Final

PYTHON: Final = os.environ.get("OUTLAST_SDK_PACKAGES")

collect_ignore_glob = [] if PYTHON else ["test_*.py"]
