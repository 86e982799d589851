"""Reader of a sandbox: the one tool that runs code in it."""

from __future__ import annotations

import msgspec

from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.core.canonical import digest
from toolgen.core.errors import ConfigError
from toolgen.model.manifest import SourceInfo
from toolgen.model.names import join
from toolgen.model.tool import CodeBinding, Effect, Tool

__all__ = ["read_code"]

NAME = "run_code"


def read_code(config: SourceConfig) -> SourceReading:
    """Return the tool. It is destructive, because the tools that it calls may be, so a policy must allow it explicitly."""
    if config.code is None or config.include or config.exclude:
        where = f"sources.{config.name}"
        raise ConfigError("include: and exclude: do not belong to a code source, which has one tool", where=where)
    tool = Tool(
        name=join(config.name, NAME),
        title="Run code",
        description=_description(config.code),
        input_schema={
            "type": "object",
            "properties": {
                "code": {"type": "string", "minLength": 1, "maxLength": 100_000, "description": "The Python code."},
                "check": {
                    "type": "boolean",
                    "default": False,
                    "description": "Check types first, and run nothing where they do not fit.",
                },
            },
            "required": ["code"],
            "additionalProperties": False,
        },
        output_schema=None,
        effect=Effect.DESTRUCTIVE,
        idempotent=False,
        source=config.name,
        origin=NAME,
        binding=config.code,
    )
    info = SourceInfo(kind="code", digest=digest(msgspec.to_builtins(config.code)), title="sandbox", version="")
    return SourceReading(info=info, tools=(tool,), problems=(), operations=1)


def _description(limits: CodeBinding) -> str:
    return (
        "Runs Python that calls several of your tools and works with their answers, in one call. Use it to combine, filter or sum what "
        "tools answer, in place of many calls.\n\n"
        "Each of your tools is an async function with its name, called with keyword arguments: `await tool_name(argument=1)`. It gives the "
        'tool\'s data, and raises RuntimeError("code: message") where the call does not end ok. '
        "`await run_tool(name, {…})` calls one by its name. "
        "`signatures(word)` lists the functions that have a word in their name. `asyncio.gather` makes calls at the same time. "
        "The value of the last line is the answer; what is printed comes with it.\n\n"
        "It is a part of Python: no files, no network, no third-party packages; "
        f"at most {limits.time_s:g} s, {limits.memory // 1_048_576} MiB, {limits.calls} calls and {limits.output // 1024} KiB of answer."
    )
