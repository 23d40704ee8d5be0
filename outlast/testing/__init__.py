"""Tools for users' tests: run agents like functions, without a server.

The names are in `__init__.pyi` and loaded when first used: `run_in_memory`, `ScriptedModel`,
`ScriptedResponsesServer`, `ScriptedRealtimeServer`, and functions that write scripts.
"""

from outlast import lazy

lazy.attach(__name__)
