"""Internal. The `outlast` command.

`entry.py` starts the command line, `app.py` lists the commands, and `terminal.py` alone prints.
`caller.py` and `options.py` have what commands share, `server.py` which server they talk to, and
`follower.py` follows a run.
"""
