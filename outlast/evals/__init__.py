"""Evaluates agents on recorded runs, by `pydantic-evals`. Needs the extra `evals`."""

from outlast.edges import lazy

lazy.attach(__name__)
