"""`python -m unspool`: the same as the `unspool` command."""

from __future__ import annotations

from unspool.cli.main import main

if __name__ == "__main__":
    main()
