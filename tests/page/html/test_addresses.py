"""Links in what tools printed: only web addresses, and nothing unescaped."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.page.html.render import link_addresses, link_hits

pieces = st.lists(
    st.sampled_from(
        ["http://", "https://x.test/", "<b>", '"', "'", "&amp;", "javascript:", "\x1b[31m", ":1:", "a.py", "\n"]
    )
    | st.text(max_size=4),
    max_size=16,
).map("".join)


class Links(HTMLParser):
    """Collects the addresses of links, and tags that are neither links nor spans."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.others: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.addresses.append(dict(attrs).get("href") or "")
        elif tag != "span":
            self.others.append(tag)


@given(pieces)
def test_only_web_addresses_become_links_and_nothing_else_a_tag(text: str) -> None:
    found = Links()
    found.feed(str(link_addresses(text)))
    found.close()
    assert found.others == []
    assert all(address.startswith(("http://", "https://")) for address in found.addresses)


@given(pieces)
def test_hits_lead_to_what_is_found_and_nothing_else_is_a_tag(text: str) -> None:
    found = Links()
    found.feed(str(link_hits(text, lambda path: "/find")))
    found.close()
    assert found.others == []
    assert set(found.addresses) <= {"/find"}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://x.test/a?b=1&c=2.", "https://x.test/a?b=1&c=2"),
        ('"http://x.test/"', "http://x.test/"),
        ("(http://x.test)", "http://x.test"),
        ("\x1b[34mhttp://x.test/\x1b[0m", "http://x.test/"),
    ],
)
def test_an_address_ends_where_its_sentence_goes_on(text: str, address: str) -> None:
    found = Links()
    found.feed(str(link_addresses(text)))
    assert found.addresses == [address]


def test_a_hit_names_its_file_and_line() -> None:
    made = str(link_hits("src/a.py:12:x = 1\nplain", lambda path: f"/find?words={path}"))
    assert made == '<a class="hit" href="/find?words=src/a.py" data-find="src/a.py">src/a.py:12</a>:x = 1\nplain'
