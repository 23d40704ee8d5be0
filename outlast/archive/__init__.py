"""Keeps the histories of runs after the server's retention, and deletes them on request."""

from outlast.edges import lazy

lazy.attach(__name__)
