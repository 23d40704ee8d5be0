"""MCP servers as users configure them, and their tools. `outlast.mcp` connects to them."""
