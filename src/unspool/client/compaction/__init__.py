"""Makes conversations shorter that no longer fit the context window. Pure."""
