"""Approval requests and decisions in the shapes of other systems, both ways."""
