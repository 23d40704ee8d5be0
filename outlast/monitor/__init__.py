"""Internal. Counts the runs of a namespace for gauges: what waits, fails, is blocked or late.

`counts` is what was counted, `reading` counts, `queues` asks task queues, `gauges` exports, and
`process` is the process that does it, one for each namespace at a time.
"""
