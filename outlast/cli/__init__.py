"""The `outlast` command: parsing and printing only.

Owns: what a person types and reads. Everything else is asked of the client, the worker and the
development server. Start reading in `app.py`, which lists the commands.
"""
