"""What no single setting can tell: derived defaults, and contradictions between settings.

They run before any process starts, so that a run never hangs on settings that cannot work.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from drlnet.config.endpoint import Endpoint
from drlnet.config.keys import KEY_VARIABLE
from drlnet.config.names import remedy_for
from drlnet.config.transports import LISTEN
from drlnet.config.tree import Config
from drlnet.errors import ConfigError, Deadlock, Insecure, TransportError


def least_error_buffer(config: Config) -> float:
    """The smallest error buffer, in draws, with which actors and learner cannot block each other.

    The learner may be `batch_size` x (`prefetch` + 1) draws ahead and an append may add
    `append_burst` items at once; the balance must have room for both at the same time.
    """
    from drlnet import native

    replay = config.replay
    return native.least_error_buffer(
        replay.samples_per_insert, replay.batch_size, replay.prefetch, config.append_burst
    )


def least_capacity(config: Config) -> int:
    """The fewest rows in which items come to be drawn.

    A queue holds two unrolls of each stream, one that waits and one that is under way: its actors
    play no further ahead of the learner. It holds a whole batch and an append beside what all
    streams have begun, and in each shard, as the server wants it, all that is asked for ahead and
    an append.
    """
    replay, algo, shards = config.replay, config.algo, config.server.all_shards
    streams = config.actor.num_actors * config.actor.envs_per_actor
    window = config.net.frame_stack + algo.horizon
    if not replay.max_times_sampled:  # views that count from an episode's end reach further back
        window += max(0, algo.horizon - 1)
    leased = 2 * window * shards * math.ceil(streams / shards)  # the server has that for each
    if not replay.max_times_sampled:
        return leased
    append = config.actor.envs_per_actor * config.actor.flush_rows
    begun = (streams + replay.batch_size) * window + append
    draws = replay.batch_size * (replay.prefetch + 1)
    items = max(math.ceil(draws / replay.max_times_sampled), replay.min_size)
    held = max(_rows_of(config, items) + window, replay.batch_size * window)
    asked_for = held + config.append_burst
    return max(leased, begun, shards * asked_for)


def derived(config: Config) -> Config:
    """The same config with every default that follows from other settings filled in."""
    if config.run.serial:
        # A clock or a batch under way would make two runs differ: serial mode has neither.
        config = replace(
            config,
            run=replace(config.run, max_seconds=None),
            replay=replace(config.replay, prefetch=0),
        )
        config = repeatable(config)
    if config.replay.error_buffer is None:
        limited = config.replay.samples_per_insert > 0
        # Twice the least: room to work in, not only to survive.
        buffer = float(math.ceil(2 * least_error_buffer(config))) if limited else 0.0
        config = replace(config, replay=replace(config.replay, error_buffer=buffer))
    if config.replay.capacity == 0:
        rows = least_capacity(config)
        config = replace(config, replay=replace(config.replay, capacity=rows))
    return config


def repeatable(config: Config) -> Config:
    """The same config with a network that no clock decides about."""
    if getattr(config.net, "precision", None) != "auto":
        return config
    return replace(config, net=replace(config.net, precision="float32"))  # type: ignore[call-arg]


def check(config: Config) -> None:
    """Raises ConfigError (Deadlock) for settings that contradict each other."""
    if not config.env.id.isprintable():  # a server may have told it
        raise ConfigError(f"env.id = {config.env.id!r}", "name an environment in printable text")
    _check_batch_size(config)
    _check_limits(config)
    _check_replay(config)
    _check_min_size(config)
    _check_echo(config)
    _check_rows(config)
    _check_processes(config)
    _check_run(config)
    _check_evaluation(config)
    _check_names(config)


def _check_replay(config: Config) -> None:
    replay = config.replay
    least = least_error_buffer(config)
    buffer = replay.error_buffer
    if replay.samples_per_insert > 0 and buffer is not None and buffer < least:
        raise Deadlock(
            f"replay.error_buffer = {buffer:g} can deadlock: it is under batch_size x "
            f"(prefetch + 1) + samples_per_insert x append burst = {least:g}",
            f"set replay.error_buffer to {math.ceil(least)} or more, or leave it out",
        )
    streams = config.actor.num_actors * config.actor.envs_per_actor
    least_rows = least_capacity(config)
    if replay.capacity < least_rows:
        raise Deadlock(
            f"replay.capacity = {replay.capacity} is too small for {streams} environments and "
            f"items of {config.algo.horizon} steps: rows are overwritten before they make an item",
            f"set replay.capacity to {least_rows} or more",
        )


def _check_batch_size(config: Config) -> None:
    from drlnet import native

    most = native.most_items * config.learner.processes
    if config.replay.batch_size > most:
        each = " for each of learner.processes" if config.learner.processes > 1 else ""
        raise ConfigError(
            f"replay.batch_size = {config.replay.batch_size}: a request draws "
            f"{native.most_items} items at most{each}",
            f"lower it to {most}",
        )


def _check_limits(config: Config) -> None:
    for name, limit in config.server.limits.items():
        if not 0 <= limit < 2**63:
            raise ConfigError(
                f"server.limits.{name} = {limit}: expected 0 to {2**63 - 1}",
                f"correct server.limits.{name}",
            )


def _check_min_size(config: Config) -> None:
    """Raises Deadlock where the rows that are held make fewer items than the first draw waits for.

    An item stands at every `period`-th step of a long episode, and needs `horizon` rows behind it.
    """
    replay, shards = config.replay, config.server.all_shards
    streams = config.actor.num_actors * config.actor.envs_per_actor
    held = replay.capacity // shards * min(shards, streams)  # with fewer streams than shards
    begun = streams * config.algo.horizon
    needed = _rows_of(config, replay.min_size) + begun
    if needed > held:
        raise Deadlock(
            f"{_min_size(config)} need {needed} rows, and {streams} environments fill {held} rows: "
            "the learner would never start",
            f"lower replay.min_size to {max(1, (held - begun) // config.algo.period)}, or raise "
            "replay.capacity" + (" or use fewer server.shards" if shards > 1 else ""),
        )


def _rows_of(config: Config, items: int) -> int:
    """The rows that this many items stand on in long episodes."""
    return items * config.algo.period


def _min_size(config: Config) -> str:
    """How many items the first draw waits for, in words."""
    period = config.algo.period
    every = f", one every {period} steps," if period > 1 else ""
    return f"replay.min_size = {config.replay.min_size} items{every}"


def _check_echo(config: Config) -> None:
    echo = config.learner.echo
    if echo > 1 and config.replay.max_times_sampled == 1:
        raise ConfigError(
            f"learner.echo = {echo}, but replay.max_times_sampled = 1: each item is used once",
            "leave learner.echo out, or raise replay.max_times_sampled",
        )


def _check_rows(config: Config) -> None:
    rows, echo = config.replay.rows, config.learner.echo
    if rows == "server":
        if config.server.index_only:
            raise ConfigError(
                "server.index_only with replay.rows = server: the server would have no rows",
                "set replay.rows=learner, too, or leave server.index_only out",
            )
        return
    if config.run.serial:
        raise ConfigError(
            f"replay.rows = {rows} with run.serial: learner and server are one process",
            "leave one of them out",
        )
    if config.replay.max_times_sampled:
        raise ConfigError(
            f"replay.rows = {rows} with replay.max_times_sampled = "
            f"{config.replay.max_times_sampled}: a queue's rows travel once as it is",
            "leave replay.rows out",
        )
    if rows == "device" and echo > 1 and config.learner.echo_buffer > 1:
        raise ConfigError(
            f"replay.rows = device with learner.echo_buffer = {config.learner.echo_buffer}: "
            "example echoing mixes batches on the host",
            "set replay.rows=learner, or leave learner.echo_buffer out",
        )


def _check_processes(config: Config) -> None:
    learner, count = config.learner, config.learner.processes
    if count == 1:
        return
    if config.run.serial:
        raise ConfigError(
            f"learner.processes = {count} with run.serial: a serial run is one process",
            "leave one of them out",
        )
    if config.replay.batch_size % count:
        size = config.replay.batch_size
        raise ConfigError(
            f"learner.processes = {count} cannot share out replay.batch_size = {size}",
            f"set replay.batch_size to {math.ceil(size / count) * count}",
        )
    if ":" in learner.device:
        raise ConfigError(
            f"learner.processes = {count} on learner.device = {learner.device!r}: each needs a GPU "
            "of its own",
            "set learner.device to cuda: the first process takes cuda:0, and so on",
        )


def _check_run(config: Config) -> None:
    run = config.run
    if run.serial and config.server.all_shards > 1:
        raise ConfigError(
            f"server.shards = {config.server.all_shards} with run.serial: one thread is one shard",
            "leave one of them out",
        )
    server = config.server
    if (server.state is not None or run.keep_replay) and (server.elsewhere or server.join):
        keeps = "run.keep_replay" if run.keep_replay else "server.state"
        raise ConfigError(
            f"{keeps} with shards on other hosts: only what one process holds is kept",
            f"leave {keeps} out, or have all shards in one process (server.shards)",
        )
    if run.serial and config.policy.where != "actor":
        raise ConfigError(
            f"policy.where = {config.policy.where} with run.serial: one process has one agent",
            "leave one of them out",
        )
    if config.actor.device != "cpu" and config.policy.where == "actor":
        raise ConfigError(
            f"actor.device = {config.actor.device!r} with policy.where = actor: actors compute "
            "on processor cores",
            "set policy.where to central or learner, or leave actor.device out",
        )
    if run.serial and run.keep_replay:
        raise ConfigError(
            "run.keep_replay with run.serial: its server ends with its process",
            "leave one of them out",
        )
    if run.keep_replay and config.server.state is not None:
        raise ConfigError(
            "run.keep_replay with server.state: both say where the replay is kept",
            "leave one of them out",
        )
    if config.server.index_only and (run.keep_replay or config.server.state is not None):
        raise ConfigError(
            "server.index_only with a state on disk: a server without rows has none to keep",
            "leave out server.index_only, or run.keep_replay and server.state",
        )
    if run.folder == "":  # of a shell's variable that is not set: it would be the working directory
        raise ConfigError(
            "run.folder is empty", "name a folder, or leave it out: runs/<env>-<time>-<seed>"
        )
    if config.server.state == "":
        raise ConfigError(
            "server.state is empty", "name a folder, or leave it out: the state is kept nowhere"
        )
    needed = _rows_of(config, config.replay.min_size)
    if run.max_env_steps is not None and run.max_env_steps < needed:
        raise Deadlock(
            f"run.max_env_steps = {run.max_env_steps} ends before there are "
            f"{_min_size(config)}: the learner would never start",
            "raise run.max_env_steps or lower replay.min_size",
        )
    if run.serial and run.max_env_steps is None and run.max_learner_steps is None:
        raise ConfigError(
            "run.serial needs a budget in steps: a clock would end two runs at different points",
            "give --max-env-steps or --max-learner-steps",
        )


def _check_evaluation(config: Config) -> None:
    for name in ("gate_episodes", "report_episodes"):
        episodes = getattr(config.eval, name)
        if episodes % config.eval.num_envs:
            raise ConfigError(
                f"eval.{name} = {episodes} is not a multiple of eval.num_envs = "
                f"{config.eval.num_envs}: each environment must play the same number",
                f"choose eval.num_envs that divides {episodes}",
            )


def check_listen(config: Config) -> None:
    """Raises Insecure where a server with these settings would let anyone in, ConfigError where it
    cannot serve metrics."""
    metrics = config.server.metrics
    endpoint = Endpoint.parse(metrics) if metrics is not None else None
    if endpoint is not None and config.run.serial:
        raise ConfigError(
            "server.metrics with run.serial: its server answers its own process alone",
            "leave one of them out; the run's folder holds the metrics",
        )
    if config.server.insecure:
        return
    if endpoint is not None and not endpoint.is_loopback:
        raise Insecure(
            f"metrics at {endpoint} can be read from other machines by anyone",
            "serve them at 127.0.0.1:9464, or add --insecure on a network that you trust",
        )

    if not os.environ.get(KEY_VARIABLE):  # else none but those with a key are let in
        for address in config.server.listen:
            require_loopback(address)


def require_loopback(address: str) -> None:
    """Raises Insecure for an address to listen on that other machines can reach."""
    from drlnet import native

    if not native.is_loopback(address):
        raise Insecure(
            f"{address} can be reached from other machines, by anyone",
            "add --key DIR (drlnet keygen DIR makes it), or --insecure on a network that you trust",
        )


def _check_names(config: Config) -> None:
    replay, server = config.replay, config.server
    _check_sampler("replay", replay.sampler, replay.sampler_options)
    if server.sampler is not None:
        _check_sampler("server", server.sampler, server.sampler_options)
    elif server.sampler_options:
        raise ConfigError(
            "server.sampler_options without server.sampler: no sampler would use them",
            "set server.sampler, too",
        )
    _check_transport(config.server.transport, config.run.serial)


def _check_sampler(section: str, name: str, options: Mapping[str, Any]) -> None:
    from drlnet import native

    for key, value in options.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(
                f"{section}.sampler_options.{key} = {value!r}: expected a number",
                f"give {key} a number",
            )
    try:
        native.check_sampler(name, dict(options))  # it knows its names, and what others call them
    except ConfigError as error:
        key = "sampler_options" if name in native.sampler_names() else "sampler"
        raise ConfigError(f"{section}.{key}: {error.cause}", error.remedy) from error


def _check_transport(transport: str, serial: bool) -> None:
    from drlnet import native

    scheme, _, rest = transport.partition(":")
    if scheme == "memory" and not serial:
        raise ConfigError(
            "server.transport = 'memory' cannot join processes", "use udp, or --serial"
        )
    if transport in LISTEN or (rest and scheme in native.transport_names()):
        try:
            within = native.is_loopback(LISTEN.get(transport, transport))
        except TransportError as error:
            raise ConfigError(f"server.transport: {error.cause}", error.remedy) from error
        if within:
            return
        raise ConfigError(
            f"server.transport = {transport!r}: `drlnet run` joins processes of this machine only",
            f"use {' or '.join(LISTEN)}; for a network start serve, learn and actor by hand",
        )
    _check_name("server.transport", transport, [*LISTEN, "memory"] if serial else [*LISTEN])


def _check_name(key: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ConfigError(f"{key} = {name!r}: unknown name", remedy_for(name, names))
