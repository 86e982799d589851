"""`python -m examples.device`: a gateway, and a page that is a device, until Ctrl-C."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from examples.device.project import running


def main() -> None:
    """Starts both, says how to reach them, and waits."""
    with (
        tempfile.TemporaryDirectory(prefix="toolgen-device-") as folder,
        running(Path(folder) / "p", port=8090) as here,
    ):
        print(f"device   {here.page}   open it in a browser")
        print(f"REST     {here.gateway}/v1")
        print(f"key      {here.bot}   (bot, which acts for ann)\n")
        print(
            f"try:     curl -H 'Authorization: Bearer {here.bot}' -H 'X-On-Behalf-Of: ann' -H 'Content-Type: application/json' "
            f"""-d '{{"arguments": {{"question": "Order the pizza?"}}, "wait": 60}}' {here.gateway}/v1/tools/phone__confirm/call"""
        )
        print("\nCtrl-C stops it.", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("stopping")


if __name__ == "__main__":
    main()
