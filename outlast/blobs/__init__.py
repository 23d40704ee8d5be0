"""Stores for large content: adapters behind `outlast.ports.blobs`."""

from outlast.edges import lazy

lazy.attach(__name__)
