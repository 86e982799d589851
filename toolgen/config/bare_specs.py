"""Recognition of a description without toolgen.yaml: its kind, and the name of its source, from the beginning of the file."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from toolgen.connectors.naming import words
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceKind
from toolgen.connectors.syntax import MAX_DOCUMENT_SIZE, parse
from toolgen.core.errors import DescriptionError
from toolgen.core.files import read_file
from toolgen.model.names import SOURCE_NAME

__all__ = ["described_as", "name_for", "title_name"]

_LOOKED_AT = 65_536
_MAX_PARSED = 2**20  # bytes of a document whose title is not in a usual place
_MIN_LENGTH, _MAX_LENGTH = 3, 20
# Words that are common in titles and do not identify an API.
_GENERIC = frozenset(
    words("""
    a an and api apis bundle bundled by complete current definition description descriptions doc docs documentation final for from full
    generated http index json latest main master of official on open openapi our public reference rest restful s schema schemas spec
    specification specifications specs stable swagger the this to v version with yaml yml
    """)
)
_NO_NAME = re.compile(r"\([^()]*\)|['’]s\b|\bweb(?=\s+apis?\b)", re.IGNORECASE)
_EXTRAS = re.compile(r"\s(?:with|including|incl\.|plus|\+)\s", re.IGNORECASE)
_VERSION = re.compile(r"v?[0-9]+|beta[0-9]*|alpha[0-9]*")
_JSON_TITLE = re.compile(rb'"info"\s*:\s*\{(?:[^{}]|\{[^{}]*\})*?"title"\s*:\s*"((?:[^"\\]|\\.){1,200})"', re.DOTALL)
# Member of a YAML document with its indented lines, or a flow mapping of one or several lines.
_YAML_INFO = re.compile(
    rb"""^(?:["']?info["']?)[ \t]*:[^\n]*\n?(?:(?:[ \t]+[^\n]*|[ \t]*(?:#[^\n]*)?|\}[^\n]*)\n)*""", re.MULTILINE
)


class _Info(msgspec.Struct):
    title: str = ""


class _Titled(msgspec.Struct):
    info: _Info


def described_as(spec: str, root: Path) -> tuple[SourceKind, str]:
    """Return the kind of a description, and its value in toolgen.yaml. The first kind of the registry is the default."""
    other, *kinds = CONNECTORS.values()
    head = cache(lambda: b"" if "://" in spec else _head(root / spec))
    found = ((connector.kind, connector.recognize(spec, head)) for connector in kinds)
    return next((one for one in found if one[1]), (other.kind, spec))


def name_for(spec: str, root: Path, kind: SourceKind, taken: Collection[str]) -> str:
    """Return a name from the file's name, or from `info.title` if that says more (`apisguru__stripe.com.json`)."""
    stem = Path(urlsplit(spec).path if "://" in spec else spec).name.split(".")[0]
    letters = "".join(character if character.isalnum() and character.isascii() else "_" for character in stem.lower())
    base = "_".join(part for part in letters.split("_") if part)
    if CONNECTORS[kind].describes_requests and "://" not in spec and (titled := _better(base, root / spec)):
        base = titled
    base = base[:_MAX_LENGTH].rstrip("_")
    base = base if SOURCE_NAME.match(base) else f"api_{base}"[:_MAX_LENGTH].rstrip("_")
    name, number = base, 2
    while name in taken:
        name = f"{base[:17]}_{number}"
        number += 1
    return name


def title_name(path: Path) -> str:
    """Return a name from the words of `info.title`, "" if the title does not identify the API."""
    return _name_of(_said(path))


def _name_of(said: list[str]) -> str:
    name = ""
    for word in said:
        longer = f"{name}_{word}" if name else word
        if len(longer) > _MAX_LENGTH:
            break
        name = longer
    return name if len(name) >= _MIN_LENGTH and SOURCE_NAME.match(name) else ""


def _said(path: Path) -> list[str]:
    """Return the identifying words of a title. Additions ("with fixes", "+ extension") count only without other words."""
    title = _NO_NAME.sub(" ", _title(path))
    return _telling(_EXTRAS.split(title)[0]) or _telling(title)


def _better(base: str, path: Path) -> str:
    """Return a name from the title's words, if it is better than the name from the file's name."""
    said = _said(path)
    name = _name_of(said)
    if not name:
        return ""
    own = _telling(base)
    more = set(said) < {*own, *words(base), *base.split("_")}
    collected = "__" in path.name  # a name such as apisguru__stripe.com.json: a collection, then the API
    # `api` and `spec` are poor names; `openapi` is a format.
    nameless = not own and any(word in base for word in ("openapi", "swagger"))
    return name if nameless or len(base) > _MAX_LENGTH or more or collected else ""


def _title(path: Path) -> str:
    """Return `info.title` of a JSON or YAML document; "" if there is none. Only the part of a YAML file with the title is parsed."""
    with suppress(OSError, ValueError, RecursionError, DescriptionError):
        head = _head(path)
        is_json = head.lstrip()[:1] == b"{"
        if is_json and (
            found := _JSON_TITLE.search(head, 0, _LOOKED_AT)
        ):  # usually there, so that the rest need not be read
            return str(msgspec.json.decode(b'"%b"' % found[1]))
        data = read_file(path, MAX_DOCUMENT_SIZE)
        if is_json:  # or a flow mapping of YAML
            with suppress(ValueError):
                return msgspec.json.decode(data, type=_Titled).info.title
        for part in [found[0]] if (found := _YAML_INFO.search(data)) else []:
            with suppress(ValueError, DescriptionError):  # an alias of another part
                return msgspec.convert(parse(part, where=path.name), _Titled).info.title
        if len(data) <= _MAX_PARSED:
            return msgspec.convert(parse(data, where=path.name), _Titled).info.title
    return ""


def _telling(text: str) -> list[str]:
    found = dict.fromkeys(re.findall(r"[a-z0-9]+", text.lower()))
    return [word for word in found if word not in _GENERIC and not _VERSION.fullmatch(word)]


def _head(path: Path) -> bytes:
    with suppress(OSError):
        return read_file(path, _LOOKED_AT)
    return b""
