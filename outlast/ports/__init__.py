"""Internal. Protocols for the outside world, which adapters implement."""
