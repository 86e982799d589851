"""Losses of argument descriptions on the way to a model: sentences that are cut, values and defaults that are listed in words.

`python -m bench.descriptions [FILE...]` reads the descriptions of the corpus, and compares what the document says of each argument with
what is listed and with what describe_tool shows. `--show` prints the arguments that lose something. Exit 1 when a budget is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bench.formats import CORPUS
from toolgen.generator.build import build
from toolgen.generator.emit.schema_budget import described, listed
from toolgen.model.tool import HttpBinding, Tool

BUDGETS = {"cut": 5, "values lost": 2, "defaults lost": 2}
"""Of what is listed. describe_tool may lose nothing but what no schema of 4,000 tokens has room for."""
_LISTS = re.compile(
    r"\b(?:one of|can be|may be|must be|either|values\s+are|options"
    r"|(?:possible|valid|allowed|supported|available|permitted)\s+(?:\w+\s+)?values)\b",
    re.IGNORECASE,
)
_VALUE = re.compile(r"`([\w.:+/-]{1,40})`")
_DEFAULT = re.compile(
    r"\bdefaults?(?:\s+value)?\s*(?:is|are|to|:|=)\s*[`*\"']{0,3}([A-Za-z0-9_.:+-]*[A-Za-z0-9_])", re.IGNORECASE
)
_IN_PART = re.compile(r"\b[Oo]ne of \d+ values, such as ")
_EMPTY = frozenset({"the", "a", "an", "all", "to", "is", "be", "this", "your", "any", "no", "use", "using", "that"})


def resolved(document: Any, node: Any) -> Any:
    """A node of a document, local references followed."""
    for _ in range(20):
        if not isinstance(node, dict) or not isinstance(ref := node.get("$ref"), str) or not ref.startswith("#/"):
            break
        node = document
        for step in ref[2:].split("/"):
            node = node.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(node, dict) else {}
    return node


def sayings(document: Any, tool: Tool) -> Iterator[tuple[str, str]]:
    """The arguments of a tool that the document says something of, and what it says."""
    binding = tool.binding
    if not isinstance(binding, HttpBinding):
        return
    item = resolved(document, {"$ref": tool.origin.rpartition("/")[0]})
    operation = resolved(document, {"$ref": tool.origin})
    names = {(one.in_, one.name): one.argument for one in binding.parameters}
    for raw in (*(item.get("parameters") or ()), *(operation.get("parameters") or ())):
        one = resolved(document, raw)
        text = one.get("description") if isinstance(one, dict) else None
        if isinstance(text, str) and (argument := names.get((one.get("in"), one.get("name")))):
            yield argument, text
    if binding.body is None:
        return
    body = resolved(document, operation.get("requestBody") or {})
    content = body.get("content", {}).get(binding.body.media_type, {}) if isinstance(body, dict) else {}
    schema = resolved(document, content.get("schema", {}))
    properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
    for argument, name in (binding.body.properties or {}).items():
        one = resolved(document, properties.get(name, {}))
        text = one.get("description") if isinstance(one, dict) else None
        if isinstance(text, str):
            yield argument, text


def values(text: str) -> set[str]:
    """Values that a text lists: two or more in backticks behind words such as `one of`."""
    found: set[str] = set()
    for match in _LISTS.finditer(text):
        following = text[match.end() : match.end() + 600].partition("\n\n#")[0]
        listed_values = _VALUE.findall(following)
        if len(listed_values) > 1:
            found.update(listed_values)
    return found


def defaults(text: str) -> set[str]:
    """Values that a text names as a default."""
    return {value for value in _DEFAULT.findall(text) if value.lower() not in _EMPTY}


def _has_values_in_words(shown: Any) -> bool:
    """False for an argument whose values no description has to list: it has an `enum`, is shown with the number of its many values, or
    takes no text. What stands in backticks in its description are other fields, or their values."""
    schema = {**shown.get("definition", {}), **shown}
    items = schema.get("items")
    forms = [schema, *(one for one in (items, *(schema.get("anyOf") or ())) if isinstance(one, dict))]
    if any("enum" in one or "const" in one for one in forms) or _IN_PART.search(str(schema.get("description", ""))):
        return False
    kinds = {str(one["type"]) for one in forms if "type" in one} - {"array", "null"}
    return not kinds or "string" in kinds


def losses(text: str, shown: Any) -> Iterator[str]:
    """Return the parts of an argument's description that are missing in the listed schema."""
    whole = json.dumps(shown, ensure_ascii=False)
    if str(shown.get("description", "")).endswith("…") and not text.rstrip().endswith(("…", "...")):
        yield "cut"
    if _has_values_in_words(shown) and any(value not in whole for value in values(text)):
        yield "values lost"
    if any(value.lower() not in whole.lower() for value in defaults(text)):
        yield "defaults lost"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    counts = {"listed": Counter[str](), "describe_tool": Counter[str]()}
    total = tools = long = 0
    for path in options.files or sorted(one for one in CORPUS.iterdir() if one.is_file()):
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for tool in build({"api": {"openapi": str(path)}}).tools.values():
            tools += 1
            long += tool.description.endswith("…")
            said = dict(sayings(document, tool))
            forms = {"listed": listed(tool).input_schema, "describe_tool": described(tool)["input_schema"]}
            for argument, text in said.items():
                total += 1
                for form, schema in forms.items():
                    shown = schema["properties"].get(argument, {})
                    lost = [*losses(text, {**shown, "definition": resolved(schema, shown)})]
                    counts[form].update(lost)
                    if options.show and lost:
                        print(f"{form} {tool.name} {argument}: {', '.join(lost)}\n  {text!r}\n  {shown}")
    print(f"{tools} tools, of which {long} with descriptions that end in an ellipsis; {total} arguments are described")
    for form, found in counts.items():
        print(f"{form:14} " + ", ".join(f"{name} {found[name]}" for name in BUDGETS))
    return int(any(counts["listed"][name] > most for name, most in BUDGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
