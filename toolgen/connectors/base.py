"""Connector: what toolgen knows about one kind of system, behind one interface.

A kind is a folder of `connectors/` with a `Connector` in its `connector.py`, and a line in `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from toolgen.connectors.executor import Executor, FileSource, InnerCalls, LocalApp, PageListener, Permit, no_listener
from toolgen.connectors.original import Original
from toolgen.connectors.source import Fetched, SourceConfig, SourceReading, SourceSettings, is_remote
from toolgen.connectors.source_entry import ConfiguredSource, SourceEntry
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import ConfigError
from toolgen.model.manifest import Manifest, SourceInfo

if TYPE_CHECKING:
    from toolgen.connectors.database_guard import DatabaseGuard
    from toolgen.connectors.device.executor import DeviceQueue
    from toolgen.connectors.document_guard import DocumentGuard, DocumentRules
    from toolgen.connectors.functions.runtime import FunctionRuntime
    from toolgen.connectors.http.credentials import Provision
    from toolgen.connectors.link_checks import LinkChecks
    from toolgen.connectors.mcp.command_client import CommandClient
    from toolgen.connectors.mock_service import MockService
    from toolgen.connectors.proof.verdicts import Prover
    from toolgen.connectors.secrets import SecretResolver
    from toolgen.model.account_report import DatabaseReport
    from toolgen.model.binding_change import BindingChange
    from toolgen.model.sql_scope import SqlScope
    from toolgen.model.sql_section import DatabaseSection
    from toolgen.model.tool import Tool

__all__ = ["Connector", "ExecutorContext"]


class ExecutorContext(Struct, frozen=True, kw_only=True):
    """Dependencies of one source's executor.

    `permit` is asked before every connection. `provision` has credentials by caller. `functions` runs Python functions, `commands` reaches
    the commands of MCP servers that another process runs, `devices` keeps requests for devices, `inner` makes the calls that calls make,
    `files` are those that callers may send, `app` is the application of this process that the source is, and `page_done` hears of web pages
    that callers were shown and that are done. A preview of calls, which sends nothing, has none of these.
    """

    info: SourceInfo
    secrets: SecretResolver
    permit: Permit
    functions: FunctionRuntime
    clock: Clock = SystemClock()
    provision: Provision | None = None
    commands: CommandClient | None = None
    inner: InnerCalls | None = None
    devices: DeviceQueue | None = None
    files: FileSource | None = None
    app: LocalApp | None = None
    page_done: PageListener = no_listener


class Connector(ABC):
    """Reading and calling of one kind of system. Connectors have no state; settings and dependencies are arguments.

    `kind` is the key that names the kind in `sources:` of toolgen.yaml and in manifests.
    """

    kind: ClassVar[str]
    place: ClassVar[str] = ""
    """Word that stands for the location of a source that has none."""
    own_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys of `config/source_keys.py` that belong to this kind, and to others that have them too."""
    keys: ClassVar[type[Struct]]
    """Keys that the kind brings to a source of toolgen.yaml: `kind` itself is one of them."""
    described: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """Texts and examples of these keys, as in `config/described/`."""
    failure_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys about failures that have an effect: `timeouts`, `retries`, `breaker`, `concurrency`, `idempotency_key`, `answers`."""
    failure_advice: ClassVar[str] = ""
    """Sentence for a person who wrote another of these keys."""
    command_keys: ClassVar[frozenset[str] | None] = None
    """`failure_keys` of sources of the kind that are a command; None if none is."""
    command_advice: ClassVar[str] = ""
    auth_refusal: ClassVar[str] = ""
    """Reason why the kind takes no `auth:`; "" if it does."""
    names_schemes: ClassVar[bool] = True
    """True if the keys of `auth:` are security schemes."""
    describes_requests: ClassVar[bool] = False
    """True if a description says how each request is made and which credentials it takes."""
    free_headers: ClassVar[bool] = False
    """True if `auth:` may name headers that no description has."""
    takes_accounts: ClassVar[bool] = False
    """True if each call can be made with the account of the person who calls (`account: user`)."""
    networked: ClassVar[bool] = False
    """True if calls go to servers of the network."""
    needs_root: ClassVar[bool] = False
    """True if paths are below the folder of the project when a call is made."""
    server_key: ClassVar[str] = ""
    """Key of a source for the address of its server, if its description may lack it."""
    has_description: ClassVar[bool] = True
    """True if the location of a source is its description, which somebody may write after a build."""
    reads_files: ClassVar[bool] = True
    """True if a description is a file or a URL, so that a build can tell from digests that nothing changed."""
    lists_tools: ClassVar[bool] = False
    """True if a remote description is the system's own list of tools, so that a build tells how the system answered."""
    renewable: ClassVar[bool] = False
    """True if a changed description needs a new executor."""
    runs_functions: ClassVar[bool] = False
    """True if calls run functions of the project, in modules that a source names."""
    shares_executors: ClassVar[bool] = False
    """True if what an executor runs on is shared by all sources of the kind, so that it is not closed with one of them."""
    links_last: ClassVar[bool] = False
    """True if `link` needs the tools of other kinds completed."""
    dialects: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Dialects of a kind whose sources have a database, by each name that people use for one."""
    bindings: ClassVar[frozenset[str]] = frozenset()
    """Kinds of bindings that only the tools of this kind of system have."""
    no_proof: ClassVar[str] = "nothing describes its requests"
    """Reason why `toolgen verify` has nothing to prove for the tools of a kind without a `prover` of its own."""

    def location(self, given: str, root: Path, where: str) -> str:
        """Return the location of a source in toolgen.yaml as an absolute path or a URL. Raises `ConfigError`."""
        if "://" in given or not given:
            raise ConfigError(f"{self.kind}: takes a file", where=where)
        return str(root / given)

    def configure(self, given: Any, entry: SourceEntry) -> ConfiguredSource:
        """Return the settings that the keys of a source give, which are decoded and belong to the kind. Raises `ConfigError`."""
        location = self.place or getattr(given, self.kind)
        return ConfiguredSource(
            location=location, auth=entry.auth, config={"options": self.options(given, entry.where)}
        )

    def options(self, given: Any, where: Callable[..., str]) -> Struct | None:
        """Return the options of a source that the kind's own keys give; `where` has the line of a key. Raises `ConfigError`."""
        return None

    def written(self, location: str) -> Any:
        """Return what toolgen.yaml says of a location, as the value of the key `kind`."""
        return location

    def recognize(self, spec: str, head: Callable[[], bytes]) -> str:
        """Return how toolgen.yaml names a description that is of this kind; "" for any other. `head` gives the first bytes of a file."""
        return ""

    def file_location(self, location: str) -> tuple[str, str]:
        """Return the prefix and the path of a location that names a file; both "" for a URL."""
        return "", "" if "://" in location else location

    def without_password(self, location: str) -> str:
        """Return a location without the password that it may have."""
        return location

    def address(self, config: SourceConfig) -> tuple[str, int] | None:
        """Return host and port of the server that the location of a source names; None if its tools name theirs."""
        return None

    def examine_account(
        self, source: SourceSettings, info: SourceInfo, opened: SqlScope | None
    ) -> DatabaseReport | None:
        """Compare what the account of a source may do with what the policy opens; None for a kind without accounts."""
        return None

    def database_section(self) -> DatabaseSection | None:
        """Return the reader of `sql:` in a policy, for a kind whose sources have a database."""
        return None

    def database_guard(self) -> DatabaseGuard | None:
        """Return the guard of calls, for a kind whose sources have a database."""
        return None

    def document_guard(
        self, config: SourceConfig | None, source: str, manifest: Manifest, rules: DocumentRules
    ) -> DocumentGuard | None:
        """Return the guard of a source that takes documents of its callers; None for any other."""
        return None

    def portable_location(self, config: SourceConfig) -> str:
        """Return the location as it is on every machine: a URL, or the name of a file without its folder."""
        return config.location if is_remote(config) else Path(config.location).name

    def fetch(self, source: SourceSettings, permit: Permit | None = None) -> Fetched:
        """Fetch the description of a remote source, over connections that `permit` decides about. Raises `DescriptionError`."""
        from toolgen.connectors.remote import fetch  # noqa: PLC0415 - brings an HTTP client, which only a remote description needs

        return fetch(source.config, headers=self.description_headers(source, permit), permit=permit)

    def description_headers(self, source: SourceSettings, permit: Permit | None = None) -> Mapping[str, str]:
        """Return the headers that a description is asked for with. Raises `SecretError`."""
        return {}

    def resolved(self, config: SourceConfig) -> SourceConfig:
        """Return a source with what its pinned description says of the way to its system."""
        return config

    def unanswered(self) -> Fetched | None:
        """Return an empty description in place of one that cannot be fetched at the first build; None if the build fails without it."""
        return None

    @abstractmethod
    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Read the description of a source; `password` returns that of a database. Raises `DescriptionError` and `ConfigError`."""

    def link(
        self, readings: Mapping[str, SourceReading], configs: Mapping[str, SourceConfig], checks: LinkChecks
    ) -> Mapping[str, SourceReading]:
        """Return the readings of all sources with the `drafts` of this kind completed, whose tools call tools of others."""
        return readings

    def state(self, config: SourceConfig, password: Callable[[], str]) -> object | None:
        """Return what a build has to compare with the last one, as JSON, where no file tells that nothing changed; None for files."""
        return None

    @abstractmethod
    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return the executor of a source. It opens nothing before the first call. Raises `ConfigError`."""

    async def changed_functions(
        self, config: SourceConfig, tools: Sequence[Tool], functions: FunctionRuntime
    ) -> list[str]:
        """Return the names of tools whose functions are not those that were built. Raises `ToolgenError` if none can be loaded."""
        return []

    def mock(self, config: SourceConfig) -> MockService | None:
        """Return a mock of the system of a source; None for a kind that is not mocked. Raises `DescriptionError`."""
        return None

    def prover(self, config: SourceConfig, info: SourceInfo, *, examples: int, seed: str) -> Prover:
        """Return the function that proves a tool of a source with up to `examples` generated calls."""
        from toolgen.connectors.proof.verdicts import NotApplicable  # noqa: PLC0415 - for `toolgen verify` alone

        return lambda _: NotApplicable(reason=self.no_proof)

    def original(self, config: SourceConfig, info: SourceInfo) -> Original:
        """Read a description once more, for the texts that a build leaves out. Raises `DescriptionError`."""
        return Original()

    def binding_changes(self, before: Tool, after: Tool) -> Iterator[BindingChange]:
        """Yield the changes in how calls are made between two versions of a tool with bindings of one kind."""
        return iter(())

    def description_changes(self, before: SourceInfo, after: SourceInfo) -> Iterator[BindingChange]:
        """Yield the changes of a description that no tool shows."""
        return iter(())

    def preview_config(self, name: str, info: SourceInfo) -> SourceConfig:
        """Return a configuration for previews of calls, for programs that have a manifest and no project."""
        return SourceConfig(name=name, kind=self.kind, location="")
