"""Tokens of a catalog for a model: the static tool list of the three largest descriptions, by part.

`python -m bench.tokens [FILE...]` prints, for each description, the tools, the bytes of the compact JSON of name, description and
input_schema as they are listed, a quarter of them, and toolgen's own estimate, which should be above the count of known
vocabularies. With `--dump DIR` it writes the lists there, to count them with another vocabulary. Exit 1 if GitHub needs more than 280,000.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.formats import CORPUS
from toolgen.generator.build import build
from toolgen.generator.emit.schema_budget import as_listed
from toolgen.generator.emit.tokens import tokens
from toolgen.model.tool import Tool

LARGE = {
    "github": "octokit-openapi23.0.2__-octokit-openapi-generated-api.github.com.json",
    "stripe": "apisguru__stripe.com.json",
    "kubernetes": "kubernetes-client9.0.0__kubernetes-client-lib-specs-swagger-1.13.json",
}
BUDGET = {"github": 280_000}


def static_list(tools: list[Tool]) -> bytes:
    """The list as it stands in a prompt: compact JSON, without output schemas."""
    shown = [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools]
    return msgspec.json.encode(shown, enc_hook=dict)


def words(schema: Any) -> int:
    """Bytes of all descriptions in a schema."""
    if isinstance(schema, Mapping):
        text = schema.get("description")
        own = len(text.encode()) if isinstance(text, str) else 0
        return own + sum(words(item) for item in schema.values())
    return sum(words(item) for item in schema) if isinstance(schema, list) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--dump", type=Path, metavar="DIR")
    options = parser.parse_args()
    named = {path.stem[:20]: path for path in options.files} or {name: CORPUS / file for name, file in LARGE.items()}
    print(
        f"{'':20} {'tools':>6} {'bytes':>10} {'bytes/4':>9} {'estimate':>9}   descriptions, arguments' words, $defs (bytes)"
    )
    over = False
    for name, path in named.items():
        if not path.is_file():
            print(f"{path} is not there", file=sys.stderr)
            return 1
        tools = list(as_listed(build({"api": {"openapi": str(path)}}).tools.values()))
        whole = static_list(tools)
        cost = tokens(whole.decode())
        told = sum(len(tool.description.encode()) for tool in tools)
        inner = sum(words(tool.input_schema) for tool in tools)
        shared = sum(len(msgspec.json.encode(tool.input_schema.get("$defs", {}), enc_hook=dict)) for tool in tools)
        print(f"{name:20} {len(tools):6} {len(whole):10} {len(whole) // 4:9} {cost:9}   {told}, {inner}, {shared}")
        over |= cost > BUDGET.get(name, cost)
        if options.dump is not None:
            options.dump.mkdir(parents=True, exist_ok=True)
            (options.dump / f"{name}.json").write_bytes(whole)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
