"""Internal. The port of realtime models: the connection, its events and messages, settings, items."""
