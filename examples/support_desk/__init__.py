"""A support desk: three agents, five tools, and a shop database that does everything once."""
