"""Where the API is and who asks."""

from __future__ import annotations

import pytest

from unspool.api.endpoint import Endpoint, endpoint_from_environment
from unspool.errors import ApiFailed, UsageError

SECRETS = {
    "ANTHROPIC_API_KEY": " sk-ant-one\n",
    "ANTHROPIC_AUTH_TOKEN": "token-two",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Team: shore\n\nX-Gateway-Key: three-three\n",
    "HTTPS_PROXY": "http://me:four-four@proxy:3128",
}


def test_the_environment_names_all_of_it() -> None:
    found = endpoint_from_environment({**SECRETS, "ANTHROPIC_BASE_URL": "https://gateway.example/llm/"})
    assert found.base_url == "https://gateway.example/llm"
    assert found.headers(["a", "b"]) == {
        "accept": "text/event-stream, application/json",
        "anthropic-beta": "a,b",
        "anthropic-version": "2023-06-01",
        "authorization": "Bearer token-two",
        "content-type": "application/json",
        "user-agent": "unspool",
        "x-api-key": "sk-ant-one",
        "x-gateway-key": "three-three",
        "x-team": "shore",
    }
    assert found.proxy == SECRETS["HTTPS_PROXY"]


def test_a_header_of_ones_own_goes_before_ours() -> None:
    found = endpoint_from_environment({"ANTHROPIC_CUSTOM_HEADERS": "Authorization: Basic abc\nUser-Agent: me"})
    assert found.headers()["authorization"] == "Basic abc"
    assert found.headers()["user-agent"] == "me"
    assert "x-api-key" not in found.headers()


def test_no_secret_is_shown() -> None:
    found = endpoint_from_environment(SECRETS)
    shown = f"{found} {found!r} {found.__rich_repr__()} {found.hide_secrets(f'{found.headers()} {found.proxy}')}"
    assert "api.anthropic.com" in shown
    assert "shore" in shown
    assert [secret for secret in ("sk-ant-one", "token-two", "three-three", "four-four") if secret in shown] == []


def test_without_a_key_there_is_nobody_to_ask() -> None:
    with pytest.raises(ApiFailed) as raised:
        endpoint_from_environment({"ANTHROPIC_API_KEY": " "})
    assert raised.value.hint == "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANTHROPIC_BASE_URL", "gateway.example"),
        ("ANTHROPIC_BASE_URL", "ftp://gateway.example"),
        ("ANTHROPIC_BASE_URL", "https://me:sesame@gateway.example"),
        ("ANTHROPIC_BASE_URL", "https://gateway.example:x"),
        ("ANTHROPIC_BASE_URL", "https://[::1"),
        ("ANTHROPIC_API_KEY", "sesame\nmore"),
        ("ANTHROPIC_API_KEY", "sésame"),
        ("ANTHROPIC_CUSTOM_HEADERS", "sesame"),
        ("ANTHROPIC_CUSTOM_HEADERS", "X Y: sesame"),
        ("ANTHROPIC_CUSTOM_HEADERS", "X-Y: sésame"),
        ("HTTPS_PROXY", "sesame:1"),
    ],
)
def test_what_cannot_be_used_is_named_and_not_shown(name: str, value: str) -> None:
    with pytest.raises(UsageError) as raised:
        endpoint_from_environment({"ANTHROPIC_API_KEY": "k", name: value})
    assert raised.value.message.startswith(name)
    assert value not in f"{raised.value.message} {raised.value.hint}"


@pytest.mark.parametrize(
    ("base", "proxy"),
    [
        ("https://api.anthropic.com", "http://secure"),
        ("http://gateway.example", "http://plain"),
        ("http://127.0.0.1:8123", None),
        ("http://localhost:8123", None),
        ("https://inner.corp.example", None),
        ("https://corp.example", None),
        ("https://notcorp.example", "http://secure"),
    ],
)
def test_a_proxy_is_for_what_is_far_away(base: str, proxy: str | None) -> None:
    proxies = {
        "https_proxy": "http://secure",
        "HTTP_PROXY": "http://plain",
        "NO_PROXY": "other, .corp.example corp.example",
    }
    assert endpoint_from_environment({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": base, **proxies}).proxy == proxy


def test_nothing_is_exempt_or_all_is() -> None:
    environment = {"ANTHROPIC_API_KEY": "k", "ALL_PROXY": "http://any"}
    assert endpoint_from_environment(environment).proxy == "http://any"
    assert endpoint_from_environment({**environment, "no_proxy": "*"}).proxy is None


def test_short_words_are_not_taken_for_secrets() -> None:
    assert Endpoint(key="a").hide_secrets("a banana") == "a banana"
