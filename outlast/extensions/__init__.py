"""Ready-made filters and prompts."""

from outlast.common import lazy

lazy.attach(__name__)
