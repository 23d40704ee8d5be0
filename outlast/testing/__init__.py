"""Tools for users' tests: run agents like functions, without a server."""

from outlast.common import lazy

lazy.attach(__name__)
