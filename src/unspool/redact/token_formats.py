"""Tokens with a known prefix: for each kind a pattern for decoded text, and a shorter one for raw JSON."""

from __future__ import annotations

from typing import Final, NamedTuple

ESCAPE: Final = r"\\(?:[nrtbf]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})"
"""An escape in text that is itself JSON or code."""

SAFE_LEFT: Final = rf"(?:\b|{ESCAPE}|[0-9;\[]m)"
"""Where a token begins: at the beginning of a word, after an escape, or after a terminal's change of colour."""

RAW_LEFT: Final = rf"(?:^|[^A-Za-z0-9]|{ESCAPE}|[0-9;\[]m)"
"""The same in raw JSON."""

_W = "[A-Za-z0-9]"
_U = "[A-Za-z0-9_-]"
_H = "[0-9a-f]"
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"


# The version of the rules is a hash of these tuples as text, and the version is stored with what was redacted.
class Token(NamedTuple):
    """A kind of token that has a known prefix."""

    kind: str
    pattern: str
    hint: str
    """Pattern of raw text where such a token may be; it begins where the token begins, unless the token `is_late`."""
    anchored: bool = False
    """Whether it must begin at `SAFE_LEFT`: its first letters may be a part of a word."""
    bounded: bool = False
    """Whether nothing that base64 may hold stands before and after it."""

    @property
    def is_late(self) -> bool:
        """Whether it begins with any letter, and a later part is what makes it certain."""
        return self.pattern.startswith("[")


TOKENS: Final = (
    # Cloud providers
    Token("aws-key-id", r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{16}\b", "A(?:KI|SI|BI|CC|RO|ID)A[0-9A-Z]", True),
    Token("aws-bedrock-key", r"ABSK[A-Za-z0-9+/]{100,}={0,2}|bedrock-api-key-[A-Za-z0-9+/=]{40,}", "ABSK[A-Za-z0-9+/]{4}|bedrock-api-key-"),
    Token("aws-mws-token", rf"amzn\.mws\.{_UUID}|amzn1\.oa2-cs\.v1\.{_H}{{64}}", r"amzn\.mws\.|amzn1\.oa2-cs"),
    Token("aws-appsync-key", r"da2-[a-z0-9]{26}\b", "da2-[a-z0-9]{8}", True),
    Token("google-api-key", r"AIza[0-9A-Za-z_-]{35}", "AIza[0-9A-Za-z_-]", True),
    Token("google-oauth", r"GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_.-]{20,}", r"GOCSPX-|ya29\."),
    Token("google-refresh-token", r"1//0[A-Za-z0-9_-]{30,}", "1//0[A-Za-z0-9_-]", True),
    Token("firebase-key", rf"AAAA{_U}{{7}}:APA91b{_U}{{100,}}", ":APA91b"),
    Token("azure-secret", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}", "[0-9]Q~[A-Za-z0-9_~.-]", True),
    Token("azure-signature", r"[?&;]sig=[A-Za-z0-9%/+_-]{30,}={0,2}", "[?&;6]sig="),
    # Keys of Azure have four letters at a fixed place that say of what service they are.
    Token("azure-key", r"[A-Za-z0-9+/]{76}(?:APIM|ACDb|\+(?:ABa|AMC|ASt))[A-Za-z0-9+/]{5}[AQgw]==", r"(?:APIM|ACDb|\+(?:ABa|AMC|ASt))[A-Za-z0-9+/]{5}[AQgw]=="),
    Token("azure-key", r"[A-Za-z0-9+/]{33}(?:AIoT|\+(?:ASb|AEh|ARm))[A-Za-z0-9+/]{5}[A-Za-z0-9+/]=", r"(?:AIoT|\+(?:ASb|AEh|ARm))[A-Za-z0-9+/]{6}="),
    Token("azure-key", r"[A-Za-z0-9]{42}Az(?:Se|Ca)[A-D][A-Za-z0-9]{5}", "Az(?:Se|Ca)[A-D][A-Za-z0-9]{5}", True),
    Token("azure-key", r"[A-Za-z0-9_-]{44}AzFu[A-Za-z0-9_-]{5}[AQgw]==", "AzFu[A-Za-z0-9_-]{5}[AQgw]=="),
    Token("azure-key", r"[A-Za-z0-9_-]{52}JQQJ9[A-Za-z0-9_-]{20,40}", "JQQJ9[A-Za-z0-9]"),
    Token("azure-devops-token", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b", "AZDO[A-Za-z0-9]{4}", True),
    Token("alibaba-key", r"LTAI[A-Za-z0-9]{12,20}\b", "LTAI[A-Za-z0-9]{4}", True),
    Token("tencent-key", r"AKID[A-Za-z0-9]{32}\b", "AKID[A-Za-z0-9]{8}", True),
    Token("yandex-key", rf"AQVN{_U}{{35,38}}|y0_{_U}{{50,}}|t1\.[A-Z0-9a-z_-]+=*\.[A-Z0-9a-z_-]{{86}}", r"AQVN[A-Za-z0-9_-]{8}|y0_[A-Za-z0-9_-]{8}|t1\.[A-Z0-9][A-Za-z0-9_-]{8}", True),
    Token("digitalocean-token", r"do[opr]_v1_[0-9a-f]{64}", "do[opr]_v1_"),
    Token("cloudflare-token", rf"v1\.0-{_H}{{24}}-{_H}{{100,}}|cf(?:ut|at|k)_[A-Za-z0-9]{{40,}}", rf"v1\.0-{_H}{{8}}|cf(?:ut|at|k)_[A-Za-z0-9]{{8}}", True),
    Token("fly-token", rf"(?:fm2_|fm1[ar]_)[A-Za-z0-9+/=,_-]{{60,}}|fo1_{_U}{{40,}}", "fm2_[A-Za-z0-9]|fm1[ar]_|fo1_[A-Za-z0-9_-]", True),
    Token("heroku-key", rf"HRKU-(?:AA)?{_U}{{36,}}", "HRKU-"),
    Token("render-key", rf"rnd_{_W}{{26,}}", "rnd_[A-Za-z0-9]{8}", True),
    Token("vercel-token", rf"vc[a-z]_{_W}{{24,}}|vercel_blob_rw_{_W}{{12,}}_{_W}{{20,}}", "vc[a-z]_[A-Za-z0-9]{8}|vercel_blob_rw_", True),
    Token("netlify-token", rf"nf[popcbua]_{_W}{{32,}}", "nf[popcbua]_[A-Za-z0-9]{8}", True),
    Token("supabase-key", rf"sb_secret_{_U}{{22,}}|sbp_(?:v0_)?{_H}{{40}}", "sb_secret_|sbp_[0-9a-f]|sbp_v0_", True),
    Token("planetscale-token", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}", "pscale_"),
    Token("neon-key", rf"napi_{_W}{{60,}}", "napi_[A-Za-z0-9]{8}", True),
    Token("mongodb-secret", rf"mdb_sa_sk_{_U}{{30,}}", "mdb_sa_sk_"),
    Token("openshift-token", rf"sha256~{_U}{{43}}", "sha256~[A-Za-z0-9_-]{8}", True),
    # Code hosting and packages
    Token("github-token", r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}", "gh[pousr]_[A-Za-z0-9]|github_pat_"),
    Token("gitlab-token", r"gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent|imt|ffct|rtr|wt|oas)-[A-Za-z0-9_.-]{18,}|GR1348941[A-Za-z0-9_-]{20}", "gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent|imt|ffct|rtr|wt|oas)-[A-Za-z0-9_-]|GR1348941"),
    Token("bitbucket-token", r"ATBB[A-Za-z0-9_=.-]{24,}", "ATBB[A-Za-z0-9]", True),
    Token("atlassian-token", r"AT(?:ATT|CTT)3?[A-Za-z0-9_=-]{24,}", "AT(?:ATT3|CTT3)[A-Za-z0-9]", True),
    Token("trello-token", r"ATTA[0-9a-f]{64}[0-9A-Fa-f]{8}", "ATTA[0-9a-f]{8}", True),
    Token("npm-token", r"npm_[A-Za-z0-9]{36}", "npm_[A-Za-z0-9]{8}"),
    Token("pypi-token", r"pypi-[A-Za-z0-9_-]{50,}", "pypi-A"),
    Token("rubygems-key", r"rubygems_[0-9a-f]{40,}", "rubygems_[0-9a-f]"),
    Token("nuget-key", r"oy2[a-z0-9]{43}\b", "oy2[a-z0-9]{12}", True),
    Token("crates-token", r"cio[A-Za-z0-9]{32}\b", "cio[A-Za-z0-9]{32}", True),
    Token("clojars-token", r"CLOJARS_[0-9a-f]{60}", "CLOJARS_[0-9a-f]"),
    Token("packagist-token", rf"packagist_(?:uut|ort|orr|auc|acr)_{_H}{{40,}}", "packagist_[a-z]{3}_"),
    Token("openvsx-token", rf"ovsx(?:p|at)_{_U}{{32,}}", "ovsx(?:p|at)_", True),
    Token("docker-token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}", "dckr_"),
    Token("jfrog-token", r"AKCp[A-Za-z0-9]{60,}|cmVmdGtu[A-Za-z0-9]{50,}", "AKCp[A-Za-z0-9]{8}|cmVmdGtu", True),
    Token("sonar-token", r"sq[aup]_[0-9a-f]{40}", "sq[aup]_[0-9a-f]{8}", True),
    Token("sourcegraph-token", rf"sg[pd]_(?:(?:{_H}{{16}}|local)_)?{_H}{{40,}}", "sg[pd]_[0-9a-f]{8}|sgp_local_", True),
    Token("snyk-token", rf"snyk_(?:uat|sat)\.{_H}{{8}}\.[A-Za-z0-9_.-]{{40,}}", "snyk_[us]at"),
    Token("buildkite-token", r"bk[a-z]{2,3}_[A-Za-z0-9]{32,}", "bk[a-z]{2,3}_[A-Za-z0-9]{8}", True),
    Token("circleci-token", rf"CCI(?:PAT|PRJ)_[A-Za-z0-9]{{16,}}_{_H}{{40}}", "CCI(?:PAT|PRJ)_"),
    Token("doppler-token", r"dp\.(?:pt|st|ct|sa|scim|audit|said)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{32,}", r"dp\.(?:pt|st|ct|sa|scim|audit|said)\.", True),
    Token("harness-token", rf"(?:pat|sat)\.{_U}{{22}}\.{_H}{{24}}\.[A-Za-z0-9]{{20}}", rf"[ps]at\.{_U}{{22}}\.", True),
    Token("octopus-key", r"API-[A-Z0-9]{25,32}\b", "API-[A-Z0-9]{16}", True),
    Token("terraform-token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}", r"\.atlasv1\."),
    Token("vault-token", r"hv[sbr]\.[A-Za-z0-9_-]{20,}", r"hv[sbr]\.[A-Za-z0-9_-]{4}", True),
    Token("pulumi-token", r"pul-[0-9a-f]{40}", "pul-[0-9a-f]", True),
    Token("tailscale-key", r"tskey-[a-z]+-[A-Za-z0-9-]{16,}", "tskey-"),
    Token("1password-token", r"ops_eyJ[A-Za-z0-9+/=_-]{100,}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}", "ops_eyJ|A3-[A-Z0-9]{6}-", True),
    Token("infracost-key", rf"ico-{_W}{{32}}\b", "ico-[A-Za-z0-9]{32}", True),
    Token("prefect-key", rf"pn[ub]_{_W}{{36}}\b", "pn[ub]_[A-Za-z0-9]{36}", True),
    # Models
    Token("anthropic-key", r"sk-ant-[A-Za-z0-9_-]{16,}", "sk-ant-"),
    Token("langfuse-key", rf"sk-lf-{_UUID}", "sk-lf-"),
    Token("openai-key", r"(?:sk-(?:proj|svcacct|admin|None|or-v1|helicone|lit|or)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{20,}|sess-[A-Za-z0-9]{40})", "(?:sk-[A-Za-z0-9]{2}|sess-[A-Za-z0-9]{16})", True),
    Token("elevenlabs-key", r"sk_[0-9a-f]{48}\b", "sk_[0-9a-f]{16}", True),
    Token("cartesia-key", rf"sk_car_{_W}{{20,}}", "sk_car_"),
    Token("model-key", r"(?:gsk_[A-Za-z0-9]{40,}|pplx-[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{60,}|fw_[A-Za-z0-9]{20,})", "gsk_[A-Za-z0-9]|pplx-|r8_[A-Za-z0-9]|xai-[A-Za-z0-9]|fw_[A-Za-z0-9]{8}", True),
    Token("huggingface-token", r"(?:hf|api_org)_[A-Za-z0-9]{30,}", "(?:hf|api_org)_[A-Za-z0-9]{4}", True),
    Token("nvidia-key", rf"nvapi-{_U}{{40,}}", "nvapi-"),
    Token("cerebras-key", r"csk-[a-z0-9]{40,}", "csk-[a-z0-9]{8}", True),
    Token("together-key", rf"tgp_v1_{_U}{{40,}}", "tgp_v1_"),
    Token("voyage-key", rf"pa-{_U}{{43}}", rf"pa-{_U}{{43}}", True, True),
    Token("jina-key", rf"jina_{_U}{{50,}}", "jina_[A-Za-z0-9]{8}", True),
    Token("llamacloud-key", rf"llx-{_W}{{40,}}", "llx-[A-Za-z0-9]{8}", True),
    Token("pinecone-key", rf"pcsk_{_W}{{4,8}}_{_W}{{50,}}", "pcsk_"),
    Token("langsmith-key", rf"lsv2_(?:pt|sk)_{_H}{{32}}_{_H}{{10}}|ls__{_H}{{32}}", "lsv2_|ls__[0-9a-f]{8}", True),
    Token("tavily-key", r"tvly-(?:[a-z]{2,6}-)?[A-Za-z0-9-]{24,}", "tvly-"),
    Token("firecrawl-key", rf"fc-{_H}{{32}}\b", "fc-[0-9a-f]{16}", True),
    Token("brave-key", r"BSA[A-Za-z0-9_-]{27,28}", r"BSA[A-Za-z0-9_-]{20}", True, True),
    Token("apify-token", rf"apify_api_{_W}{{30,}}", "apify_api_"),
    Token("browserbase-key", rf"bb_(?:live|test)_{_U}{{20,}}", "bb_(?:live|test)_", True),
    Token("e2b-key", rf"e2b_{_H}{{40}}", "e2b_[0-9a-f]{4}", True),
    Token("modal-token", rf"a[ks]-{_W}{{22}}\b", rf"a[ks]-{_W}{{22}}", True),
    Token("runpod-key", rf"rpa_{_W}{{36,}}", "rpa_[A-Za-z0-9]{16}", True),
    Token("wandb-key", rf"wandb_v[0-9]_{_U}{{40,}}|local-{_H}{{40}}\b", "wandb_v[0-9]_|local-[0-9a-f]{40}", True),
    Token("cohere-key", rf"co_(?:live|test)_{_W}{{20,}}", "co_(?:live|test)_", True),
    # Messages and mail
    Token("slack-token", r"xox[abcdeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}|xoxe\.xox[bp]-[A-Za-z0-9-]{10,}", "xox[a-z][-.]|xapp-"),
    Token("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}", r"hooks\.slack\.com"),
    Token("discord-webhook", r"discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]+/[A-Za-z0-9_-]{30,}", "api[\\\\/]+(?:v[0-9]+[\\\\/]+)?webhooks"),
    Token("discord-token", r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}", r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}", True),
    Token("teams-webhook", rf"webhook\.office\.com/webhookb2/{_UUID}@{_UUID}/IncomingWebhook/[0-9a-zA-Z]{{32,}}/[0-9a-zA-Z_/-]{{36,}}", r"webhook\.office\.com"),
    Token("zapier-webhook", r"hooks\.zapier\.com/hooks/catch/[0-9]+/[A-Za-z0-9]{5,}", r"hooks\.zapier\.com"),
    Token("telegram-token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,33}", "[0-9]:AA[A-Za-z0-9_-]", True),
    Token("sendgrid-key", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", r"SG\.[A-Za-z0-9_-]"),
    Token("brevo-key", rf"x(?:key|smtp)sib-{_H}{{64}}-{_W}{{16}}", "x(?:key|smtp)sib-"),
    Token("resend-key", rf"re_{_W}{{8}}_{_W}{{20,}}", rf"re_{_W}{{8}}_{_W}{{8}}", True),
    Token("twilio-key", r"SK[0-9a-f]{32}\b", "SK[0-9a-f]{4}", True),
    Token("mailchimp-key", r"[0-9a-f]{32}-us[0-9]{1,2}\b", "[0-9a-f]{4}-us[0-9]", True),
    Token("mandrill-key", rf"md-{_U}{{22}}", rf"md-{_U}{{22}}", True, True),
    # Money and shops
    Token("stripe-key", r"(?:sk|rk)_(?:live|test|sandbox|prod)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{20,}", "[sr]k_(?:live|test|sandbox|prod)_|whsec_"),
    Token("square-token", r"sq0[a-z]{3}-[A-Za-z0-9_-]{22,}", "sq0[a-z]{3}-"),
    Token("square-token", r"EAAA[A-Za-z0-9_-]{60}", r"EAAA[A-Za-z0-9_-]{60}", True, True),
    Token("braintree-token", rf"access_token\$(?:production|sandbox)\$[a-z0-9]{{16}}\${_H}{{32}}", r"access_token\$"),
    Token("shopify-token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", "shp[acps][ats]_"),
    Token("plaid-token", rf"access-(?:sandbox|development|production)-{_UUID}", "access-(?:sandbox|development|production)-[0-9a-f]"),
    Token("flutterwave-key", r"FLWSECK(?:_TEST)?-[0-9a-zA-Z]{12,}(?:-X)?", "FLWSECK"),
    Token("easypost-key", rf"EZ[AT]K{_W}{{54}}", "EZ[AT]K[A-Za-z0-9]{8}", True),
    Token("duffel-token", rf"duffel_(?:live|test)_{_U}{{40,}}", "duffel_(?:live|test)_"),
    Token("shippo-token", rf"shippo_(?:live|test)_{_H}{{40}}", "shippo_(?:live|test)_"),
    Token("xendit-key", rf"xnd_(?:production|development)_{_W}{{32,}}", "xnd_[pd]"),
    # Work tools, monitoring, content
    Token("linear-key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}", "lin_(?:api|oauth)_"),
    Token("figma-token", r"fig[do]_[A-Za-z0-9_-]{30,}|figd_[A-Za-z0-9_-]{30,}", "fig[do]_[A-Za-z0-9_-]{8}", True),
    Token("notion-token", r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}\b", "ntn_[A-Za-z0-9]|secret_[A-Za-z0-9]{43}", True),
    Token("airtable-token", rf"pat[A-Za-z0-9]{{14}}\.{_H}{{64}}", rf"pat[A-Za-z0-9]{{14}}\.{_H}", True),
    Token("asana-token", rf"[12]/[0-9]{{13,20}}(?:/[0-9]{{13,20}})?:{_H}{{32}}", rf"[0-9]:{_H}{{32}}", True),
    Token("clickup-token", r"pk_[0-9]{5,10}_[A-Z0-9]{32}\b", "pk_[0-9]{5,10}_", True),
    Token("contentful-token", rf"CFPAT-{_U}{{40,}}", "CFPAT-"),
    Token("typeform-token", rf"tfp_{_U}{{40,}}", "tfp_[A-Za-z0-9]{4}", True),
    Token("postman-key", r"PMAK-[A-Za-z0-9-]{40,}", "PMAK-"),
    Token("hubspot-token", rf"pat-(?:na|eu|ap)[0-9]{{0,2}}-{_UUID}", "pat-(?:na|eu|ap)[0-9]{0,2}-", True),
    Token("newrelic-key", "NR(?:AK|AA|RA|II|IQ|JS|BR)-[A-Za-z0-9_-]{19,}", "NR(?:AK|AA|RA|II|IQ|JS|BR)-", True),
    Token("newrelic-key", rf"{_H}{{36}}NRAL\b", "[0-9a-f]{8}NRAL", True),
    Token("grafana-token", r"glsa_[A-Za-z0-9_]{32,}|glc_[A-Za-z0-9+/=]{32,}", "gl(?:sa|c)_[A-Za-z0-9]", True),
    Token("sentry-token", r"sntry[su]_[A-Za-z0-9+/=_-]{32,}", "sntry[su]_"),
    Token("dynatrace-token", r"dt0[a-z][0-9]{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}", r"dt0[a-z][0-9]{2}\.", True),
    Token("posthog-key", rf"ph[cxs]_{_W}{{32,}}", "ph[cxs]_[A-Za-z0-9]{8}", True),
    Token("launchdarkly-key", rf"(?:sdk|api|mob|rel)-{_UUID}\b", rf"(?:sdk|api|mob|rel)-{_H}{{8}}-{_H}{{4}}-", True),
    Token("inngest-key", rf"signkey-(?:prod|test|branch)-{_H}{{32,}}", "signkey-"),
    Token("trigger-key", rf"tr_(?:dev|prod|stg|preview)_{_W}{{20,}}", "tr_(?:dev|prod|stg|preview)_", True),
    Token("stytch-secret", r"secret-(?:live|test)-[A-Za-z0-9_=-]{30,}", "secret-(?:live|test)-"),
    Token("kong-token", rf"[ks]pat_{_W}{{40,}}", "[ks]pat_[A-Za-z0-9]{8}", True),
    Token("zuplo-key", rf"zpka_{_H}{{32}}_{_H}{{8}}", "zpka_"),
    Token("maxmind-key", rf"{_W}{{6}}_{_W}{{29}}_mmk\b", "_mmk"),
    Token("frameio-token", rf"fio-u-{_U}{{60,}}", "fio-u-"),
    Token("readme-key", r"rdme_[a-z0-9]{60,}", "rdme_[a-z0-9]{8}", True),
    Token("adafruit-key", rf"aio_{_W}{{28}}\b", rf"aio_{_W}{{28}}", True),
    Token("mapbox-token", rf"sk\.eyJ{_U}{{40,}}\.{_U}{{20,}}", r"sk\.eyJ"),
    Token("dropbox-token", rf"sl\.(?:u\.)?[AB]{_U}{{100,}}", rf"sl\.(?:u\.)?[AB]{_U}{{16}}", True),
    Token("databricks-token", r"dapi[0-9a-f]{32}(?:-[0-9])?", "dapi[0-9a-f]{4}", True),
    # Keys
    Token("private-key", r"LS0tLS1CRUdJTi(?:BSU0EgUFJJVkFURS|BQUklWQVRF|BFQyBQUklWQVRF|BPUEVOU1NIIFBSSVZBVE|BFTkNSWVBURUQgUFJJVkFURS)[A-Za-z0-9+/=]{16,}", "LS0tLS1CRUdJTi"),
    Token("age-key", r"AGE-SECRET-KEY-1[0-9A-Z]{40,}", "AGE-SECRET-KEY-1"),
    Token("wallet-key", r"[xyz]prv[1-9A-HJ-NP-Za-km-z]{107}\b|nsec1[02-9ac-hj-np-z]{58}\b", "[xyz]prv[1-9A-HJ-NP-Za-km-z]{20}|nsec1[02-9ac-hj-np-z]{20}", True),
    Token("password-hash", r"\$2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53}", r"\$2[abxy]\$[0-9]{2}\$"),
    Token("password-hash", r"\$(?:1|5|6|7|y|gy|sha1|md5|apr1)\$(?:rounds=[0-9]+\$)?[./A-Za-z0-9$]{0,40}\$[./A-Za-z0-9]{22,103}", r"\$(?:1|5|6|7|y|gy|sha1|md5|apr1)\$[./A-Za-z0-9=]"),
    Token("password-hash", r"\$argon2(?:id|i|d)\$(?:v=[0-9]+\$)?[a-z0-9=,]+\$[A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{16,}|\$[PH]\$[./A-Za-z0-9]{31}|\$scrypt\$[a-z0-9=,]+\$[A-Za-z0-9+/=]{8,}\$[A-Za-z0-9+/=]{16,}", r"\$argon2|\$[PH]\$[./A-Za-z0-9]{8}|\$scrypt\$"),
    Token("password-hash", r"(?:pbkdf2|bcrypt|argon2|scrypt)(?:_sha1|_sha256|_sha512)?\$[0-9a-zA-Z=,$]{0,40}\$[A-Za-z0-9+/.$=]{30,}|pbkdf2:sha(?:1|256|512)(?::[0-9]+)?\$[A-Za-z0-9]+\$[0-9a-f]{40,}|scrypt:[0-9:]+\$[A-Za-z0-9]+\$[0-9a-f]{60,}", r"(?:pbkdf2|bcrypt|argon2|scrypt)(?:_sha[0-9]+)?\$[0-9]|pbkdf2:sha|scrypt:[0-9]"),
    Token("password-hash", r"\{(?:SSHA|SHA|SMD5|MD5|CRYPT)(?:256|384|512)?\}[A-Za-z0-9+/]{22,}={0,2}", r"\{(?:SSHA|SHA|SMD5|MD5|CRYPT)(?:256|384|512)?\}[A-Za-z0-9+/]"),
    Token("jwt", r"ey[JI][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)*", r"ey[JI][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4}", True),
)  # fmt: skip
"""Each kind once or more; what fits two is of the first."""

CUT_TOKENS: Final = (
    ("AKIA", "aws-key-id", "[0-9A-Z]", 16),
    ("AIza", "google-api-key", "[A-Za-z0-9_-]", 35),
    ("ghp_", "github-token", "[A-Za-z0-9]", 36),
    ("gho_", "github-token", "[A-Za-z0-9]", 36),
    ("ghu_", "github-token", "[A-Za-z0-9]", 36),
    ("ghs_", "github-token", "[A-Za-z0-9]", 36),
    ("ghr_", "github-token", "[A-Za-z0-9]", 36),
    ("github_pat_", "github-token", "[A-Za-z0-9_]", 82),
    ("glpat-", "gitlab-token", "[A-Za-z0-9_-]", 20),
    ("npm_", "npm-token", "[A-Za-z0-9]", 36),
    ("hf_", "huggingface-token", "[A-Za-z0-9]", 34),
    ("gsk_", "model-key", "[A-Za-z0-9]", 52),
    ("sk-ant-api03-", "anthropic-key", "[A-Za-z0-9_-]", 95),
    ("sk-or-v1-", "openai-key", "[0-9a-f]", 64),
    ("dop_v1_", "digitalocean-token", "[0-9a-f]", 64),
    ("dapi", "databricks-token", "[0-9a-f]", 32),
    ("lin_api_", "linear-key", "[A-Za-z0-9]", 40),
    ("rubygems_", "rubygems-key", "[0-9a-f]", 48),
    ("nvapi-", "nvidia-key", "[A-Za-z0-9_-]", 64),
)
"""Tokens of one length only: prefix, kind, alphabet, and the number of characters after the prefix. They are found even
if a line end is inside them."""
