"""What only looks like a secret does not change, in any carrier; of real files hardly anything does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.real_files import corpus
from tests.redact.formats import CARRIERS, ESCAPINGS
from unspool.redact.lines import find_suspect_lines, redact_line
from unspool.redact.options import RedactionOptions
from unspool.redact.redactor import Redactor

REDACTOR = Redactor(b"a key")
PERSONAL = Redactor(b"a key", RedactionOptions(emails=True, homes=True))

LOOK_ALIKES = (
    "key-d41d8cd98f00b204e9800998ecf8427e",
    "cache key-0cc175b9c0f1b6a831c399e269772661 was evicted",
    "continuation_token=eyJwYWdlIjoyfQ8s7d6f5g4h3j2k1l",
    "continuationToken: 1a2b3c4d5e6f7a8b9c0d1e2f",
    "next_page_token = CAUQAA8s7d6f5g4h3j2k1lZX",
    "nextToken: AAMA-EFRSURBSGhtRzk4ZkQ3c2Q",
    "pageToken=CDIQAA9f8e7d6c5b4a",
    "service_key: billing-service-2",
    "license_key: ABCD-1234-EFGH-5678",
    "license_key: 7f3c9a1e5b2d48608e4f1a2b3c4d5e6f",
    "secret: k8s-tls-2024",
    "secret: wildcard-tls-cert",
    "secretName: app-credentials-v2",
    "task_key: ingest_daily_2024",
    "TASK_KEY=PROJ-1234",
    "primary_key: user_id_2",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "index 3b18e51..8c7e5a6 100644",
    "sessionId: 3f2a9c01-be5d-4c7e-9d0a-2f7f6f8e9a10",
    "request_id=b6f1f5a8-6e0b-4c7e-9d0a-2f7f6f8e9a10",
    "toolu_01A09q90qw90lq917835lq9 msg_01XFDUDYJgAACzvnptvVoYEL req_011CSHoEeqs5C35K2UUqR7Fy",
    'integrity: "sha512-' + "Ab3+/" * 17 + '=="',
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQCgwSExIQEw8QEBD",
    "token: <your-token>",
    "api_key: YOUR_API_KEY",
    "password: ********",
    "TOKEN=$TOKEN",
    "token = ${GITHUB_TOKEN}",
    'token = os.environ["TOKEN"]',
    "const token = process.env.ACCESS_TOKEN",
    "token: tokenRepository.findByUser2(user)",
    "api_key=settings.api_key_v2",
    "password = getpass.getpass()",
    "token = next_token2",
    "access_token: accessTokenV2",
    "max_tokens: 4096, input_tokens=12, total_token: 100",
    "eos_token: <|endoftext|>, pad_token=[PAD]",
    "password: str | None = None",
    "the password is required, the token is invalid, your password was changed",
    "my password is wrong",
    "| password | string | the password of the user |",
    "| token | required | API token |",
    "<password>string</password>",
    "task-0123456789abcdefghij disk-usage-2024 risk-free",
    "re_match_groups fc-list pa-rsing ak-sk md-files hf_hub_download",
    "mysql -u root -p shop",
    "docker run -p 8080:80 -u 1000:1000 image",
    "curl -b cookies.txt https://example.com",
    "src/app.py:5432:12:error: expected type",
    "the seed words of the mnemonic are kept in the wallet and never shown to anybody who asks for them",
    "npm_config_cache=/tmp/npm npm_lifecycle_event=test",
    "git@github.com:me/project.git https://example.com:8080/path@2x.png",
    "Authorization: required for all endpoints",
    "Cookie: theme=dark; lang=en",
    "SKU-2024-0001 SK_LIVE_MODE AKIA_PREFIX",
    "PWD=/srv/project OLDPWD=/srv",
    "ConvertTo-SecureString $env:PASSWORD -AsPlainText",
    "define('DB_PASSWORD', getenv('DB_PASSWORD'));",
    "token_type: bearer, expires_in: 3600",
    "signature: sha256=abc",
    "start(credentials: { secret: Uint8Array, token: string })",
    "user_id = 1234567890123456, account_key_count: 12",
)


def test_there_are_enough_look_alikes() -> None:
    assert len(set(LOOK_ALIKES)) >= 60


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_look_alike_does_not_change(text: str) -> None:
    for carrier in CARRIERS.values():
        for escaping in ESCAPINGS.values():
            line = escaping(carrier(text))
            assert redact_line(REDACTOR, line).text == line.decode()


def test_real_files_change_in_five_places_at_most() -> None:
    changes = []
    for path in sorted(corpus().rglob("*.jsonl")):
        data = path.read_bytes()
        for start in find_suspect_lines(REDACTOR, data):
            redacted = redact_line(REDACTOR, data[start:].partition(b"\n")[0])
            changes += [(path.name, start, hit) for hit in redacted.hits]
    print(*changes, sep="\n")
    assert len(changes) <= 5


NEAR = (
    "me@example.com", "@pytest.fixture", "/home/me", "C:\\Users\\nick", "C:\\Users\\", "\n", "\\n", "\\", '"', "→", "é",
    "-home-me-project", "/Users/", "/home/home/", "x", " ", "\t", "ghp_" + "a1B2" * 9,
)  # fmt: skip


@given(
    st.lists(st.sampled_from(NEAR) | st.text(max_size=3), max_size=10).map("".join), st.booleans(), st.integers(0, 2)
)
def test_addresses_and_homes_are_replaced_in_raw_json_without_damage(text: str, ascii_only: bool, depth: int) -> None:
    for _ in range(depth):
        text = json.dumps([text], ensure_ascii=ascii_only)
    line = json.dumps({"cwd": text, "a": [text]}, ensure_ascii=ascii_only).encode("utf-8", "replace")
    once = redact_line(PERSONAL, line)
    json.loads(once.text)
    assert "me@example.com" not in once.text
    assert redact_line(PERSONAL, once.text.encode()).text == once.text


@given(st.binary() | st.lists(st.sampled_from([word.encode() for word in NEAR]) | st.binary(max_size=3)).map(b"".join))
def test_no_bytes_make_redaction_fail(line: bytes) -> None:
    assert isinstance(redact_line(PERSONAL, line).text, str)
