"""Benchmarks: `python -m bench [NAME…]`. Each one is measured against a named reference in the same run."""
