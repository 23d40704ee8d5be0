"""Keeps the histories of runs after the server's retention, and deletes them on request."""

from outlast.common import lazy

lazy.attach(__name__)
