"""Internal. What stands between records and a Temporal server.

Payloads and failures, search attributes and queries, and the keys and executions that proofs name.
"""
