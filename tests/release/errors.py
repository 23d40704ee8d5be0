"""How a check of a release fails."""


class CheckFailedError(Exception):
    """A package is not as it has to be."""
