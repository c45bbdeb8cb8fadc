"""Images for tests, made without a library."""

from __future__ import annotations

import base64
import struct
import zlib


def png(red: int = 0, side: int = 4) -> bytes:
    """Return a PNG of one color."""

    def chunk(name: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    rows = (b"\0" + bytes([red, 80, 120]) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        ]
    )


def png_uri(red: int = 0) -> str:
    """Return a PNG as a data: URI."""
    return f"data:image/png;base64,{base64.b64encode(png(red)).decode()}"
