"""Internal. The local engine: durable runs for a script that configures nothing.

It combines an embedded server, a client and a worker.
"""
