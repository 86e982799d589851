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
PACKAGES = ("model", "pipeline", "policy", "execute", "functions", "gateway")
SHORTEST = 6  # characters of a value that are told to nobody
# Lists, bytes, digests, numbers, ids of requests, names on record, and texts that are looked at and not told.
ALLOWED: dict[str, tuple[str, ...]] = {
    "execute/code/executor.py": ("found[:_MAX_SIGNATURES]",),
    "execute/graphql/executor.py": ("text[:_MAX_LENGTH]",),
    "execute/graphql/mutation_outcome.py": ("message[:1000]",),
    "execute/graphql/response.py": ("shown[:_MAX_GROUPS]", "groups[:MAX_TOLD]", "message[:1000]"),
    "execute/http/connector.py": (
        "tuple((str(ipaddress.ip_address(address.partition('%')[0])) for address in found))[:_MAX_ADDRESSES]",
    ),
    "execute/http/message.py": ("body[:BEGINNING]",),
    "execute/http/operations.py": ("value.strip().casefold()[:_MAX_VALUE_LENGTH]",),
    "execute/http/response.py": (
        "text.split(',')[:_MAX_POLICIES]",
        "listed[:_MAX_FAULTS]",
        "scrubber.text(media_type)[:100]",
        "value[:9]",
    ),
    "execute/http/sigv4.py": ("time[:8]",),
    "execute/http/tls.py": ("self.digest[:12]",),
    "execute/inner_calls.py": ("notes[:_MAX_ROW_NOTES]",),
    "execute/mcp/child_process.py": (
        "[value for arguments in self._recent for value in _texts(arguments)][:_MAX_VALUES]",
        "line[:_EDGE]",
        "self._held[:_EDGE]",
    ),
    "execute/mcp/conversation.py": ("str(name or '')[:200]", "str(version or '')[:100]"),
    "execute/oauth/rotation.py": ("sealed[:_NONCE]",),
    "execute/outbound/transport.py": ("found[:_MAX_ADDRESSES]",),
    "execute/rejection.py": ("pairs[:_MAX_ALTERNATIVES]", "[*counts.items()][:MAX_TOLD]"),
    "execute/graphql/selection.py": ("known.members[:20]",),
    "execute/graphql/unknown_fields.py": (
        "[*type_.fields][:_MAX_NAMES]",
        "having[:_MAX_NAMED]",
        "names[:_MAX_NAMES]",
        "unknown[:_MAX_UNKNOWN]",
    ),
    "execute/resilience.py": ("address[:100]",),
    "pipeline/responses/choice.py": (
        "items[:_MAX_LOOKED_AT]",
        "list(found)[:_MAX_TOLD]",
        "columns[:_MAX_TOLD]",
        "node[:_MAX_LOOKED_AT]",
    ),
    "execute/sql/connections.py": ("found[:_MAX_ADDRESSES]",),
    "execute/sql/executor.py": (
        "tuple(dict.fromkeys(_words(query)))[:_MAX_WORDS]",
        "(fitting or table.columns)[:_MAX_COLUMNS]",
    ),
    "execute/sql/table_descriptions.py": ("names[:40]", "referring[:_MAX_REFERRING]"),
    "execute/sql/postgres_protocol.py": ("raw[:_HEX + self._longest // 2 * 2]",),
    "execute/sql/result_rows.py": ("text[:_MAX_LENGTH - 1]",),
    "functions/adopted.py": ("list(_run(server.list_tools()))[:_MAX_TOOLS]", "tools[:_MAX_TOOLS]"),
    "functions/pydantic_types.py": ("faults[:_MAX_FAULTS]",),
    "gateway/approval_answers.py": ("call_id.encode('ascii', 'replace').decode()[:128]",),
    "gateway/approval_grants.py": ("grant_id.encode('ascii', 'replace').decode()[:128]",),
    "gateway/call_results.py": ("newest[:_MAX_LISTED]",),
    "gateway/catalog_reloader.py": ("list(lines(difference))[:_MAX_TOLD]", "names[:_MAX_TOLD]"),
    "gateway/file_uploads.py": ("piece[:_SAMPLE - len(head)]",),
    "gateway/inner_call.py": ("names[:_MAX_NAMED]", "shown[:_MAX_NAMED]"),
    "gateway/json_body.py": ("names[:_MAX_DROPPED]",),
    "gateway/operation_names.py": ("identifier[:_MAX_LENGTH]",),
    "gateway/mcp/messages.py": ("label[:_MAX_CLIENT_LENGTH]", "requested[:32]"),
    "gateway/mcp/server.py": ("uri[:_MAX_URI_LENGTH]",),
    "gateway/mcp/sessions.py": ("text[:_MAX_SESSION_LENGTH + 1]",),
    "gateway/notify/messages.py": ("timestamp(known.expires)[:19]", "notice.rows[:_MAX_ROWS]"),
    "gateway/notify/role_messages.py": ("timestamp(grant.expires)[:19]",),
    "gateway/policy_replay.py": ("named[:_MAX_NAMED]",),
    "gateway/response_shaping.py": ("token[:KEY_BYTES]", "links_in(result.data)[:MAX_LINKS]"),
    "gateway/rest/tools.py": (
        "request.headers.get(b'user-agent', b'').decode('latin-1').strip()[:_MAX_CLIENT_LENGTH]",
    ),
    "gateway/role_grants.py": ("text.encode('ascii', 'replace').decode()[:128]",),
    "gateway/search_tools.py": ("sources[:_MAX_SOURCES]",),
    "gateway/tool_discovery.py": ("query[:MAX_QUERY_LENGTH]", "name[:MAX_QUERY_LENGTH]", "name[:128]"),
    "model/media.py": ("body[:_TEXT_SAMPLE]", "body[:SHOWN]"),
    "model/parameter_names.py": ("keys[:_MAX_DEPTH]",),
    "pipeline/stages/idempotency.py": ("claim.outcome[:12]",),
    "pipeline/stages/record.py": (
        "call.tool.name[:_MAX_NAME_LENGTH]",
        "call.session[:_MAX_NAME_LENGTH]",
        "call.client[:_MAX_NAME_LENGTH]",
        "name[:_MAX_NAME_LENGTH]",
        "call.parent[:_MAX_NAME_LENGTH]",
    ),
    "policy/advice.py": ("found[:_SHOWN]",),
    "policy/answer_redaction.py": ("text[:_GRAM]",),
    "policy/credentials.py": ("self.sha256[:12]",),
    "policy/document/policy_files.py": ("(found, *(one for one in known if one is not found))[:_VERSIONS]",),
    "policy/detectors/classifier.py": ("text[:_MAX_LENGTH]",),
    "policy/detectors/personal_data.py": ("plain[:13]",),
    "policy/detectors/secrets.py": ("found[0][:6]",),
    "policy/sql/changes.py": ("writable[:20]", "known[:40]"),
    "policy/sql/columns.py": ("known[:40]",),
    "policy/sql/corrections.py": ("typed[:_MAX_TOLD]",),
    "policy/sql/grammar.py": ("number[:9]",),
    "policy/sql/grants.py": ("identifier.name.encode()[:_MAX_POSTGRES_LENGTH]",),
    "policy/sql/guard.py": (
        "[name for name in visible_columns(table, entry, database.dialect) if name not in entry.masks and name not in entry.unsampled][:_MAX_COLUMNS]",  # noqa: E501
    ),
    "policy/sql/label_comparisons.py": ("column.labels[:_MAX_LABELS]", "[*told.items()][:_MAX_TOLD]"),
    "policy/sql/pagination.py": ("digest([text, *parameters]).removeprefix('sha256:')[:_DIGITS]", "text[:_DIGITS]"),
    "policy/sql/placeholders.py": ("text[:9]",),
    "policy/sql/resolve.py": ("known[:20]",),
    "policy/sql/bounds.py": ("digits[:9]", "exponent.lstrip('+-')[:9]"),
    "policy/sql/cost.py": ("length[1][:9]", "number.name[:9]"),
    "policy/sql/parameter_sizes.py": ("found[1][:9]",),
    "policy/sql/patterns.py": ("bound[:6]",),
    "policy/sql/result_sizes.py": ("number[:9]", "text.name[:10]"),
    "policy/validation_messages.py": (
        "parts[:_MAX_LISTED]",
        "listed[:_MAX_LISTED]",
        "fault.values[:_MAX_LISTED]",
        "[*value][:6]",
    ),
    "pipeline/responses/pagination.py": ("header[:16384]",),
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
            if sliced:
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
