"""Every name and record that lands in history.

Owns: the names of the workflow, its messages, activities and search attributes; the shape of
what travels; the table from history events to events of the loop. Changing anything here changes
what running workflows and recorded histories mean: see the Compatibility section of the
changelog. Must not know: Temporal's package, users' definitions, where anything runs.
"""
