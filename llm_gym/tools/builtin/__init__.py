"""Tools that come with llm_gym: ``python``, ``calculator``, ``search``, ``sql``, and MCP's."""
