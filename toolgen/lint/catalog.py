"""Whether a catalog fits into the clients that will be given it."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.lint.rule import CatalogView, Hit, Level, Rule

__all__ = ["CATALOG_RULES"]

_MOST_OPENAI = 128  # VS Code the same
_MOST_CURSOR = 40
_MOST_TOKENS = 30_000


def _many_tools(view: CatalogView) -> Iterator[Hit]:
    if (count := len(view.tools)) > _MOST_OPENAI:
        yield Hit(message=f"{count} tools are more than the {_MOST_OPENAI} that OpenAI and VS Code take")


def _some_tools(view: CatalogView) -> Iterator[Hit]:
    if (count := len(view.tools)) > _MOST_CURSOR:
        yield Hit(message=f"{count} tools are more than the {_MOST_CURSOR} that Cursor takes")


def _many_tokens(view: CatalogView) -> Iterator[Hit]:
    if view.tokens > _MOST_TOKENS:
        yield Hit(message=f"the tools are about {view.tokens:,} tokens, which every request to the model carries")


_ADVICE = "Filter with include: and exclude:, give each principal only what it needs, or let agents search the catalog."

CATALOG_RULES: tuple[Rule[CatalogView], ...] = (
    Rule(id="catalog-too-many-tools", level=Level.WARNING, advice=_ADVICE, check=_many_tools),
    Rule(id="catalog-many-tools", level=Level.INFO, advice=_ADVICE, check=_some_tools),
    Rule(id="catalog-too-many-tokens", level=Level.WARNING, advice=_ADVICE, check=_many_tokens),
)
