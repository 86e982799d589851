"""The glossary, the questions and the concepts keep their form: short, sorted, and linked to pages that say more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import toolgen

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GLOSSARY = DOCS / "reference" / "glossary.md"
TERMS = re.findall(
    r"^- \*\*(.+?)\*\*: (.+) \(\[.+?\]\((.+?)\)\)\.$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE
)
FAQ = (DOCS / "explanation" / "faq.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"^### (.+)\n\n((?:.+\n)+)", FAQ, re.MULTILINE)


def test_every_line_of_the_glossary_is_a_term_in_its_place() -> None:
    lines = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
    assert len(lines) == len(TERMS)
    names = [term.lower() for term, _, _ in TERMS]
    assert names == sorted(set(names))


def test_classes_of_the_glossary_are_in_the_code() -> None:
    rows = re.findall(r"^\| .+ \| `(\w+)` in `(.+)` \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) >= 20
    for name, module in rows:
        assert f"\nclass {name}" in (ROOT / "toolgen" / module).read_text(encoding="utf-8"), f"{module} has no {name}"


@pytest.mark.parametrize(("term", "meaning", "target"), TERMS, ids=[term for term, _, _ in TERMS])
def test_a_term_is_one_sentence_and_its_page_speaks_of_it(term: str, meaning: str, target: str) -> None:
    assert ". " not in meaning
    assert len(meaning.split()) <= 30
    page = (GLOSSARY.parent / target).resolve().read_text(encoding="utf-8").lower()
    missing = [word for word in term.lower().split() if word.rstrip("ey") not in page]
    assert missing == [], f"{target} does not speak of it"


def test_there_are_fifteen_questions() -> None:
    assert len(QUESTIONS) >= 15
    assert FAQ.count("### ") == len(QUESTIONS)


@pytest.mark.parametrize(("question", "answer"), QUESTIONS, ids=[question for question, _ in QUESTIONS])
def test_an_answer_is_short_and_leads_on(question: str, answer: str) -> None:
    assert question.endswith("?")
    assert len(answer.split()) <= 70
    assert "](" in answer


def test_the_concepts_take_five_hundred_words_at_most() -> None:
    text = (DOCS / "explanation" / "concepts.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 500
    for concept in ("source", "tool", "principal", "policy", "call", "approval", "audit log"):
        assert f"**{concept}**" in text


def test_the_rule_for_versions_names_what_is_public_in_python() -> None:
    text = (DOCS / "reference" / "versioning.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"^The names in `toolgen\.__all__` are (.+)\.$", text, re.MULTILINE)
    assert re.findall(r"`(\w+)`", sentence) == sorted(toolgen.__all__)


GUIDES = sorted(
    str(page.relative_to(DOCS))
    for kind in ("tutorials", "how-to", "explanation")
    for page in (DOCS / kind).rglob("*.md")
)


@pytest.mark.parametrize("name", ["how-to/approvals.md", "how-to/databases.md", "reference/policy.md"])
def test_a_long_page_begins_with_its_example(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert re.match(r"# .+\n+(?:<!--.+?-->\n+)?```yaml\n", text), "begin with the example"


@pytest.mark.parametrize("name", [*GUIDES, "reference/policy.md"])
def test_no_list_has_more_than_seven_items(name: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", (DOCS / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lists: dict[int, int] = {}
    begun = 0
    for number, line in enumerate(prose.splitlines(), 1):
        if line.startswith("- "):
            begun = begun or number
            lists[begun] = lists.get(begun, 0) + 1
        elif line and not line.startswith(" "):
            begun = 0
    assert {line: count for line, count in lists.items() if count > 7} == {}
