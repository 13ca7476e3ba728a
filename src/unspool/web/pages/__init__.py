"""One module per page, or few that belong together. Each has `routes`."""
