"""Internal. The Temporal workflow: an interpreter of the loop's commands.

Commands become activities, and everything that arrives becomes an event. Imports the loop, the
contract and Temporal only; no user code runs here.
"""
