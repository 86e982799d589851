"""Rules for catalogs: a catalog must fit into the clients that receive it."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.quality.lint.rule import CatalogView, Level, LintRule, RuleHit

__all__ = ["CATALOG_RULES"]

_MAX_OPENAI = 128  # VS Code has the same limit


_MAX_CURSOR = 40


_MAX_TOKENS = 30_000


def _many_tools(view: CatalogView) -> Iterator[RuleHit]:
    if (count := len(view.tools)) > _MAX_OPENAI:
        yield RuleHit(message=f"{count} tools are more than the {_MAX_OPENAI} that OpenAI and VS Code take")


def _some_tools(view: CatalogView) -> Iterator[RuleHit]:
    if (count := len(view.tools)) > _MAX_CURSOR:
        yield RuleHit(message=f"{count} tools are more than the {_MAX_CURSOR} that Cursor takes")


def _many_tokens(view: CatalogView) -> Iterator[RuleHit]:
    if view.tokens > _MAX_TOKENS:
        yield RuleHit(message=f"the tools are about {view.tokens:,} tokens, which every request to the model carries")


_ADVICE = "Filter with include: and exclude:, give each principal only what it needs, or let agents search the catalog."


CATALOG_RULES: tuple[LintRule[CatalogView], ...] = (
    LintRule(id="catalog-too-many-tools", level=Level.WARNING, advice=_ADVICE, check=_many_tools),
    LintRule(id="catalog-many-tools", level=Level.INFO, advice=_ADVICE, check=_some_tools),
    LintRule(id="catalog-too-many-tokens", level=Level.WARNING, advice=_ADVICE, check=_many_tokens),
)
