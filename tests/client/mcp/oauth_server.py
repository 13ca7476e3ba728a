"""An MCP server over HTTP that wants a login, with its authorization server, both scripted and well-behaved or not."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

SERVED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "locked", "version": "1"},
}
TOOL = {"name": "open", "description": "Opens.", "inputSchema": {"type": "object"}}


class OAuthSite:
    """What both servers know and were asked."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.url = ""
        self.challenges: dict[str, str] = {}
        self.tokens: set[str] = set()
        self.asked: list[str] = []
        self.grants: list[str] = []
        self.expires_in: Any = 3600

    def metadata(self) -> Any:
        elsewhere = {
            "plain token endpoint": "http://192.0.2.1/token",
            "private token endpoint": "https://10.0.0.1/token",
        }
        shown = {"script as address": "javascript:alert(1)", "plain address": "http://192.0.2.1/authorize"}
        return {
            "issuer": self.url if self.fault != "other issuer" else "https://example.org",
            "authorization_endpoint": shown.get(self.fault, f"{self.url}/authorize"),
            "token_endpoint": elsewhere.get(self.fault, f"{self.url}/token"),
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }

    def grant(self, form: dict[str, str]) -> tuple[int, Any]:
        """Return the answer of the token endpoint."""
        self.grants.append(form["grant_type"])
        if self.fault == "nonsense for tokens":
            return 200, {"access_token": ["a"], "token_type": 5}
        if self.fault == "long tokens":
            return 200, {"access_token": "a" * 100_000, "token_type": "Bearer"}
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(digest).decode().rstrip("=") != self.challenges.pop(form["code"], None):
                return 400, {"error": "invalid_grant"}
        elif form.get("refresh_token") != "again":
            return 400, {"error": "invalid_grant"}
        token = f"token-{len(self.grants)}"
        self.tokens.add(token)
        fields = {"access_token": token, "token_type": "Bearer", "refresh_token": "again"}
        return 200, {**fields, "expires_in": self.expires_in}


class _Handler(BaseHTTPRequestHandler):
    site: OAuthSite

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def send(self, status: int, value: Any = None, **headers: str) -> None:
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        site, parts = self.site, urlsplit(self.path)
        site.asked.append(parts.path)
        if parts.path.startswith("/.well-known/oauth-protected-resource"):
            self.send(200, {"resource": f"{site.url}/mcp", "authorization_servers": [site.url]})
        elif parts.path.startswith("/.well-known/oauth-authorization-server"):
            if site.fault == "endless redirect":
                self.send(302, location=f"{site.url}{parts.path}")
            else:
                self.send(200, [] if site.fault == "nonsense for metadata" else site.metadata())
        elif parts.path == "/authorize":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            site.challenges["code"] = query["code_challenge"]
            answer = {"error": "access_denied"} if site.fault == "refusal" else {"code": "code"}
            self.send(302, location=f"{query['redirect_uri']}?{urlencode({**answer, 'state': query['state']})}")
        else:
            self.send(405)

    def do_POST(self) -> None:
        site, parts = self.site, urlsplit(self.path)
        site.asked.append(parts.path)
        body = self.rfile.read(int(self.headers["content-length"]))
        if parts.path == "/register":
            given = json.loads(body)
            answer: Any = {**given, "client_id": "us"}
            self.send(201, {"client_id": 5} if site.fault == "nonsense for a registration" else answer)
        elif parts.path == "/token":
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            self.send(*site.grant(form))
        elif self.headers.get("authorization", "").removeprefix("Bearer ") not in site.tokens:
            self.send(
                401, www_authenticate=f'Bearer resource_metadata="{site.url}/.well-known/oauth-protected-resource"'
            )
        else:
            request = json.loads(body)
            results = {"initialize": SERVED, "tools/list": {"tools": [TOOL]}}
            if "id" not in request:
                self.send(202)
            else:
                self.send(200, {"jsonrpc": "2.0", "id": request["id"], "result": results.get(request["method"], {})})


@contextmanager
def oauth_site(fault: str = "") -> Iterator[OAuthSite]:
    """Serve an MCP server and its authorization server on loopback."""
    site = OAuthSite(fault)
    handler = type("Handler", (_Handler,), {"site": site})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield site
        finally:
            server.shutdown()
            serving.join()
