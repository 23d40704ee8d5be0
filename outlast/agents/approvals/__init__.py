"""Internal. Approval policies: when a person decides, who may decide, and until when.

`outlast/loop/approvals.py` has the records that a run keeps; this package has the forms that people
write, and turns them into `ApprovalTerms`.

    policy.py       `ApprovalPolicy`, `Audience` and `Escalation`, as programs write them
    policy_file.py  the operators' file: policies in TOML, which outrank the code's
    conditions.py   its conditions: comparisons of arguments, without code
    toml_places.py  the lines and columns of its keys, for messages
    dry_run.py      what a file would have meant for the calls of past runs
    budget.py       `Budget`: what a run may spend before a person decides whether it goes on
"""
