"""Internal. Every name and record that is written into history.

The names of the workflow, its messages, activities and search attributes; the records that
travel; the table from history entries to events of the loop. A change here changes the meaning of
running workflows and recorded histories: see the Compatibility section of the changelog.
"""
