"""`python -m tests.docs [--fix] [PAGE…]`: runs the commands of the pages and says where they print something else.

With `--fix` the outputs in the pages are rewritten; placeholders and `...` are kept where they still fit. A page with
other outputs is run twice, to see what varies.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.docs.page_blocks import ROOT, mark_variation, matches, replace_outputs
from tests.docs.page_run import PageResult, run_page

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def run(text: str) -> PageResult:
    """Run a page in a home folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="unspool-docs-") as home:
        return run_page(text, Path(home).resolve())


def main() -> int:
    """Run the pages; return 1 if a command fails or prints something else."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    wrong = 0
    for page in arguments.pages or PAGES:
        text = page.read_text()
        result = run(text)
        failed = [each for each in result.commands if each.code]
        other = [each for each in result.commands if not matches(each.command.expected, each.output)]
        print(
            f"{page.name}: {len(result.commands)} commands, {len(failed)} failed, {len(other)} print something else, "
            f"{len(result.not_run)} blocks not run, {result.seconds:.1f} s"
        )
        for each in failed:
            print(f"  line {each.command.line}: exit {each.code}: {each.command.text}")
            print("".join(f"    {line}\n" for line in each.output[:8]), end="")
        if arguments.fix:
            outputs = {each.command.line: each.output for each in result.commands}
            if other:
                for each in run(text).commands:
                    outputs[each.command.line] = mark_variation(outputs[each.command.line], each.output)
            page.write_text(replace_outputs(text, outputs))
        else:
            for each in other:
                print(f"  line {each.command.line}: {each.command.text}")
                print("".join(f"    {line}\n" for line in each.output), end="")
        wrong += len(failed) + (0 if arguments.fix else len(other))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
