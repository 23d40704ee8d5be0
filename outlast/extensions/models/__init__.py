"""Models of other providers, under the names where users look for them; they stand in `models`."""
