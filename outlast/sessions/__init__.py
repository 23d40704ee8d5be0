"""Sessions store conversations between runs: adapters for `outlast.ports.session`."""

from outlast.edges import lazy

lazy.attach(__name__)
