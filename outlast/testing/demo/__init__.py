"""Internal. The demo: a support desk whose workers are killed and whose people decide; the proof.

`stage.py` starts the server, the model and the workers; `story.py` is what happens; `proof.py`
compares the shop's ledger and Temporal's history at the end. Nothing here prints:
`outlast.cli.demo_screen` does.
"""
