"""Handoff filters and prompts, built on the public interface."""
