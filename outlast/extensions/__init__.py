"""Ready-made filters and prompts."""

from outlast import lazy

lazy.attach(__name__)
