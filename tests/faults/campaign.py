"""Fault campaign with real processes: two gateways of two workers each over one Redis with a replica and Sentinel, clients and an upstream.

`python -m tests.faults.campaign` makes calls at a moderate rate for `TOOLGEN_FAULTS_S` seconds (180), kills, stops, cuts off, fails over,
empties and sets back, as a seed says (`TOOLGEN_FAULTS_SEED`, by default another each time), and holds what clients were told, what the
upstream received and what is on record against the invariants of the simulation. It ends with 1 for an anomaly.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Literal

import httpx
from msgspec import Struct
from msgspec.structs import replace
from redis.exceptions import RedisError

from tests.faults.load import answered_operation
from tests.faults.processes import GatewayProcess, Proxy, Redises
from tests.faults.project import AGENTS, BURST, EXPIRES_S, HUNG_S, LEADS, PER_MINUTE, key_of, write
from tests.simulation.evidence import Decided, Entry, Evidence, Limit, Operation, Planted, Received, Told
from tests.simulation.invariants import Anomaly, check, latest
from toolgen.audit.reader import entries

__all__ = ["Campaign", "Request", "main", "report"]

_A_SECOND = 4.0
_QUIET_S = 14.0
_PAUSE_S = (4.0, 9.0)
_REDIS_TIMEOUT_S = 1.0
_UNREADY_S = 2.0
"""Time until a gateway that did not know the pauses is used again."""
_AT_ONCE = 3 * BURST
LIMITED = "limited"


class Request(Struct, frozen=True, kw_only=True):
    """One operation, and what its client, its people and the upstream do. Times are seconds after the step before."""

    name: str
    kind: Literal["ask", "left", "keyed", "plain"]
    tool: str
    effect: Literal["read", "write"]
    principal: str
    wait: float | None
    upstream: Literal["ok", "error", "hang", "cut"]
    takes_s: float
    answer: Literal["approve", "deny", "none"]
    answered_after_s: float
    cancelled_after_s: float

    @property
    def own_s(self) -> float:
        """How long it may take in the best case."""
        return (EXPIRES_S if self.kind == "ask" else 0.0) + HUNG_S


def request_of(random: Random, number: int) -> Request:
    """The operation of a number. The first ones draw on a limit all at once, so that it is reached in each run."""
    kind = random.choices(("ask", "left", "keyed", "plain", "limited"), (8, 6, 5, 2, 5))[0]
    if number < _AT_ONCE:
        kind = "limited"
    limited = kind == "limited"
    effect = "read" if limited or (kind in {"left", "plain"} and random.random() < 0.3) else "write"
    tool = "shop__create_refund" if kind == "ask" else "shop__create_order" if effect == "write" else "shop__get_item"
    upstream = "ok" if limited else random.choices(("ok", "error", "hang"), (18, 2, 1 if kind != "keyed" else 0))[0]
    return Request(
        name=f"{kind}{number}",
        kind="plain" if limited else kind,  # type: ignore[arg-type]
        tool="shop__get_limited" if limited else tool,
        effect=effect,  # type: ignore[arg-type]
        principal=AGENTS[number % len(AGENTS)],
        wait={"ask": 0.2, "left": random.choice((0.0, 0.5))}.get(kind),
        upstream=upstream,  # type: ignore[arg-type]
        takes_s=random.choice((random.uniform(0.01, 0.3), random.uniform(0.3, 5))) if not limited else 0.01,
        answer=random.choices(("approve", "deny", "none"), (14, 2, 4))[0] if kind == "ask" else "none",  # type: ignore[arg-type]
        answered_after_s=random.uniform(0.1, 8),
        cancelled_after_s=random.uniform(0.1, 5) if kind in {"ask", "left"} and random.random() < 0.1 else 0.0,
    )


class Campaign:
    """One run in a folder of its own."""

    def __init__(self, seed: int, seconds: float, folder: Path, *, faults: bool = True, names: str = "AB") -> None:
        self.seed, self.seconds, self._folder, self._faults = seed, seconds, folder, faults
        self._random = Random(f"faults {seed}")
        self._redises = Redises(folder)
        self._proxies = {name: Proxy(self._redises) for name in names}
        self._gateways: dict[str, GatewayProcess] = {}
        self._requests: dict[str, Request] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._errors: list[BaseException] = []
        self._receiving: set[asyncio.Task[Any]] = set()
        self._began = time.time()
        self._timeouts: list[Planted] = []
        self.evidence = Evidence(
            operations={},
            limits=(Limit(prefix=LIMITED, burst=BURST, per_second=PER_MINUTE / 60),),
            slack_s=10.0,
        )

    def now(self) -> float:
        """Seconds since the start."""
        return time.time() - self._began

    async def run(self) -> list[Anomaly]:
        """Starts everything, makes calls and plants faults, ends everything, and returns the anomalies."""
        server = await asyncio.start_server(self._receive, "127.0.0.1", 0, backlog=512)
        upstream = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        seal = secrets.token_hex(32)
        try:
            await self._redises.start()
            for proxy in self._proxies.values():
                await proxy.start()
            self._gateways = await self._make_gateways(upstream, seal)
            await asyncio.gather(*(one.start() for one in self._gateways.values()))
            self._began = time.time()
            limits = httpx.Limits(max_connections=400, max_keepalive_connections=50)
            async with httpx.AsyncClient(limits=limits, timeout=20) as self._http:
                await self._load()
            for gateway in self._gateways.values():
                await asyncio.to_thread(gateway.stop)
        finally:
            for gateway in self._gateways.values():
                if gateway.process is not None and gateway.process.poll() is None:
                    gateway.kill()
            for proxy in self._proxies.values():
                await proxy.close()
            await self._redises.close()
            await self._close()
            server.close()
            for task in tuple(self._receiving):
                task.cancel()
            await asyncio.sleep(0.1)  # so that what was cut off is closed
        if self._errors:
            raise self._errors[0]
        self._read_records()
        self._read_logs()
        return check(self.evidence) + self._further()

    async def _make_gateways(self, upstream: str, seal: str) -> dict[str, GatewayProcess]:
        """Gateways by name, which are not started."""
        return {
            name: GatewayProcess(name, write(self._folder / name, upstream, proxy.port, seal))
            for name, proxy in self._proxies.items()
        }

    def _further(self) -> list[Anomaly]:
        """Anomalies that a larger campaign has seen beside the invariants."""
        return []

    async def _close(self) -> None:
        """End what a larger campaign has started beside gateways and Redis."""

    def _address(self, random: Random) -> str:
        """URL of a gateway, or of what stands before all of them."""
        return random.choice([*self._gateways.values()]).url

    def _gateway_of(self, answer: httpx.Response) -> str:
        """Name of the gateway that sent an answer."""
        return next(name for name, one in self._gateways.items() if str(answer.url).startswith(one.url + "/"))

    async def _load(self) -> None:
        planting = asyncio.create_task(self._plant()) if self._faults else None
        number = 0
        while self.now() < self.seconds:
            request = request_of(self._random_of(number), number)
            self._requests[request.name] = request
            self.evidence.operations[request.name] = Operation(
                name=request.name, kind=request.kind, effect=request.effect, own_s=request.own_s
            )
            self._begin(self._act(request))
            number += 1
            await asyncio.sleep(1 / _A_SECOND if number >= _AT_ONCE else 0)
        if planting is not None:
            await planting
        while self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.sleep(_QUIET_S if self._faults else 0)  # a second ending comes when a lease is over
        self.evidence.over = self.now()

    def _random_of(self, number: int) -> Random:
        return Random(f"{self.seed} {number}")

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if (error := task.exception()) is not None:
            self._errors.append(error)

    # Faults

    async def _plant(self) -> None:
        random = self._random
        kinds = self._fault_kinds()
        left: list[Callable[[Random], Awaitable[None]]] = []
        while self.now() < self.seconds - 12:
            await asyncio.sleep(random.uniform(*_PAUSE_S))
            if not left:  # each kind once, before any comes again
                left = random.sample(kinds, len(kinds))
            try:
                await left.pop()(random)
            except (OSError, RedisError, TimeoutError) as error:
                self._say(f"a fault could not be planted: {error!r}")

    def _fault_kinds(self) -> list[Callable[[Random], Awaitable[None]]]:
        return [
            self._kill_worker, self._stop_worker, self._kill_gateway, self._kill_redis, self._cut, self._fail_over, self._flush,
            self._set_back,
        ]  # fmt: skip

    def _any_gateway(self, random: Random) -> GatewayProcess:
        return random.choice([*self._gateways.values()])

    def _say(self, text: str) -> None:
        print(f"{self.now():7.2f}  {text}", flush=True)

    @contextlib.asynccontextmanager
    async def _planted(self, kind: str, gateway: str, text: str) -> Any:
        """A fault that lasts as long as the block, and is on record from its start."""
        began, place = self.now(), len(self.evidence.planted)
        self._say(text)
        planted = Planted(at=began, until=self.seconds + 60, kind=kind, gateway=gateway, text=text)
        self.evidence.planted.append(planted)
        try:
            yield
        finally:
            self.evidence.planted[place] = replace(planted, until=self.now())

    def _lost(self, text: str) -> None:
        """From now on the store may lack, or have again, what it had before."""
        self.evidence.planted.append(Planted(at=self.now(), until=self.now(), kind="loss", text=text))

    async def _kill_worker(self, random: Random) -> None:
        gateway = self._any_gateway(random)
        workers = gateway.workers()
        async with self._planted("kill", gateway.name, f"kill -9 of a worker of {gateway.name}"):
            gateway.signal(random.choice(workers), signal.SIGKILL)
            await asyncio.sleep(3)

    async def _stop_worker(self, random: Random) -> None:
        gateway, seconds = self._any_gateway(random), random.choice((2.0, 6.0, 14.0, 18.0))
        pid = random.choice(gateway.workers())
        async with self._planted("stop", gateway.name, f"SIGSTOP of a worker of {gateway.name} for {seconds:g} s"):
            gateway.signal(pid, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            gateway.signal(pid, signal.SIGCONT)

    async def _kill_gateway(self, random: Random) -> None:
        gateway, seconds = self._any_gateway(random), random.uniform(0.5, 4)
        async with self._planted(
            "kill", gateway.name, f"kill -9 of gateway {gateway.name}, back after {seconds:.1f} s"
        ):
            gateway.kill()
            await asyncio.sleep(seconds)
            await gateway.start()

    async def _kill_redis(self, random: Random) -> None:
        seconds = random.choice((0.3, 4.0))
        async with (
            self._planted("cut", "", f"kill -9 of the master, back after {seconds:g} s"),
            self._planted("loss", "", "what is not on the disk, or not at the replica, is lost"),
        ):
            number = await self._redises.kill_master()
            await asyncio.sleep(seconds)
            await self._redises.start_again(number)
            await self._settled()
        self._lost("by then")

    async def _cut(self, random: Random) -> None:
        names = random.choice((*self._proxies, "".join(self._proxies)))
        way, seconds = random.choice(("refuse", "hang")), random.choice((1.0, 5.0, 12.0))
        async with self._planted("cut", names if len(names) == 1 else "", f"{names} cut off ({way}) for {seconds:g} s"):
            for name in names:
                self._proxies[name].set(way)
            await asyncio.sleep(seconds)
            for name in names:
                self._proxies[name].set("pass")

    async def _fail_over(self, _: Random) -> None:
        async with (
            self._planted("cut", "", "failover by Sentinel"),
            self._planted("loss", "", "what is not at the replica is lost"),  # also what the old master takes meanwhile
        ):
            await self._redises.fail_over()
            await self._settled()
        self._lost("by then")

    async def _settled(self) -> None:
        """Returns when one and the same server is the master for two seconds."""
        known, since = 0, time.monotonic()
        while time.monotonic() - since < 2:
            await asyncio.sleep(0.1)
            with contextlib.suppress(OSError, RedisError):
                number = self._redises.ports.index(await self._redises.master())
                role = (await self._redises.client(number).info("replication"))["role"]
                if role != "master" or number != known:
                    known, since = number, time.monotonic()

    async def _flush(self, _: Random) -> None:
        self._say("FLUSHALL")
        self._lost("FLUSHALL")
        await self._redises.flush()

    async def _set_back(self, random: Random) -> None:
        await self._redises.copy()
        seconds = random.uniform(1, 5)
        await asyncio.sleep(seconds)
        self._say(f"the store is set back by {seconds:.1f} s")
        self._lost("an older copy")
        await self._redises.restore()

    # The upstream

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection of the system behind."""
        task = asyncio.current_task()
        assert task is not None
        self._receiving.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        except Exception as error:
            self._errors.append(error)
        finally:
            self._receiving.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Writes down every request as it comes, before it is answered."""
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            body = await reader.readexactly(int(fields.get("content-length") or 0))
            query = dict(httpx.URL("http://x" + lines[0].split(" ")[1]).params)
            name = query.get("op") or json.loads(body or b"{}").get("op", "")
            request = self._request(name)
            effect = request.effect == "write"
            self.evidence.received.append(Received(at=self.now(), operation=name, effect=effect))
            await asyncio.sleep(request.takes_s if request.upstream != "hang" else 3600)
            status = "500 Internal Server Error" if request.upstream == "error" else "200 OK"
            answer = json.dumps({"op": name}).encode()
            writer.write(f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n".encode())
            writer.write(
                b"content-length: %d\r\n\r\n%s" % (len(answer), answer[: 5 if request.upstream == "cut" else None])
            )
            await writer.drain()
            if request.upstream == "cut":
                return

    def _request(self, name: str) -> Request:
        """The operation that a request at the upstream belongs to."""
        return self._requests[name]

    # Clients and people

    async def _act(self, request: Request) -> None:
        random = self._random_of(int("".join(filter(str.isdigit, request.name))) + 1_000_000)
        began = self.now()
        if request.kind == "keyed":
            while self.now() < self._bound(request, began):
                told = await self._call(request, random)
                if told.final and told.status != "refused":
                    await asyncio.sleep(random.uniform(0, 2))
                    await self._call(request, random)  # which may be answered by another gateway
                    return
                await asyncio.sleep(1)
            return
        told = await self._call(request, random)
        if request.answer != "none":
            self._begin(self._answer(request, random))
        if told.status != "pending":
            return
        if request.cancelled_after_s:
            self._begin(self._cancel(request, told.call_id, random))
        while not told.final and self.now() < self._bound(request, began):
            await asyncio.sleep(1)
            told = await self._ask(request, random, "poll", "GET", f"/v1/calls/{told.call_id}", call_id=told.call_id)

    def _bound(self, request: Request, began: float) -> float:
        """When a client gives up: a little after its call has to have ended."""
        return latest(self.evidence, began, request.own_s) + 3

    async def _call(self, request: Request, random: Random) -> Told:
        body: dict[str, Any] = {"arguments": {"op": request.name}}
        if request.kind == "keyed":
            body["idempotency_key"] = request.name
        if request.wait is not None:
            body["wait"] = request.wait
        return await self._ask(request, random, "call", "POST", f"/v1/tools/{request.tool}/call", body)

    async def _answer(self, request: Request, random: Random) -> None:
        """A person finds the call in the list of one of the gateways, whatever its client was told, and answers."""
        await asyncio.sleep(request.answered_after_s)
        headers = _headers(random.choice(LEADS))
        for _ in range(4):
            with contextlib.suppress(httpx.HTTPError, ValueError):
                url = f"{self._address(random)}/v1/approvals"
                listed = (await self._http.get(url, headers=headers)).json().get("approvals", ())
                for call_id in [one["id"] for one in listed if one["arguments"].get("op") == request.name]:
                    if await self._decide(request, f"{url}/{call_id}", call_id, headers):
                        return
            await asyncio.sleep(1)

    async def _decide(self, request: Request, url: str, call_id: str, headers: dict[str, str]) -> bool:
        """True if the gateway said whether it takes the answer."""
        began, accepted = self.now(), None
        try:
            answer = await self._http.post(url, json={"decision": request.answer}, headers=headers)
            if answer.status_code < 500:
                accepted = answer.status_code < 300
        finally:
            decided = Decided(
                began=began, at=self.now(), operation=request.name, call_id=call_id, approve=request.answer == "approve",
                accepted=accepted,
            )  # fmt: skip
            self.evidence.decided.append(decided)
        return accepted is not None

    async def _cancel(self, request: Request, call_id: str, random: Random) -> None:
        await asyncio.sleep(request.cancelled_after_s)
        await self._ask(request, random, "cancel", "POST", f"/v1/calls/{call_id}/cancel", call_id=call_id)

    async def _ask(
        self,
        request: Request,
        random: Random,
        asked: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        call_id: str = "",
    ) -> Told:
        status, code, text, gateway, answered, began = "fault", "", "", "", "", self.now()
        try:
            answer = await self._http.request(
                method, self._address(random) + path, json=body, headers=_headers(request.principal)
            )
            gateway = self._gateway_of(answer)
            said = answer.json()
            error = said.get("error") or {}
            code, text = str(error.get("code", "")), str(error.get("message", ""))[:80]
            if "call_id" in said:
                status, call_id, answered = said["status"], said["call_id"], answered_operation(said)
            elif answer.status_code == 404:
                status = "gone"
        except (httpx.HTTPError, ValueError) as error:
            text = type(error).__name__
        told = Told(
            at=self.now(), operation=request.name, gateway=gateway, status=status, code=code, call_id=call_id, asked=asked,
            text=text, began=began, answered=answered,
        )  # fmt: skip
        self.evidence.told.append(told)
        return told

    # The record

    def _read_records(self) -> None:
        for name in self._gateways:
            for entry in entries(self._folder / name / "var" / "audit"):
                if entry.get("call_id"):
                    arguments = entry.get("arguments") or {}
                    self.evidence.entries.append(
                        Entry(
                            at=self._true_time(datetime.fromisoformat(entry["time"]).timestamp()) - self._began,
                            gateway=name,
                            stream=entry["stream"],
                            seq=entry["seq"],
                            event=entry["event"],
                            call_id=entry["call_id"],
                            operation=str(arguments.get("op", "")) if entry["event"] == "intent" else "",
                            status=str(entry.get("status") or ""),
                            code=str(entry.get("code") or ""),
                            verdict=str(entry.get("verdict") or ""),
                        )
                    )
        intents: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for at, name, home in sorted(
            (one.at, one.operation, one.gateway) for one in self.evidence.entries if one.operation
        ):
            intents[name].append((at, home))
        for place, received in enumerate(self.evidence.received):
            homes = [home for at, home in intents[received.operation] if at <= received.at + 0.1]
            self.evidence.received[place] = replace(received, gateway=homes[-1] if homes else "")

    def _read_logs(self) -> None:
        """Add the requests that Redis did not answer in time, and times in which a gateway did not know the pauses, to the faults: a busy
        machine delays answers too. The summary counts them."""
        for name in self._gateways:
            for line in (self._folder / name / "serve.log").read_text(encoding="utf-8", errors="replace").splitlines():
                unknown = "pauses are not known yet" in line
                if not line.startswith("{") or not (unknown or "TimeoutError" in line):
                    continue
                at = self._true_time(datetime.fromisoformat(json.loads(line)["time"]).timestamp()) - self._began
                if not self.evidence.befell({"kill", "stop", "cut", "delay"}, at - 2 * _REDIS_TIMEOUT_S, at, name):
                    text = "Redis did not answer in time, without a planted fault"
                    until = at + _UNREADY_S if unknown else at
                    self._timeouts.append(
                        Planted(at=at - _REDIS_TIMEOUT_S, until=until, kind="delay", gateway=name, text=text)
                    )
        self.evidence.planted += self._timeouts

    def _true_time(self, time: float) -> float:
        """Time of an entry, without what a gateway's clock was set wrong by."""
        return time

    def summary(self) -> str:
        """What was done, in numbers."""
        evidence = self.evidence
        told = Counter(one.code or one.status for one in evidence.told if one.final)
        faults = Counter(one.kind for one in evidence.planted if one not in self._timeouts)
        return (
            f"{len(evidence.operations)} operations, {len(evidence.received)} requests received, {len(evidence.entries)} entries of"
            f" calls on record; faults {dict(faults)}, {len(self._timeouts)} slow requests to Redis without one; clients were told"
            f" {dict(told.most_common())}; chances to break an invariant {dict(evidence.chances)}"
        )

    def story(self, operation: str) -> list[str]:
        """Everything known of one operation, in order."""
        evidence = self.evidence
        ids = {call for call, name in evidence.operation_of.items() if name == operation}
        lines = [(one.at, f"told by {one.gateway}: {one.asked} {one.status} {one.code} {one.call_id} {one.text}")
                 for one in evidence.told if one.operation == operation]  # fmt: skip
        lines += [(one.at, f"decided: approve {one.approve}, accepted {one.accepted}")
                  for one in evidence.decided if one.operation == operation]  # fmt: skip
        lines += [(one.at, f"received from {one.gateway}") for one in evidence.received if one.operation == operation]
        lines += [(one.at, f"record of {one.gateway}/{one.stream}: {one.event} {one.call_id} {one.verdict} {one.status} {one.code}")
                  for one in evidence.entries if one.call_id in ids]  # fmt: skip
        if lines:
            first, last = min(lines)[0], max(lines)[0]
            lines += [(one.at, f"FAULT {one.kind} {one.gateway} {one.text} until {one.until:.2f}")
                      for one in evidence.planted if one.at <= last and one.until >= first - 5]  # fmt: skip
        return [f"    {at:7.2f}  {text}" for at, text in sorted(lines)]


def _headers(principal: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key_of(principal)}"}


def report(make: Callable[[int, float, Path], Campaign], default_s: float) -> int:
    """Run a campaign and print it. Return 1 if an invariant was broken."""
    seed = int(os.environ.get("TOOLGEN_FAULTS_SEED") or secrets.randbelow(1_000_000))
    seconds = float(os.environ.get("TOOLGEN_FAULTS_S") or default_s)
    folder = Path(tempfile.mkdtemp(prefix="toolgen-faults-"))
    print(f"seed {seed}, {seconds:g} s, in {folder}", flush=True)
    campaign = make(seed, seconds, folder)
    found = asyncio.run(campaign.run())
    print(campaign.summary())
    for name, count in Counter(one.invariant for one in found).items():
        print(f"{name}: {count}")
    for one in found[:10]:
        print(one)
        print("\n".join(campaign.story(one.operation)[-60:]))
    print(f"seed {seed}: {len(found)} anomalies")
    return int(bool(found))


def main() -> int:
    """Exit status: 1 if an invariant was broken."""
    return report(Campaign, 180)


if __name__ == "__main__":
    sys.exit(main())
