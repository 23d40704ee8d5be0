"""Tools for users' tests: run agents like functions, without a server."""

from outlast.edges import lazy

lazy.attach(__name__)
