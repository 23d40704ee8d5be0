"""Stores for large content: adapters behind `outlast.ports.blobs`."""

from outlast.common import lazy

lazy.attach(__name__)
