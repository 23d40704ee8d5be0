"""Starts, shares and stops a Temporal development server on this machine.

Must not import clients or workers. The names are in `__init__.pyi`.
"""

from outlast.edges import lazy

lazy.attach(__name__)
