"""Internal. The agent loop as data: items, events, commands, state, and `machine.advance()`.

It decides what a run does next, and nothing else. Pure: standard library only, no clock, no
randomness, no I/O, no user code. Start reading in `machine.py`.
"""
