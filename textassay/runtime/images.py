"""Reads images beside texts from data, checks and numbers them, and loads them for requests.

Prompts refer to an image by its number: `[Image 1]` marks its place in texts, and requests have the
label `Image 1` in front of it. Addresses are sent unchanged, and never downloaded.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections import OrderedDict, deque
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pydantic import BaseModel, ConfigDict, Field

MAX_IMAGE_BYTES = 20_000_000
"""Largest size of an image file; providers accept between 5 and 50 MB."""
IMAGE_TOKENS = 1600
"""Estimated tokens of each image: about Anthropic's number for 1.2 megapixels. OpenAI and Gemini
count less for most images.
"""
MAX_LOADED_BYTES = 64_000_000
"""Total characters of loaded images in the cache."""
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".PNG", ".JPG", ".JPEG", ".GIF", ".WEBP")
"""Endings of file names, in the formats that OpenAI, Anthropic and Gemini share."""

_GEMINI = ("inlineData", "inline_data", "fileData", "file_data")
# beginnings of PNG, JPEG, GIF and RIFF in base64
_BASE64 = re.compile(r"(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)[A-Za-z0-9+/\s]{40,}={0,2}\s*")


class Image(BaseModel):
    """One image of an example."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = Field(ge=1)
    """Its number in prompts."""
    name: str
    """Its name in the data: a path or an address, or the beginning of a data: URI."""
    place: str
    """Its place: the full path of a file, an address, or a data: URI."""
    digest: str | None = None
    """SHA-256 of its bytes, in hex; `None` for an address."""
    media_type: str | None = None
    """Its media type, such as `image/png`, from its content; `None` for an address."""

    @property
    def label(self) -> str:
        """Its label in prompts, such as `Image 1`."""
        return f"Image {self.number}"

    @property
    def mark(self) -> str:
        """The mark of its place in texts."""
        return f"[{self.label}]"

    @property
    def key(self) -> str:
        """Its identity: the digest of its bytes, or its address."""
        return self.digest or self.place

    @property
    def is_link(self) -> bool:
        """Whether it is known by its address alone."""
        return self.digest is None

    @property
    def base64(self) -> str:
        """Its bytes as base64; the image must be loaded."""
        return self.place.partition(",")[2]


class ImageReader:
    """Finds the images of one example and numbers them; equal images have one number.

    Paths are relative to `folder`, by default the current one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.images: list[Image] = []
        """The images found so far."""
        self._folder = folder or Path()
        self._by_name: dict[str, Image] = {}
        self._beside: deque[Image] = deque()

    def take(self, value: Any) -> None:
        """Add the images that are given beside the texts."""
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, Image) or (
                # as an image of ours is written in JSON
                isinstance(item, Mapping) and item.keys() >= {"number", "name", "place"}
            ):
                image = item if isinstance(item, Image) else Image(**item)
                self.images.append(image)
                self._by_name[image.name] = image
            elif item:
                count = len(self.images)
                image = self.add(_address(item))
                self._beside.extend(self.images[count:])

    def add(self, name: str | None) -> Image:
        """Return the image at a path, address or data: URI, with its number."""
        if name is None:
            raise ValueError("should be the path of an image, its address, or a data: URI")
        if (image := self._by_name.get(name)) is None:
            image = self._by_name[name] = self._open(name, len(self.images) + 1)
            self.images.append(image)
        return image

    def mark(self, part: Mapping[str, Any]) -> str:
        """Return the text in place of an image in a message.

        A part without an image stands for the next image beside the texts.
        """
        address = _address(part)
        if address is not None:
            return self.add(address).mark
        if not self._beside:
            raise ValueError(
                "has an image without its content, such as one that a provider keeps; give its"
                " path, its address or a data: URI"
            )
        return self._beside.popleft().mark

    def marks(self) -> str:
        """Return the texts for images that are not in a message."""
        marks = " ".join(image.mark for image in self._beside)
        self._beside.clear()
        return marks

    def _open(self, name: str, number: int) -> Image:
        if name.startswith("data:") or _BASE64.fullmatch(name):
            body = name if name.startswith("data:") else f"data:;base64,{name}"
            digest, media_type, uri = _read_uri(body)
            about = f"data:{media_type}"
            return Image(number=number, name=about, place=uri, digest=digest, media_type=media_type)
        if name.startswith(("http://", "https://")):
            return Image(number=number, name=name, place=name)
        path = Path(url2pathname(urlsplit(name).path)) if name.startswith("file:") else Path(name)
        if (
            not name.startswith("file:")
            and re.match("[a-zA-Z][a-zA-Z0-9+.-]+:", name)
            and not path.is_file()
        ):
            raise ValueError(
                f"names the image {_short(name)}, an address of a kind that is not sent to models;"
                " use a path, an address that begins with https:// or http:// or a data: URI"
            )
        path = (self._folder / path).absolute()
        try:
            stat = path.stat()
            digest, media_type = _file_digest(str(path), stat.st_mtime_ns, stat.st_size)
        except OSError as error:
            raise ValueError(
                f"names the image {_short(name)}, and {path} cannot be read"
                f" ({error.strerror or error}); paths are relative to the file of data"
            ) from None
        return Image(
            number=number, name=name, place=str(path), digest=digest, media_type=media_type
        )


def is_image_part(part: Mapping[str, Any]) -> bool:
    """Return whether a part of a message is an image, in any known form."""
    kind = part.get("type")
    if kind is not None:
        if not isinstance(kind, str):
            return False
        kinds = (
            "image", "image_url", "image_file", "input_image", "output_image",
            "computer_screenshot",
        )  # fmt: skip
        return kind in kinds or (kind in ("file", "media") and _says_image(part))
    data = next((part[name] for name in _GEMINI if isinstance(part.get(name), Mapping)), None)
    return isinstance(part.get("image"), Mapping) if data is None else _says_image(data)


def is_image_name(text: str) -> bool:
    """Return whether a text is certainly an image: its content, or the name of an image file."""
    return (
        text.startswith("data:image/")
        or (text.endswith(ENDINGS) and " " not in text.strip())
        or _BASE64.fullmatch(text) is not None
    )


def as_texts(value: Any) -> Any:
    """Return images of a table in memory with their bytes as texts."""
    if isinstance(value, bytes):
        return f"data:;base64,{base64.b64encode(value).decode()}"
    if isinstance(value, Mapping):
        return {name: as_texts(item) for name, item in value.items()}
    return [as_texts(item) for item in value] if isinstance(value, list | tuple) else value


def media_type_of(content: bytes) -> str | None:
    """Return the media type of an image by its first bytes; `None` if it is not supported."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


def load(image: Image) -> Image:
    """Return an image, with a file as a data: URI."""
    if image.is_link or image.place.startswith("data:"):
        return image
    uri = _LOADED.get(image.key)
    if uri is None:
        try:
            digest, _, uri = _read(Path(image.place))
        except (OSError, ValueError) as error:
            raise ValueError(f"the image {image.place} can no longer be read: {error}") from error
        if digest != image.digest:
            raise ValueError(f"the image {image.place} has changed since the data were read")
    return image.model_copy(update={"place": uri})


def uri_length(image: Image) -> int:
    """Return the approximate length of an image as a data: URI; 0 for an address or a lost file."""
    if image.is_link:
        return 0
    if image.place.startswith("data:"):
        return len(image.place)
    try:
        return Path(image.place).stat().st_size * 4 // 3
    except OSError:
        return 0


def for_page(image: Image, limit: int = 4 * MAX_IMAGE_BYTES // 3 + 100) -> str:
    """Return an image for a page: a short data: URI, its address, or a note."""
    if image.is_link:
        return image.place
    if uri_length(image) > limit:
        return f"{image.name} (not shown here: {uri_length(image) * 3 / 4e3:,.0f} kB)"
    try:
        return load(image).place
    except ValueError as error:
        return str(error)


class _Loaded:
    """Cache of files as data: URIs by digest, least recently used first."""

    def __init__(self) -> None:
        self._uris: OrderedDict[str, str] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: str) -> str | None:
        with self._lock:
            if key in self._uris:
                self._uris.move_to_end(key)
            return self._uris.get(key)

    def put(self, key: str, uri: str) -> None:
        with self._lock:
            if key not in self._uris:
                self._uris[key] = uri
                self._size += len(uri)
            while self._size > MAX_LOADED_BYTES and len(self._uris) > 1:
                self._size -= len(self._uris.popitem(last=False)[1])


_LOADED = _Loaded()


@lru_cache(maxsize=65536)
def _file_digest(path: str, changed: int, size: int) -> tuple[str, str]:
    """Return digest and type of a file in this state, cached for further passes over the data."""
    return _read(Path(path))[:2]


def _read(path: Path) -> tuple[str, str, str]:
    """Read a file, keep its content for requests; return its digest, its type and that content."""
    size = path.stat().st_size
    if not path.is_file():  # reading a pipe would wait
        raise ValueError(f"names the image {path}, which is not a file")
    _check_size(size, f"the image {path}")
    digest, media_type, uri = _describe(path.read_bytes(), f"{path}")
    _LOADED.put(digest, uri)
    return digest, media_type, uri


def _read_uri(uri: str) -> tuple[str, str, str]:
    """Return digest and type of the content of a data: URI, and its plain form."""
    header, _, body = uri.partition(",")
    if not header.endswith(";base64"):
        raise ValueError("has an image as a data: URI that is not base64")
    try:
        content = base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"has an image whose base64 is damaged: {error}") from None
    _check_size(len(content), "an image")
    return _describe(content, "a data: URI")


def _describe(content: bytes, where: str) -> tuple[str, str, str]:
    """Return digest and type of an image, and the image as a data: URI."""
    media_type = media_type_of(content)
    if media_type is None:
        begins = content[:12]
        raise ValueError(
            f"should be an image in PNG, JPEG, GIF or WebP, and {where} begins with {begins!r}"
        )
    uri = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
    return hashlib.sha256(content).hexdigest(), media_type, uri


def _check_size(size: int, name: str) -> None:
    if size > MAX_IMAGE_BYTES:
        raise ValueError(
            f"{name} has {size / 1e6:.1f} MB, at most {MAX_IMAGE_BYTES / 1e6:g} MB are sent; scale"
            " it down"
        )


def _says_image(part: Mapping[str, Any]) -> bool:
    names = ("mimeType", "mime_type", "mediaType", "media_type")
    return any(str(part.get(name)).startswith("image/") for name in names)


def _address(value: Any) -> str | None:
    """Return an image's address, or its bytes as a data: URI; `None` without an image."""
    if isinstance(value, str):
        return value or None
    if not isinstance(value, Mapping):
        return None
    for name in ("data", "base64", "bytes"):
        if isinstance(body := value.get(name), str) and body:
            return body if body.startswith("data:") else f"data:;base64,{body}"
    names = ("image_url", "image", "source", "url", "uri", "fileUri", "file_uri", "path", *_GEMINI)
    addresses = (_address(value.get(name)) for name in names)
    return next((address for address in addresses if address), None)


def _short(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:77]}...")
