"""Internal. A server of the Realtime API that follows a script, for `outlast.testing`."""
