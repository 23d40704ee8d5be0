"""Internal. The `outlast` command.

`entry.py` starts the command line and `app.py` lists the commands. They share:

- `caller.py`, `options.py`, `exit_codes.py`: common options, and exit codes
- `terminal.py`: the only module that prints
- `server.py`: which Temporal server a command talks to
- `follower.py`: follows a run; `events.py` has the words for its events, `view.py` how they look
- `review.py`: what a person reads before deciding; `consent.py`: their yes
- `demo_screen.py`: the output of `outlast.demo`; `report.py`: the report of `show`;
  `application.py`: loads the agents for `worker`; `signals.py`: stops `worker` and `dev`
"""
