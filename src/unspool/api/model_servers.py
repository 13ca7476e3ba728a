"""The servers that `unspool chat --endpoint` knows by name: address, protocol, variable of the key, what to start.

Rules
  1. A key is sent only to the server that its variable is for. An address gets `UNSPOOL_API_KEY`, and no other key.
  2. A server that cannot be used is refused by name, with what works instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from unspool.api.endpoint import Endpoint, Protocol, certificates_path, check_base_url, find_proxy, read_secret
from unspool.errors import UsageError

URL_KEY = "UNSPOOL_API_KEY"
_KNOWN_PATHS = re.compile(r"(/v1)?(/messages|/models)?/?$")


class ServerPreset(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to talk to one kind of server."""

    url: str
    key: str
    """The variable of its key."""
    needs_key: bool = False
    address: str | None = None
    """A variable that names another address."""
    protocol: Protocol = "any"
    start: str
    """What has to be done before, as words or a command."""
    tools: str
    """What to change if tool calls do not work."""


SERVERS: dict[str, ServerPreset] = {
    "ollama": ServerPreset(
        url="http://127.0.0.1:11434",
        key="OLLAMA_API_KEY",
        address="OLLAMA_HOST",
        start="ollama serve",
        tools="use a model with the capability `tools` (`ollama show NAME`), and set OLLAMA_CONTEXT_LENGTH=32768",
    ),
    "vllm": ServerPreset(
        url="http://127.0.0.1:8000",
        key="VLLM_API_KEY",
        start="vllm serve NAME --enable-auto-tool-choice --tool-call-parser PARSER",
        tools="start it with `--enable-auto-tool-choice --tool-call-parser PARSER` of the model's kind",
    ),
    "litellm": ServerPreset(
        url="http://127.0.0.1:4000",
        key="LITELLM_PROXY_API_KEY",
        address="LITELLM_PROXY_API_BASE",
        start="litellm --config config.yaml",
        tools="use a model of the proxy that can call tools",
    ),
    "llama.cpp": ServerPreset(
        url="http://127.0.0.1:8080",
        key="LLAMA_API_KEY",
        start="llama-server -m MODEL.gguf --jinja -c 32768",
        tools="start it with `--jinja`, and use a model whose template has tools",
    ),
    "openrouter": ServerPreset(
        url="https://openrouter.ai/api",
        key="OPENROUTER_API_KEY",
        needs_key=True,
        start="nothing",
        tools="use a model that lists `tools` among its parameters",
    ),
    "openai": ServerPreset(
        url="https://api.openai.com",
        key="OPENAI_API_KEY",
        needs_key=True,
        address="OPENAI_BASE_URL",
        protocol="completions",
        start="nothing",
        tools="use a model that can call functions",
    ),
}
_SIGNED = {"bedrock": "bedrock/NAME", "vertex": "vertex_ai/NAME"}
"""Services whose requests are signed by a cloud's own key: their names in LiteLLM."""


def endpoint_from_name(name: str, environment: Mapping[str, str]) -> Endpoint:
    """Return the endpoint that `--endpoint` names: one of `SERVERS`, or an address."""
    if name in _SIGNED:
        hint = f"start LiteLLM's proxy with the model `{_SIGNED[name]}`, then use `--endpoint litellm`"
        raise UsageError(f"`{name}` is not supported: its requests are signed with keys of the cloud", hint=hint)
    if preset := SERVERS.get(name):
        return _preset_endpoint(name, preset, environment)
    if "://" not in name:
        known = ", ".join((*SERVERS, "or an address like `http://127.0.0.1:8000`"))
        raise UsageError(f"unknown endpoint `{name}`", hint=f"use {known}")
    return _make_endpoint(name, "any", "--endpoint", URL_KEY, environment)


def find_preset(endpoint: Endpoint) -> ServerPreset | None:
    """Return the kind of server that an endpoint was made for."""
    return next((preset for preset in SERVERS.values() if preset.key == endpoint.key_setting), None)


def _preset_endpoint(name: str, preset: ServerPreset, environment: Mapping[str, str]) -> Endpoint:
    given = environment.get(preset.address or "", "").strip()
    setting = preset.address if preset.address and given else "--endpoint"
    if given and "://" not in given:  # OLLAMA_HOST is often only a host and a port, or where the server listens
        host, colon, port = given.rpartition(":")
        host, port = (host, port) if colon else (given, str(urlsplit(preset.url).port))
        given = f"http://{'127.0.0.1' if host in ('', '0.0.0.0', '[::]') else host}:{port}"
    endpoint = _make_endpoint(given or preset.url, preset.protocol, setting or "--endpoint", preset.key, environment)
    if preset.needs_key and not endpoint.token:
        raise UsageError(f"no API key for {name}", hint=f"set {preset.key}")
    return endpoint


def _make_endpoint(
    url: str, protocol: Protocol, setting: str, key_variable: str, environment: Mapping[str, str]
) -> Endpoint:
    """Return the endpoint at an address; a path of one of the two APIs at its end says which one is meant."""
    url, path = check_base_url(url, setting), "/v1/chat/completions"
    if url.endswith("/chat/completions"):
        protocol, url = "completions", url.removesuffix("/chat/completions")
        if url.endswith("/v1"):
            url = url.removesuffix("/v1")
        else:
            path = "/chat/completions"
    else:
        protocol = "messages" if url.endswith("/v1/messages") else protocol
        url = _KNOWN_PATHS.sub("", url)
    return Endpoint(
        base_url=url,
        token=read_secret(environment, key_variable),
        proxy=find_proxy(environment, url),
        certificates=certificates_path(environment),
        protocol=protocol,
        completions_path=path,
        key_setting=key_variable,
        address_setting=setting,
    )
