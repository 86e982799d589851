"""Reader of the schema of a BigQuery dataset over REST: tables and views with their columns, and the functions that the dataset defines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar
from urllib.parse import quote

from msgspec.structs import replace

from toolgen.connectors.http.connector import EgressRefusal
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.connectors.sql.execution.bigquery import dry_run
from toolgen.connectors.sql.execution.bigquery_service import (
    VIEWS,
    WRITING,
    BigqueryService,
    LostAnswerError,
    ServiceError,
)
from toolgen.connectors.sql.execution.bigquery_values import UnknownValueError, fields_of, type_name
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError, DatabaseUnreachableError
from toolgen.connectors.sql.reading.schema import MAX_TABLES, ReadSchema, Relation, assembled
from toolgen.core.clock import SystemClock
from toolgen.core.errors import DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import Column
from toolgen.model.database_rights import Power, Rights, TablePrivilege
from toolgen.model.database_url import ServerLocation

__all__ = ["bigquery_rights", "prepare_bigquery", "read_bigquery"]

_AT_ONCE: Final = 8
_LARGEST: Final = 20_000_000  # bytes of an answer
# Tables of other types read files, other services or a connection.
_TYPES: Final = frozenset({"TABLE", "VIEW", "MATERIALIZED_VIEW", "SNAPSHOT", "CLONE"})
_READ: Final = "bigquery.tables.getData"
_ODD: Final = frozenset("`\\.\"'\n\r")
T = TypeVar("T")


def read_bigquery(location: ServerLocation, password: str) -> ReadSchema:
    """Return the schema of the dataset. Raises `DescriptionError` if it cannot be read, or if the account may change a table."""

    async def read(service: BigqueryService) -> ReadSchema:
        names = await _names(service)
        resources = await _each(names, lambda name: service.get(f"{_tables(service)}/{quote(name, safe='')}", _LARGEST))
        held = await _held(service, names)
        if writable := sorted(name for name, permissions in held.items() if permissions & {*WRITING}):
            raise DescriptionError(
                f"the account of the source may change the table {writable[0]}, and the gateway serves only accounts that read",
                suggestion="give it roles/bigquery.dataViewer on the dataset, and no role that writes",
            )
        found = [_relation(name, one) for name, one in zip(names, resources, strict=True)]
        columns = [(name, column) for name, one in zip(names, resources, strict=True) for column in _columns(one)]
        database = assembled("bigquery", found, columns, [], [], await _routines(service))
        # A primary key of BigQuery is not enforced, so that several rows may have one.
        return ReadSchema(database=replace(database, name=service.place.dataset))

    return _asked(location, password, read)


def prepare_bigquery(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[tuple[str, ...] | str]:
    """Return the types of each statement's columns, or the reason why BigQuery rejects it."""

    async def read(service: BigqueryService) -> list[tuple[str, ...] | str]:
        return [await _prepared(service, statement) for statement in statements]

    return iter(_asked(location, password, read))


def bigquery_rights(location: ServerLocation, password: str) -> Rights:
    """Return the rights of the account on each table of the dataset. What it may do elsewhere is not told."""

    async def read(service: BigqueryService) -> Rights:
        unseen = Power(
            code="elsewhere",
            message="rights on other datasets, and on projects, cannot be asked for here: see its roles in IAM",
            harmless=True,
        )
        names = [] if service.place.emulator else await _names(service)
        held = await _held(service, names)
        grants = tuple(TablePrivilege(table=name, privilege="SELECT") for name in names if _READ in held[name])
        powers = tuple(
            Power(code="writes", message=f"may change {name} ({', '.join(sorted(held[name] & {*WRITING}))})")
            for name in names
            if held[name] & {*WRITING}
        )
        account = f"service account of {service.place.project}"
        return Rights(account=account, grants=grants, powers=(*powers, unseen), unlimited=service.place.emulator)

    return _asked(location, password, read)


async def _prepared(service: BigqueryService, statement: Statement) -> tuple[str, ...] | str:
    try:
        found = await dry_run(service, statement)
    except ServiceError as error:
        return f"BigQuery rejects it: {error.reason or error.status}"
    return (
        tuple(type_name(field) for field in found.fields) if found.kind == "SELECT" else "BigQuery reads no query in it"
    )


async def _names(service: BigqueryService) -> list[str]:
    """Return the names of tables. One with a sign that a parser could read as the end of a name is left out."""
    names: list[str] = []
    token = ""
    while True:
        page = await service.get(_tables(service), _LARGEST, maxResults="1000", pageToken=token)
        for one in page.get("tables") or ():
            reference = one.get("tableReference") if isinstance(one, dict) else None
            name = reference.get("tableId") if isinstance(reference, dict) else None
            if isinstance(name, str) and one.get("type") in _TYPES and name.isprintable() and _ODD.isdisjoint(name):
                names.append(name)
        token = page.get("pageToken") or ""
        if not token or len(names) > MAX_TABLES:
            return sorted(names)[:MAX_TABLES]


async def _routines(service: BigqueryService) -> list[str]:
    names: list[str] = []
    token = ""
    while True:
        page = await service.get(
            f"datasets/{service.place.dataset}/routines", _LARGEST, maxResults="1000", pageToken=token
        )
        for one in page.get("routines") or ():
            reference = one.get("routineReference") if isinstance(one, dict) else None
            if isinstance(reference, dict) and isinstance(reference.get("routineId"), str):
                names.append(reference["routineId"].lower())
        token = page.get("pageToken") or ""
        if not token:
            return names


async def _held(service: BigqueryService, names: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the permissions of the account by table. An emulator has none to tell."""
    if service.place.emulator:
        return dict.fromkeys(names, frozenset[str]())
    found = await _each(names, lambda name: service.permissions(name, (*WRITING, _READ)))
    return dict(zip(names, found, strict=True))


def _tables(service: BigqueryService) -> str:
    return f"datasets/{service.place.dataset}/tables"


async def _each(names: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Return the answer for each name. Only some are asked for at once."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> T:
        async with places:
            return await ask(name)

    return list(await asyncio.gather(*(one(name) for name in names)))


def _relation(name: str, resource: Mapping[str, Any]) -> Relation:
    note = resource.get("description")
    view = resource.get("type") in VIEWS
    return Relation(schema="", name=name, view=view, comment=note if isinstance(note, str) else "")


def _columns(resource: Mapping[str, Any]) -> Iterator[Column]:
    schema = resource.get("schema")
    for field in fields_of(schema) if isinstance(schema, dict) and schema.get("fields") else ():
        note = field.get("description")
        if _ODD.isdisjoint(field["name"]):
            yield Column(
                name=field["name"],
                type=type_name(field),
                nullable=field.get("mode") != "REQUIRED",
                comment=note if isinstance(note, str) else "",
            )


def _asked(location: ServerLocation, password: str, read: Callable[[BigqueryService], Awaitable[T]]) -> T:
    """Return the result of requests, from a thread of their own: the caller may be inside of an event loop. Raises `DescriptionError`."""

    async def ask() -> T:
        reference = SecretReference(provider="literal", locator=password) if password else None
        reach = Reach(password=reference, secrets=SecretResolver(), permit=None)
        service = BigqueryService(location, reach, SystemClock())
        try:
            return await read(service)
        finally:
            await service.close()

    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, ask()).result()
    except DatabaseUnreachableError as error:
        raise DescriptionError(error.reason, suggestion=error.suggestion) from None
    except ServiceError as error:
        raise DescriptionError(
            f"BigQuery refuses to tell the schema ({error.reason or error.status})",
            suggestion="check project, dataset and region, and that the account has roles/bigquery.dataViewer on the dataset",
        ) from None
    except (LostAnswerError, AnswerTooLargeError, UnknownValueError, EgressRefusal):
        raise DescriptionError(
            "the answer of BigQuery cannot be read", suggestion="check the host of the location, then try again"
        ) from None
