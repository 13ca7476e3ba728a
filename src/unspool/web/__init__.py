"""The page: what is known of sessions, in a browser. Starlette and Jinja2 are imported here only."""
