"""Descriptions broken at random, from a seed: whatever is wrong with one, reading it ends as a reading or one `DescriptionError`.

`python -m bench.fuzz_openapi --rounds 2000` runs it over the corpus; a failure prints the seed that brings it back. Every mutated
document must also keep the promise that each operation is a tool or a reported skip.
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

from toolgen.errors import DescriptionError
from toolgen.model.names import TOOL_NAME
from toolgen.sources.base import Reading, SourceConfig
from toolgen.sources.openapi import read_openapi
from toolgen.sources.syntax import parse

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "openapi"
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**30, "", " ", "x", "\ud800", "\x00", "#", "#/", "#/paths", "{", "}", "{}", "{a}{a}", "../x", "//[",
    "http://[::1", [], [[]], [None], {}, {"$ref": "#"}, {"$ref": "#/nowhere"}, {"$ref": 5}, {"type": "object"}, {"": {}}, float("inf"),
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
    match chance.randrange(6):
        case 0:
            holder[key] = copy.deepcopy(chance.choice(STRANGE))
        case 1:
            del holder[key]
        case 2 if isinstance(holder, dict):
            holder[str(chance.choice(STRANGE))] = holder.pop(key)
        case 3:
            other, place = chance.choice(places)
            holder[key] = copy.deepcopy(other[place])
        case 4:
            holder[key] = [holder[key]] if chance.random() < 0.5 else {"x": holder[key]}
        case _:
            for _ in range(chance.choice((3, 70, 150))):
                holder[key] = {"items": holder[key]} if chance.random() < 0.5 else {"properties": {"a": holder[key]}}


def fault(path: Path) -> str:
    """What is wrong with how a file is read, or ""."""
    try:
        reading = read_openapi(SourceConfig(name="s", kind="openapi", location=str(path)))
    except DescriptionError:
        return ""
    except Exception:  # noqa: BLE001 - whatever it is, it is what we are looking for
        return traceback.format_exc()
    return broken_promise(reading)


def broken_promise(reading: Reading) -> str:
    """Which of the promises about every reading does not hold, or ""."""
    skips = [problem for problem in reading.problems if problem.level == "error"]
    names = [tool.name for tool in reading.tools]
    if len(names) > reading.operations or (len(names) < reading.operations and not skips):
        return f"{reading.operations} operations, {len(names)} tools, {len(skips)} skips"
    if len(set(names)) != len(names) or not all(map(TOOL_NAME.match, names)):
        return "a name is taken twice or is none"
    if not all(tool.description for tool in reading.tools):
        return "a description is empty"
    return ""


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


def run(rounds: int, largest: int, start: int) -> list[str]:
    """Every failure, each with the document and the seed that bring it back."""
    known = documents(largest)
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "doc.json"
        for name, document in known.items():
            for seed in range(start, start + rounds):
                text = json.dumps(mutated(document, seed))
                path.write_text(text, encoding="utf-8", errors="surrogatepass")
                began = time.process_time()
                wrong = fault(path)
                spent = time.process_time() - began
                if spent > 10:
                    wrong = wrong or f"took {spent:.1f} s"
                if wrong:
                    failures.append(f"{name} seed {seed}: {wrong}")
    return failures


def main() -> None:
    """Exits with 1 when anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="mutations of each document")
    parser.add_argument("--largest", type=int, default=300_000, help="bytes of the largest document taken")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    failures = run(options.rounds, options.largest, options.start)
    for failure in failures:
        print(failure)
    print(
        f"{options.rounds} mutations of each of {len(documents(options.largest))} documents, {len(failures)} failures"
    )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
