"""Temporal's payloads and failures as the loop reads them, for the workflow and for clients.

Both decode with the functions of this package, so a payload that one of them cannot read is
unreadable to the other. Must not know: agents, runs, workers.
"""
