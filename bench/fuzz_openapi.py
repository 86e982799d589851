"""Descriptions broken at random, from a seed: whatever is wrong with one, reading it ends as a reading or one `DescriptionError`.

`python -m bench.fuzz_openapi --rounds 2000` runs it over the corpus; a failure prints the seed that brings it back. Every mutated
document must also keep every promise of bench/promises.py: each operation is a tool or a reported skip, every schema stands alone and
could check arguments, two builds are the same, and so are the tools when the paths stand in another order.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.promises import broken
from toolgen.connectors.syntax import parse
from toolgen.core.errors import DescriptionError

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "openapi"
STRANGE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**30,
    "",
    " ",
    "x",
    "\ud800",
    "\x00",
    "#",
    "#/",
    "#/paths",
    "{",
    "}",
    "{}",
    "{a}{a}",
    "../x",
    "//[",
    "http://[::1",
    "http://h\u2100.test",
    "//h",
    "http://h\r\ne",
    "a%00b.yaml",
    "(",
    "^(a+)+$",
    "一" * 1500,
    2**60,
    -0.0,
    [],
    [[]],
    [None],
    {},
    {"$ref": "#"},
    {"$ref": "#/nowhere"},
    {"$ref": 5},
    {"type": "object"},
    {"": {}},
    float("inf"),
    {"allOf": [{"$ref": "#/components/schemas/A"}]},
    {"patternProperties": {"(": {}, "^a": {"type": "string"}}},
    {"required": ["a", "id"]},
    {
        "properties": {
            name: {"type": "string", "readOnly": True} for name in ("id", "default", "enum", "$ref", "required")
        }
    },
    {"oneOf": [{"properties": {"k": {"enum": ["a"]}}}], "discriminator": {"propertyName": "k"}},
    {"$ref": "#/paths/~1a/x"},
    {"enum": [2**60, {"$ref": "#/$defs/X"}]},
    {"examples": [{"$ref": "#/$defs/X"}], "default": {"$ref": "#/nowhere"}},
    {"url": "https://{x}.test", "variables": {"x": {"default": 1.1}}},
    {"get": 5, "GET": {"responses": {}}, "query": {"responses": {}}},
    [
        {"name": "default", "in": "query", "schema": {"$ref": "#/components/schemas/A"}},
        {"name": "Host", "in": "header", "required": True},
    ],
    {"$id": "https://h.test/s", "$anchor": "a", "$ref": "#a"},
    {"nullable": True, "enum": [None], "format": {}, "contentMediaType": []},
)
# Words that mean something somewhere, for keys that stand in for others.
WORDS = (
    "$ref", "allOf", "additionalProperties", "const", "content", "default", "discriminator", "encoding", "enum", "examples", "format",
    "get", "in", "items", "name", "nullable", "oneOf", "parameters", "patternProperties", "properties", "readOnly", "required",
    "requestBody", "responses", "schema", "security", "servers", "style", "tags", "type", "x-toolgen-effect", "additionalOperations", "GET",
)  # fmt: skip


def mutated(document: Any, seed: int) -> Any:
    """A copy of a document with one to six things about it changed."""
    chance = random.Random(seed)
    broken = copy.deepcopy(document)
    places = list(_places(broken, chance))
    for _ in range(chance.randint(1, 6)):
        holder, key = chance.choice(places)
        try:
            _change(holder, key, places, chance)
        except (KeyError, IndexError):
            continue  # an earlier change took the place away
    return broken


def _places(document: Any, chance: random.Random) -> Iterator[tuple[Any, Any]]:
    """Some thousand places, more of them near the top, where most of the structure is."""
    todo: list[tuple[Any, int]] = [(document, 0)]
    count = 0
    while todo and count < 20_000:
        node, depth = todo.pop(chance.randrange(len(todo)))
        for key, item in list(node.items() if isinstance(node, dict) else enumerate(node)):
            yield node, key
            count += 1
            if isinstance(item, (dict, list)):
                todo.append((item, depth + 1))


def _change(holder: Any, key: Any, places: list[tuple[Any, Any]], chance: random.Random) -> None:
    match chance.randrange(8):
        case 0:
            holder[key] = copy.deepcopy(chance.choice(STRANGE))
        case 1:
            del holder[key]
        case 2 if isinstance(holder, dict):
            holder[str(chance.choice(STRANGE))] = holder.pop(key)
        case 6 if isinstance(holder, dict):
            holder[chance.choice(WORDS)] = holder.pop(key) if chance.random() < 0.5 else copy.deepcopy(holder[key])
        case 7:
            _circle(holder, key, places, chance)
        case 3:
            other, place = chance.choice(places)
            holder[key] = copy.deepcopy(other[place])
        case 4:
            holder[key] = [holder[key]] if chance.random() < 0.5 else {"x": holder[key]}
        case _:
            for _ in range(chance.choice((3, 70, 150))):
                holder[key] = {"items": holder[key]} if chance.random() < 0.5 else {"properties": {"a": holder[key]}}


def _circle(holder: Any, key: Any, places: list[tuple[Any, Any]], chance: random.Random) -> None:
    """A reference to one of the schemas, of which one may then lead back."""
    named = sorted(
        {
            place
            for other, place in places
            if isinstance(other, dict) and isinstance(other[place], dict) and "$" not in str(place)
        }
    )
    target = chance.choice(named) if named else "x"
    home = chance.choice(
        ("components/schemas", "definitions", "components/parameters", "paths", "components/securitySchemes")
    )
    reference = {"$ref": f"#/{home}/{str(target).replace('~', '~0').replace('/', '~1')}"}
    composed = {"allOf": [reference, {"required": ["id"]}], "properties": {"id": {"readOnly": True}}}
    holder[key] = chance.choice((reference, composed, {"anyOf": [reference, reference]}, {"not": reference}))


def fault(path: Path) -> str:
    """Return the fault in reading a file, or ""."""
    try:
        return "; ".join(broken(path)[:5])
    except DescriptionError:
        return ""
    except Exception:  # noqa: BLE001 - whatever it is, it is what we are looking for
        return traceback.format_exc()


def documents(largest: int) -> dict[str, Any]:
    """The corpus' documents up to a size in bytes, by file name."""
    found = {}
    for path in sorted(CORPUS.iterdir()) if CORPUS.is_dir() else ():
        if path.is_file() and path.stat().st_size <= largest:
            try:
                found[path.name] = parse(path.read_bytes(), where=path.name)
            except DescriptionError:
                continue
    return found


def run(rounds: int, largest: int, start: int, seconds: float = 0.0) -> tuple[int, list[str]]:
    """Return the number of documents read, and every failure with the document and seed that reproduce it."""
    failures = []
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "doc.json"
        for name, document in documents(largest).items():
            whole = time.process_time()
            for seed in range(start, start + rounds):
                path.write_text(json.dumps(mutated(document, seed)), encoding="utf-8")
                began = time.process_time()
                wrong = fault(path)
                spent = time.process_time() - began
                count += 1
                if wrong or spent > 10:
                    failures.append(f"{name} seed {seed}: {wrong or f'took {spent:.1f} s'}")
                    print(failures[-1], flush=True)
                if seconds and time.process_time() - whole > seconds:
                    break
    return count, failures


def main() -> None:
    """Exits with 1 when anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="mutations of each document")
    parser.add_argument("--largest", type=int, default=300_000, help="bytes of the largest document taken")
    parser.add_argument("--seconds", type=float, default=0.0, help="of CPU for each document, instead of all rounds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    count, failures = run(options.rounds, options.largest, options.start, options.seconds)
    print(f"{count} mutations of {len(documents(options.largest))} documents, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
