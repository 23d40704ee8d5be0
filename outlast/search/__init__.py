"""Text search over open and archived conversations: an index, and what it finds."""

from outlast.edges import lazy

lazy.attach(__name__)
