"""The emulator of BigQuery on loopback, without geography: its start would load an extension of its engine from elsewhere.

Runs in `.venv-bigquery` with the arguments of `bqemulator`.
"""

from __future__ import annotations

from importlib import import_module

if __name__ == "__main__":
    import_module("bqemulator.storage.engine").DuckDBEngine._load_spatial = lambda _engine: None
    import_module("bqemulator.cli").main()
