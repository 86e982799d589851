"""Table of clients in docs/how-to/frameworks.md, and example files on the pages of its folder, made from results.json and notes.yaml.

`python -m tests.frameworks.table [--check]` writes or compares them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.frameworks.client_list import CLIENTS, EXAMPLES, FrameworkClient
from tests.frameworks.evaluation import CANNOT, PROPERTIES

__all__ = ["NOTES", "OVERVIEW", "RESULTS", "notes", "page_of", "pages", "results", "write_pages", "write_results"]

RESULTS = Path(__file__).parent / "results.json"
NOTES = Path(__file__).parent / "notes.yaml"
OVERVIEW = Path(__file__).parents[2] / "docs" / "how-to" / "frameworks.md"
FOLDER = OVERVIEW.with_suffix("")
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
    "context": "Prompts",
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
        link = f"[{client.title} {one['version']}]({page_of(client).relative_to(OVERVIEW.parent).as_posix()})"
        rows.append(f"| {link} | {' | '.join(marks)} |")
    head = f"| Client | {' | '.join(TITLES[name] for name in PROPERTIES)} |\n|{'---|' * (len(PROPERTIES) + 1)}"
    footnotes = "".join(f"{number}. {text}\n" for text, number in numbers.items())
    return f"{BEGIN}\n\n{head}\n" + "\n".join(rows) + f"\n\n{footnotes}\n{END}"


def _mark(faults: list[str], note: str, numbers: dict[str, int]) -> str:
    """A cell: yes, a dash for an ability that the client does not have, or the number of a footnote."""
    if not faults:
        return "yes"
    if not note:
        return "–" if faults in CANNOT else "no"
    return f"({numbers.setdefault(note, len(numbers) + 1)})"


def pages() -> dict[Path, str]:
    """Return the overview and each page of its folder, with the table and the example files as they have to be."""
    before, _, rest = OVERVIEW.read_text(encoding="utf-8").partition(BEGIN)
    made = {OVERVIEW: before + rendered() + rest.partition(END)[2]}
    for path in sorted(FOLDER.glob("*.md")):
        made[path] = _EXAMPLE.sub(_example, path.read_text(encoding="utf-8"))
    return made


def page_of(client: FrameworkClient) -> Path:
    """Return the page that has the example file of a client."""
    begin = f"<!-- example: {client.example.name} -->"
    (found,) = [path for path in sorted(FOLDER.glob("*.md")) if begin in path.read_text(encoding="utf-8")]
    return found


def _example(found: re.Match[str]) -> str:
    """Return an example file as code of a page, with the version that ran it and what is wrong with the client."""
    code = (EXAMPLES / found["name"]).read_text(encoding="utf-8").rstrip()
    language = "python" if found["name"].endswith(".py") else "js"
    (client,) = [one for one in CLIENTS if one.example.name == found["name"]]
    ran = f"Last run with version {results()[client.name]['version']}."
    said = "".join(f" {note}" for note in dict.fromkeys(notes().get(client.name, {}).values()))
    return f"<!-- example: {found['name']} -->\n\n```{language}\n{code}\n```\n\n{ran}{said}\n\n<!-- example ends -->"


def write_pages() -> None:
    """Write the table and the examples into the pages."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


def write_results(found: dict[str, Any]) -> None:
    """Write what the clients did, in the order of the table, and the pages."""
    ordered = {client.name: found[client.name] for client in CLIENTS if client.name in found}
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_pages()


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        write_pages()
    elif stale := [path.name for path, text in pages().items() if text != path.read_text(encoding="utf-8")]:
        sys.exit(f"{', '.join(stale)}: not what the results of the clients make of it; run `make frameworks-table`")
