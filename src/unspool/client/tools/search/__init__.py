"""The tools that find files and search in them."""
