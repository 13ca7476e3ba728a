"""Tokens with a known prefix: for each kind a pattern for decoded text, and a shorter one for raw JSON."""

from __future__ import annotations

from typing import Final, NamedTuple

SAFE_LEFT: Final = r"(?:\b|\\[nrt]|[0-9;\[]m)"
"""Where a token begins: at the beginning of a word, after an escape in text that is itself JSON or code, or after a
terminal's change of colour."""


# The version of the rules is a hash of these tuples as text: another name of the class or a field would change it, and
# the version is stored with what was redacted.
class Token(NamedTuple):
    """A kind of token that has a known prefix."""

    kind: str
    pattern: str
    hint: str
    """Pattern of raw text where such a token may be."""
    anchored: bool = False
    """Whether it must begin at `SAFE_LEFT`: its first letters may be a part of a word."""


TOKENS: Final = (
    Token("aws-key-id", r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{16}\b", "A(?:KI|SI|BI|CC|RO|ID)A[0-9A-Z]", True),
    Token("aws-bedrock-key", r"ABSK[A-Za-z0-9+/]{100,}={0,2}", "ABSK[A-Za-z0-9]"),
    Token("google-api-key", r"AIza[0-9A-Za-z_-]{35}", "AIza[0-9A-Za-z_-]", True),
    Token("google-oauth", r"GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_.-]{20,}", r"GOCSPX-|ya29\."),
    Token("google-refresh-token", r"1//0[A-Za-z0-9_-]{30,}", "1//0[A-Za-z0-9]", True),
    Token("azure-secret", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", "[0-9]Q~[A-Za-z0-9]", True),
    Token("azure-signature", r"[?&;]sig=[A-Za-z0-9%/+_-]{30,}={0,2}", "[?&;6]sig="),
    Token("github-token", r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}", "gh[pousr]_[A-Za-z0-9]|github_pat_"),
    Token("gitlab-token", r"gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent|imt|ffct|rtr)-[A-Za-z0-9_.-]{18,}", "gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent|imt|ffct|rtr)-[A-Za-z0-9_]"),
    Token("slack-token", r"xox[abcdeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}|xoxe\.xox[bp]-[A-Za-z0-9-]{10,}", "xox[a-z][-.]|xapp-"),
    Token("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}", r"hooks\.slack\.com"),
    Token("discord-webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{30,}", "api[\\\\/]+webhooks"),
    Token("discord-token", r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}", r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}", True),
    Token("telegram-token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,33}", "[0-9]:AA[A-Za-z0-9_-]", True),
    Token("stripe-key", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{20,}", "[sr]k_(?:live|test)_|whsec_"),
    Token("anthropic-key", r"sk-ant-[A-Za-z0-9_-]{16,}", "sk-ant-"),
    Token("openai-key", r"(?:sk-(?:proj|svcacct|admin|None|or-v1)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{20,}|sess-[A-Za-z0-9]{40})", SAFE_LEFT + "(?:sk-[A-Za-z0-9]{4}|sess-[A-Za-z0-9]{4})", True),
    Token("model-key", r"(?:gsk_[A-Za-z0-9]{40,}|pplx-[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{60,}|fw_[A-Za-z0-9]{20,})", "gsk_[A-Za-z0-9]|pplx-|r8_[A-Za-z0-9]|xai-[A-Za-z0-9]|fw_[A-Za-z0-9]{8}", True),
    Token("huggingface-token", r"(?:hf|api_org)_[A-Za-z0-9]{30,}", "(?:hf|api_org)_[A-Za-z0-9]{4}", True),
    Token("npm-token", r"npm_[A-Za-z0-9]{36}", "npm_[A-Za-z0-9]{8}"),
    Token("pypi-token", r"pypi-[A-Za-z0-9_-]{50,}", "pypi-A"),
    Token("rubygems-key", r"rubygems_[0-9a-f]{40,}", "rubygems_[0-9a-f]"),
    Token("docker-token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}", "dckr_"),
    Token("sendgrid-key", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", r"SG\.[A-Za-z0-9_-]"),
    Token("twilio-key", r"SK[0-9a-f]{32}\b", "SK[0-9a-f]{4}", True),
    Token("mailgun-key", r"key-[0-9a-f]{32}\b", "key-[0-9a-f]{8}", True),
    Token("mailchimp-key", r"[0-9a-f]{32}-us[0-9]{1,2}\b", "[0-9a-f]{4}-us[0-9]", True),
    Token("digitalocean-token", r"do[opr]_v1_[0-9a-f]{64}", "do[opr]_v1_"),
    Token("shopify-token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", "shp[acps][ats]_"),
    Token("square-token", r"sq0[a-z]{3}-[A-Za-z0-9_-]{22,}", "sq0[a-z]{3}-"),
    Token("databricks-token", r"dapi[0-9a-f]{32}", "dapi[0-9a-f]{4}", True),
    Token("vault-token", r"hv[sbr]\.[A-Za-z0-9_-]{20,}", r"hv[sbr]\.[A-Za-z0-9]", True),
    Token("terraform-token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}", r"\.atlasv1\."),
    Token("atlassian-token", r"AT(?:ATT|CTT|BB)3?[A-Za-z0-9_=-]{24,}", "AT(?:ATT3|CTT3|BB)[A-Za-z0-9]"),
    Token("private-key", r"LS0tLS1CRUdJTi(?:BSU0EgUFJJVkFURS|BQUklWQVRF|BFQyBQUklWQVRF|BPUEVOU1NIIFBSSVZBVE|BFTkNSWVBURUQgUFJJVkFURS)[A-Za-z0-9+/=]{16,}", "LS0tLS1CRUdJTi"),
    Token("age-key", r"AGE-SECRET-KEY-1[0-9A-Z]{40,}", "AGE-SECRET-KEY-1"),
    Token(
        "service-token",
        r"(?:lin_api_[A-Za-z0-9]{32,}|figd_[A-Za-z0-9_-]{30,}|PMAK-[A-Za-z0-9-]{40,}|NRAK-[A-Z0-9]{27}|glsa_[A-Za-z0-9_]{32,}"
        r"|glc_[A-Za-z0-9+/=]{32,}|ntn_[A-Za-z0-9]{40,}|sntry[su]_[A-Za-z0-9+/=_-]{32,}|sbp_[0-9a-f]{40}|pul-[0-9a-f]{40}|tskey-[a-z]+-[A-Za-z0-9-]{16,}"
        r"|dp\.(?:pt|st|ct)\.[A-Za-z0-9]{32,}|nfp_[A-Za-z0-9]{32,}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{32,}|HRKU-[A-Za-z0-9_-]{36,}|sqp_[0-9a-f]{40}|fo1_[A-Za-z0-9_-]{40,})",
        "lin_api_|figd_|PMAK-|NRAK-|gl(?:sa|c)_|ntn_|sntry[su]_|sbp_|pul-[0-9a-f]|tskey-|dp\\.[psc]t\\.|nfp_|pscale_|HRKU-|sqp_|fo1_",
        True,
    ),
    Token("jwt", r"ey[JI][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)*", "ey[JI][A-Za-z0-9_-]{8}", True),
)  # fmt: skip
"""Each kind once; what fits two is of the first."""
