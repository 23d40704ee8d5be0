"""Internal. Heartbeats of attempts, which reach the server even while an event loop is blocked."""
