"""The desk: an HTTP API, wires of front ends, and pages, as an ASGI application."""

from outlast.edges import lazy

lazy.attach(__name__)
