"""Command `toolgen build`: it reads descriptions and writes generated/."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Mapping, Set
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.cli.build_summary import (
    Summary,
    failures,
    print_summary,
    shown,
    summarize,
    summarize_unchanged,
    to_dict,
    with_changes,
    with_names,
)
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json
from toolgen.cli.progress import portion, progress
from toolgen.cli.renames import new_words, policy_documents, print_renames, renames
from toolgen.config.settings import build_options, from_specs
from toolgen.config.settings import load as load_settings
from toolgen.connectors.assigned_names import Assignments
from toolgen.connectors.overrides import ToolOverride
from toolgen.connectors.pins import LOCK, Pins, read_pins, write_pins
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceSettings, is_networked, password_of
from toolgen.core.errors import ConfigError, DescriptionError, ManifestError
from toolgen.core.garbage import freeze_objects, uncollected
from toolgen.generator.emit import build_record
from toolgen.generator.emit.formats import DEFAULT_FORMATS, MAX_WRITTEN
from toolgen.generator.emit.schema_budget import as_listed
from toolgen.generator.emit.writer import FILES, MANIFEST, check, has_files, refuse_foreign, render_all, write
from toolgen.model.auth_schemes import with_headers
from toolgen.model.context import PROMPT, RESOURCE
from toolgen.model.manifest import BuiltTool, Manifest, built_tools
from toolgen.model.manifest import load as load_manifest

__all__ = ["build_project"]

if TYPE_CHECKING:
    from toolgen.cli.build_summary import ServerListing
    from toolgen.cli.pins import Refresher
    from toolgen.connectors.executor import Permit
    from toolgen.generator.build import Built


class _Job(Struct, frozen=True, kw_only=True):
    """Sources, formats and target folder of a build. `prunes`: the sources are all those of a project, so pins of other sources are
    removed.

    `own`: the target is the project's generated/, in which broken files are repaired. `asked`: the user named the formats. `partial`: a
    source that exceeds a limit is built too. `policies` are the project's.
    """

    sources: Mapping[str, SourceSettings]
    overrides: tuple[ToolOverride, ...]
    root: Path
    target: Path
    formats: tuple[str, ...]
    asked: bool
    prunes: bool
    own: bool
    partial: bool = False
    policies: Path | None = None

    def written(self, manifest: Manifest) -> tuple[str, ...]:
        """Return the formats that a manifest is written in. No model accepts thousands of tools at once, so large catalogs have no such
        files."""
        return self.formats if self.asked or len(manifest.tools) <= MAX_WRITTEN else ()


@click.command()
@click.argument("specs", nargs=-1, metavar="[SPEC]...")
@click.option("-o", "--output", metavar="DIR", help="Output folder; default: generated/.")
@click.option(
    "--check",
    "only_check",
    is_flag=True,
    help="Write and fetch nothing; exit 1 if the files are not up to date.",
)
@click.option("--update-pins", "accept", is_flag=True, help=f"Accept remote descriptions that changed, into {LOCK}.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(sorted(FILES)),
    metavar="FORMAT",
    help=f"Besides the manifest: {', '.join(sorted(FILES))}. {', '.join(DEFAULT_FORMATS)} by default.",
)
@click.option(
    "--rename",
    is_flag=True,
    help=f"Assign all tool names again, without those in {LOCK}, and list the effects on policies.",
)
@click.option("--strict", is_flag=True, help="Exit 1 if any operation did not become a tool.")
@click.option("--partial", is_flag=True, help="Build a part of a source that exceeds a limit.")
@as_json
@config
def command(
    specs: tuple[str, ...],
    output: str | None,
    only_check: bool,
    accept: bool,
    formats: tuple[str, ...],
    rename: bool,
    strict: bool,
    partial: bool,
    as_json: bool,
    config_path: str,
) -> None:
    """Build tools from descriptions.

    Without SPEC, builds the sources of toolgen.yaml. With SPECs (OpenAPI documents, GraphQL schemas, database URLs) no project is needed. A
    description behind a URL is pinned when it is first fetched; if it changes later, the build lists the changes and fails. --check
    compares with generated/, and with toolgen.lock if a clone has no generated/. An error costs one operation its tool. Exits 1 if a source
    has errors and no tool, and with --strict for any error. A source that loses more than 0.2 % of its operations to a limit is not built,
    unless --partial. Tools of a project keep their names in toolgen.lock, unless --rename.
    """
    if only_check and rename:
        raise click.UsageError("--check changes nothing, so it cannot rename tools")
    if specs and rename:
        raise click.UsageError("--rename is for projects: without a project, each build assigns names again")
    if only_check and accept:
        raise click.UsageError("--check changes nothing, so it cannot update pins")
    job = msgspec.structs.replace(_job(specs, output, formats, config_path), partial=partial)
    with uncollected(), ExitStack() as stack:
        steps = len(job.sources) + sum(is_networked(source.config) for source in job.sources.values()) + 1
        began = stack.enter_context(progress(steps))
        summary, unlisted = (_checked(job, began), ()) if only_check else _built(job, accept, began, stack, rename)
        freeze_objects()  # the process ends soon, so the garbage collector need not search the build
    if as_json:
        print_json(to_dict(summary))
    else:
        print_summary(summary, job.target, only_check)
    if job.own and not only_check:
        _keep_vectors(config_path, job.target)
    if _complain(summary, unlisted, strict=strict):
        sys.exit(1)
    if only_check and summary.changed:
        place = LOCK if (names := ", ".join(summary.changed)) == LOCK else f"{shown(job.target)}/"
        click.echo(
            f"toolgen: {place} differs from a build of these descriptions" + (f": {names}" if place != LOCK else ""),
            err=True,
        )
        sys.exit(1)


def build_project(config_path: str) -> bool:
    """Build a project like `toolgen build`, with errors on standard error; return True without errors."""
    job = _job((), None, (), config_path)
    with uncollected(), ExitStack() as stack:
        summary, unlisted = _built(job, False, stack.enter_context(progress(2 * len(job.sources) + 1)), stack)
    _keep_vectors(config_path, job.target)
    return not _complain(summary, unlisted, strict=False)


def _keep_vectors(config_path: str, target: Path) -> None:
    """Compute the data of the search by meaning for the built tools, if the project uses it."""
    settings = load_settings(config_path)
    manifest = _manifest_in(target) if settings.search == "hybrid" else None
    if manifest is None:
        return
    from toolgen.gateway.catalog.search.hybrid import keep_vectors  # noqa: PLC0415 - loads the model's libraries

    try:
        with portion() as step:
            new = keep_vectors(settings, list(manifest.tools.values()), step)
    except ConfigError as error:
        click.echo(f"warning: {error}; the tools are built, but cannot be searched by meaning", err=True)
        return
    if new:
        click.echo(f"computed the search vectors of {new} tools", err=True)


def _complain(summary: Summary, unlisted: tuple[DescriptionError, ...], *, strict: bool) -> bool:
    """Print the sources without tools, and the reasons; return True if there are any."""
    for error in unlisted:
        click.echo(
            f"toolgen: {error.where}: {error.message}; it has no tools until a build can read its list", err=True
        )
    failed = failures(summary, strict=strict)
    for failure in failed:
        click.echo(f"toolgen: {failure}", err=True)
    return bool(unlisted or failed)


def _job(specs: tuple[str, ...], output: str | None, formats: tuple[str, ...], config_path: str) -> _Job:
    if specs:
        here = Path.cwd()
        return _Job(
            sources=from_specs(specs, here),
            overrides=(),
            root=here,
            target=Path(output or "generated"),
            formats=formats or DEFAULT_FORMATS,
            asked=bool(formats),
            prunes=False,
            own=False,
        )
    settings = load_settings(config_path)
    for warning in settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    return _Job(
        sources=settings.sources,
        overrides=settings.overrides,
        root=settings.path.parent,
        target=Path(output) if output else settings.generated,
        formats=formats or DEFAULT_FORMATS,
        asked=bool(formats),
        prunes=True,
        own=output is None,
        policies=settings.policies,
    )


def _checked(job: _Job, began: Callable[[str], None]) -> Summary:
    """Build everything without trusting cached results: reviewers rely on this. Remote descriptions are their pinned copies."""
    # Imported only if something is built: the import is slower than finding that nothing changed.
    from toolgen.generator.build import build_sources  # noqa: PLC0415
    from toolgen.generator.emit.diff import compare  # noqa: PLC0415

    started = perf_counter()
    built = build_sources(job.sources, job.overrides, lambda name: began(f"reading {name}"), partial=job.partial)
    began("comparing")
    formats = job.written(built.manifest)
    pins = read_pins(job.root)
    known = pins.tools
    # New projects exclude generated/ from version control: a clone has only toolgen.lock, with the digest of each tool.
    locked = job.own and bool(known) and not has_files(job.target)
    changed = [] if locked else check(job.target, render_all(built.manifest, formats))
    if locked:
        click.echo(f"{shown(job.target)}/ does not exist: the tools are compared with {LOCK}", err=True)
    old = _manifest_in(job.target) if MANIFEST in changed else None
    difference = None if old is None else compare(old, built.manifest)
    given = {name: names for name, names in built.names.items() if names or name in known}  # the lock has no empty ones
    if job.prunes and ({**known, **given} != known or _context_pins(pins, built) != pins.context):
        changed = [*changed, LOCK]
    return summarize(built, formats, changed, started, difference, credentials=_credentials(job))


def _manifest_in(target: Path) -> Manifest | None:
    """Return the manifest that a build would replace; None if there is none that can be compared."""
    path = target / MANIFEST
    try:
        return load_manifest(path.read_bytes(), where=str(path))
    except (OSError, ManifestError):
        return None


def _context_pins(known: Pins, built: Built, unlisted: Container[str] = ()) -> Mapping[str, Mapping[str, str]]:
    """Return the digests of prompts and resources by source; those of sources that were not listed are unchanged."""
    found: dict[str, dict[str, str]] = {}
    for prompt in built.manifest.prompts.values():
        found.setdefault(prompt.source, {})[f"{PROMPT}{prompt.name}"] = prompt.digest
    for resource in built.manifest.resources.values():
        found.setdefault(resource.source, {})[f"{RESOURCE}{resource.uri}"] = resource.digest
    return {**found, **{name: one for name, one in known.context.items() if name in unlisted}}


def _built_tools_in(target: Path) -> dict[str, BuiltTool]:
    """Return the tools that the last build wrote."""
    try:
        return built_tools((target / MANIFEST).read_bytes())
    except OSError:
        return {}


def _permit(job: _Job) -> Permit | None:
    """Return the route of what is fetched: through the proxy of the project's policy, if it has one. Raises `PolicyError`."""
    from toolgen.gateway.policies.permits import operator_permit  # noqa: PLC0415 - only where something is remote
    from toolgen.policy.document.egress_rules import egress_of  # noqa: PLC0415 - as above

    egress = None if job.policies is None else egress_of(job.policies)
    return None if egress is None or egress.proxy is None else operator_permit(egress)


def _built(
    job: _Job, accept: bool, began: Callable[[str], None], stack: ExitStack, rename: bool = False
) -> tuple[Summary, tuple[DescriptionError, ...]]:
    """Build the sources; return a summary, and the errors of MCP servers that have no tools in it."""
    started = perf_counter()
    sources, refresher = job.sources, None
    if any(is_networked(source.config) for source in sources.values()):
        from toolgen.cli.pins import Refresher, accepted  # noqa: PLC0415 - as above, and only where something is remote

        staging = stack.enter_context(TemporaryDirectory(prefix="toolgen-"))
        refresher = Refresher(sources, Path(staging), began, _permit(job))
        sources = refresher.refresh(sources)
        accepted(refresher.drifts, accept)
    options = build_options(sources, job.overrides, job.formats) | ({"partial": True} if job.partial else {})
    options |= {"databases": _states(sources)}
    known = read_pins(job.root).tools if job.prunes else {}
    if rename:
        sources = {name: replace(one, config=replace(one.config, names={})) for name, one in sources.items()}
    last = build_record.load(job.target)
    key = _key(options, sources, known)
    if not rename and not _staged(refresher) and last is not None and build_record.unchanged(job.target, last, key):
        return summarize_unchanged(last, started, _asked(refresher)), ()
    from toolgen.generator.build import build_sources  # noqa: PLC0415 - as above

    def build(these: Mapping[str, SourceSettings]) -> Built:
        return build_sources(these, job.overrides, lambda name: began(f"reading {name}"), partial=job.partial)

    if refresher is None:
        built = build(sources)
    else:
        built, sources = refresher.completed(sources, build)
    began("writing")
    formats = job.written(built.manifest)
    listed = as_listed(built.manifest.tools.values())
    files = render_all(built.manifest, formats, listed)
    staged = _staged(refresher)
    unlisted = {} if refresher is None else refresher.unlisted
    names = {name: given for name, given in built.names.items() if name not in unlisted} if job.prunes else {}
    _pin(job, sources, built, staged, unlisted.keys(), names)
    if not job.own:
        refuse_foreign(job.target)
    before = _built_tools_in(job.target)
    changed = write(job.target, files)
    summary = summarize(built, formats, changed, started, None, _asked(refresher), _credentials(job), listed)
    if built.files is not None and not staged:
        key = _key(options, sources, {**known, **names})
        build_record.save(job.target, key, built.files, files, built.manifest, summary.rows, summary.remarks)
    if rename:
        _print_renames(job, known, names)
    summary = with_changes(summary, before, built.manifest, kept=job.prunes)
    return with_names(summary, new_words(known, names)), tuple(unlisted.values())


def _key(options: dict[str, object], sources: Container[str], names: Mapping[str, Assignments]) -> str:
    """Return a key of all inputs of a build except its files, including the tool entries of toolgen.lock."""
    said = {name: msgspec.to_builtins(dict(given)) for name, given in names.items() if name in sources}
    return build_record.build_key({**options, "names": said})


def _print_renames(job: _Job, old: Mapping[str, Assignments], new: Mapping[str, Assignments]) -> None:
    documents = [] if job.policies is None else policy_documents(job.policies)
    print_renames(renames(old, new), old, new, documents)


def _credentials(job: _Job) -> Mapping[str, Container[str]]:
    """Return the names under `auth:` of each source of a project: the security schemes that have a credential."""
    if not job.prunes:
        return {}
    return {name: set(with_headers({}, source.auth)[1]) for name, source in job.sources.items()}


def _states(sources: Mapping[str, SourceSettings]) -> dict[str, object]:
    """Return the states of the sources that no file tells about, by name."""
    found = {
        name: CONNECTORS[source.config.kind].state(source.config, partial(password_of, source))
        for name, source in sources.items()
    }
    return {name: state for name, state in found.items() if state is not None}


def _asked(refresher: Refresher | None) -> Mapping[str, ServerListing]:
    return {} if refresher is None else refresher.asked


def _staged(refresher: Refresher | None) -> set[str]:
    return set() if refresher is None else refresher.staged


def _pin(
    job: _Job,
    sources: Mapping[str, SourceSettings],
    built: Built,
    staged: set[str],
    unlisted: Set[str],
    names: Mapping[str, Assignments],
) -> None:
    """Write toolgen.lock.

    It is written after everything was built, so that a failed build accepts nothing, and before the output, which depends on it.

    Documents that are not referenced any more are removed. `names` are those of the sources' tools; others stay.
    """
    known = read_pins(job.root)
    descriptions = {} if job.prunes else dict(known.descriptions)
    references = {} if job.prunes else dict(known.references)
    for name, source in sources.items():
        if source.config.pin is not None and name not in unlisted:
            descriptions[name] = source.config.pin
        references[name] = {url: source.config.references[url] for url in built.references[name]}
    new = Pins(
        descriptions=descriptions,
        references={name: pins for name, pins in references.items() if pins},
        tools={**known.tools, **names},
        context=_context_pins(known, built, unlisted) if job.prunes else known.context,
    )
    if new == known:
        return
    written = write_pins(job.root, new)
    for name in sorted(staged):
        pins = [written.descriptions[name]] if name in written.descriptions else []
        before = known.references.get(name, {})
        pulled = [pin for url, pin in written.references.get(name, {}).items() if before.get(url) != pin]
        if name in known.descriptions and pins and known.descriptions[name] == pins[0]:
            pins = []
        for pin in pins:
            click.echo(f"pinned {name} at {pin.digest[:19]}… in {LOCK}", err=True)
        for pin in pulled:
            click.echo(f"pinned {pin.url} for {name} at {pin.digest[:19]}… in {LOCK}", err=True)
