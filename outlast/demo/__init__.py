"""Internal. The demo: a support desk whose workers are killed and whose people decide; the proof.

- `stage.py`: starts the server, the model and the workers, and cleans them up
- `story.py`: the sequence of the demo; the narrator and the people of the desk are its parameters
- `feed.py`: follows the run while it is in progress
- `proof.py`: compares the shop's ledger and Temporal's history at the end
- `processes.py`: the worker processes
- `responses_server.py`: a scripted server for OpenAI's Responses API, over real HTTP
- `desk_model.py`: the server's responses at this desk, from a few rules instead of a model

Nothing here prints: `outlast.cli.demo_screen` does.
"""
