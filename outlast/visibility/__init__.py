"""Temporal's visibility store: by what operators find runs.

Owns: the search attributes on the server. Must not know: which runs there are.
"""
