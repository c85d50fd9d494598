"""Built-in tools: ``python``, ``calculator``, ``search``, ``sql``, and tools of MCP servers."""
