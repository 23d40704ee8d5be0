"""The running digest of an audit's entries, and its verification: in files, and against the server.

Each entry of a run has the digest of all entries up to it, so one digest stands for all of them. `docs/how-to/audit.md` says what that proves, and against whom.
"""

from outlast.client.audit_chain.checks import AuditCheck, CheckedRun, Problem, check_lines
from outlast.client.audit_chain.entries import Head, heads_of
from outlast.client.audit_chain.files import Line, lines_of, read_file
from outlast.client.audit_chain.runs import chained, check_run, proofs_of, sealed

__all__ = [
    "AuditCheck",
    "CheckedRun",
    "Head",
    "Line",
    "Problem",
    "chained",
    "check_lines",
    "check_run",
    "heads_of",
    "lines_of",
    "proofs_of",
    "read_file",
    "sealed",
]
