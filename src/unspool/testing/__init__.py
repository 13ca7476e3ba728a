"""Public tools for tests: sessions built from words, a realistic data folder, a scripted and strict Messages API."""
