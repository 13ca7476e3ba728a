"""Formats of secrets and the carriers that hold them, for the matrix of `test_cells.py`.

In: nothing. Out: for each format a function that draws a value from the format's published shape (prefix, alphabet,
length), and the text in which people write it. Nothing here uses the patterns of `unspool.redact`.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from typing import NamedTuple

WORD = string.ascii_letters + string.digits
URL = WORD + "_-"
BASE64 = WORD + "+/"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
CRYPT = WORD + "./"

Chance = random.Random
Draw = Callable[[Chance], str]


class Format(NamedTuple):
    """A format of secrets."""

    name: str
    draw: Draw
    """Draws a whole secret."""
    text: str = "{}"
    """The text in which it stands, if it is not certain by itself."""


def _fill(shape: str, alphabets: dict[str, str]) -> Draw:
    """Return a function that replaces each `{n:alphabet}` of a shape, e.g. `ghp_{36:w}`."""
    parts: list[str | tuple[int, str]] = []
    rest = shape
    while "{" in rest:
        literal, _, rest = rest.partition("{")
        inside, _, rest = rest.partition("}")
        number, _, letter = inside.partition(":")
        parts += [literal, (int(number), alphabets[letter])]
    parts.append(rest)

    def draw(chance: Chance) -> str:
        return "".join(part if isinstance(part, str) else "".join(chance.choices(part[1], k=part[0])) for part in parts)

    return draw


ALPHABETS = {
    "w": WORD, "u": URL, "b": BASE64, "h": HEX, "U": UPPER, "l": LOWER, "3": BASE32, "c": CRYPT, "d": string.digits,
    "n": string.digits[1:], "t": "abcdefghijklmnopqrstuvwxyz234567", "L": string.ascii_lowercase, "s": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "X": "0123456789ABCDEF", "B": "qpzry9x8gf2tvdw0s3jn54khce6mua7l",
}  # fmt: skip
UUID = "{8:h}-{4:h}-4{3:h}-a{3:h}-{12:h}"

_PREFIXED = """
aws-access-key AKIA{16:3}
aws-temporary-key ASIA{16:3}
aws-bedrock ABSK{128:b}
aws-mws amzn.mws.@
aws-appsync da2-{26:l}
google-api AIza{35:u}
google-client-secret GOCSPX-{28:u}
google-access-token ya29.a0{160:u}
google-refresh-token 1//0{60:u}
firebase-server AAAA{7:u}:APA91b{134:u}
azure-client-secret {3:w}8Q~{34:u}
azure-storage {76:b}+ASt{5:b}A==
azure-cosmos {76:b}ACDb{5:b}Q==
azure-servicebus {33:b}+ASb{5:b}w=
azure-search {42:w}AzSeD{5:w}
azure-function {44:u}AzFu{5:u}g==
azure-openai {52:w}JQQJ99BCAC{22:w}
azure-devops-new {76:w}AZDO{4:w}
alibaba LTAI{20:w}
tencent AKID{32:w}
yandex-cloud AQVN{36:u}
digitalocean dop_v1_{64:h}
cloudflare-origin v1.0-{24:h}-{146:h}
fly fm2_lJPECAAA{120:b}
fly-old fo1_{43:u}
heroku HRKU-AA{58:u}
render rnd_{28:w}
vercel-new vcp_{56:w}
vercel-blob vercel_blob_rw_{16:w}_{30:w}
netlify nfp_{36:w}
supabase-secret sb_secret_{22:u}_{8:u}
supabase-token sbp_{40:h}
planetscale pscale_tkn_{43:u}
neon napi_{64:l}
openshift sha256~{43:u}
github-personal ghp_{36:w}
github-oauth gho_{36:w}
github-app ghs_{36:w}
github-refresh ghr_{36:w}
github-fine-grained github_pat_{22:w}_{59:w}
gitlab-personal glpat-{20:u}
gitlab-trigger glptt-{40:h}
gitlab-runner glrt-{20:u}
gitlab-runner-registration GR1348941{20:u}
gitlab-deploy gldt-{20:u}
bitbucket ATBB{32:w}
atlassian ATATT3xFfGF0{171:u}={8:U}
trello ATTA{64:h}{8:X}
npm npm_{36:w}
pypi pypi-AgEIcHlwaS5vcmc{150:u}
rubygems rubygems_{48:h}
nuget oy2{43:l}
crates cio{32:w}
clojars CLOJARS_{60:h}
docker-hub dckr_pat_{27:u}
jfrog-key AKCp{69:w}
jfrog-reference cmVmdGtuO{55:w}
sonar-user squ_{40:h}
sonar-project sqp_{40:h}
sourcegraph sgp_{16:h}_{40:h}
buildkite bkua_{40:h}
circleci CCIPAT_{22:w}_{40:h}
doppler-personal dp.pt.{43:w}
doppler-service dp.st.prd.{43:w}
harness pat.{22:u}.{24:h}.{20:w}
octopus API-{31:U}
terraform-cloud {14:w}.atlasv1.{67:u}
vault hvs.{95:u}
pulumi pul-{40:h}
tailscale tskey-auth-{12:w}-{32:w}
1password-service ops_eyJ{300:w}
1password-secret-key A3-{6:U}-{11:U}-{5:U}-{5:U}-{5:U}
infracost ico-{32:w}
prefect pnu_{36:w}
anthropic sk-ant-api03-{93:u}AA
anthropic-admin sk-ant-admin01-{93:u}AA
anthropic-oauth sk-ant-oat01-{93:u}AA
langfuse sk-lf-@
openai-old sk-{20:w}T3BlbkFJ{20:w}
openai-project sk-proj-{74:u}T3BlbkFJ{74:u}
openai-service sk-svcacct-{74:u}T3BlbkFJ{74:u}
openrouter sk-or-v1-{64:h}
deepseek sk-{32:h}
elevenlabs sk_{48:h}
groq gsk_{52:w}
perplexity pplx-{48:w}
replicate r8_{37:w}
xai xai-{80:w}
fireworks fw_{22:w}
huggingface hf_{34:w}
nvidia nvapi-{64:u}
cerebras csk-{48:l}
together tgp_v1_{43:u}
voyage pa-{43:u}
jina jina_{65:w}
llamacloud llx-{48:w}
pinecone pcsk_{6:w}_{63:w}
langsmith lsv2_pt_{32:h}_{10:h}
langsmith-service lsv2_sk_{32:h}_{10:h}
tavily tvly-dev-{32:w}
tavily-old tvly-{32:w}
firecrawl fc-{32:h}
brave-search BSA{27:u}
apify apify_api_{36:w}
browserbase bb_live_{27:u}
e2b e2b_{40:h}
wandb-new wandb_v1_{77:w}
slack-bot xoxb-{12:n}-{13:n}-{24:w}
slack-user xoxp-{12:n}-{12:n}-{13:n}-{32:h}
slack-app xapp-1-A{10:U}-{13:n}-{64:h}
slack-webhook https://hooks.slack.com/services/T{10:U}/B{10:U}/{24:w}
discord-webhook https://discord.com/api/webhooks/{18:n}/{68:u}
discord-bot MT{24:w}.{6:u}.{38:u}
teams-webhook https://contoso.webhook.office.com/webhookb2/@@@/IncomingWebhook/{32:h}/@
telegram {10:n}:AA{33:u}
sendgrid SG.{22:u}.{43:u}
brevo xkeysib-{64:h}-{16:w}
brevo-smtp xsmtpsib-{64:h}-{16:w}
resend re_{8:w}_{24:w}
twilio SK{32:h}
mailchimp {32:h}-us14
stripe-live sk_live_{99:w}
stripe-restricted rk_live_{99:w}
stripe-webhook whsec_{32:w}
square-access EAAA{60:u}
square-secret sq0csp-{43:u}
braintree access_token$production${16:l}${32:h}
shopify shpat_{32:h}
plaid access-production-@
flutterwave FLWSECK-{32:h}-X
easypost EZAK{54:w}
duffel duffel_live_{43:u}
shippo shippo_live_{40:h}
linear lin_api_{40:w}
figma figd_{40:u}
notion ntn_{11:n}{35:w}
notion-old secret_{43:w}
airtable pat{14:w}.{64:h}
asana 1/{16:n}:{32:h}
clickup pk_{8:n}_{32:U}
contentful CFPAT-{43:u}
postman PMAK-{24:h}-{34:h}
hubspot pat-na1-@
newrelic NRAK-{27:U}
newrelic-license {36:h}NRAL
grafana-service glsa_{32:w}_{8:h}
grafana-cloud glc_eyJ{100:w}
sentry sntrys_eyJ{100:b}
dynatrace dt0c01.{24:3}.{64:3}
posthog-personal phx_{43:w}
launchdarkly sdk-@
inngest signkey-prod-{64:h}
mapbox sk.eyJ{80:w}.{22:u}
databricks dapi{32:h}
age AGE-SECRET-KEY-1{58:U}
extended-private-key xprv{107:s}
nostr nsec1{58:B}
bcrypt $2b$12${53:c}
shadow-sha512 $6${16:c}${86:c}
shadow-sha256 $5${16:c}${43:c}
shadow-yescrypt $y$j9T${22:c}${43:c}
argon2 $argon2id$v=19$m=65536,t=3,p=4${22:b}${43:b}
django-pbkdf2 pbkdf2_sha256$600000${22:w}${43:b}=
ldap-ssha {SSHA}#
"""


def _prefixed() -> list[Format]:
    formats = []
    for row in _PREFIXED.strip().splitlines():
        name, shape = row.split(" ", 1)
        if name == "ldap-ssha":
            formats.append(Format(name, lambda chance: "{SSHA}" + base64.b64encode(chance.randbytes(28)).decode()))
            continue
        shape = shape.replace("@@@", f"{UUID}%{UUID}").replace("@", UUID).replace("%", "@")
        formats.append(Format(name, _fill(shape, ALPHABETS)))
    return formats


def _of(length: int, alphabet: str = WORD) -> Draw:
    return lambda chance: "".join(chance.choices(alphabet, k=length))


def _uuid(chance: Chance) -> str:
    return _fill(UUID, ALPHABETS)(chance)


def _password(chance: Chance) -> str:
    """Draw what a generator of passwords gives: letters, digits, and some marks."""
    marks = chance.choices(WORD + "!#%*+-.=?@^_~", k=14)
    return (
        chance.choice(string.ascii_letters)
        + "".join(marks)
        + chance.choice(string.digits)
        + chance.choice(string.ascii_letters)
    )


def _jwt(chance: Chance) -> str:
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": str(chance.random()), "iat": chance.randrange(10**9)})
    )
    return f"{head}.{body}." + "".join(chance.choices(URL, k=43))


def _basic(chance: Chance) -> str:
    return base64.b64encode(f"deploy:{''.join(chance.choices(WORD, k=18))}".encode()).decode()


_SEED_WORDS: list[str] = [
    "abandon",
    "ability",
    "about",
    "above",
    "absent",
    "absorb",
    "abstract",
    "absurd",
    "abuse",
    "access",
    "accident",
    "account",
    "accuse",
    "achieve",
    "acid",
    "acoustic",
    "garden",
    "garlic",
    "garment",
    "gas",
    "gasp",
    "gate",
    "gather",
    "gauge",
    "gaze",
    "general",
    "genius",
    "genre",
    "gentle",
    "genuine",
    "gesture",
    "ghost",
    "giant",
    "gift",
    "orbit",
    "orchard",
    "order",
    "ordinary",
    "organ",
    "orient",
    "original",
    "orphan",
    "ostrich",
    "other",
    "outdoor",
    "outer",
    "output",
    "outside",
    "oval",
    "oven",
    "over",
]

_NAMED: tuple[tuple[str, Draw, str], ...] = (
    ("token", _of(32), "token: {}"),
    ("token-equals", _of(32), "token={}"),
    ("api-key", _of(32), "api_key: {}"),
    ("api-key-short", _of(20), "api_key: {}"),
    ("api-key-lower", _of(32, LOWER), "apikey = {}"),
    ("x-api-key", _of(40), "x-api-key: {}"),
    ("x-api-key-hex", _of(32, HEX), "X-API-Key: {}"),
    ("password-equals", _password, "password={}"),
    ("password-colon", _password, "password: {}"),
    ("password-quoted", _password, "password: \"{}\""),
    ("db-password", _password, "DB_PASSWORD={}"),
    ("pgpassword", _of(16), "PGPASSWORD={} psql -h db"),
    ("secret", _of(32), "secret: {}"),
    ("client-secret", _of(40), "client_secret: {}"),
    ("access-token", _of(43, URL), "access_token: {}"),
    ("refresh-token", _of(64, URL), "refresh_token = {}"),
    ("auth-token", _of(36), "authToken: {}"),
    ("aws-secret", _of(40, BASE64), "aws_secret_access_key = {}"),
    ("aws-secret-json", _of(40, BASE64), "'SecretAccessKey': '{}'"),
    ("aws-secret-csv", _of(40, BASE64), "AKIA" + "QWERTZU2345ABCDE" + ",{}"),
    ("azure-devops-old", _of(52, "abcdefghijklmnopqrstuvwxyz234567"), "AZURE_DEVOPS_EXT_PAT={}"),
    ("azure-subscription", _of(32, HEX), "Ocp-Apim-Subscription-Key: {}"),
    ("azure-account", lambda chance: base64.b64encode(chance.randbytes(64)).decode(), "AccountName=x;AccountKey={};EndpointSuffix=core.windows.net"),
    ("cloudflare-token", _of(40, URL), "CLOUDFLARE_API_TOKEN={}"),
    ("cloudflare-global", _of(37, HEX), "X-Auth-Key: {}"),
    ("splunk", _uuid, "Authorization: Splunk {}"),
    ("splunk-hec", _uuid, "SPLUNK_HEC_TOKEN={}"),
    ("elevenlabs-old", _of(32, HEX), "xi-api-key: {}"),
    ("wandb", _of(40, HEX), "WANDB_API_KEY={}"),
    ("vercel", _of(24), "VERCEL_TOKEN={}"),
    ("circleci-old", _of(40, HEX), "Circle-Token: {}"),
    ("pinecone-old", _uuid, "PINECONE_API_KEY={}"),
    ("mailgun", lambda chance: "key-" + "".join(chance.choices(HEX, k=32)), "curl -u api:{} https://api.mailgun.net"),
    ("twilio-auth", _of(32, HEX), "TWILIO_AUTH_TOKEN={}"),
    ("datadog", _of(40, HEX), "DD_APP_KEY={}"),
    ("postmark", _uuid, "X-Postmark-Server-Token: {}"),
    ("fastly", _of(32, URL), "Fastly-Key: {}"),
    ("okta", lambda chance: "00" + "".join(chance.choices(URL, k=40)), "Authorization: SSWS {}"),
    ("bearer", _of(40), "Authorization: Bearer {}"),
    ("authorization-token", _of(40, HEX), "Authorization: token {}"),
    ("basic", _basic, "Authorization: Basic {}"),
    ("docker-auth", _basic, "\"auth\": \"{}\""),
    ("npmrc", _of(36), "//npm.example.org/:_authToken={}"),
    ("jwt", _jwt, "{}"),
    ("url-password", _of(16), "postgres://app:{}@db.example.com:5432/prod"),
    ("git-url", _of(40), "https://{}@git.example.com/me/project.git"),
    ("netrc", _of(20), "machine example.com login me password {}"),
    ("curl-user", _of(20), "curl -u admin:{} https://example.com"),
    ("mysql", _of(16), "mysql -u root -p{} shop"),
    ("mysqldump", _of(16), "mysqldump -h db -u root -p'{}' shop"),
    ("redis", _of(24), "redis-cli -h cache -a {} ping"),
    ("sshpass", _of(16), "sshpass -p {} ssh me@host"),
    ("docker-login", _of(24), "docker login -u me -p {} registry.example.com"),
    ("pgpass", _of(20), "db.example.com:5432:shop:app:{}"),
    ("define", _of(20), "define('DB_PASSWORD', '{}');"),
    ("wordpress-salt", _of(64, WORD + "!@#%^&*()-_ []~+=,.;:/?|"), "define('AUTH_KEY', '{}');"),
    ("element", _of(20), "<password>{}</password>"),
    ("element-token", _of(32), "<apiToken>{}</apiToken>"),
    ("app-setting", _of(32), "<add key=\"ApiKey\" value=\"{}\" />"),
    ("cookie", _of(32), "Cookie: theme=dark; sessionid={}; lang=en"),
    ("set-cookie", _of(40), "Set-Cookie: sid={}; Path=/; HttpOnly"),
    ("curl-cookie", _of(32), "curl -b 'session={}' https://example.com"),
    ("presigned-s3", _of(64, HEX), "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=900&X-Amz-Signature={}"),
    ("presigned-gcs", _of(256, HEX), "https://storage.googleapis.com/b/k?X-Goog-Expires=900&X-Goog-Signature={}"),
    ("cloudfront", _of(340, WORD + "-~_"), "https://d1.cloudfront.net/k?Expires=17&Signature={}&Key-Pair-Id=K2"),
    ("azure-sas", _of(43), "https://x.blob.core.windows.net/c?sv=2024&sig={}%3D"),
    ("secure-string", _password, "ConvertTo-SecureString \"{}\" -AsPlainText -Force"),
    ("sentence", _of(16), "my password is {}"),
    ("sentence-for", _of(16), "the password for the admin account is {}"),
    ("sentence-key", _of(32), "the api key is {}"),
    ("mnemonic", lambda chance: " ".join(chance.choices(_SEED_WORDS, k=12)), "mnemonic: {}"),
    ("seed-phrase", lambda chance: " ".join(chance.choices(_SEED_WORDS, k=24)), "seed phrase: {}"),
    ("jwk", _of(43, URL), "{{\"kty\":\"EC\",\"crv\":\"P-256\",\"d\":\"{}\"}}"),
    ("option", _of(24), "tool --token {} run"),
    ("option-password", _of(16), "tool --password={} run"),
    ("environment", _of(32), "export STRIPE_KEY={}"),
    ("yaml-quoted", _of(32), "api_key: '{}'"),
    ("json-member", _of(32), "\"apiKey\": \"{}\""),
    ("python", _of(32), "API_TOKEN = \"{}\""),
    ("connection-string", _of(16), "Server=db;User Id=sa;Password={};Encrypt=true"),
)  # fmt: skip


def _block(begin: str, end: str) -> Callable[[Chance], str]:
    def draw(chance: Chance) -> str:
        rows = "\n".join("".join(chance.choices(BASE64, k=64)) for _ in range(4))
        return f"{begin}\n{rows}\n{end}"

    return draw


BLOCKS = (
    Format("rsa-private-key", _block("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----")),
    Format("openssh-private-key", _block("-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----")),
    Format("pgp-private-key", _block("-----BEGIN PGP PRIVATE KEY BLOCK-----\n", "-----END PGP PRIVATE KEY BLOCK-----")),
    Format(
        "putty-private-key",
        _block(
            "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: me\nPublic-Lines: 2\nAAAAC3NzaC1lZDI1NTE5AAAA\nI"
            "\nPrivate-Lines: 4",
            "Private-MAC: 0123456789abcdef0123456789abcdef",
        ),
    ),
)
"""Secrets of many lines: each line of one must be gone."""

FORMATS = (*_prefixed(), *(Format(*one) for one in _NAMED))

CARRIERS: dict[str, Callable[[str], str]] = {
    "alone": lambda text: text,
    "a line of Read": lambda text: f"     6→first: 1\n     7→{text}\n     8→last: 2",
    "a line of cat -n": lambda text: f"     6\tfirst: 1\n     7\t{text}\n     8\tlast: 2",
    "a line of grep -n": lambda text: f"src/config/app.yml:12:{text}\nsrc/config/app.yml:13:more",
    "a number and a colon": lambda text: f"12:{text}",
    "a diff": lambda text: f"@@ -1,2 +1,2 @@\n-old: 1\n+{text}\n context",
    "a log": lambda text: f"2026-01-07T12:00:01.123Z INFO [worker-3] {text}",
    "prose": lambda text: f"I looked at the file and found this: {text} and then I went on.",
    "a Markdown list": lambda text: f"Settings:\n\n- `{text}`\n- more",
    "a comment": lambda text: f"    # {text}",
    "JSON in a string": lambda text: json.dumps({"out": text, "code": 0}),
    "JSON of Node in a string": lambda text: json.dumps({"out": f"→{text}", "code": 0}, ensure_ascii=False),
    "JSON in JSON": lambda text: json.dumps([json.dumps({"stdout": f"7→{text}\n"})]),
}
"""What stands around it in a transcript."""

ESCAPINGS: dict[str, Callable[[str], bytes]] = {
    "Python": lambda text: json.dumps({"type": "user", "message": {"content": [{"text": text}]}}).encode(),
    "Node": lambda text: json.dumps(
        {"type": "user", "message": {"content": [{"text": text}]}}, ensure_ascii=False, separators=(",", ":")
    ).encode(),
}
"""Who wrote the line: Python escapes what is not ASCII, Node does not."""
