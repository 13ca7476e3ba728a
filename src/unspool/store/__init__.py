"""The embedded store: what was read, kept in SQLite to be asked and searched."""
