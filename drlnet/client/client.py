"""A session with a replay server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from drlnet import native
from drlnet.client.arguments import contents, flag, number, path_text, readings, text, whole
from drlnet.client.specs import Column, Item, Limiter, Sampler, declared, native_spec
from drlnet.client.table import Table
from drlnet.config.keys import client_key
from drlnet.errors import UnknownTable
from drlnet.native import HistogramReading

Reading = dict[str, int | float | str | HistogramReading]


class Client:
    """A session with the replay server at `address`, for example "udp://127.0.0.1:7447"; with all
    of its shards, where it has several.

    name: what the server's statistics call this client. timeout: seconds that opening the session
    and every control call may take. poll: "adaptive" spins for 20 us before it sleeps, "busy" never
    sleeps, "block" never spins. key: the key file of a role, or the folder that `drlnet keygen` has
    filled; left out: what DRLNET_KEY_FILE names, if anything. With it the session is encrypted, and
    either side has proved itself; `dpdk:local` stays as it is. patient: once the session is open,
    the time in which a server that was started again reads its state counts against no timeout, for
    half an hour at most.
    Raises TransportError when nothing answers, ProtocolError when something else answers, Forbidden
    when the server does not know the key, ServerLoading when it reads its state.

    >>> with Client("udp://127.0.0.1:7447") as client:
    ...     table = client.table(
    ...         "replay",
    ...         columns={"obs": Column("float32", (4,)), "reward": Column("float32")},
    ...         item=Item({"obs": View("obs"), "reward": View("reward", 1)}),
    ...         capacity=100_000,
    ...     )
    """

    def __init__(
        self,
        address: str,
        *,
        name: str = "client",
        timeout: float = 10.0,
        poll: str = "adaptive",
        key: str | Path | None = None,
        patient: bool = False,
    ) -> None:
        self.address = text("address", address)
        self.name = text("name", name)
        self._native: native.Client | None = native.Client(
            address,
            name,
            number("timeout", timeout),
            text("poll", poll),
            client_key(None if key is None else path_text("key", key)),
            flag("patient", patient),
        )

    @classmethod
    def in_process(
        cls, server: native.Server, *, name: str = "client", timeout: float = 10.0
    ) -> Client:
        """A client in one thread with its server, which runs while the client waits."""
        client = cls.__new__(cls)
        client.address = server.addresses[0]
        client.name = text("name", name)
        client._native = native.Client.in_process(server, name, number("timeout", timeout))
        return client

    def table(
        self,
        name: str,
        *,
        columns: Mapping[str, Column],
        item: Item,
        capacity: int,
        sampler: Sampler | None = None,
        limiter: Limiter | None = None,
        seed: int = 0,
    ) -> Table:
        """Opens the table of that name, creating it when it is new.

        All clients that open it must agree on every setting. capacity: rows (steps) that it holds.
        Raises TableMismatch (which field, which side), ConfigError (settings that cannot work, or
        that can deadlock).
        """
        limiter = limiter or Limiter()
        spec = native_spec(name, columns, item, capacity, sampler or Sampler(), limiter, seed)
        limited = limiter.samples_per_insert > 0
        return Table(self._session, spec, columns, item, limited=limited)

    def tables(self) -> list[str]:
        """The names of the server's tables, in the order in which they were opened first."""
        return [spec.name for spec in self._session.list_tables()]

    def attach(self, name: str) -> Table:
        """Opens the table of that name as it was declared by the client that created it.

        A view of one row is taken without a time axis, also where it was declared with one.
        Raises UnknownTable when the server has no table of that name.
        """
        specs = {spec.name: spec for spec in self._session.list_tables()}
        if text("name", name) not in specs:
            raise UnknownTable(
                f"the server at {self.address} has no table {name!r}",
                f"use {' or '.join(map(repr, specs))}"
                if specs
                else "it has none: open one with client.table(name, columns=..., item=...)",
            )
        spec = specs[name]
        columns, item = declared(spec)
        limited = spec.describe()["samples_per_insert"] > 0
        return Table(self._session, spec, columns, item, limited=limited)

    def set_timeout(self, seconds: float) -> None:
        """Sets what every control call may take from now on."""
        self._session.set_timeout(number("seconds", seconds))

    def publish(self, params: bytes) -> int:
        """Makes params the newest version and returns its number, which grows from 1.

        One client at a time publishes: the first, until it ends, another takes over, or another
        publishes when it has been silent for 3 s. Raises AnotherPublisher for any other.
        """
        return self._session.publish(contents("params", params))

    def take_over(self) -> None:
        """Makes this the client that publishes; the one that did gets AnotherPublisher."""
        self._session.take_over()

    def fetch(self, newer_than: int = 0) -> tuple[int, bytes] | None:
        """(version, params) of the newest version, or None when it is not newer."""
        version, params = self._session.fetch(whole("newer_than", newer_than))
        return (version, params) if version else None

    def put_blob(self, name: str, blob: bytes) -> int:
        """Keeps up to 128 KiB at the server under a name of up to 64 bytes; returns the version.

        The blob of that name is replaced. Raises ServerFull where there are 64 names.
        """
        return self._session.put_blob(text("name", name), contents("blob", blob))

    def get_blob(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """(version, blob) of that name; None without one, or when it is not newer."""
        version, blob = self._session.get_blob(text("name", name), whole("newer_than", newer_than))
        return (version, blob) if version else None

    def ask(self, question: bytes, patience: float) -> bytes:
        """The answer of the client that answers questions at this server.

        Waits for as long as the server hears of that client, and `patience` seconds where it does
        not; then it raises ReplayTimeout.
        """
        return self._session.ask(contents("question", question), number("patience", patience))

    def answer(
        self,
        answers: list[tuple[int, int, bytes]],
        *,
        begins: bool = False,
        at_once: bool = False,
    ) -> tuple[list[int], list[tuple[int, int, bytes]]]:
        """Gives answers, and takes the questions that wait: (gone, questions).

        answers: (client, request, answer) of questions that it was given; questions: the same of
        new ones, none after a second or two without; gone: clients that have asked, and whose
        sessions have ended. begins: this client answers from now on; the one that did gets
        ConfigError. at_once: it waits for no question.
        """
        return self._session.answer(answers, begins, at_once)

    def ping(self, payload_bytes: int = 0) -> float:
        """The round trip of a payload of that size, in microseconds."""
        most = native.max_request_bytes
        return self._session.ping_us(whole("payload_bytes", payload_bytes, 0, most))

    def stats(self) -> Reading:
        """The server's counters, latencies and its clients' reports, by dotted name."""
        return _one_reading(self._session.stats())

    def own_stats(self) -> Reading:
        """This client's latencies per operation and what its session had to repair."""
        return _one_reading(self._session.own_stats(), "client..")

    def report(self, values: Mapping[str, int | float | str]) -> None:
        """Puts figures of this client into the server's statistics, as client.<name>.<key>.

        Those of own_stats() go with them: one address tells all. name: this client's, its dots as
        underscores; a second live client of that name appears as <name>~2.
        """
        self._session.report(readings("values", values))

    def close(self) -> None:
        """Ends the session once writers, tables and streams made from it are gone too."""
        self._native = None

    @property
    def _session(self) -> native.Client:
        if self._native is None:
            raise RuntimeError("this client is closed")
        return self._native

    def __repr__(self) -> str:
        closed = ", closed" if self._native is None else ""
        return f"<Client {self.name!r} of {self.address}{closed}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _one_reading(shards: list[Reading], prefix: str = "") -> Reading:
    if len(shards) == 1:
        return shards[0]
    # Imported when it is needed: runs and their settings come along, which few clients have.
    from drlnet.metrics.shards import add_up

    return add_up(shards, prefix)
