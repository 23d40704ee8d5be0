"""Internal. Search attributes and queries of Temporal's visibility store."""
