"""The Temporal workflow: an interpreter of the loop's commands.

Owns: how commands become activities and how what arrives becomes events. Imports the loop, the
contract and Temporal only; no user code runs here.
"""
