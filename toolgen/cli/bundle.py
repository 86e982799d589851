"""Bundle of a gateway for Claude Desktop (MCPB, manifest 0.4): a file that a double click installs on any machine."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import Any, Final

from toolgen.cli.bundled_project import bundled_files, variables_of
from toolgen.config.settings import Settings

__all__ = ["bundle_of"]

_LAUNCHER: Final = "/".join(("server", "main.py"))
_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Time of all files in a bundle, so that the same project gives the same bytes."""
_SPECIAL = re.compile(r"[^a-z0-9]+")
_EXTRA = re.compile(r";\s*(.*\band\s+)?extra\s*==\s*['\"]([a-z0-9-]+)['\"]\s*\Z")
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
_PYTHON: Final = ">=3.11"
_LEFT_OUT: Final = frozenset({"__pycache__"})
_MAIN: Final = """\"\"\"Gateway over standard input and output, with the project of this bundle.\"\"\"

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.argv = ["toolgen", *{arguments!r}, "--config", str(HERE.parent / "project" / "toolgen.yaml")]

from toolgen.cli.main import main  # noqa: E402

main()
"""


def bundle_of(settings: Settings, principal: str, client: str) -> bytes:
    """Return the bytes of a bundle with the project and with toolgen itself, whose dependencies uv installs on the machine. The client asks
    for the variables of secrets, and keeps them. Raises `ConfigError` for a project that is not whole without this machine."""
    arguments = ["serve", "--stdio", "--as", principal, "--client", client]
    manifest = json.dumps(_manifest(settings), indent=2, ensure_ascii=False) + "\n"
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (
            ("manifest.json", manifest.encode()),
            ("pyproject.toml", _pyproject(_name(settings)).encode()),
            (_LAUNCHER, _MAIN.format(arguments=arguments).encode()),
            *_package(),
            *((f"project/{place}", path.read_bytes()) for place, path in bundled_files(settings)),
        ):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return held.getvalue()


def _package() -> Iterator[tuple[str, bytes]]:
    """Yield the files of toolgen, and the metadata with its version."""
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and _LEFT_OUT.isdisjoint(path.relative_to(root).parts):
            yield f"server/toolgen/{path.relative_to(root).as_posix()}", path.read_bytes()
    release = version("toolgen")
    metadata = f"Metadata-Version: 2.1\nName: toolgen\nVersion: {release}\n"
    yield f"server/toolgen-{release}.dist-info/METADATA", metadata.encode()


def _pyproject(name: str) -> str:
    """Return the project file from which uv installs the dependencies of toolgen, and those of the installed extras."""
    found = sorted({*_dependencies()})
    listed = "".join(f"  {json.dumps(one)},\n" for one in found)
    return (
        f'[project]\nname = "{name}-bundle"\nversion = "{version("toolgen")}"\nrequires-python = "{_PYTHON}"\n'
        f"dependencies = [\n{listed}]\n\n[tool.uv]\npackage = false\n"
    )


def _dependencies() -> Iterator[str]:
    """Yield the requirements of toolgen, and those of its extra `all` that are installed here."""
    for one in requires("toolgen") or ():
        if (extra := _EXTRA.search(one)) is None:
            yield one
            continue
        name = _REQUIREMENT.match(one)
        if name is None or extra[2] != "all":
            continue
        try:
            distribution(name[0])
        except PackageNotFoundError:
            continue
        marker = (extra[1] or "").rsplit("and", 1)[0].strip()
        yield one[: extra.start()].strip() + (f"; {marker}" if marker else "")


def _manifest(settings: Settings) -> Mapping[str, Any]:
    server = settings.mcp_servers[""]
    asked = {_key(name): name for name in variables_of(settings)}
    environment = {name: f"${{user_config.{key}}}" for key, name in asked.items()}
    environment["TOOLGEN_AUDIT__DIR"] = f"${{HOME}}/.toolgen/{_name(settings)}/audit"
    made: dict[str, Any] = {
        "manifest_version": "0.4",
        "name": _name(settings),
        "display_name": server.title,
        "version": version("toolgen"),
        "description": f"Tools of {server.title}, behind a gateway that governs every call.",
        "author": {"name": server.title},
        "server": {
            "type": "uv",
            "entry_point": _LAUNCHER,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", _LAUNCHER],
                "env": environment,
            },
        },
        "compatibility": {"platforms": ["darwin", "win32", "linux"], "runtimes": {"python": _PYTHON}},
        "tools_generated": True,
        "prompts_generated": True,
    }
    if server.website:
        made["homepage"] = server.website
    if asked:
        made["user_config"] = {
            key: {
                "type": "string",
                "title": name,
                "description": f"Value of {name}.",
                "sensitive": True,
                "required": True,
            }
            for key, name in asked.items()
        }
    return made


def _name(settings: Settings) -> str:
    return _SPECIAL.sub("-", settings.mcp_servers[""].name.lower()).strip("-") or "toolgen"


def _key(variable: str) -> str:
    return _SPECIAL.sub("_", variable.lower()).strip("_") or "value"
