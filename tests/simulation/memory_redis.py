"""In-memory Redis: the commands that the Lua scripts of toolgen/state use, and those scripts, run by Lua in this process.

`test_memory_redis.py` holds it against a real server. Time is the caller's; the whole state can be copied, put back and emptied.
"""

from __future__ import annotations

import json
import math
import struct
from bisect import bisect_left, insort
from collections.abc import Callable
from hashlib import sha1
from typing import Any

from lupa import lua51
from msgspec import Struct
from redis.exceptions import ResponseError

_Keys = dict[bytes, Any]
_LUA = lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True)
_WRONG = "WRONGTYPE Operation against a key holding the wrong kind of value"
_FALSE = False


class _SortedSet:
    """Members by score and then by name."""

    __slots__ = ("order", "scores")

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self.order: list[tuple[float, bytes]] = []

    def put(self, member: bytes, score: float) -> bool:
        """True for a member that is new."""
        old = self.scores.get(member)
        if old == score:
            return False
        if old is not None:
            del self.order[bisect_left(self.order, (old, member))]
        self.scores[member] = score
        insort(self.order, (score, member))
        return old is None

    def remove(self, member: bytes) -> bool:
        """True for a member that was there."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        del self.order[bisect_left(self.order, (score, member))]
        return True

    def between(self, low: bytes, high: bytes) -> list[tuple[float, bytes]]:
        """Members with scores from `low` to `high`, as ZRANGEBYSCORE has them."""
        first, after = _bound(low)
        last, before = _bound(high)
        return [
            one
            for one in self.order
            if (one[0] > first if after else one[0] >= first) and (one[0] < last if before else one[0] <= last)
        ]

    def copy(self) -> _SortedSet:
        made = _SortedSet()
        made.scores, made.order = dict(self.scores), list(self.order)
        return made


class Step(Struct, frozen=True, kw_only=True):
    """A script that was run, when, and what it answered; `ResponseError` itself if it failed."""

    at: float
    text: str
    keys: tuple[bytes, ...]
    arguments: tuple[bytes, ...]
    found: Any


class MemoryRedis:
    """One database. `clock` says its time in seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.data: _Keys = {}
        self.expires: dict[bytes, float] = {}
        self.seen: list[Step] | None = None
        """Where steps are noted, if anybody wants to know."""
        self.faults: list[Exception] = []
        """Faults of this stand-in, which a gateway would take for a store that cannot be reached."""

    def copy(self) -> tuple[_Keys, dict[bytes, float]]:
        """The state as it is now."""
        return {key: value if isinstance(value, bytes) else value.copy() for key, value in self.data.items()}, dict(
            self.expires
        )

    def restore(self, state: tuple[_Keys, dict[bytes, float]]) -> None:
        """Put back what `copy` returned."""
        self.data = {key: value if isinstance(value, bytes) else value.copy() for key, value in state[0].items()}
        self.expires = dict(state[1])

    def flush(self) -> None:
        """FLUSHALL."""
        self.data, self.expires = {}, {}

    def run(self, text: str, keys: tuple[str | bytes, ...], arguments: tuple[str | bytes, ...]) -> Any:
        """What a script answers, as a client has it. Raises `ResponseError`."""
        given_keys, given = tuple(map(_bytes, keys)), tuple(map(_bytes, arguments))
        script = _SCRIPTS.get(text)
        if script is None:
            script = _SCRIPTS[text] = _LUA.execute(f"return function(KEYS, ARGV) {text}\nend".encode())
        global _CALLED  # noqa: PLW0603 - Lua's own globals know one server at a time
        _CALLED = self
        found: Any = ResponseError
        try:
            found = _from_lua(script(_LUA.table_from(given_keys), _LUA.table_from(given)))
        except lua51.LuaError as error:
            if b"attempt to" in str(error).encode():  # the script itself is wrong, or this stand-in lacks what it uses
                self.faults.append(error)
            raise ResponseError(str(error)) from None
        except ResponseError:
            raise
        except Exception as error:
            self.faults.append(error)
            raise
        finally:
            if self.seen is not None:
                self.seen.append(Step(at=self.clock(), text=text, keys=given_keys, arguments=given, found=found))
        return found

    def command(self, name: bytes, *arguments: Any) -> Any:
        """One command, as a script calls it."""
        work = _COMMANDS.get(name.upper())
        if work is None:
            raise NotImplementedError(f"the in-memory Redis has no command {name.decode()}: add it, and to its test")
        return work(self, *map(_bytes, arguments))

    def _value(self, key: bytes, kind: type) -> Any:
        value = self.data.get(key)
        if value is None:
            return None
        at = self.expires.get(key)
        if at is not None and at <= self.clock():
            self._delete(key)
            return None
        if not isinstance(value, kind):
            raise ResponseError(_WRONG)
        return value

    def _delete(self, key: bytes) -> bool:
        self.expires.pop(key, None)
        return self.data.pop(key, None) is not None

    def _made(self, key: bytes, kind: type) -> Any:
        value = self._value(key, kind)
        if value is None:
            value = self.data[key] = kind()
        return value

    def _shrunk(self, key: bytes, value: Any) -> None:
        if not (value if isinstance(value, dict) else value.scores):
            self._delete(key)

    def _del(self, *keys: bytes) -> int:
        return sum(self._value(key, object) is not None and self._delete(key) for key in keys)

    def _exists(self, *keys: bytes) -> int:
        return sum(self._value(key, object) is not None for key in keys)

    def _get(self, key: bytes) -> bytes | bool:
        value: bytes | None = self._value(key, bytes)
        return False if value is None else value

    def _set(self, key: bytes, value: bytes, *options: bytes) -> Any:
        upper = [one.upper() for one in options]
        if b"NX" in upper and self._value(key, object) is not None:
            return False
        self._delete(key)
        self.data[key] = value
        if b"PX" in upper:
            self._pexpire(key, options[upper.index(b"PX") + 1])
        if b"EX" in upper:
            self.expires[key] = self.clock() + float(options[upper.index(b"EX") + 1])
        return _OK

    def _setnx(self, key: bytes, value: bytes) -> int:
        if self._value(key, object) is not None:
            return 0
        self.data[key] = value
        return 1

    def _incr(self, key: bytes) -> int:
        value = _whole(self._value(key, bytes) or b"0") + 1
        self.data[key] = b"%d" % value
        return value

    def _pexpire(self, key: bytes, milliseconds: bytes) -> int:
        return self._pexpireat(key, b"%r" % (self.clock() * 1000 + _whole(milliseconds)))

    def _pexpireat(self, key: bytes, milliseconds: bytes) -> int:
        if self._value(key, object) is None:
            return 0
        self.expires[key] = float(milliseconds) / 1000
        if self.expires[key] <= self.clock():
            self._delete(key)
        return 1

    def _pttl(self, key: bytes) -> int:
        if self._value(key, object) is None:
            return -2
        at = self.expires.get(key)
        return -1 if at is None else round((at - self.clock()) * 1000)

    def _hset(self, key: bytes, *pairs: bytes) -> int:
        fields = self._made(key, dict)
        before = len(fields)
        fields.update(zip(pairs[::2], pairs[1::2], strict=True))
        return len(fields) - before

    def _hsetnx(self, key: bytes, name: bytes, value: bytes) -> int:
        fields = self._made(key, dict)
        if name in fields:
            return 0
        fields[name] = value
        return 1

    def _hget(self, key: bytes, name: bytes) -> Any:
        return (self._value(key, dict) or {}).get(name, False)

    def _hmget(self, key: bytes, *names: bytes) -> Any:
        fields = self._value(key, dict) or {}
        return _LUA.table_from([fields.get(name, _FALSE) for name in names])

    def _hgetall(self, key: bytes) -> Any:
        fields = self._value(key, dict) or {}
        return _LUA.table_from([one for pair in fields.items() for one in pair])

    def _hdel(self, key: bytes, *names: bytes) -> int:
        fields = self._value(key, dict)
        if fields is None:
            return 0
        gone = sum(fields.pop(name, None) is not None for name in names)
        self._shrunk(key, fields)
        return gone

    def _hexists(self, key: bytes, name: bytes) -> int:
        return int(name in (self._value(key, dict) or {}))

    def _hincrby(self, key: bytes, name: bytes, by: bytes) -> int:
        value = _whole((self._value(key, dict) or {}).get(name, b"0")) + _whole(by)
        self._made(key, dict)[name] = b"%d" % value
        return value

    def _hlen(self, key: bytes) -> int:
        return len(self._value(key, dict) or ())

    def _zadd(self, key: bytes, *arguments: bytes) -> int:
        start = 0
        while arguments[start].upper() in {b"XX", b"NX"}:
            start += 1
        options, pairs = {one.upper() for one in arguments[:start]}, arguments[start:]
        if b"XX" in options and self._value(key, _SortedSet) is None:
            return 0
        scores = [_score(one) for one in pairs[::2]]
        members, new = self._made(key, _SortedSet), 0
        for score, member in zip(scores, pairs[1::2], strict=True):
            there = member in members.scores
            if (b"XX" in options and not there) or (b"NX" in options and there):
                continue
            new += members.put(member, score)
        return new

    def _zrem(self, key: bytes, *names: bytes) -> int:
        members = self._value(key, _SortedSet)
        if members is None:
            return 0
        gone = sum(members.remove(name) for name in names)
        self._shrunk(key, members)
        return gone

    def _zcard(self, key: bytes) -> int:
        members = self._value(key, _SortedSet)
        return 0 if members is None else len(members.scores)

    def _zscore(self, key: bytes, name: bytes) -> bytes | bool:
        members = self._value(key, _SortedSet)
        score = None if members is None else members.scores.get(name)
        return False if score is None else _shown(score)

    def _zcount(self, key: bytes, low: bytes, high: bytes) -> int:
        members = self._value(key, _SortedSet)
        return 0 if members is None else len(members.between(low, high))

    def _zrange(self, key: bytes, first: bytes, last: bytes, *options: bytes) -> Any:
        members = self._value(key, _SortedSet)
        order = [] if members is None else members.order
        return self._slice(order, int(first), int(last), options)

    def _zrevrange(self, key: bytes, first: bytes, last: bytes, *options: bytes) -> Any:
        members = self._value(key, _SortedSet)
        order = [] if members is None else members.order[::-1]
        return self._slice(order, int(first), int(last), options)

    def _slice(self, order: list[tuple[float, bytes]], first: int, last: int, options: tuple[bytes, ...]) -> Any:
        length = len(order)
        start = max(0, first + length if first < 0 else first)
        end = (last + length if last < 0 else last) + 1
        return _listed(order[start : max(start, end)], [one.upper() for one in options])

    def _zrangebyscore(self, key: bytes, low: bytes, high: bytes, *options: bytes) -> Any:
        members = self._value(key, _SortedSet)
        found = [] if members is None else members.between(low, high)
        upper = [one.upper() for one in options]
        if b"LIMIT" in upper:
            place = upper.index(b"LIMIT")
            skipped, most = int(options[place + 1]), int(options[place + 2])
            found = found[skipped:] if most < 0 else found[skipped : skipped + most]
        return _listed(found, upper)

    def _zremrangebyscore(self, key: bytes, low: bytes, high: bytes) -> int:
        members = self._value(key, _SortedSet)
        if members is None:
            return 0
        found = members.between(low, high)
        for _, member in found:
            members.remove(member)
        self._shrunk(key, members)
        return len(found)

    def _time(self) -> Any:
        micros = round(self.clock() * 1e6)
        return _LUA.table_from([b"%d" % (micros // 1_000_000), b"%d" % (micros % 1_000_000)])


_COMMANDS: dict[bytes, Callable[..., Any]] = {
    name[1:].upper().encode(): method
    for name, method in vars(MemoryRedis).items()
    if callable(method) and name[1:] in {
        "del", "exists", "get", "set", "setnx", "incr", "pexpire", "pexpireat", "pttl", "hset", "hsetnx", "hget", "hmget", "hgetall",
        "hdel", "hexists", "hincrby", "hlen", "zadd", "zrem", "zcard", "zscore", "zcount", "zrange", "zrevrange", "zrangebyscore",
        "zremrangebyscore", "time",
    }
}  # fmt: skip
_SCRIPTS: dict[str, Any] = {}
_CALLED: MemoryRedis
_OK = _LUA.table_from({b"ok": b"OK"})


def _called(name: bytes, *arguments: Any) -> Any:
    work = _COMMANDS.get(name)
    if work is None:
        return _CALLED.command(name, *arguments)
    for one in arguments:
        if type(one) is not bytes:
            return work(_CALLED, *map(_bytes, arguments))
    return work(_CALLED, *arguments)


def _bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int) and not isinstance(value, bool):
        return b"%d" % value
    if isinstance(value, float):
        return f"{value:.17g}".encode()
    raise ResponseError("Lua redis lib command arguments must be strings or integers")


def _whole(value: bytes) -> int:
    try:
        return int(value)
    except ValueError:
        raise ResponseError("value is not an integer or out of range") from None


def _score(value: bytes) -> float:
    try:
        score = float(value)
    except ValueError:
        raise ResponseError("value is not a valid float") from None
    if math.isnan(score):
        raise ResponseError("value is not a valid float")
    return score


def _bound(value: bytes) -> tuple[float, bool]:
    return (_score(value[1:]), True) if value.startswith(b"(") else (_score(value), False)


def _shown(score: float) -> bytes:
    return f"{score:.17g}".encode()


def _listed(found: list[tuple[float, bytes]], options: list[bytes]) -> Any:
    if b"WITHSCORES" in options:
        return _LUA.table_from([one for score, name in found for one in (name, _shown(score))])
    return _LUA.table_from([name for _, name in found])


def _from_lua(value: Any) -> Any:
    """A value of Lua as a client of Redis has it."""
    if value is None or value is False:
        return None
    if value is True:
        return 1
    if isinstance(value, float):
        return math.trunc(value)
    if isinstance(value, bytes | int):
        return value
    if value[b"err"] is not None:
        raise ResponseError(value[b"err"].decode())
    if value[b"ok"] is not None:
        return value[b"ok"]
    found = []
    for number in range(1, len(value) + 1):
        one = value[number]
        if one is None:
            break
        found.append(one if type(one) is bytes else _from_lua(one))
    return found


def _to_lua(value: Any) -> Any:
    if isinstance(value, dict):
        return _LUA.table_from({key.encode(): _to_lua(one) for key, one in value.items()})
    if isinstance(value, list):
        return _LUA.table_from([_to_lua(one) for one in value])
    return value.encode() if isinstance(value, str) else value


def _decoded(text: bytes) -> Any:
    return _to_lua(json.loads(text))


def _packed(layout: bytes, *values: Any) -> bytes:
    return struct.pack(layout.decode(), *values)


def _unpacked(layout: bytes, value: bytes) -> tuple[Any, ...]:
    return struct.unpack(layout.decode(), value)  # Lua gets several values


def _sha1hex(text: bytes) -> bytes:
    return sha1(text, usedforsecurity=False).hexdigest().encode()


_LUA.globals()[b"redis"] = _LUA.table_from(
    {b"call": _called, b"error_reply": lambda text: _LUA.table_from({b"err": text}), b"sha1hex": _sha1hex}
)
_LUA.globals()[b"cjson"] = _LUA.table_from({b"decode": _decoded})
_LUA.globals()[b"struct"] = _LUA.table_from({b"pack": _packed, b"unpack": _unpacked})
