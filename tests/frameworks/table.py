"""Table of clients in docs/how-to/frameworks.md, made from results.json and notes.yaml: `python -m tests.frameworks.table [--check]`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.frameworks.client_list import CLIENTS, EXAMPLES
from tests.frameworks.evaluation import CANNOT_ASK, CANNOT_CANCEL, PROPERTIES

__all__ = ["NOTES", "PAGE", "RESULTS", "notes", "page", "results", "write_page", "write_results"]

RESULTS = Path(__file__).parent / "results.json"
NOTES = Path(__file__).parent / "notes.yaml"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "frameworks.md"
BEGIN = "<!-- Made by `make frameworks-table`, from what `make frameworks` found: change the clients' notes, not this table. -->"
END = "<!-- The table ends here. -->"
_EXAMPLE = re.compile(r"<!-- example: (?P<name>\S+) -->\n.*?<!-- example ends -->", re.DOTALL)
TITLES = {
    "loads": "Loads",
    "data": "Data",
    "once": "Once",
    "errors": "Errors",
    "pending": "Pending",
    "long": "Long calls",
    "picture": "Pictures",
    "person": "Asks",
    "cancel": "Cancels",
    "catalog": "GitHub",
    "search": "Search",
}


def results() -> dict[str, Any]:
    """What the clients did when they were last tried: version, and what is wrong with each property."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return found


def notes() -> dict[str, dict[str, str]]:
    """Why a property does not hold for a client, where the client itself is the reason: by client and property."""
    found: dict[str, dict[str, str]] = yaml.safe_load(NOTES.read_text(encoding="utf-8"))
    return found


def rendered() -> str:
    """The table and its footnotes. A text that several cells have is one footnote."""
    known, why = results(), notes()
    numbers: dict[str, int] = {}
    rows = []
    for client in CLIENTS:
        if client.name not in known:
            continue
        one = known[client.name]
        marks = [
            _mark(one["cells"].get(name, []), why.get(client.name, {}).get(name, ""), numbers) for name in PROPERTIES
        ]
        rows.append(f"| {client.title} {one['version']} | {' | '.join(marks)} |")
    head = f"| Client | {' | '.join(TITLES[name] for name in PROPERTIES)} |\n|{'---|' * (len(PROPERTIES) + 1)}"
    footnotes = "".join(f"{number}. {text}\n" for text, number in numbers.items())
    return f"{BEGIN}\n\n{head}\n" + "\n".join(rows) + f"\n\n{footnotes}\n{END}"


def _mark(faults: list[str], note: str, numbers: dict[str, int]) -> str:
    """A cell: yes, a dash for an ability that the client does not have, or the number of a footnote."""
    if not faults:
        return "yes"
    if not note:
        return "–" if faults in ([CANNOT_ASK], [CANNOT_CANCEL]) else "no"
    return f"({numbers.setdefault(note, len(numbers) + 1)})"


def page() -> str:
    """The page with the table and the example files as they have to be."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + rendered() + _EXAMPLE.sub(_example, after)


def _example(found: re.Match[str]) -> str:
    """An example file as code of the page."""
    code = (EXAMPLES / found["name"]).read_text(encoding="utf-8").rstrip()
    language = "python" if found["name"].endswith(".py") else "js"
    return f"<!-- example: {found['name']} -->\n\n```{language}\n{code}\n```\n\n<!-- example ends -->"


def write_page() -> None:
    """Write the table and the examples into the page."""
    PAGE.write_text(page(), encoding="utf-8")


def write_results(found: dict[str, Any]) -> None:
    """Write what the clients did, in the order of the table, and the page."""
    ordered = {client.name: found[client.name] for client in CLIENTS if client.name in found}
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_page()


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        write_page()
    elif page() != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE.name} is not what the results of the clients make of it; run `make frameworks-table`")
