"""CPU time of policies: to load one of 200 rules over 1,000 tools, a decision once it is compiled for a principal, and edits of large ones.

python -m bench.policy [--large]

`--large` reads policies of 2,000 and 10,000 principals again after an edit of a rule and of a key, as each worker does.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from tests.catalogs import catalog, http_tool
from toolgen.config.policies import load_policy as load
from toolgen.config.policies import policy_reader
from toolgen.core.clock import SystemClock
from toolgen.core.errors import StateError
from toolgen.gateway.identity import Identity, KeySets
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Effect
from toolgen.policy.access import Access, EvaluationContext
from toolgen.policy.document.policy_files import PolicyFiles

RULES, TOOLS, ROUNDS = 200, 1_000, 5
_KEYS_A_FILE = 25_000
PROPERTIES = {"limit": {"type": "integer"}, "note": {"type": "string"}, "tenant_id": {"type": "string"}}


def policy() -> dict[str, object]:
    """Globs, exact names, narrowed arguments, conditions and bindings, as policies of that size have them."""
    rules: list[dict[str, object]] = []
    for number in range(RULES):
        verdict = ("allow", "allow", "allow", "ask", "deny")[number % 5]
        rule: dict[str, object] = {
            "id": f"rule-{number}",
            "to": [f"role-{number % 4}", "everybody"],
            "tools": [f"source{number % 20}__list_{1 + number % 4}*", f"source{number % 20}__list_{number % 50}"],
            "verdict": verdict,
        }
        if verdict == "deny" or number % 3 == 0:
            rule["when"] = "args.limit > principal.attributes.limit && principal.id != 'nobody'"
        if number % 4 == 0:
            rule["arguments"] = {"properties": {"limit": {"maximum": 100}}}
        rules.append(rule)
    principals = {
        "bot": {"roles": ["everybody"], "attributes": {"limit": 50, "tenant": "acme"}},
        "nobody": {"roles": [f"role-{number}" for number in range(4)]},
    }
    return {"principals": principals, "rules": rules}


SIZES = ((2_000, 1_000, 30_000), (10_000, 4_000, 100_000))  # principals, rules, keys


def digest_of(number: int) -> str:
    """The SHA-256 of a key, whose text is its number."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def large_files(principals: int, rules: int, keys: int) -> dict[str, str]:
    """The files of a large policy."""
    people = [
        f"  bot-{number}: {{roles: [role-{number % 200}], attributes: {{tenant: t{number % 50}, limit: {number}}}}}\n"
        for number in range(principals)
    ]
    ruled = [
        f'  - {{id: rule-{number}, to: [role-{number % 200}], tools: ["source{number % 20}__list_*"], '
        f"when: \"principal.attributes.tenant == 't{number % 50}'\", verdict: allow}}\n"
        for number in range(rules)
    ]
    listed = [
        f"  - {{principal: bot-{number % principals}, hash: 'sha256:{digest_of(number)}', created: '2026-01-01T00:00:00Z'}}\n"
        for number in range(keys)
    ]
    files = {"principals.yaml": "principals:\n" + "".join(people), "rules.yaml": "rules:\n" + "".join(ruled)}
    for start in range(0, keys, _KEYS_A_FILE):
        files[f"keys-{start // _KEYS_A_FILE}.yaml"] = "keys:\n" + "".join(listed[start : start + _KEYS_A_FILE])
    return files


def large(principals: int, rules: int, keys: int, tools: Manifest) -> dict[str, float]:
    """Seconds of CPU that reading a large policy takes, first and after edits."""
    files = large_files(principals, rules, keys)
    deny = '  - {id: stop, to: [role-1], tools: ["source1__list_*"], verdict: deny}\n'
    last = f"keys-{(keys - 1) // _KEYS_A_FILE}.yaml"
    edits = {
        "first": files,
        "a rule more": files | {"rules.yaml": files["rules.yaml"] + deny},
        "a key less": files | {last: files[last][: files[last].rindex("  - ")]},
    }
    with tempfile.TemporaryDirectory() as directory:
        reader, clock, found = policy_reader(Path(directory)), SystemClock(), dict[str, float]()
        for name, contents in edits.items():
            encoded = {file: text.encode() for file, text in contents.items()}
            started = time.process_time()
            read = reader.read(PolicyFiles(directory="policies", contents=encoded), tools)
            Access(read.rules, tools.tools)
            Identity(read.credentials, clock, KeySets(_nothing, clock))
            found[name] = time.process_time() - started
    return found


async def _nothing(_: str) -> bytes:
    raise StateError("no key set is asked for")


def print_large(tools: Manifest) -> None:
    """A row for each size."""
    for principals, rules, keys in SIZES:
        found = large(principals, rules, keys, tools)
        shown = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items())
        print(f"{principals} principals, {rules} rules, {keys} keys: CPU {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    tools = catalog(
        *(http_tool(f"source{number % 20}__list_{number // 20}", Effect.READ, PROPERTIES) for number in range(TOOLS))
    )  # 20 sources of 50 tools
    if parser.parse_args().large:
        print_large(tools)
        return
    bot = Principal(id="bot", roles=frozenset({"everybody"}), attributes={"limit": 50, "tenant": "acme"})
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "policies"
        path.mkdir()
        (path / "policy.yaml").write_bytes(msgspec.json.encode(policy()))
        loads, decisions, firsts = [], [], []
        for _ in range(ROUNDS):
            started = time.process_time()
            read = load(path, tools)
            access = Access(read.rules, tools.tools)
            loads.append((time.process_time() - started) * 1e3)
            started = time.process_time()
            access.visible(bot, next(iter(tools.tools.values())))
            firsts.append((time.process_time() - started) * 1e3)
            circumstances = EvaluationContext(now=1.8e9)
            for tool in tools.tools.values():
                if not access.visible(bot, tool):
                    continue
                arguments = {"limit": 5, "note": "n", "tenant_id": "acme"}
                started_ns = time.process_time_ns()
                for _ in range(20):
                    access.judge(bot, tool, arguments, circumstances)
                decisions.append((time.process_time_ns() - started_ns) / 20 / 1e3)
    seen = [len(access.considered(bot, tool)) for tool in tools.tools.values() if access.visible(bot, tool)]
    print(f"{RULES} rules, {TOOLS} tools; {len(seen)} are visible, with {statistics.mean(seen):.1f} rules about each")
    print(f"load                    {statistics.median(loads):8.1f} ms CPU")
    print(f"first use of a role     {statistics.median(firsts):8.1f} ms CPU")
    print(f"decision, median        {statistics.median(decisions):8.1f} us CPU")
    print(f"decision, 95th of 100   {statistics.quantiles(decisions, n=20)[-1]:8.1f} us CPU")


if __name__ == "__main__":
    main()
