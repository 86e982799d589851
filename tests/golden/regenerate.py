"""`python -m tests.golden.regenerate` writes every golden file again; read the diff before you commit it."""

from __future__ import annotations

from pathlib import Path

from tests.golden.small import small_manifest
from toolgen.generator.emit.writer import FILES, render_all, write

GOLDEN = Path(__file__).parent


def main() -> None:
    for name in write(GOLDEN / "small", render_all(small_manifest(), FILES)):
        print(f"small/{name}")


if __name__ == "__main__":
    main()
