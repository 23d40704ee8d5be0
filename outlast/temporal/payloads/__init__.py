"""Internal. Decodes Temporal's payloads and failures into the loop's values.

The workflow and clients use the same functions, so both agree on which payloads are unreadable.
"""
