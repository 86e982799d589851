"""Times on the command line: moments (`30m`, `yesterday`), periods (`15:00-16:00`) and the time zone for input and output."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

import click

from toolgen.core.clock import Clock, SystemClock

__all__ = [
    "between_option",
    "moment",
    "period",
    "shown_time",
    "shown_zone",
    "since_option",
    "tz_option",
    "until_option",
    "zone_label",
]

Zone = tzinfo | None
"""Time zone; None for that of the machine, with its summer time."""

_AGE = re.compile(r"(\d{1,9})(s|m|h|d)\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?"
_DAY = r"today|yesterday|\d{4}-\d{2}-\d{2}"
_MOMENT = re.compile(rf"(?:(?P<day>{_DAY})\s*)?(?P<clock>{_CLOCK})?\Z")
_HOURS = re.compile(rf"(?:(?P<day>{_DAY})\s+)?(?P<start>{_CLOCK})\s*-\s*(?P<end>{_CLOCK})\Z")
_FORMS = "30m, 7d, today, yesterday, 15:00, 'yesterday 15:00', 2026-01-31 or 2026-01-31T12:00:00Z"
_PERIODS = "15:00-16:00, 'yesterday 15:00-16:00' or START..END"


def moment(text: str, zone: Zone, clock: Clock) -> float | None:
    """Return the seconds since the epoch of a moment, or None for an invalid text. A time without a day is the most recent one."""
    text = text.strip()
    if found := _AGE.match(text):
        return clock.now() - int(found[1]) * _SECONDS[found[2]]
    try:
        if text and (known := _MOMENT.match(text)):
            return _at(known["day"], known["clock"], zone, clock)
        given = datetime.fromisoformat(text)
        return (given if given.tzinfo else given.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def period(text: str, zone: Zone, clock: Clock) -> tuple[float, float] | None:
    """Return start and end of a period, or None for an invalid text. Hours without a day are the most recent ones."""
    if ".." in text:
        ends = [moment(part, zone, clock) for part in text.split("..", 1)]
        return None if ends[0] is None or ends[1] is None or ends[1] <= ends[0] else (ends[0], ends[1])
    found = _HOURS.match(text.strip())
    if found is None:
        return None
    try:
        start = _at(found["day"], found["start"], zone, clock)
        day = _local(start, zone).date()
        end = _seconds(day, _time(found["end"]), zone)
        return start, end if end > start else _seconds(day + timedelta(days=1), _time(found["end"]), zone)
    except (ValueError, OverflowError, OSError):
        return None


def shown_time(recorded: object, zone: Zone) -> str:
    """Return a recorded time (RFC 3339) in a zone, as `2026-01-31 15:00:00`; an invalid one unchanged."""
    try:
        given = datetime.fromisoformat(str(recorded))
        return given.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(recorded)


def zone_label(zone: Zone) -> str:
    """Return the title of a column of times: UTC, local, or the place of the zone."""
    return "local" if zone is None else str(zone).rpartition("/")[2]


def shown_zone() -> Zone:
    """Return the zone that `--tz` of the running command names."""
    zone: Zone = click.get_current_context().params.get("zone", UTC)
    return zone


def _at(day: str | None, clock_time: str | None, zone: Zone, clock: Clock) -> float:
    today = _local(clock.now(), zone).date()
    named = {None: today, "today": today, "yesterday": today - timedelta(days=1)}
    start = named[day] if day in named else date.fromisoformat(str(day))
    found = _seconds(start, _time(clock_time or "00:00"), zone)
    if day is None and found > clock.now():
        return _seconds(start - timedelta(days=1), _time(clock_time or "00:00"), zone)
    return found


def _time(text: str) -> time:
    hour, minute, second = map(int, (text + ":0").split(":")[:3])
    return time(hour, minute, second)


def _seconds(day: date, of_day: time, zone: Zone) -> float:
    return datetime.combine(day, of_day, zone).timestamp()


def _local(seconds: float, zone: Zone) -> datetime:
    return datetime.fromtimestamp(seconds, zone)


def _zone(context: click.Context, parameter: click.Parameter, text: str) -> Zone:
    if text.lower() in {"utc", "local"}:
        return UTC if text.lower() == "utc" else None
    try:
        return ZoneInfo(text)
    except (ValueError, OSError, LookupError):  # unknown name, path, or folder
        raise click.BadParameter(
            f"{text[:60]!r} is not a time zone: use UTC, local or a name like Europe/Berlin",
            ctx=context,
            param=parameter,
        ) from None


def _micros(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    found = moment(text, context.params.get("zone", UTC), SystemClock())
    if found is None:
        raise click.BadParameter(f"is not a time like {_FORMS}", ctx=context, param=parameter)
    return round(found * 1e6)


def _between(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = period(text, context.params.get("zone", UTC), SystemClock())
    if found is None:
        raise click.BadParameter(f"is not a period like {_PERIODS}", ctx=context, param=parameter)
    return round(found[0] * 1e6), round(found[1] * 1e6)


tz_option = click.option(
    "--tz",
    "zone",
    default="UTC",
    show_default=True,
    metavar="ZONE",
    callback=_zone,
    is_eager=True,
    help="Time zone of the times given and shown: UTC, local, or a name like Europe/Berlin.",
)
since_option = click.option(
    "--since", callback=_micros, metavar="WHEN", help=f"Calls that began at WHEN or later: {_FORMS}."
)
until_option = click.option("--until", callback=_micros, metavar="WHEN", help="Calls that began before WHEN.")
between_option = click.option(
    "--between",
    callback=_between,
    metavar="PERIOD",
    help=f"Calls that began in a period, instead of --since and --until: {_PERIODS}.",
)
