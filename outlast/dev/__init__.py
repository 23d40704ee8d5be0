"""A Temporal server for a developer's machine: started, found and stopped.

Must not know: agents, runs, workers, clients of runs. The names are in `__init__.pyi`.
"""

from outlast import lazy

lazy.attach(__name__)
