"""Pages from a real server on this machine: followed, cut, refused."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.site import Reply, serving
from unspool.api.web_fetch import DEFAULT_LIMITS, FetchedPage, FetchLimits, PageFetcher, is_public
from unspool.errors import Refused, Unreadable, UnspoolError, UsageError

PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "fec0::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "2002:7f00:1::",
    "2002:0a00:1::",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "192.0.0.9",
    "192.0.0.10",
    "192.88.99.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.175.48.1",
    "3fff::1",
    "3ffe::1",
    "2001:1::1",
    "2001:3::1",
    "2001:20::1",
    "2002:808:808::1",
    "2620:4f:8000::1",
    "5f00::1",
    "64:ff9b:1::808:808",
    "100::1",
    "nonsense",
]


def got(url: str, fetcher: PageFetcher) -> FetchedPage:
    return asyncio.run(fetcher.get(url))


def allowing(*hosts: str, limits: FetchLimits = DEFAULT_LIMITS, **environment: str) -> PageFetcher:
    return PageFetcher({"UNSPOOL_FETCH_HOSTS": ", ".join(hosts), **environment}, limits=limits)


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_this_machine_or_its_network_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_an_address_of_the_web_is_public(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_an_address_is_as_public_wrapped_as_it_is_bare(address: object) -> None:
    assert is_public(f"::ffff:{address}") == is_public(str(address))


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0"]
)
def test_this_machine_is_not_asked_however_it_is_spelled(host: str) -> None:
    with serving({"/": Reply(b"secret")}) as site:
        with pytest.raises(UnspoolError) as caught:
            got(f"http://{host}:{site.port}/", PageFetcher({}))
        assert site.asked == []
        assert isinstance(caught.value, Refused) or host == "0"


def test_one_private_address_of_a_name_is_enough_to_refuse_it() -> None:
    async def both(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    with pytest.raises(Refused, match="not a public address"):
        got("https://two.example/", PageFetcher({}, resolve=both))


def test_the_connection_goes_to_the_address_that_was_looked_at() -> None:
    asked: list[str] = []

    async def here(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    with serving({"/": Reply(b"hi")}) as site:
        fetcher = PageFetcher({"UNSPOOL_FETCH_HOSTS": "site.example"}, resolve=here)
        assert got(f"http://site.example:{site.port}/", fetcher).body == b"hi"
        assert asked == ["site.example"]
        assert site.asked[0][1]["host"] == f"site.example:{site.port}"


def test_a_page_comes_with_its_status_and_type() -> None:
    with serving({"/a?b=c": Reply(b"<p>hi", headers=(("x", "y"),))}) as site:
        page = got(f"{site.url}/a?b=c", allowing(site.host))
        assert page == FetchedPage(f"{site.url}/a?b=c", 200, "OK", "text/html; charset=utf-8", b"<p>hi")
        assert {"cookie", "authorization", "x-api-key"}.isdisjoint(site.asked[0][1])


def test_a_compressed_page_is_unpacked() -> None:
    with serving({"/": Reply(gzip.compress(b"hello" * 100), headers=(("content-encoding", "gzip"),))}) as site:
        assert got(site.url, allowing(site.host)).body == b"hello" * 100


def test_a_page_on_the_same_host_is_followed() -> None:
    pages = {"/a": Reply(status=301, headers=(("location", "/b"),)), "/b": Reply(b"here")}
    with serving(pages) as site:
        page = got(f"{site.url}/a", allowing(site.host))
        assert (page.url, page.body, page.moved) == (f"{site.url}/b", b"here", None)


@pytest.mark.parametrize(
    "location", ["http://localhost:PORT/b", "https://127.0.0.1:PORT/b", "http://127.0.0.1:1/b", "//evil.example/b"]
)
def test_a_page_elsewhere_is_told_of_and_not_followed(location: str) -> None:
    pages = {"/a": Reply(status=302, headers=(("location", location),)), "/b": Reply(b"here")}
    with serving(pages) as site:
        page = got(f"{site.url}/a", allowing(site.host, "localhost", "evil.example"))
        assert page.moved is not None
        assert page.moved.endswith("/b")
        assert page.status == 302
        assert [path for path, _ in site.asked] == ["/a"]


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://user:pass@127.0.0.1:PORT/b"])
def test_a_page_that_leads_off_the_web_is_refused(location: str) -> None:
    with serving({"/a": Reply(status=302, headers=(("location", location),))}) as site, pytest.raises(UnspoolError):
        got(f"{site.url}/a", allowing(site.host))


def test_a_page_that_leads_in_circles_is_left() -> None:
    with serving({"/a": Reply(status=302, headers=(("location", "/a"),))}) as site:
        with pytest.raises(Unreadable, match="too many redirects"):
            got(f"{site.url}/a", allowing(site.host))
        assert len(site.asked) == 10


def test_a_huge_page_is_cut() -> None:
    with serving({"/": Reply(b"x" * 100_000, repeat=10_000)}) as site:
        page = got(site.url, allowing(site.host, limits=FetchLimits(size=1_000_000)))
        assert (len(page.body), page.is_whole) == (1_000_000, False)


def test_a_slow_page_is_left() -> None:
    began = time.monotonic()
    with serving({"/": Reply(b"x", repeat=400, pause=0.05)}) as site:
        with pytest.raises(Unreadable, match=r"took longer than 0.3 s"):
            got(site.url, allowing(site.host, limits=FetchLimits(seconds=0.3)))
        assert time.monotonic() - began < 15


def test_a_page_that_unpacks_without_end_is_cut() -> None:
    bomb = gzip.compress(bytes(200_000_000))
    with serving({"/": Reply(bomb, headers=(("content-encoding", "gzip"),))}) as site:
        page = got(site.url, allowing(site.host))
        assert (len(page.body), page.is_whole) == (10 << 20, False)


@pytest.mark.parametrize("url", ["", "nonsense", "file:///etc/passwd", "http://", "http://[::1", "ftp://e.org/"])
def test_what_is_not_an_address_is_said_to_be_none(url: str) -> None:
    with pytest.raises(UsageError):
        got(url, PageFetcher({}))


def test_nobody_home_is_said_in_one_line() -> None:
    with serving({}) as site:
        gone = site.host
    with pytest.raises(Unreadable, match=r"cannot reach `127.0.0.1`"):
        got(f"http://{gone}/", allowing(gone))


def test_a_name_that_does_not_exist_is_said_in_one_line() -> None:
    async def nowhere(host: str, port: int) -> list[str]:
        raise OSError(1, "Name or service not known")

    with pytest.raises(Unreadable, match=r"unknown host: `nowhere.example`"):
        got("https://nowhere.example/", PageFetcher({}, resolve=nowhere))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no `openssl` here to make a certificate with")
@pytest.mark.parametrize("name", ["site.example", "other.example"])
def test_a_certificate_is_that_of_the_name_and_not_of_the_address(tmp_path: Path, name: str) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    wanted = ["-subj", "/CN=site.example", "-addext", "subjectAltName=DNS:site.example", "-days", "2"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key)]
    subprocess.run([*made, "-out", str(certificate), *wanted], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)

    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    environment = {"UNSPOOL_FETCH_HOSTS": name, "SSL_CERT_FILE": str(certificate)}
    with serving({"/": Reply(b"safe")}, tls) as site:
        url = f"https://{name}:{site.port}/"
        if name == "site.example":
            assert got(url, PageFetcher(environment, resolve=here)).body == b"safe"
        else:
            with pytest.raises(Unreadable, match=r"cannot reach `other.example`"):
                got(url, PageFetcher(environment, resolve=here))
