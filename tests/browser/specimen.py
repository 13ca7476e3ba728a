"""The picture of docs/design.md: a page that has every colour and every component, made of the package's own styles."""

from __future__ import annotations

from importlib.resources import files

_COLOURS = ("bg", "panel", "line", "edge", "text", "dim", "faint", "accent", "good", "warn", "bad", "info")
_GROUNDS = ("plus", "minus", *(f"c{number}" for number in range(1, 9)))
_BODY = """
<main id="main">
<div class="head"><h1>Design</h1><span class="more">colours and components</span></div>
<div class="swatches">{swatches}</div>
<p class="note">A note: indexing is in progress.</p>
<nav class="tabs" aria-label="By"><a class="chip" href="#a" aria-current="page">day</a>
<a class="chip" href="#b">project</a> <a class="chip" href="#c">model</a></nav>
<form class="filters"><input type="search" placeholder="Words in the title" aria-label="Words in the title">
<select aria-label="Project"><option>project</option></select>
<label><input type="checkbox" checked> errors</label> <button type="button">Filter</button></form>
<table class="list"><thead><tr><th>Title</th><th>Project</th><th class="number">Files</th>
<th class="number">Cost</th></tr></thead><tbody>
<tr><td><a href="#d">Make the cart total right</a></td><td class="dim">shop <span class="faint">cart-total</span></td>
<td class="number">2 <span class="good">+11</span> <span class="bad">−1</span></td><td class="number">$0.68</td></tr>
<tr><td><a href="#e">Suggest the nearest station name</a></td>
<td class="dim">tidewatch <span class="faint">names</span></td>
<td class="number"><span class="warn">?</span></td><td class="number">$0.06</td></tr></tbody></table>
<h2>Words</h2>
<p>Words, <span class="dim">words beside them</span>, <span class="faint">labels</span>, <code>src/cart.py</code>,
<mark>found</mark>, <kbd>Ctrl-K</kbd>, <span class="good">done</span>, <span class="warn">costly</span>,
<span class="bad">✗ 3 errors</span></p>
<div class="diff"><div class="at">@@ -1,2 +1,2 @@</div><div class="minus">-total = round(price)</div>
<div class="plus">+total = sum(cents)</div></div>
</main>"""
_STYLE = """body { display: block; } .swatches { display: grid; grid-template-columns: repeat(11, 1fr); gap: 6px;
margin-bottom: 12px; font-size: 11px; } .swatches i { display: block; height: 26px; border: 1px solid var(--line);
border-radius: 4px; }"""


def specimen() -> str:
    """Return the page."""
    sheets = [("unspool.page", "tokens.css"), ("unspool.web", "frame.css"), ("unspool.web", "lists.css")]
    style = "\n".join(files(package).joinpath("static", name).read_text() for package, name in sheets)
    names = (*_COLOURS, *_GROUNDS)
    fills = " ".join(f".{name}-swatch {{ background: var(--{name}); }}" for name in names)
    swatches = "".join(f'<span><i class="{name}-swatch"></i>{name}</span>' for name in names)
    head = f"<title>Design</title><style>{style}{_STYLE}{fills}</style>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{_BODY.format(swatches=swatches)}</body></html>'
