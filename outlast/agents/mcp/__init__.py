"""The configuration of MCP servers, and their tools. `outlast.mcp` holds the connections."""
