"""Which price table this is: what makes known that sums were made with another one."""

from __future__ import annotations

VERSION = "2026-11-15"
DIGEST = "daafd8e083eb1aea32a8107082a7bc58c3095fd68e91726a66c354faafe63ad6"
"""SHA-256 of `table.TABLE`."""

SOURCE = "public price list, as republished in litellm 1.77.0, 1.81.0 and 1.108.4, read 2026-11-15"
