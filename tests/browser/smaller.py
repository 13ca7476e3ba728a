"""A screenshot made small: a PNG in, one of at most 256 colours out, by the browser that took it.

The colours used most are kept as they are; any other becomes the nearest of them. A page has few colours, and many
shades between a letter and its ground, of which nobody misses some.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64decode, b64encode

from playwright.sync_api import Browser

_REDUCE = """
async (data) => {
  const picture = await createImageBitmap(await (await fetch(data)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(picture, 0, 0);
  const points = context.getImageData(0, 0, picture.width, picture.height).data;
  const counts = new Map();
  for (let at = 0; at < points.length; at += 4) {
    const colour = points[at] << 16 | points[at + 1] << 8 | points[at + 2];
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const part = (one, other, shift) => ((one >> shift & 255) - (other >> shift & 255)) ** 2;
  const apart = (one, other) => 2 * part(one, other, 16) + 4 * part(one, other, 8) + 3 * part(one, other, 0);
  const byUse = [...counts].sort((one, other) => other[1] - one[1]).map(([colour]) => colour);
  const palette = [];
  for (const near of [600, 120, 0]) {
    for (const colour of byUse) {
      if (palette.length === 256) break;
      if (palette.every((kept) => apart(kept, colour) > near)) palette.push(colour);
    }
  }
  const nearest = new Map();
  for (const colour of byUse) {
    let best = 0;
    for (let at = 1; at < palette.length; at += 1)
      if (apart(palette[at], colour) < apart(palette[best], colour)) best = at;
    nearest.set(colour, best);
  }
  const indices = new Uint8Array(points.length / 4);
  for (let at = 0; at < points.length; at += 4)
    indices[at / 4] = nearest.get(points[at] << 16 | points[at + 1] << 8 | points[at + 2]);
  let text = "";
  for (let at = 0; at < indices.length; at += 32768) text += String.fromCharCode(...indices.subarray(at, at + 32768));
  return { width: picture.width, height: picture.height, palette, indices: btoa(text) };
}
"""


def smaller(browser: Browser, picture: bytes) -> bytes:
    """Return the picture with fewer colours."""
    page = browser.new_page()
    try:
        made = page.evaluate(_REDUCE, f"data:image/png;base64,{b64encode(picture).decode()}")
    finally:
        page.close()
    width, height = made["width"], made["height"]
    points = b64decode(made["indices"])
    rows = b"".join(b"\0" + points[at * width : (at + 1) * width] for at in range(height))
    palette = b"".join(colour.to_bytes(3, "big") for colour in made["palette"])
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
