"""Advice on the names of principals: markup, letters of several scripts, and names that look like another's."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from msgspec import Struct

__all__ = ["NameRemark", "principal_names"]

_MARKUP = frozenset("<>&\"'`")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
# Letters that look like Latin ones in common fonts (a part of the data of UTS #39, section 4).
_LOOKS_LIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u0432\u043a\u043c\u043d"
    "\u0442\u051d\u0261\u0578\u057d\u03b1\u03b5\u03bf\u03c1\u03c5\u03c7\u03b9\u03ba\u03bd\u03c401|",
    "aeopcyxijsdhbkmhtwgnuaeopuxikvtoll",
)


class NameRemark(Struct, frozen=True):
    """Remark about one name: its code, message and suggestion."""

    code: str
    message: str
    suggestion: str


def principal_names(names: Iterable[str]) -> Iterator[tuple[str, NameRemark]]:
    """Yield the names that people could mistake or that programs could read as markup, each with a remark."""
    first: dict[str, str] = {}
    for name in names:
        if not _MARKUP.isdisjoint(name):
            message = f"the principal {name!a} has characters of markup in its name"
            yield name, NameRemark("principal_markup", message, "name it with letters, digits and - _ . @ :")
        scripts = _scripts(name)
        if len(scripts) > 1:
            message = f"the principal {name!a} has letters of several scripts in its name: {', '.join(scripts)}"
            yield name, NameRemark("principal_alike", message, "write all of it in one script")
        other = first.setdefault(_skeleton(name), name)
        if other != name:
            message = f"the principal {name!a} looks like {other!a}"
            yield (
                name,
                NameRemark(
                    "principal_alike", message, "give one of them a name that differs in more than a look-alike"
                ),
            )


def _scripts(name: str) -> list[str]:
    found = {unicodedata.name(sign, "").partition(" ")[0] for sign in name if sign.isalpha()}
    return sorted(script.capitalize() for script in found if script in _SCRIPTS)


def _skeleton(name: str) -> str:
    """Return the visual form of a name: equal for names that people could confuse."""
    return unicodedata.normalize("NFKC", name).casefold().translate(_LOOKS_LIKE)
