"""side_files."""
