"""Ready-made filters and prompts."""

from outlast.edges import lazy

lazy.attach(__name__)
