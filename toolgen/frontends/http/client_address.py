"""Address that a request comes from, behind trusted proxies too, and the part of it that counts as one address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, ip_address, ip_network

from toolgen.config.gateway import Networks, contains

__all__ = ["client_of", "counted_as"]

_MAX_HOPS = 32
_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE = rf'(?:{_WORD}|"(?:[^"\\\x00-\x1f\x7f]|\\[\t\x20-\x7e])*")'
_PAIR = re.compile(rf"({_WORD})=({_VALUE})")
_NODE = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?|([0-9.]+)(?::[0-9]{1,5})?")


def counted_as(peer: str) -> str:
    """Return the counted address of a peer. An IPv6 network of /64 counts as one, because a client with one of its addresses has
    them all."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((int(address) >> 64 << 64, 64)))
    return peer


def client_of(peer: str, headers: Iterable[tuple[bytes, bytes]], proxies: Networks) -> str:
    """Client of a connection: `peer`, unless that is a trusted proxy. Then the rightmost address in `X-Forwarded-For` or `Forwarded` (RFC
    7239) that is no trusted proxy's; addresses to the left of it are unverified.

    A proxy sets one of the two headers and may forward the other unchanged from its client, so both must agree. If they differ, or one is
    malformed before that address is found, the proxy itself is the client.
    """
    if not proxies or not contains(proxies, peer):
        return peer
    lines = [(name, value.decode("latin-1")) for name, value in headers if name in {b"x-forwarded-for", b"forwarded"}]
    said = []
    if plain := [value for name, value in lines if name == b"x-forwarded-for"]:
        said.append(_rightmost(_plain_hops(",".join(plain)), proxies))
    if standard := [value for name, value in lines if name == b"forwarded"]:
        said.append(_rightmost(_standard_hops(",".join(standard)), proxies))
    found = said[0] if said else None
    return peer if found is None or any(one != found for one in said) else found


def _rightmost(hops: Iterator[str | None], proxies: Networks) -> str | None:
    """Return the first address from the right that is not a proxy's, the leftmost if all are; None if one of them is no address."""
    last = None
    for count, hop in enumerate(hops):
        if hop is None or count == _MAX_HOPS:
            return None
        last = hop
        if not contains(proxies, hop):
            break
    return last


def _plain_hops(text: str) -> Iterator[str | None]:
    """Return the addresses of `X-Forwarded-For`, from the right."""
    while text:
        text, _, hop = text.rpartition(",")
        yield _address(hop.strip(" \t"), bare_ipv6=True)


def _standard_hops(text: str) -> Iterator[str | None]:
    """Yield the `for` of each element of `Forwarded`, from the right. The whole header is parsed, because an open quote would hide what a
    proxy added."""
    hops: list[str | None] = []
    for element in _elements(text):
        pairs = [_PAIR.fullmatch(pair) for pair in element]
        values = [pair[2] for pair in pairs if pair is not None and pair[1].lower() == "for"]
        good = None not in pairs and len(values) == 1
        hops.append(_address(_unquoted(values[0]), bare_ipv6=False) if good else None)
    yield from reversed(hops)


def _elements(text: str) -> Iterator[list[str]]:
    """Yield the parameters of each element, split at `,` and `;` outside of quotes."""
    element, start, quoted, escaped = list[str](), 0, False, False
    for at, character in enumerate(text + ","):
        if escaped or (quoted and character == "\\"):
            escaped = not escaped
        elif character == '"':
            quoted = not quoted
        elif character in ",;" and (not quoted or at == len(text)):
            element.append(text[start:at].strip(" \t"))
            start = at + 1
            if character == ",":
                yield element
                element = []


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _address(text: str, *, bare_ipv6: bool) -> str | None:
    """Return an address without its port; None for a name, `unknown`, `_hidden` and any other text."""
    found = _NODE.fullmatch(text)
    if found is not None:
        text = found[1] or found[2]
    elif not bare_ipv6 or ":" not in text:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if found is not None and (address.version == 6) != (found[1] is not None):
        return None
    return None if "%" in text else str(getattr(address, "ipv4_mapped", None) or address)
