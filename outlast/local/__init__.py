"""The engine in the process: durability for a script that configures nothing.

Owns: putting an embedded server, a client and a worker together. The layer above client, worker
and dev, because it needs all three.
"""
