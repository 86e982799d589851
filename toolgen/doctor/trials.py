"""What must not be possible, tried for real: a call nobody allowed, a request to a private place, a changed record."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from toolgen.audit.query import entry_at
from toolgen.audit.verify import verify
from toolgen.errors import ToolgenError
from toolgen.gateway.service import Gateway
from toolgen.model.call import Principal
from toolgen.model.manifest import SourceInfo, assemble
from toolgen.model.result import Envelope
from toolgen.model.tool import Effect, HttpBinding, Tool
from toolgen.policy.access import Rule
from toolgen.settings import SourceSettings
from toolgen.settings_audit import AuditSettings
from toolgen.sources.base import SourceConfig

__all__ = ["Trial", "run_trials"]

_NOBODY: Final = Principal(id="toolgen-doctor", roles=frozenset({"toolgen-doctor"}))
_PLACES: Final = {"link-local": "http://169.254.169.254", "loopback": "http://localhost:9"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One thing that was tried, and whether it ended as it must."""

    name: str
    ok: bool
    detail: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


async def run_trials(gateway: Gateway) -> list[Trial]:
    """Tries all three on a gateway that is not open yet. The refused call is a call, so it is in the project's own record."""
    denied, envelope = await _denied_call(gateway)
    private = [await _private_fetch(gateway, kind, url) for kind, url in _PLACES.items() if _is_tried(gateway, kind)]
    return [denied, *private, _tampered_copy(gateway.settings.audit_dir, envelope)]


def _is_tried(gateway: Gateway, kind: str) -> bool:
    """A policy may open private networks; link-local addresses stay closed all the same."""
    return kind == "link-local" or not gateway.policy.egress.private_networks


async def _denied_call(gateway: Gateway) -> tuple[Trial, Envelope | None]:
    """A tool of the catalog, called by a principal no rule speaks of: refused, and the refusal is in the record."""
    name = "denied call"
    tool = next(iter(gateway.manifest.tools), "toolgen-doctor")
    try:
        async with gateway.errand():
            envelope = await gateway.call(tool, {}, principal=_NOBODY)
        written = [
            entry
            for entry in entry_at(gateway.settings.audit_dir, envelope.meta.audit_seq or 0)
            if entry.get("call_id") == envelope.call_id
        ]
    except ToolgenError as error:
        return Trial(name=name, ok=False, detail=str(error)), None
    code = envelope.error.code if envelope.error is not None else ""
    if code not in {"unknown_tool", "forbidden"}:
        detail = f"{tool} was not forbidden to a principal no rule should speak of: {code or envelope.status}"
        return Trial(name=name, ok=False, detail=detail), None
    if not written or written[0].get("status") != "refused":
        return Trial(name=name, ok=False, detail="the refusal is not in the audit log"), None
    return Trial(name=name, ok=True, detail=f"{tool} was refused ({code}) and recorded as entry {written[0]['seq']}"), (
        envelope
    )


async def _private_fetch(gateway: Gateway, kind: str, url: str) -> Trial:
    """A tool whose server is there, allowed to everybody, under the project's own egress rules.

    Its record is one of its own, which is thrown away.
    """
    name = f"{kind} fetch"
    with tempfile.TemporaryDirectory(prefix="toolgen-doctor-") as scratch:
        trial = _fetching(gateway, url, Path(scratch))
        try:
            async with trial:
                envelope = await trial.call("fetch", {}, principal=_NOBODY)
        except ToolgenError as error:
            return Trial(name=name, ok=False, detail=str(error))
    code = envelope.error.code if envelope.error is not None else envelope.status
    if code != "egress_refused":
        return Trial(name=name, ok=False, detail=f"a request to {url} was not refused by the egress rules: {code}")
    return Trial(name=name, ok=True, detail=f"a request to {url} was refused before it was made")


def _fetching(gateway: Gateway, url: str, audit: Path) -> Gateway:
    tool = Tool(
        name="fetch",
        title="fetch",
        description="",
        input_schema={"type": "object", "properties": {}},
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="doctor",
        origin="",
        binding=HttpBinding(method="GET", path="/", servers=(url,), parameters=(), body=None, security=()),
    )
    rule = Rule(
        id="doctor",
        roles=_NOBODY.roles,
        tools=("fetch",),
        effects=frozenset({Effect.READ}),
        names_destructive=False,
        arguments=None,
        verdict="allow",
        where="",
    )
    config = SourceConfig(name="doctor", kind="openapi", location="")
    settings = replace(
        gateway.settings,
        sources={"doctor": SourceSettings(config=config, auth={})},
        audit_dir=audit / "audit",
        audit=AuditSettings(),  # signed by nobody and sent nowhere
    )
    info = SourceInfo(kind="openapi", digest="", title="", version="")
    policy = replace(gateway.policy, rules=(rule,), limits=(), sql={}, redactions=())
    return Gateway(settings=settings, manifest=assemble({"doctor": info}, [tool], ()), policy=policy)


def _tampered_copy(directory: Path, recorded: Envelope | None) -> Trial:
    """The log verifies; a copy of it with one bit of its newest entry turned over does not."""
    name = "tampered audit copy"
    if recorded is None:
        return Trial(name=name, ok=False, detail="nothing was recorded that a copy could be made of")
    try:
        before = verify(directory)
        if not before.ok:
            detail = f"the log itself is broken ({len(before.faults)} fault(s)); see `toolgen audit verify`"
            return Trial(name=name, ok=False, detail=detail)
        with tempfile.TemporaryDirectory(prefix="toolgen-doctor-") as scratch:
            stream = _turn_a_bit(directory, Path(scratch), recorded)
            after = verify(Path(scratch))
    except (ToolgenError, OSError) as error:
        return Trial(name=name, ok=False, detail=f"the log cannot be verified: {error}")
    fault = next(
        (fault for fault in after.faults if fault.kind == "edited"), None
    )  # a copy without its beginning has other faults
    if fault is None:
        return Trial(name=name, ok=False, detail=f"one changed bit in a copy of {stream} went unnoticed")
    return Trial(name=name, ok=True, detail=f"one changed bit in a copy of {stream} was found: {fault.message}")


def _turn_a_bit(directory: Path, scratch: Path, recorded: Envelope) -> str:
    """Copies the stream that holds the call into `scratch`, and changes one letter of the call's id in the copy."""
    mark = recorded.call_id.encode()
    for path in directory.glob("*.jsonl"):
        copy = scratch / path.name
        shutil.copyfile(path, copy)
        data = bytearray(copy.read_bytes())
        place = data.rfind(mark)
        if place >= 0:
            data[place + len(mark) - 1] ^= 1
            copy.write_bytes(data)
            return path.name
        copy.unlink()
    raise OSError("the call is in none of its streams")
