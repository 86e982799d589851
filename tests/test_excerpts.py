"""Text that a caller may be shown is cut by `bounded` alone, which masks the values behind tokens before it cuts.

Half of a value is nothing that a detector or a mask finds later. So a slice `text[:80]` in a package that composes messages is a fault,
unless it is listed here with what it cuts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolgen.model.excerpt import bounded, masking
from toolgen.model.result import Error

ROOT = Path(__file__).parent.parent / "toolgen"
PACKAGES = (
    "model",
    "pipeline",
    "policy",
    "connectors",
    "gateway",
    "frontends/http",
    "frontends/mcp",
    "frontends/rest",
    "frontends/python",
)
# Parts of them that no gateway runs: builds and proofs of tools, for who wrote the description.
OFFLINE = (
    "connectors/openapi/proof/",
    "connectors/proof/",
    "connectors/graphql/proof.py",
    "connectors/workflow/linker.py",
    "connectors/workflow/reference_check.py",
)
SHORTEST = 6  # characters of a value that are told to nobody
# Lists, bytes, digests, numbers, ids of requests, names on record, and texts that are looked at and not told.
ALLOWED: dict[str, tuple[str, ...]] = {
    "model/binding_change.py": ("text[:_MAX_STATEMENT_LENGTH - 1]",),
    "connectors/functions/code/executor.py": ("found[:_MAX_SIGNATURES]",),
    "connectors/graphql/described_types.py": ("text[:_MAX_LENGTH]",),
    "connectors/graphql/mutation_outcome.py": ("message[:1000]",),
    "connectors/graphql/response.py": ("shown[:_MAX_GROUPS]", "groups[:MAX_TOLD]", "message[:1000]"),
    "connectors/http/connector.py": (
        "tuple((str(ipaddress.ip_address(address.partition('%')[0])) for address in found))[:_MAX_ADDRESSES]",
    ),
    "connectors/http/message.py": ("body[:BEGINNING]",),
    "connectors/http/operations.py": ("value.strip().casefold()[:_MAX_VALUE_LENGTH]",),
    "connectors/http/response.py": (
        "text.split(',')[:_MAX_POLICIES]",
        "listed[:_MAX_FAULTS]",
        "scrubber.text(media_type)[:100]",
        "value[:9]",
    ),
    "connectors/http/sigv4.py": ("time[:8]",),
    "connectors/http/tls.py": ("self.digest[:12]",),
    "connectors/inner_calls.py": ("notes[:_MAX_ROW_NOTES]",),
    "connectors/mcp/error_log.py": (
        "[value for arguments in self._recent for value in _texts(arguments)][:_MAX_VALUES]",
    ),
    "connectors/mcp/line_reader.py": ("line[:_EDGE]", "self._held[:_EDGE]"),
    "connectors/mcp/conversation.py": ("str(name or '')[:200]", "str(version or '')[:100]"),
    "connectors/http/oauth/rotation.py": ("sealed[:_NONCE]",),
    "connectors/http/outbound/transport.py": ("found[:_MAX_ADDRESSES]",),
    "connectors/rejection.py": ("pairs[:_MAX_ALTERNATIVES]", "[*counts.items()][:MAX_TOLD]"),
    "connectors/graphql/value_check.py": ("known.members[:20]",),
    "connectors/graphql/unknown_fields.py": (
        "[*type_.fields][:_MAX_NAMES]",
        "having[:_MAX_NAMED]",
        "names[:_MAX_NAMES]",
        "unknown[:_MAX_UNKNOWN]",
    ),
    "connectors/resilience.py": ("address[:100]",),
    "gateway/sign_in/signing_keys.py": ("signature[:32]",),
    "pipeline/responses/choice.py": (
        "items[:_MAX_LOOKED_AT]",
        "list(found)[:_MAX_TOLD]",
        "columns[:_MAX_TOLD]",
        "node[:_MAX_LOOKED_AT]",
    ),
    "connectors/sql/execution/server_address.py": ("found[:_MAX_ADDRESSES]",),
    "connectors/sql/execution/executor.py": (
        "tuple(dict.fromkeys(_words(query)))[:_MAX_WORDS]",
        "(fitting or table.columns)[:_MAX_COLUMNS]",
    ),
    "connectors/sql/execution/table_descriptions.py": ("names[:40]", "referring[:_MAX_REFERRING]"),
    "connectors/sql/execution/postgres_values.py": ("raw[:_HEX + self._longest // 2 * 2]",),
    "connectors/sql/execution/value_samples.py": ("text[:_MAX_LENGTH - 1]",),
    "connectors/sql/reading/bigquery.py": ("sorted(names)[:MAX_TABLES]",),
    "connectors/sql/reading/snowflake.py": ("tables[:MAX_TABLES]",),
    "gateway/telemetry/spans.py": ("ids[:32]",),
    "connectors/functions/adopted.py": ("list(_run(server.list_tools()))[:_MAX_TOOLS]", "tools[:_MAX_TOOLS]"),
    "connectors/functions/pydantic_types.py": ("faults[:_MAX_FAULTS]",),
    "gateway/approvals/decisions.py": ("call_id.encode('ascii', 'replace').decode()[:128]",),
    "gateway/approvals/grants.py": ("grant_id.encode('ascii', 'replace').decode()[:128]",),
    "gateway/operations/call_results.py": ("newest[:_MAX_LISTED]",),
    "gateway/catalog/catalog_reloader.py": ("list(lines(difference))[:_MAX_TOLD]", "names[:_MAX_TOLD]"),
    "gateway/calls/file_uploads.py": ("piece[:_SAMPLE - len(head)]",),
    "gateway/calls/inner_call.py": ("names[:_MAX_NAMED]", "shown[:_MAX_NAMED]"),
    "gateway/calls/json_body.py": ("names[:_MAX_DROPPED]",),
    "gateway/catalog/operation_names.py": ("identifier[:_MAX_LENGTH]",),
    "frontends/mcp/messages.py": ("label[:_MAX_CLIENT_LENGTH]", "requested[:32]"),
    "frontends/mcp/context_methods.py": ("uri[:_MAX_URI_LENGTH]",),
    "frontends/mcp/server.py": (
        "str(request)[:_MAX_LABEL_LENGTH]",
        "uri[:_MAX_URI_LENGTH]",
    ),
    "frontends/mcp/sessions.py": ("text[:_MAX_SESSION_LENGTH + 1]",),
    "gateway/notify/messages.py": ("timestamp(known.expires)[:19]", "notice.rows[:_MAX_ROWS]"),
    "gateway/notify/role_messages.py": ("timestamp(grant.expires)[:19]",),
    "gateway/policies/policy_replay.py": ("named[:_MAX_NAMED]",),
    "gateway/calls/response_shaping.py": ("token[:KEY_BYTES]", "links_in(result.data)[:MAX_LINKS]"),
    "frontends/rest/tools.py": (
        "request.headers.get(b'user-agent', b'').decode('latin-1').strip()[:_MAX_CLIENT_LENGTH]",
    ),
    "gateway/approvals/role_grants.py": ("text.encode('ascii', 'replace').decode()[:128]",),
    "gateway/catalog/search_tools.py": ("sources[:_MAX_SOURCES]",),
    "gateway/catalog/tool_discovery.py": ("query[:MAX_QUERY_LENGTH]", "name[:MAX_QUERY_LENGTH]", "name[:128]"),
    "model/media.py": ("body[:_TEXT_SAMPLE]", "body[:SHOWN]"),
    "model/parameter_names.py": ("keys[:_MAX_DEPTH]",),
    "pipeline/stages/idempotency.py": ("claim.outcome[:12]",),
    "pipeline/stages/record.py": (
        "call.tool.name[:MAX_NAME_LENGTH]",
        "call.session[:MAX_NAME_LENGTH]",
        "call.client[:MAX_NAME_LENGTH]",
        "name[:MAX_NAME_LENGTH]",
        "call.parent[:MAX_NAME_LENGTH]",
    ),
    "pipeline/stages/record_templates.py": (
        "tool.name[:MAX_NAME_LENGTH]",
        "call.client[:MAX_NAME_LENGTH]",
        "call.session[:MAX_NAME_LENGTH]",
    ),
    "policy/advice.py": ("found[:_SHOWN]",),
    "policy/answer_redaction.py": ("text[:_GRAM]",),
    "policy/credentials.py": ("self.sha256[:12]",),
    "policy/document/policy_files.py": ("(found, *(one for one in known if one is not found))[:_VERSIONS]",),
    "policy/detectors/classifier.py": ("text[:_MAX_LENGTH]",),
    "policy/detectors/personal_data.py": ("plain[:13]",),
    "policy/detectors/secrets.py": ("found[0][:6]",),
    "connectors/sql/accounts.py": ("shown[:_MAX_NAMES]",),
    "connectors/sql/guard/changes.py": ("writable[:20]", "known[:40]"),
    "connectors/sql/guard/columns.py": ("known[:40]",),
    "connectors/sql/guard/corrections.py": ("typed[:_MAX_TOLD]",),
    "connectors/sql/guard/enum_types.py": ("sorted(found.labels)[:_MAX_TOLD]",),
    "connectors/sql/guard/grammar.py": ("number[:9]",),
    "connectors/sql/guard/table_samples.py": (
        "[name for name in visible_columns(table, entry, database.dialect) if name not in entry.masks and name not in entry.unsampled][:_MAX_COLUMNS]",  # noqa: E501
    ),
    "connectors/sql/guard/label_comparisons.py": ("column.labels[:_MAX_LABELS]", "[*told.items()][:_MAX_TOLD]"),
    "connectors/sql/guard/cursors.py": (
        "digest([text, *parameters]).removeprefix('sha256:')[:_DIGITS]",
        "text[:_DIGITS]",
    ),
    "connectors/sql/guard/placeholder_styles.py": ("text[:9]",),
    "connectors/sql/guard/resolve.py": ("known[:20]",),
    "connectors/sql/guard/bounds.py": ("digits[:9]", "exponent.lstrip('+-')[:9]"),
    "connectors/sql/guard/column_sizes.py": ("length[1][:9]",),
    "connectors/sql/guard/cost.py": ("number.name[:9]",),
    "connectors/sql/guard/parameter_sizes.py": ("found[1][:9]",),
    "connectors/sql/guard/patterns.py": ("bound[:6]",),
    "connectors/sql/guard/result_sizes.py": ("number[:9]", "text.name[:10]"),
    "policy/validation_messages.py": (
        "parts[:_MAX_LISTED]",
        "listed[:_MAX_LISTED]",
        "fault.values[:_MAX_LISTED]",
        "[*value][:6]",
    ),
    "pipeline/responses/pagination.py": ("header[:16384]",),
    # Readers of descriptions: what they cut goes into problems and tools, not into answers of calls.
    "connectors/declared/read.py": (
        "member[:40]",
        "name[:40]",
        "request.method[:20]",
    ),
    "connectors/device/read.py": (
        "given.method[:60]",
        "name[:80]",
        "reference[:80]",
        "text[:40]",
    ),
    "connectors/graphql/default_selection.py": (
        "(ids or leaves[:1])[:_MAX_IDS]",
        "[one for one in leaves if get_named_type(one[1].type).name == 'ID'][:_MAX_IDS]",
        "[one for one in leaves if one not in ids and _shows_change(one[0])][:_MAX_TELLING]",
        "members[:_MAX_FRAGMENTS]",
    ),
    "connectors/graphql/directives.py": (
        "effect[:40]",
        "key[:40]",
    ),
    "connectors/auth_headers.py": ("name[:40]",),
    "connectors/graphql/options.py": (
        "name[:40]",
        "one[:60]",
        "pattern[:80]",
    ),
    "connectors/graphql/repair.py": ("faults[:_MAX_FAULTS]",),
    "connectors/graphql/root_fields.py": (
        "field[:_MAX_FIELD]",
        "tool[:80]",
    ),
    "connectors/mcp/read.py": ("text[:_MAX_READ_LENGTH]",),
    "connectors/openapi/binding.py": (
        "_ARGUMENT.sub('_', romanized(name)).strip('_.-')[:_MAX_ARGUMENT_LENGTH]",
        "base[:_MAX_ARGUMENT_LENGTH - len(suffix)]",
        "kind[:80]",
        "name[:80]",
        "name[:_MAX_ARGUMENT_LENGTH]",
        "one.name[:80]",
        "operation.method[:40]",
    ),
    "connectors/openapi/bodies.py": (
        "', '.join(sorted(names))[:100]",
        "body.media_type[:80]",
        "kind[:80]",
        "other.media_type[:80]",
        "written[:80]",
    ),
    "connectors/openapi/describe.py": ("text[:_MAX_READ_LENGTH]",),
    "connectors/openapi/documents.py": (
        "key[:9]",
        "ref[:200]",
    ),
    "connectors/openapi/filled_parameters.py": (
        "found.name[:80]",
        "name[:80]",
    ),
    "connectors/openapi/keywords.py": (
        "[value for value in values if _small(value)][:_MAX_EXAMPLES]",
        "shown[:60]",
    ),
    "connectors/openapi/shared_parts.py": ("re.sub('[^A-Za-z0-9_.-]+', '_', under)[:40]",),
    "connectors/openapi/mock/server.py": (
        "text[:100]",
        "wrong.message[:300]",
    ),
    "connectors/openapi/servers.py": ("match[1][:40]",),
    "connectors/openapi/options.py": (
        "name[:40]",
        "str(name)[:40]",
    ),
    "connectors/openapi/overlay.py": (
        "''.join(('/' + str(part).replace('~', '~0').replace('/', '~1') for part in parts))[:300]",
        "action.target.text[:200]",
        "key[:80]",
        "overlay.extends[:200]",
        "str(version)[:20]",
        "target[:200]",
    ),
    "connectors/openapi/read.py": (
        "name[:80]",
        "operation.hint[:40]",
        "place[:300]",
        "str(info.get('title') or self._config.name)[:200]",
        "str(info.get('version') or '')[:100]",
        "version[:20]",
        "wanted[:200]",
    ),
    "connectors/openapi/operation_filter.py": ("value[:80]",),
    "connectors/openapi/routes.py": ("key[:40]",),
    "connectors/openapi/schema.py": (
        "pattern[:80]",
        "value[:40]",
    ),
    "connectors/openapi/units_of_names.py": ("text[:_MAX_LENGTH]",),
    "connectors/openapi/v2.py": (
        "place[:40]",
        "raw['name'][:80]",
        "str(written)[:40]",
    ),
    "connectors/openapi/v3.py": (
        "place[:40]",
        "raw['name'][:80]",
        "str(style)[:40]",
    ),
    "connectors/overrides.py": (
        "name[:80]",
        "one.key[:80]",
    ),
    "connectors/parsed_document.py": ("self.key[:80]",),
    "connectors/pins.py": (
        "given[one.name][:200]",
        "one.name[:80]",
        "place[:200]",
    ),
    "connectors/schema_ids.py": ("key[:9]",),
    "connectors/remote.py": ("data.removeprefix(b'\\xef\\xbb\\xbf')[:512]",),
    "connectors/sql/reading/declared.py": ("name[:40]",),
    "connectors/sql/reading/duckdb.py": ("first[:MAX_SAID]",),
    "connectors/sql/reading/labels.py": (
        "_LABEL.findall(declared)[:_MAX_LABELS]",
        "labels[:_MAX_LABELS]",
    ),
    "connectors/sql/reading/mysql.py": ("str(error.args[-1])[:MAX_SAID]",),
    "connectors/sql/reading/parameters.py": ("str(value)[:40]",),
    "connectors/sql/reading/postgres.py": (
        "' '.join(operators)[:100]",
        "said[:MAX_SAID]",
    ),
    "connectors/sql/reading/queries.py": ("value[:60]",),
    "connectors/sql/reading/schema.py": (
        "told[:_MAX_TOLD]",
        "tuple((kept[columns] for columns in sorted(kept)))[:_MAX_KEPT]",
        "tuple(sorted((text for text in found if 0 < len(text) <= MAX_SAID)))[:_MAX_KEPT]",
    ),
    "connectors/sql/reading/sqlite.py": ("str(error)[:MAX_SAID]",),
    "connectors/syntax.py": ("data[:512]",),
    "connectors/workflow/arazzo.py": (
        "key[:40]",
        "target[:80]",
    ),
    "connectors/workflow/draft.py": (
        "path[:80]",
        "pattern[:80]",
    ),
    "connectors/workflow/read.py": (
        "str(told.get('title') or path.name)[:120]",
        "str(told.get('version') or '')[:40]",
        "title[:120]",
    ),
    "gateway/catalog/search/actions.py": (
        "f'{tool.title}\\n{tool.description}'[:_MAX_TEXT]",
        "list(properties)[:_MAX_PARAMETERS]",
        "name[:_MAX_NAME]",
        "tool.name.removeprefix(f'{tool.source}__')[:_MAX_NAME]",
    ),
    "gateway/catalog/search/bm25.py": (
        "field[:_MAX_TEXT_LENGTH]",
        "list(asked.items())[:_MAX_TERMS]",
        "listed[:_MAX_LISTED]",
        "name[:_MAX_TEXT_LENGTH]",
        "parameters[:_MAX_PARAMETERS]",
        "query[:MAX_QUERY_LENGTH]",
        "words[:_MAX_TERMS]",
    ),
    "gateway/catalog/search/hybrid.py": (
        "f\"{tool.name.removeprefix(f'{tool.source}__')}: {tool.description}\"[:_MAX_TEXT_LENGTH]",
        "f'{name}: {text}'[:_MAX_TEXT_LENGTH]",
        "first[:_IN_FRONT]",
        "ids[:_FRONT - len(missing)]",
        "ids[:_FRONT]",
        "list(self._met)[:_MAX_KEPT]",
        "query[:_MAX_TEXT_LENGTH]",
    ),
    "gateway/catalog/search/intents.py": (
        "[one for one in (list(split_words(part)) for part in _SPLIT.split(query)) if one][:_MAX_CLAUSES]",
        "query[:_MAX_QUERY]",
    ),
    "gateway/catalog/search/tokenizer.py": (
        "list(dict.fromkeys((part for part in found if len(part.split()) >= _MIN_PART)))[:_MAX_PARTS]",
        "word[:_MAX_WORD_LENGTH]",
    ),
    "gateway/catalog/search/tool_graph.py": ("hits[:EXPANDED]",),
    "gateway/catalog/search/tool_roles.py": (
        "left[:_MAX_OWNERS]",
        "list(properties.items())[:_MAX_PARAMETERS]",
        "name[:_MAX_NAME]",
        "parameters[:_MAX_PARAMETERS]",
        "text[:_MAX_TEXT]",
    ),
}


def cuts(path: Path) -> Iterator[str]:
    """The slices of a module that keep the beginning of something, by a number or a constant, but for those of digests."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)):
            continue
        upper = node.slice.upper
        if isinstance(upper, ast.BinOp):  # `text[: LIMIT - 1]`
            upper = upper.left
        number = isinstance(upper, ast.Constant) and isinstance(upper.value, int) and upper.value >= SHORTEST
        if (
            node.slice.lower is None
            and "digest()" not in ast.unparse(node.value)
            and (number or (isinstance(upper, ast.Name) and upper.id.isupper()))
        ):
            yield ast.unparse(node)


def test_no_module_cuts_text_by_itself() -> None:
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name, sliced = path.relative_to(ROOT).as_posix(), set(cuts(path))
            if sliced and not name.startswith(OFFLINE):
                found[name] = sliced
    unknown = {name: more for name, sliced in found.items() if (more := sliced - set(ALLOWED.get(name, ())))}
    assert not unknown, "use `bounded` of toolgen/model/excerpt.py, or list here what is no text for a caller"
    gone = {name: more for name, listed in ALLOWED.items() if (more := set(listed) - found.get(name, set()))}
    assert not gone, "these are cut no more"


@pytest.mark.parametrize("source", ["told = text[:80]", "f'{name[:_SHOWN]!r}'", "text[: LIMIT - 1] + '…'"])
def test_a_cut_is_found(tmp_path: Path, source: str) -> None:
    (tmp_path / "module.py").write_text(source)
    assert [*cuts(tmp_path / "module.py")]


class Hiding:
    """A masking that knows one word."""

    def text(self, text: str) -> str:
        return text.replace("secret", "<word:1>")

    def message(self, text: str) -> str:
        return self.text(text)

    def end(self, text: str, limit: int) -> int:
        return limit


def test_a_text_is_masked_before_it_is_cut() -> None:
    assert bounded("a secret", 5) == "a se…"
    with masking(Hiding()):
        assert bounded("a secret") == "a <word:1>"
        assert bounded("a secret", 5) == "a <w…"
        with masking(None):
            assert bounded("secret") == "<word:1>"
        assert Error(code="internal", message="secret" + "x" * 1000).message.startswith("<word:1>x")
    assert bounded("secret") == "secret"
