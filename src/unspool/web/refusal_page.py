"""The page for a browser that is refused; if it is not signed in, the page says how to get a link that works.

Rules
  1. It contains no secret, and nothing of the request: it is the same for everyone who may not see more.
  2. It stands alone: styles and scripts of the server are behind the same guard, so its style is inside, named by its
     hash in the policy.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from typing import Final

from markupsafe import escape
from starlette.responses import HTMLResponse, Response

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1.25rem}"
    "h1{font-size:1.25rem}code{font-family:ui-monospace,monospace}"
)
_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · unspool</title><style>{style}</style></head>
<body><main><h1>{title}</h1>
<p>{reason}.</p>{steps}</main></body></html>
"""
_SIGN_IN: Final = """
<ol><li>Look at the terminal where <code>unspool serve</code> runs. If it does not run, start it.</li>
<li>Open the newest link that it printed. A link works once.</li></ol>
<p>Without a token, sign-ins end when the server stops. After a restart you need a new link.</p>"""


def show_refusal(status: int, reason: str) -> Response:
    """Return the page, with the reason in one sentence."""
    is_signed_out = status == 401
    page = _PAGE.format(
        title="This browser is signed out of unspool" if is_signed_out else "Refused",
        style=_STYLE,
        reason=re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(reason[:1].upper() + reason[1:]))),
        steps=_SIGN_IN if is_signed_out else "",
    )
    return HTMLResponse(page, status, {"content-security-policy": _POLICY})
