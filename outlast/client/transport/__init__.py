"""Internal. Calls to the server: connections, outages, sizes, and errors as exceptions."""
