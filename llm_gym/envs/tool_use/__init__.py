"""Questions to answer with tools."""
