"""SQL dialects: one record per engine."""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final, Generic, TypeVar, cast

from toolgen.connectors.sql.dialects.record import Dialect
from toolgen.connectors.sql.engines import ENGINES

__all__ = ["RECORDS", "ByDialect", "Dialect"]


class _Records(dict[str, Dialect]):
    def __missing__(self, name: str) -> Dialect:
        module = import_module(ENGINES[name].module or f"{__name__}.{name}")
        record = self[name] = module.DIALECT
        return cast("Dialect", record)


RECORDS: Final[Mapping[str, Dialect]] = MappingProxyType(_Records())
"""Records of dialects by name. Those of `ENGINES` are loaded together, a later one at its first use."""

_Value = TypeVar("_Value")


class ByDialect(dict[str, _Value], Generic[_Value]):
    """Values of `make` for the records of dialects, created at first use."""

    def __init__(self, make: Callable[[Dialect], _Value]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> _Value:
        value = self[name] = self._make(RECORDS[name])
        return value


for _name in ENGINES:
    RECORDS[_name]
