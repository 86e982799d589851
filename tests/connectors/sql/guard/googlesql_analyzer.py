"""Google's analyzer of GoogleSQL: what it reads of statements. Runs in `.venv-bigquery`, as the analyzer compiles for minutes.

Takes a JSON object `{"tables": {name: {column: type}}, "statements": [text]}` and prints one JSON object for each statement: `tables` that
are scanned, `columns` that are used (`table.column`), `functions` that are called, or `fault`, its error.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer the request on stdin."""
    _compile_once()
    asked = json.load(sys.stdin)
    api, types = import_module("zetasql.api"), import_module("zetasql.types")
    language = types.LanguageOptions.maximum_features()
    builder = api.CatalogBuilder("shop")
    for name, columns in asked["tables"].items():
        table = api.TableBuilder(name)
        for column, kind in columns.items():
            table.add_column(column, _type(types, kind))
        builder.add_table(table.build())
    catalog = builder.with_builtin_functions(types.ZetaSQLBuiltinFunctionOptions(language_options=language)).build()
    options = types.AnalyzerOptions(language_options=language)
    options.parameter_mode = types.ParameterMode.PARAMETER_POSITIONAL
    options.allow_undeclared_parameters = True
    options.prune_unused_columns = True
    analyzer = api.Analyzer(options, catalog)
    for sql in asked["statements"]:
        print(json.dumps(_read(analyzer, sql)), flush=True)


def _compile_once() -> None:
    """Keep the compiled analyzer beside the interpreter, and do not optimize it: that takes minutes."""
    client: Any = import_module("zetasql.core.wasm_client")
    settings = Path(sys.prefix) / "compiled.toml"
    settings.write_text(f'[cache]\ndirectory = "{Path(sys.prefix) / "compiled"}"\n', encoding="utf-8")
    made = client.Config

    def config() -> Any:
        found = made()
        found.cranelift_opt_level = "none"
        found.cache = str(settings)
        return found

    client.Config = config


def _type(types: Any, kind: str) -> Any:
    if kind.startswith("ARRAY<"):
        element = getattr(types.TypeKind, f"TYPE_{kind[6:-1]}")
        return types.Type(
            type_kind=types.TypeKind.TYPE_ARRAY, array_type=types.ArrayType(element_type=types.Type(type_kind=element))
        )
    if kind.startswith("STRUCT<"):
        fields = (field.split(" ") for field in kind[7:-1].split(", "))
        made = [
            types.StructField(
                field_name=name, field_type=types.Type(type_kind=getattr(types.TypeKind, f"TYPE_{inner}"))
            )
            for name, inner in fields
        ]
        return types.Type(type_kind=types.TypeKind.TYPE_STRUCT, struct_type=types.StructType(field=made))
    return getattr(types.TypeKind, f"TYPE_{kind}")


def _read(analyzer: Any, sql: str) -> dict[str, Any]:
    try:
        statement = analyzer.analyze_statement(sql)
    except Exception as error:
        return {"fault": str(error)[:300]}
    found: dict[str, set[str]] = {"tables": set(), "columns": set(), "functions": set()}
    _walk(statement, found, set())
    return {"kind": type(statement).__name__, **{name: sorted(values) for name, values in found.items()}}


def _walk(node: Any, found: dict[str, set[str]], seen: set[int]) -> None:
    """Collect from a resolved tree, whose nodes are records of records that know their parents."""
    if id(node) in seen:
        return
    seen.add(id(node))
    kind = type(node).__name__
    if kind == "ResolvedTableScan":
        found["tables"].add(node.table.name)
        found["columns"].update(f"{node.table.name}.{column.name}" for column in node.column_list)
    if kind.endswith("FunctionCall"):
        found["functions"].add(str(node.function.name).rpartition(":")[2].lower())
    if isinstance(node, list | tuple):
        for one in node:
            _walk(one, found, seen)
    elif hasattr(node, "__dict__"):
        for name, value in vars(node).items():
            if name not in {"table", "function", "signature", "parse_location_range"}:
                _walk(value, found, seen)


if __name__ == "__main__":
    main()
