"""The servers that `--endpoint` knows, and addresses."""

from __future__ import annotations

import pytest

from unspool.api import SERVERS, endpoint_from_name, find_preset
from unspool.errors import UsageError

KEYS = {preset.key: "sesame" for preset in SERVERS.values()} | {"ANTHROPIC_API_KEY": "sk-ant", "UNSPOOL_API_KEY": "own"}


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_gets_its_own_key_and_no_other(name: str) -> None:
    endpoint = endpoint_from_name(name, {**KEYS, SERVERS[name].key: f"key-of-{name}"})
    assert endpoint.base_url == SERVERS[name].url
    assert (endpoint.token, endpoint.key) == (f"key-of-{name}", None)
    assert find_preset(endpoint) is SERVERS[name]
    assert "key-of" not in repr(endpoint)


def test_an_address_gets_a_key_that_is_meant_for_it() -> None:
    assert endpoint_from_name("http://127.0.0.1:9", KEYS).token == "own"
    assert endpoint_from_name("http://127.0.0.1:9", {"ANTHROPIC_API_KEY": "sk-ant"}).headers().get("x-api-key") is None


@pytest.mark.parametrize(
    ("url", "base", "protocol", "path"),
    [
        ("http://h:1", "http://h:1", "any", "/v1/chat/completions"),
        ("http://h:1/v1/", "http://h:1", "any", "/v1/chat/completions"),
        ("http://h:1/v1/messages", "http://h:1", "messages", "/v1/chat/completions"),
        ("http://h:1/v1/chat/completions", "http://h:1", "completions", "/v1/chat/completions"),
        ("https://h/v1beta/openai/chat/completions", "https://h/v1beta/openai", "completions", "/chat/completions"),
    ],
)
def test_the_end_of_an_address_says_which_api_it_has(url: str, base: str, protocol: str, path: str) -> None:
    endpoint = endpoint_from_name(url, {})
    assert (endpoint.base_url, endpoint.protocol, endpoint.completions_path) == (base, protocol, path)


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0:11434", "http://127.0.0.1:11434"), ("box", "http://box:11434"), ("https://box:1", "https://box:1")],
)
def test_the_host_of_ollama_is_used(host: str, url: str) -> None:
    assert endpoint_from_name("ollama", {"OLLAMA_HOST": host}).base_url == url


@pytest.mark.parametrize("name", ["bedrock", "vertex"])
def test_signed_services_are_refused_with_what_works(name: str) -> None:
    with pytest.raises(UsageError, match=f"`{name}` is not supported") as refused:
        endpoint_from_name(name, {})
    assert "--endpoint litellm" in str(refused.value.hint)


def test_a_name_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="unknown endpoint `olama`") as refused:
        endpoint_from_name("olama", {})
    assert "ollama" in str(refused.value.hint)
    with pytest.raises(UsageError, match="no API key for openrouter"):
        endpoint_from_name("openrouter", {})
    with pytest.raises(UsageError, match="--endpoint is not a URL"):
        endpoint_from_name("ftp://h", {})
