"""Internal. Approval policies: when a person decides, who may decide, and until when.

`outlast/loop/approvals.py` has the records that a run keeps; this package has the forms that people
write, in code and in the operators' file, and turns them into `ApprovalTerms`.
"""
