"""`python -m toolgen`: the same as the `toolgen` command."""

from __future__ import annotations

from toolgen.cli.main import main

if __name__ == "__main__":
    main()
