"""What `outlast demo` plays: a support desk whose workers are killed, and the proof.

- `stage.py`: starts the server, the model and the workers, and clears them away
- `story.py`: what happens, in which order; who narrates and who decides are its parameters
- `feed.py`: the run as it is read while it happens
- `proof.py`: what the shop's ledger and Temporal's history say at the end
- `processes.py`: the worker processes
- `responses_server.py`: a scripted server for OpenAI's Responses API, over real HTTP
- `desk_model.py`: its answers at this one desk, a handful of rules in place of a model

Nothing here prints: `outlast.cli.demo_screen` does.
"""
