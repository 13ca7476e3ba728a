"""The `unspool` command: parse, call, print."""
