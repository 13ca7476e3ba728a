"""Made-up secrets of every kind, put together here so that no scanner takes this file for a leak.

In: nothing. Out: each kind with a secret, and a text around it as people write it.
"""

from __future__ import annotations

import base64
import random
import string
from typing import NamedTuple

_chance = random.Random(20260107)


def some(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    """Return random letters, a digit among them."""
    return "".join(_chance.choices(letters, k=length - 1)) + "7"


HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits


class Planted(NamedTuple):
    """A secret, and a text that holds it."""

    kind: str
    secret: str
    """What must not be found anywhere after."""
    text: str


def _key(kind: str = "RSA ") -> str:
    rows = "\n".join(some(64, string.ascii_letters + string.digits + "+/") for _ in range(8))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{rows}\n-----END {kind}PRIVATE KEY-----"


def _plain(kind: str, secret: str, around: str = "use {} here") -> Planted:
    return Planted(kind, secret, around.format(secret))


_short = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabcdEfgh\n-----END RSA PRIVATE KEY-----"
_rsa, _ec = _key(), _key("EC ")
_basic = base64.b64encode(f"admin:{some(12)}".encode()).decode()
_jwt = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx{some(20)}.{some(43)}"

PLANTED = (
    _plain("aws-key-id", "AKIA" + some(16, UPPER)),
    _plain("assignment", some(40), "aws_secret_access_key = {}"),
    _plain("google-api-key", "AIza" + some(35)),
    _plain("google-oauth", "GOCSPX-" + some(28)),
    _plain("azure-secret", "abc8Q~" + some(34)),
    _plain("assignment", some(86) + "==", "AccountName=x;AccountKey={};EndpointSuffix=core.windows.net"),
    _plain("azure-signature", some(43), "https://x.blob.core.windows.net/c?sv=2024&sig={}%3D"),
    _plain("github-token", "ghp_" + some(36)),
    _plain("github-token", "github_pat_" + some(22) + "_" + some(59)),
    _plain("gitlab-token", "glpat-" + some(20)),
    _plain("slack-token", "xoxb-" + some(12, string.digits) + "-" + some(24)),
    _plain("slack-webhook", "T" + some(8, UPPER) + "/B" + some(8, UPPER) + "/" + some(24), "https://hooks.slack.com/services/{}"),
    _plain("stripe-key", "sk_" + "live_" + some(24)),
    _plain("anthropic-key", "sk-ant-" + "api03-" + some(93)),
    _plain("openai-key", "sk-" + "proj-" + some(48)),
    _plain("openai-key", "sk-" + some(48)),
    _plain("huggingface-token", "hf_" + some(34)),
    _plain("npm-token", "npm_" + some(36)),
    _plain("pypi-token", "pypi-AgEIcHlwaS5vcmc" + some(70)),
    _plain("sendgrid-key", "SG." + some(22) + "." + some(43)),
    _plain("twilio-key", "SK" + some(32, HEX)),
    _plain("mailgun-key", "key-" + some(32, HEX), "mailgun: {}"),
    _plain("digitalocean-token", "dop_v1_" + some(64, HEX)),
    _plain("databricks-token", "dapi" + some(32, HEX)),
    _plain("vault-token", "hvs." + some(90)),
    _plain("telegram-token", some(10, string.digits) + ":AA" + some(33)),
    _plain("docker-token", "dckr_pat_" + some(27)),
    _plain("age-key", "AGE-SECRET-KEY-1" + some(58, UPPER)),
    _plain("jwt", _jwt),
    Planted("private-key", _rsa.split("\n")[3], _rsa),
    Planted("private-key", _ec.split("\n")[5], f"cat key.pem\n{_ec}\ndone"),
    _plain("url-password", some(14), "postgres://admin:{}@db.example.com:5432/prod"),
    _plain("url-password", some(20), "mongodb+srv://app:{}@cluster0.example.net/?retryWrites=true"),
    _plain("bearer-token", some(40), "curl -H 'Authorization: Bearer {}' https://api.example.com"),
    _plain("basic-auth", _basic, "Authorization: Basic {}"),
    _plain("basic-auth", _basic, '{{"auths": {{"r.example.com": {{"auth": "{}"}}}}}}'),
    _plain("assignment", "hunter" + some(6), "password={}"),
    _plain("assignment", "correcthorsebattery", "export DB_PASSWORD={}"),
    _plain("assignment", some(16), 'password: "{}"'),
    _plain("assignment", some(24), "API_KEY='{}'"),
    _plain("assignment", some(24), '{{"clientSecret": "{}"}}'),
    _plain("assignment", some(32, HEX), "X-Api-Key: {}"),
    _plain("assignment", some(18), "mysql --user=root --password {} db"),
    _plain("assignment", some(12), 'password := "{}"'),
    _plain("assignment", some(12), "'secret' => '{}',"),
    _plain("assignment", some(2000), "the token={} of a long one"),
    _plain("assignment", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + some(10), "AWS Secret Access Key: {}"),
    _plain("assignment", "correcthorse", "database:\n  user: me\n  password: {}\n"),
    _plain("assignment", "correct horse battery 9 staple", 'passphrase = "{}"'),
    _plain("assignment", "correct horse battery 8 staple", '{{"db": {{"password": "{}"}}}}'),
    _plain("login", some(12), "machine example.com login me password {}"),
    _plain("login", some(12), "curl -u admin:{} https://example.com"),
    _plain("bearer-token", some(12), "Authorization: Bearer {}"),
    _plain("discord-token", "MTA" + some(21) + "." + some(6) + "." + some(30)),
    Planted("private-key", "MIIEabcdEfgh", _short),
    _plain("private-key", "LS0tLS1CRUdJTi" + "BSU0EgUFJJVkFURS" + some(60), "client-key-data: {}"),
    _plain("assignment", some(36), "//registry.npmjs.org/:_authToken={}"),
)  # fmt: skip
"""More than forty, of more than twenty-five kinds."""

IDS = [f"{number}-{planted.kind}" for number, planted in enumerate(PLANTED)]
"""What the tests call them."""
