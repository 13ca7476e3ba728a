"""Public tools for tests: sessions built from words, and a realistic data folder."""
