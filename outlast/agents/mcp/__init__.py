"""Internal. The configuration of MCP servers, and their tools; see also `outlast.mcp`."""
