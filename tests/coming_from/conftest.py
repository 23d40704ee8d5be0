"""`make coming-from` installs the frameworks of docs/coming-from, and names their Python.

Other runs of pytest test the program of these pages for outlast, and leave the others out.
"""

import os
from typing import Final

PYTHON: Final = os.environ.get("OUTLAST_COMING_FROM", "")
