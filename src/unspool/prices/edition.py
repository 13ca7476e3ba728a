"""The edition of the built-in price list. Apart from that: every command asks for it, and few need msgspec (9 ms)."""

VERSION = "2026-11-15"
DIGEST = "daafd8e083eb1aea32a8107082a7bc58c3095fd68e91726a66c354faafe63ad6"
"""SHA-256 of `TABLE` in `price_list.py`."""
