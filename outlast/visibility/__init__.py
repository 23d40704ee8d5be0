"""Search attributes and queries of Temporal's visibility store, by which operators find runs."""
