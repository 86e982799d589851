"""Settings of single tools as a gateway uses them: answer cache, fallback tools and pagination."""

from __future__ import annotations

from toolgen.config.settings import Settings
from toolgen.config.tools import of_tools
from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError
from toolgen.gateway.accounts.forms import account_forms
from toolgen.gateway.calls.fallback import Fallbacks
from toolgen.model.manifest import Manifest
from toolgen.pipeline.response_cache import Caching
from toolgen.pipeline.responses.pagination import Pagings
from toolgen.state.stored_answers import Results

__all__ = ["caching_of", "fallbacks_of", "pagings_of"]


def caching_of(settings: Settings, manifest: Manifest, clock: Clock) -> Caching | None:
    """Return the answer cache of a project's tools; None if no tool has one. Raises `ConfigError` for a tool that cannot be cached."""
    tools = {name: one.cache for name, one in of_tools(settings.tools, manifest).items() if one.cache is not None}
    if not tools:
        return None
    cached = {manifest.tools[name].source for name in tools}
    if personal := sorted(cached & account_forms(settings).keys()):
        raise ConfigError(
            f"cache: does not belong to tools of {personal[0]}, which is called with accounts of people",
            where=str(settings.path),
            suggestion="remove it: a stored answer would outlive an account that a person unlinked",
        )
    sources = {name: settings.sources[name].resilience.concurrency for name in cached}
    return Caching(tools=tools, sources=sources, results=Results(clock), clock=clock)


def fallbacks_of(settings: Settings, manifest: Manifest) -> Fallbacks:
    """Return the fallback tools of a project. Raises `ConfigError` for one that cannot be used."""
    tools = {name: one.fallback for name, one in of_tools(settings.tools, manifest).items() if one.fallback is not None}
    return Fallbacks(tools, manifest.tools)


def pagings_of(settings: Settings, manifest: Manifest) -> Pagings:
    """Return the pagination of a project's tools. Raises `ConfigError` for settings that do not fit a tool."""
    given = of_tools(settings.tools, manifest).items()
    return Pagings({name: one.pages for name, one in given if one.pages is not None})
