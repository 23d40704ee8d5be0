"""Tools for users' tests: run agents like functions, without a server."""

from outlast import lazy

lazy.attach(__name__)
