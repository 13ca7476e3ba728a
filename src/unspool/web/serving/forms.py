"""Forms: reads what a page's form sends, and lets a page have one."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from unspool.errors import UsageError


async def read_form(request: Request, most: int | None = None, *, keep_blank: bool = False) -> dict[str, list[str]]:
    """Return the fields of a form, `most` at the most. Starlette's own parser needs another library."""
    try:
        return parse_qs(
            (await request.body()).decode("latin-1"),
            keep_blank_values=keep_blank,
            errors="replace",
            max_num_fields=most,
        )
    except ValueError:
        raise UsageError("this form has too many fields") from None


def allow_form_origin(response: Response) -> Response:
    """Let the forms of a page say where they come from, which the guard checks."""
    # With `no-referrer`, a browser sends the origin of a form as `null`, which is nobody's. This tells no one else.
    response.headers["referrer-policy"] = "same-origin"
    return response
