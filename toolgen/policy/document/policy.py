"""Policy of a project: policies/*.yaml is read into one `Policy`, and every name in it is checked against the catalog before it is used."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.canonical import digest, encodable
from toolgen.core.errors import PolicyError
from toolgen.core.garbage import uncollected
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Tool
from toolgen.policy.access import Rule
from toolgen.policy.cel.names import CelScope
from toolgen.policy.credentials import PolicyCredentials, PrincipalEntry
from toolgen.policy.disclosure import Disclosure
from toolgen.policy.document.approvals import NOBODY, Approval, read_approval
from toolgen.policy.document.assignments import Assignment, read_assignment
from toolgen.policy.document.context_rules import read_context_rules
from toolgen.policy.document.context_selectors import context_tools, only_context
from toolgen.policy.document.disclosure import read_disclosure
from toolgen.policy.document.egress_rules import read_egress
from toolgen.policy.document.limits import read_limits
from toolgen.policy.document.plain_arguments import read_plain
from toolgen.policy.document.policy_files import DocumentCache, PolicyFiles, read_files
from toolgen.policy.document.policy_tests import TestDraft, finished_test, read_test
from toolgen.policy.document.principals import PrincipalCache, PrincipalSections
from toolgen.policy.document.rules import RuleCache, RuleDraft, finished, read_labels, read_toolset
from toolgen.policy.document.schema import EgressShape, FileShape, RedactShape
from toolgen.policy.document.selectors import matched
from toolgen.policy.document.tokens import read_tokens
from toolgen.policy.egress import Egress
from toolgen.policy.explain import SelfTest
from toolgen.policy.limits import Limit
from toolgen.policy.redact import Redaction, UnredactedArguments, column_of, compile_path
from toolgen.policy.role_grants import NOTHING_GIVEN, GivenRoles, RoleGrantRule, read_role_grant, roles_of
from toolgen.policy.toolsets import Toolset
from toolgen.policy.value_tokens import TokenGrant

if TYPE_CHECKING:
    from toolgen.model.database import Database
    from toolgen.model.sql_scope import SqlScope
    from toolgen.model.sql_section import DatabaseSection

__all__ = ["Policy", "PolicyReader", "Sections", "documents", "load", "load_credentials"]

_encode = msgspec.json.Encoder(order="sorted").encode
Sections: TypeAlias = Mapping[str, Callable[[], "DatabaseSection | None"]]
"""Factories of the readers of `sql:` by kind of source; the reader is imported only if a policy needs it."""
_NO_SECTIONS: Sections = MappingProxyType({})
_KEY_SECTIONS = frozenset({"keys", "revoked"})  # written by `toolgen keys`


class Policy(Struct, frozen=True, kw_only=True):
    """Checked content of policies/. `digest` changes with every change of meaning, except for accepted keys and tokens: these change daily,
    and have `keys_digest`."""

    digest: str
    keys_digest: str
    credentials: PolicyCredentials
    rules: tuple[Rule, ...]
    limits: tuple[Limit, ...]
    sql: Mapping[str, SqlScope]
    egress: Egress
    approval: Approval
    sensitive: tuple[str, ...]
    plain: tuple[UnredactedArguments, ...] | None  # None: everything that is not sensitive is plain
    redactions: tuple[Redaction, ...]
    tests: tuple[SelfTest, ...]
    labels: Mapping[str, tuple[str, ...]]
    toolsets: Mapping[str, Toolset]
    assignments: tuple[Assignment, ...] = ()
    token_grants: tuple[TokenGrant, ...] = ()
    role_grants: tuple[RoleGrantRule, ...] = ()
    disclosures: tuple[Disclosure, ...] = ()
    context_rules: tuple[Rule, ...] = ()
    """Rules about prompts and resources; `rules` does not contain them."""
    given: GivenRoles = NOTHING_GIVEN
    """Temporary roles that were added by `with_given`; they are never in a file."""
    files: Mapping[str, Any] = {}
    """Parsed content of its files, by their names."""

    @property
    def principals(self) -> Mapping[str, PrincipalEntry]:
        """Return the principals of the policy."""
        return self.credentials.principals

    def with_given(self, given: GivenRoles) -> Policy:
        """Return a copy with the granted roles added. Its digest and everything else are unchanged."""
        if not given:
            return self
        principals = {
            name: replace(entry, roles=roles_of(entry.roles, given[name])) if name in given else entry
            for name, entry in self.credentials.principals.items()
        }
        credentials = replace(self.credentials, principals=MappingProxyType(principals))
        return replace(self, credentials=credentials, given=given)


def load(
    directory: Path, manifest: Manifest, labels: Collection[str] = (), sections: Sections = _NO_SECTIONS
) -> Policy:
    """Read every *.yaml and *.yml below a directory, in name order, as one policy. `labels` are those that sessions get for contents of
    answers, besides those of the policy.

    Raises `PolicyError` with file and line for anything unreadable, unknown, contradictory or naming something that does not exist. A
    directory without a policy is an error too: it would allow nothing, which is probably a mistake.
    """
    return PolicyReader(directory, labels, sections).read(read_files(directory), manifest)


class _Digests(Struct, frozen=True):
    """Digests of a parsed file: one without its keys and revocations, and one of those; "" for nothing."""

    document: YamlDocument
    content: str
    keys: str


class _ReadParts(Struct):
    """Parts of the policy that was read last, and the digests of its files by name."""

    principals: PrincipalCache
    rules: RuleCache
    digests: Mapping[str, _Digests]


class PolicyReader:
    """Reads the policies of one directory repeatedly: unchanged parts are neither parsed nor compiled again. It is thread-safe; one
    thread at a time reads a policy."""

    def __init__(self, directory: Path, labels: Collection[str] = (), sections: Sections = _NO_SECTIONS) -> None:
        self._directory, self._labels, self._sections = directory, labels, sections
        self._cache = DocumentCache()
        self._parts = _ReadParts(PrincipalCache(), RuleCache(), {})
        self._reading = Lock()

    def read(self, files: PolicyFiles, manifest: Manifest) -> Policy:
        """Return the policy of these files, as `load` reads it. Raises `PolicyError`."""
        with self._reading, uncollected():
            collector = _Collector(manifest, self._directory, self._labels, self._parts, self._sections)
            for document in self._cache.documents(files):
                collector.add(document)
            return collector.policy()

    def without_revoked(self, files: PolicyFiles, credentials: PolicyCredentials) -> PolicyCredentials:
        r"""Return credentials without those that these files revoke, before the rest of the files is read. A file that cannot be parsed
        revokes nothing.

        A file with an escaped key (`"rev\x6fked":`) is not parsed here: its revocations take effect with the whole file.
        """
        sections = PrincipalSections(self._directory)
        for name in sorted(name for name, content in files.contents.items() if b"revoked" in content):
            with suppress(PolicyError):
                document = self._cache.document(files, name)
                given = document.data.get("revoked") if isinstance(document.data, dict) else None
                for index in range(len(given) if isinstance(given, list) else 0):
                    with suppress(PolicyError):
                        sections.add_revoked(document, index)
        return credentials.without(sections.taken(), None)


def load_credentials(directory: Path) -> PolicyCredentials:
    """Read only principals and credentials, which needs no catalog. Raises `PolicyError` as `load` does."""
    sections = PrincipalSections(directory)
    for document in documents(directory):
        sections.add(document, decode(document, (), FileShape, PolicyError))
    return sections.finished()


def documents(directory: Path) -> Iterator[YamlDocument]:
    """Return the parsed files of a policy, in the order of their names. Raises `PolicyError` if there are none."""
    return DocumentCache().documents(read_files(directory))


def _lists_digest(lists: Mapping[str, Any]) -> str:
    """Return a digest that changes with keys and revocations. It is compared only within this process, so it uses the fastest form."""
    try:
        return hashlib.sha256(_encode(lists)).hexdigest()
    except (TypeError, ValueError, RecursionError):  # values that are rejected as soon as they are read
        return digest(encodable(lists))


class _Collector:
    """Collects the files of one policy and refuses contradictions."""

    def __init__(
        self, manifest: Manifest, directory: Path, labels: Collection[str], known: _ReadParts, sections: Sections
    ) -> None:
        self._manifest, self._sections = manifest, sections
        self._found_labels = labels
        self._name, self._directory = directory.name, directory
        self._known = known
        known.rules.begin()
        self._who = PrincipalSections(directory, known.principals)
        self._rules: dict[str, RuleDraft] = {}
        self._context_rules: list[RuleDraft] = []
        self._reads = context_tools(manifest)
        self._sql: dict[str, SqlScope] = {}
        self._egress: Egress | None = None
        self._approval = NOBODY
        self._sensitive: list[str] = []
        self._plain: tuple[UnredactedArguments, ...] | None = None
        self._redactions: list[Redaction] = []
        self._tests: list[TestDraft] = []
        self._labels: dict[str, set[str]] = {}
        self._toolsets: dict[str, Toolset] = {}
        self._assignments: list[Assignment] = []
        self._token_grants: list[TokenGrant] = []
        self._role_grants: list[RoleGrantRule] = []
        self._disclosures: list[Disclosure] = []
        self._files: dict[str, Any] = {}
        self._digests: dict[str, _Digests] = {}
        # Checks that need all files: (where, …).
        self._roles: list[tuple[str, str]] = []
        self._rule_roles: list[tuple[YamlDocument, int, int, str]] = []
        self._own_roles: list[tuple[str, str]] = []
        self._limits: list[tuple[YamlDocument, int]] = []
        self._row_attributes: list[tuple[str, str]] = []

    def add(self, document: YamlDocument) -> None:
        """Read one file into the policy. An empty file is rejected, because it is probably incomplete or lost."""
        if document.data is None or document.data == {}:
            raise PolicyError(
                "is empty", where=document.where(), suggestion="write a policy into the file, or remove it"
            )
        file = decode(document, (), FileShape, PolicyError)
        lists = {name: value for name, value in document.data.items() if name in _KEY_SECTIONS}
        self._files[document.name] = content = {
            name: value for name, value in document.data.items() if name not in lists
        }
        self._digests[document.name] = self._digests_of(document, content, lists)
        self._who.add(document, file)
        for index in range(len(file.rules)):
            self._add_rule(document, index)
        self._limits += [(document, index) for index in range(len(file.limits))]
        for index in range(len(file.labels)):
            for name, labels in read_labels(document, index, self._manifest).items():
                self._labels.setdefault(name, set()).update(labels)
        for name in file.toolsets:
            if name in self._toolsets:
                raise PolicyError(f"the toolset '{name}' is defined twice", where=document.where("toolsets", name))
            toolset = self._toolsets[name] = read_toolset(document, name, self._manifest)
            self._roles += [(document.where("toolsets", name, "to"), role) for role in sorted(toolset.roles)]
        for source in file.sql:
            self._add_sql(document, source)
        for index in range(len(file.credentials)):
            assignment = read_assignment(document, index, self._manifest)
            self._assignments.append(assignment)
            self._roles += [(document.where("credentials", index, "to"), role) for role in sorted(assignment.roles)]
        self._add_disclosures(document, file)
        self._add_tokens(document, file)
        self._add_role_grants(document, file)
        if file.egress is not None:
            self._add_egress(document, file.egress)
        if file.approvals is not None:
            if self._approval is not NOBODY:
                raise PolicyError("approvals: is defined in two files", where=document.where("approvals"))
            self._approval = read_approval(document, file.approvals)
            named = enumerate(file.approvals.approvers)
            self._roles += [(document.where("approvals", "approvers", index), role) for index, role in named]
            escalated = document.where("approvals", "escalate", "to")
            self._roles += [(escalated, role) for role in sorted(self._approval.escalate_to)]
        for index, path in enumerate(file.sensitive):
            _checked_path(path, document.where("sensitive", index))
            self._sensitive.append(path)
        if (plain := read_plain(document, file, self._manifest)) is not None:
            self._plain = (*(self._plain or ()), *plain)
        for index in range(len(file.redact)):
            self._add_redaction(document, index)
        self._tests += [read_test(document, index, self._manifest) for index in range(len(file.tests))]

    def _digests_of(self, document: YamlDocument, content: Mapping[str, Any], lists: Mapping[str, Any]) -> _Digests:
        """Return the digests of a file; those of an unchanged file are reused."""
        known = self._known.digests.get(document.name)
        if known is None or known.document is not document:
            said = digest(encodable(content)) if content else ""
            known = _Digests(document, said, _lists_digest(lists) if lists else "")
        return known

    def policy(self) -> Policy:
        """Return the whole policy, after checking all references between its files."""
        digests = self._known.digests = self._digests
        if not any(one.content for one in digests.values()):
            message = "defines no rules and no principals"
            raise PolicyError(
                message, where=f"{self._name}/", suggestion="write a policy; docs/reference/policy.md says how"
            )
        credentials = self._who.finished()
        whole = self._whole_scope()
        roles, attributes = whole.roles, whole.attributes
        for document, index, number, role in self._rule_roles:
            if role not in roles:
                self._roles.append((document.where("rules", index, "to", number), role))
        for named, known in ((self._roles, roles), (self._own_roles, self._who.roles())):
            for where, role in named:
                if role not in known:
                    raise PolicyError(f"no principal has the role '{role}'{nearest(role, known)}", where=where)
        for where, name in self._row_attributes:
            if name not in attributes:
                raise PolicyError(f"no principal has the attribute '{name}'{nearest(name, attributes)}", where=where)
        for entry in credentials.principals.values():
            for key in entry.keys:
                for name in sorted(key.toolsets - self._toolsets.keys()):
                    raise PolicyError(
                        f"the key is bound to the toolset '{bounded(name, 40)}', which does not exist{nearest(name, self._toolsets)}",
                        where=key.where,
                    )
        return Policy(
            digest=digest(sorted(one.content for one in digests.values() if one.content)),
            keys_digest=digest(sorted(one.keys for one in digests.values() if one.keys)),
            credentials=credentials,
            rules=self._known.rules.finish(
                (draft for _, draft in sorted(self._rules.items(), key=itemgetter(0)) if draft.tools), whole
            ),
            context_rules=tuple(
                finished(draft, whole, {}) for draft in sorted(self._context_rules, key=lambda one: one.rule.id)
            ),
            limits=read_limits(self._limits, whole, self._manifest),
            sql=MappingProxyType({source: self._masked(source, scope) for source, scope in self._sql.items()}),
            egress=self._egress or Egress(),
            approval=self._approval,
            sensitive=tuple(self._sensitive),
            plain=self._plain,
            redactions=tuple(self._redactions),
            tests=tuple(finished_test(draft, credentials, self._rules, self._toolsets) for draft in self._tests),
            labels=MappingProxyType({name: tuple(sorted(labels)) for name, labels in self._labels.items()}),
            toolsets=MappingProxyType(self._toolsets),
            assignments=tuple(self._assignments),
            token_grants=tuple(self._token_grants),
            role_grants=tuple(self._role_grants),
            disclosures=tuple(self._disclosures),
            files=MappingProxyType(self._files),
        )

    def _some_roles(self) -> frozenset[str]:
        """Return every role that a principal could have, its own or granted."""
        return self._who.roles().union(rule.role for rule in self._role_grants)

    def _whole_scope(self) -> CelScope:
        """Return the names that expressions about all tools may use."""
        return CelScope(
            tools=self._manifest.tools,
            catalog=self._manifest.tools,
            attributes=self._who.attribute_kinds(),
            roles=self._some_roles(),
            principals=None if self._who.issuers else frozenset(self._who.principals),
            labels=frozenset(self._found_labels).union(*self._labels.values()),
        )

    def _masked(self, source: str, scope: SqlScope) -> SqlScope:
        """Return a database's scope where the columns that the policy redacts for one of its tools are masked, and sensitive columns are
        not sampled."""
        tools = [tool for tool in self._manifest.tools.values() if tool.source == source]
        masks = {
            column.casefold(): item.replacement
            for item in reversed(self._redactions)
            if any(item.covers(tool) for tool in tools)
            for field in item.fields
            if (column := column_of(field)) is not None
        }
        database, reader = self._section_of(source)
        if not (masks or any(entry.samples for entry in scope.tables.values())):
            return scope
        return reader.masked(scope, database, masks, [column_of(path) for path in self._sensitive])

    def _section_of(self, source: str) -> tuple[Database, DatabaseSection]:
        info = self._manifest.sources[source]
        reader = self._sections[info.kind]()
        assert info.database is not None  # noqa: S101 - its section was read
        assert reader is not None  # noqa: S101 - the kind has databases
        return info.database, reader

    def _add_rule(self, document: YamlDocument, index: int) -> None:
        drafts = read_context_rules(document, index, self._manifest, self._reads)
        self._context_rules += drafts
        if only_context(document.data["rules"][index]):
            draft = replace(drafts[0], tools={})
        else:
            draft = self._known.rules.read(document, index, self._manifest)
        rule = draft.rule
        if rule.id in self._rules or rule.id == "default":
            raise PolicyError(f"the rule id '{rule.id}' is used twice", where=rule.where)
        self._rule_roles += [(document, index, *item) for item in enumerate(document.data["rules"][index]["to"])]
        wanted = frozenset[str]() if rule.consent is None else rule.consent.roles
        self._roles += [(document.where("rules", index, "approvers"), role) for role in sorted(wanted)]
        self._rules[rule.id] = draft

    def _add_disclosures(self, document: YamlDocument, file: FileShape) -> None:
        for index in range(len(file.disclose)):
            entry = read_disclosure(document, index, self._manifest)
            self._disclosures.append(entry)
            self._roles += [(document.where("disclose", index, "to"), role) for role in sorted(entry.roles)]

    def _add_role_grants(self, document: YamlDocument, file: FileShape) -> None:
        for index in range(len(file.role_grants)):
            rule = read_role_grant(document, index)
            self._role_grants.append(rule)
            self._own_roles += [(document.where("role_grants", index), role) for role in sorted(rule.by | rule.to)]

    def _add_sql(self, document: YamlDocument, source: str) -> None:
        path = ("sql", source)
        where = document.where(*path)
        info = self._manifest.sources.get(source)
        if info is None or info.database is None:
            databases = [name for name, item in self._manifest.sources.items() if item.database is not None]
            raise PolicyError(f"there is no SQL source '{source}'{nearest(source, databases)}", where=where)
        if source in self._sql:
            raise PolicyError(f"the scope of {source} is defined twice", where=where)
        database, reader = self._section_of(source)
        scope = reader.read(document, source, database)
        self._row_attributes += [(where, name) for name in sorted(reader.row_attributes(scope))]
        self._sql[source] = scope

    def _add_egress(self, document: YamlDocument, given: EgressShape) -> None:
        if self._egress is not None:
            raise PolicyError("egress: is defined in two files", where=document.where("egress"))
        for source in given.sources:
            if source not in self._manifest.sources:
                known = nearest(source, self._manifest.sources)
                raise PolicyError(
                    f"there is no source '{source}'{known}", where=document.where("egress", "sources", source)
                )
        self._egress = read_egress(document, given, self._directory)

    def _add_tokens(self, document: YamlDocument, file: FileShape) -> None:
        for index in range(len(file.tokens)):
            grant = read_tokens(document, index, self._manifest)
            self._token_grants.append(grant)
            self._roles += [(document.where("tokens", index, "to"), role) for role in sorted(grant.roles)]

    def _add_redaction(self, document: YamlDocument, index: int) -> None:
        path = ("redact", index)
        given = decode(document, path, RedactShape, PolicyError)
        found = self._matching(given.tools, document, (*path, "tools"))
        for number, field in enumerate(given.fields):
            _checked_path(field, document.where(*path, "fields", number))
        redaction = Redaction(tools=tuple(given.tools), fields=tuple(given.fields), replacement=given.with_)
        touched = [tool for tool in self._manifest.tools.values() if redaction.covers(tool)]
        if found and all(tool.asks_database for tool in touched):
            for number, field in enumerate(given.fields):
                if column_of(field) is None:
                    raise PolicyError(
                        f"'{field}' does not end with a column; for a database, write $..column",
                        where=document.where(*path, "fields", number),
                    )
        self._redactions.append(redaction)

    def _matching(self, patterns: list[str], document: YamlDocument, path: tuple[str | int, ...]) -> list[Tool]:
        return matched(patterns, self._manifest, document, path)


def _checked_path(path: str, where: str) -> None:
    try:
        compile_path(path)
    except ValueError as error:
        raise PolicyError(f"'{path}' {error}", where=where) from error
