"""Internal. Where outlast meets what is not outlast, and knows nothing of runs.

The clock, the imports and the end of the interpreter, bodies that others send, and texts that people
are shown.
"""
