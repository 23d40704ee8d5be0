"""The client: start runs, send to them, read them.

`Runner`, `RunHandle`, results and their errors. Uses the contract's names only and never imports
workflows or activities: a client may run where no agent is defined.
"""

from outlast.edges import lazy

lazy.attach(__name__)
