"""Attacks on hidden columns and rows: each is refused, or its outcome is the same on a database that does not have them.

The outcome is the rows, or that there was an error. The statement that the guard lets through runs on both databases.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.connectors.sql.guard.combined import HIDDEN_COLUMNS
from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.honest import Engine, open_engine
from tests.connectors.sql.guard.test_combined import open_reduced, reduced_scope
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement

_ATTACKS: Final[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "attacks.yaml").read_text(encoding="utf-8"))
_OPEN: Final = {"invoices": "client", "sensors": "code", "visits": "page"}
_KEYS: Final = {
    "invoice_lines": "invoice_id",
    "invoices": "id",
    "places": "id",
    "readings": "sensor_id",
    "sensors": "id",
    "visits": "id",
}
_AT_LEAST: Final = 300


def _attacks(dialect: str) -> Iterator[str]:
    for form in [*_ATTACKS["columns"]["all"], *_ATTACKS["columns"][dialect]]:
        for table, column in HIDDEN_COLUMNS.items():
            yield form.format(T=table, H=column, V=_OPEN[table])
    for form in [*_ATTACKS["rows"]["all"], *_ATTACKS["rows"][dialect]]:
        for table, key in _KEYS.items():
            yield form.format(T=table, K=key)


def _outcome(engine: Engine, sql: str) -> str:
    try:
        return repr(sorted(map(repr, engine.rows(sql)[1])))
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_no_outcome_depends_on_a_hidden_column_or_row(dialect: str, tmp_path: Path) -> None:
    faults: list[str] = []
    attacks = list(dict.fromkeys(_attacks(dialect)))
    ran = 0
    with open_engine(dialect, tmp_path) as engine, open_reduced(dialect, tmp_path / "reduced") as reduced:
        scope = reduced_scope(engine)
        for sql in attacks:
            verdict = guard(sql, [], database=engine.database, scope=scope, attributes={})
            if not isinstance(verdict, Statement):
                assert verdict.suggestion, sql
                continue
            ran += 1
            found, wanted = _outcome(engine, verdict.sql), _outcome(reduced, verdict.sql)
            if found != wanted:
                faults.append(f"{sql}\n  {verdict.sql}\n  {found}\n  without it: {wanted}")
    assert not faults, f"{len(faults)}\n" + "\n".join(faults)
    assert len(attacks) >= _AT_LEAST
    assert ran > 0.1 * len(attacks)
