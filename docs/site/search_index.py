"""Search index of the site: sections of pages with weighted, stemmed words, for assets/search.js, which ranks them.

A section is found by its heading, the headings above it, the words of its text, and what follows its heading in `<!-- keywords: … -->`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import snowballstemmer
import yaml
from docutils import nodes

HEADING, KEYWORDS, ABOVE, TEXT = 6, 5, 2, 1
"""Weights of a word by where it stands."""
LAST = re.compile(r"CHANGELOG$|ARCHITECTURE$|CONTRIBUTING$|docs/internals/")
"""Pages that come after all others."""
LISTS = re.compile(r"docs/README$|docs/home$|docs/explanation/comparison$")
"""Pages that only lead to other pages, and those about other products: they hold the words of all."""
_GENERATED = re.compile(r"<!--\s*Made by ")
GENERATED_SHARE = 0.6
"""Share of its score that a section of a generated page has: a table of keys has every word, and a guide says what to do."""
EXCERPT = 180
_WORD = re.compile(r"[a-z0-9]+")
_KEYWORDS = re.compile(r"<!--\s*keywords:\s*(.+?)\s*-->", re.DOTALL)
_stem = snowballstemmer.stemmer("english").stemWord


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def own_text(section: nodes.Element) -> tuple[str, str, str]:
    """The text of a section without those within it, its sentences alone, and its keywords."""
    parts, prose, keywords = [], [], []
    for child in section.children:
        if isinstance(child, (nodes.section, nodes.title)):
            continue
        found = _KEYWORDS.findall(f"<!--{child.astext()}-->" if isinstance(child, nodes.comment) else child.astext())
        if found:
            keywords.extend(found)
        elif not isinstance(child, (nodes.comment, nodes.raw)):
            parts.append(child.astext())
            if isinstance(child, (nodes.paragraph, nodes.bullet_list, nodes.enumerated_list)):
                prose.append(child.astext())
    return "\n".join(parts), "\n".join(prose), " ".join(keywords)


def sections(document: nodes.document) -> list[tuple[list[str], str, str, str, str]]:
    """Each section's headings from the outermost, its anchor, its text, the sentences of it, and its keywords."""
    found = []
    for section in document.findall(nodes.section):
        headings, above = [], section
        while isinstance(above, nodes.section):
            headings.insert(0, above[0].astext())
            above = above.parent
        text, prose, keywords = own_text(section)
        found.append((headings, section["ids"][0] if len(headings) > 1 else "", text, prose, keywords))
    return found


def index(environment: Any, synonyms: Path) -> dict[str, Any]:
    """What the script reads: sections, postings by stem, spellings by stem, and groups of synonyms."""
    listed: list[list[Any]] = []
    postings: dict[str, list[int]] = {}
    spellings: dict[str, Counter[str]] = {}
    for name in sorted(environment.found_docs):
        rank = 2 if LAST.search(name) else 1 if LISTS.search(name) else 0
        source = Path(environment.doc2path(name)).read_text(encoding="utf-8")
        share = GENERATED_SHARE if _GENERATED.search(source) else 1
        for headings, anchor, text, prose, keywords in sections(environment.get_doctree(name)):
            weights: Counter[str] = Counter()
            weighted = ((HEADING, headings[-1]), (KEYWORDS, keywords), (ABOVE, " ".join(headings[:-1])), (TEXT, text))
            for weight, part in weighted:
                for word in words(part):
                    stem = _stem(word)
                    weights[stem] += weight
                    spellings.setdefault(stem, Counter())[word] += 1
            excerpt = " ".join((prose or text).split())
            excerpt = excerpt if len(excerpt) <= EXCERPT else excerpt[:EXCERPT].rpartition(" ")[0] + " …"
            for stem, weight in weights.items():
                postings.setdefault(stem, []).extend((len(listed), weight))
            listed.append([f"{name}.html", anchor, headings, sum(weights.values()), rank, excerpt, share])
    groups = yaml.safe_load(synonyms.read_text(encoding="utf-8"))
    return {
        "sections": listed,
        "postings": postings,
        "words": {stem: [*sorted(counted)] for stem, counted in sorted(spellings.items())},
        "synonyms": [[[_stem(word) for word in words(phrase)] for phrase in group] for group in groups],
    }


def write(app: Any, failed: Exception | None) -> None:
    if failed is None:
        found = index(app.env, Path(app.confdir, "synonyms.yaml"))
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        Path(app.outdir, "_static", "search_index.js").write_text(f"window.SEARCH_INDEX = {text};\n", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
