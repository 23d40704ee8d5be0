"""The engine in the process: durability for a script that configures nothing.

Combines an embedded server, a client and a worker.
"""
