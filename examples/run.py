"""`make serve`: the sample shop until Ctrl-C, with what is needed to connect to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from examples.shop.project import running


def main() -> None:
    """Starts everything, says how to reach it, and waits."""
    with tempfile.TemporaryDirectory(prefix="toolgen-shop-") as folder, running(Path(folder), port=8080) as shop:
        key = shop.keys["support-bot"]
        print(f"MCP   {shop.url}/mcp")
        print(f"REST  {shop.url}/v1")
        print(f"key   {key}   (support-bot; others: auditor {shop.keys['auditor']})")
        print(f"\ntry:  curl -H 'Authorization: Bearer {key}' {shop.url}/v1/tools?limit=3")
        print(f"log:  toolgen audit list --dir {shop.directory}/var/audit")
        print("\nCtrl-C stops it.", flush=True)
        try:
            shop.gateway.wait()
        except KeyboardInterrupt:
            print("stopping")


if __name__ == "__main__":
    main()
