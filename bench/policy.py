"""What a policy of 200 rules over 1,000 tools costs: to load, and a decision once it is compiled for a principal.

python -m bench.policy
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import orjson

from tests.catalogs import catalog, http_tool
from toolgen.model.call import Principal
from toolgen.model.tool import Effect
from toolgen.policy.access import Access, Circumstances
from toolgen.policy.document.policy import load

RULES, TOOLS, ROUNDS = 200, 1_000, 5
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


def main() -> None:
    tools = catalog(
        *(http_tool(f"source{number % 20}__list_{number // 20}", Effect.READ, PROPERTIES) for number in range(TOOLS))
    )  # 20 sources of 50 tools
    bot = Principal(id="bot", roles=frozenset({"everybody"}), attributes={"limit": 50, "tenant": "acme"})
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "policies"
        path.mkdir()
        (path / "policy.yaml").write_bytes(orjson.dumps(policy()))
        loads, decisions, firsts = [], [], []
        for _ in range(ROUNDS):
            started = time.process_time()
            read = load(path, tools)
            access = Access(read.rules, tools.tools)
            loads.append((time.process_time() - started) * 1e3)
            started = time.process_time()
            access.visible(bot, next(iter(tools.tools.values())))
            firsts.append((time.process_time() - started) * 1e3)
            circumstances = Circumstances(now=1.8e9)
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
