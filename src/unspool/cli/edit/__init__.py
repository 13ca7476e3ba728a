"""The command `unspool edit`."""
