"""What a developer's machine needs: a Temporal server, and a model that works without a key.

Owns: starting and stopping them. Must not know: agents, runs, workers, clients of runs. The names
are in `__init__.pyi`.
"""

from outlast import lazy

lazy.attach(__name__)
