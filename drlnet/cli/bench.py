"""`drlnet bench`: measurements of the service itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drlnet.cli import bench_processes
from drlnet.cli import paper as paper_bench
from drlnet.cli import replays as replay_bench
from drlnet.cli import samplers as sampler_bench
from drlnet.cli import transports as transport_bench
from drlnet.cli.bench_report import (
    OUT,
    OutOption,
    QuickOption,
    RoundsOption,
    end,
    names_in,
    require_writable_file,
    write_file,
)
from drlnet.cli.options import (
    ConfigOption,
    DebugOption,
    EalOption,
    EnvArgument,
    JsonOption,
    SetOption,
)
from drlnet.cli.output import Output
from drlnet.cli.stopping import until_stopped
from drlnet.cli.transports import TransportsOption

OutFileOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="where the JSON is written, too")
]

bench = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Measure the service.")


bench.command("paper")(paper_bench.paper)
for process in (
    bench_processes.transport_client,
    bench_processes.ring_echo,
    bench_processes.worker,
    bench_processes.bulk_reader,
    bench_processes.frame_sender,
    bench_processes.frame_receiver,
):
    bench.command(hidden=True)(process)


@bench.command("turns")
def turns(
    rounds: RoundsOption = 7,
    pings: Annotated[int, typer.Option("--pings", min=100, help="pings in each round")] = 5000,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Ping latency alone, and beside a client that samples 25 MB batches without a pause.

    Three processes that each want a core. "On a core" leaves out what the kernel
    counts as waiting for one; the rest is the server's turns and the network.
    """
    from drlnet.bench import ALONE, BESIDE, measure_turns
    from drlnet.launch.signals import Stop

    output = Output(json)
    with Stop() as stop:
        measured = measure_turns(stop, rounds=rounds, pings=pings)
    found = {(record.subject, record.op, record.workload): record for record in measured.records}
    for subject, op in (key[:2] for key in found if key[2] == BESIDE):
        alone, beside = found[subject, op, ALONE], found[subject, op, BESIDE]
        output.note(
            f"{subject}, {op}: p50 {alone.p50_us:.1f} us {ALONE}, {beside.p50_us:.1f} {BESIDE}; "
            f"p99 {alone.p99_us:.1f} and {beside.p99_us:.1f}, "
            f"{beside.p99_us / alone.p99_us:.2f} times that alone"
        )
    output.result(end(output, stop, measured.to_json()))


@bench.command("watch")
def watch(
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="alternated pairs of sides")] = 5,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="that each side is measured")
    ] = 5.0,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="between two readings of stats")
    ] = 0.5,
    out: OutFileOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Throughput of a server under load with `drlnet stats` attached, and without.

    The sides alternate; the ratio of each pair is printed, and their median.
    """
    from drlnet.bench.watch import Pair, measure_watching

    output = Output(json)

    def report(pair: Pair) -> None:
        output.note(
            f"{pair.alone:,.0f} cycles/s not watched, {pair.watched:,.0f} watched, "
            f"ratio {pair.ratio:.4f}"
        )

    require_writable_file(out)
    with until_stopped() as stop:
        measured = measure_watching(
            stop, pairs=pairs, seconds=seconds, interval_s=interval, report=report
        )
        if measured.more.get("ratio") is not None:
            output.note(f"median ratio {measured.more['ratio']:.4f}")
        write_file(output, out, measured)
        output.result(measured.to_json())


@bench.command("transport")
def transport(
    transports: TransportsOption = None,
    rounds: RoundsOption = 5,
    quick: QuickOption = False,
    netns: Annotated[
        bool,
        typer.Option(
            "--netns",
            help="DPDK and the kernel over one veth pair between two network namespaces (root)",
        ),
    ] = False,
    mtu: Annotated[
        int | None,
        typer.Option(
            "--mtu",
            min=1280,
            max=9000,
            help="of that veth pair; AF_XDP takes 3498 at most [dim](default 9000)[/dim]",
        ),
    ] = None,
    out: OutOption = OUT,
    eal: EalOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Latency of every operation over each transport, against kernel UDP blocking and polled.

    The same server program and payloads each time; a bare shared-memory ring
    stands beside them as the floor. Measure on an idle machine with two cores or
    more.

    [bold]Examples[/bold]

    drlnet bench transport

    drlnet bench transport --transports udp,dpdk:local --rounds 9

    sudo drlnet bench transport --netns
    """
    output = Output(json)
    output.result(transport_bench.measure(output, transports, netns, mtu, rounds, quick, out))


@bench.command("sampler")
def sampler(
    sizes: Annotated[
        str,
        typer.Option(
            "--sizes", metavar="N,...", help="leaves: 1000, 2^20, or 2^10..2^27 for all between"
        ),
    ] = "2^10,2^14,2^17,2^20",
    batch: Annotated[int, typer.Option("--batch", help="draws, or updates, in a call")] = 512,
    samplers: Annotated[
        str | None,
        typer.Option(
            "--samplers",
            metavar="NAME,...",
            help="ours, the first the baseline [dim](default all; none)[/dim]",
        ),
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            "--peers",
            metavar="NAME,...",
            help="numpy, numpy-tree, cpprb, torchrl, tianshou; torch-cuda and torchrl-cuda on a "
            "GPU [dim](default all that can be had; none)[/dim]",
        ),
    ] = None,
    kernels: Annotated[
        str | None,
        typer.Option(
            "--kernels",
            metavar="NAME,...",
            help="instruction sets for prioritized's tree: avx512, avx2, portable "
            "[dim](default all that run here)[/dim]",
        ),
    ] = None,
    priorities: Annotated[
        str,
        typer.Option("--priorities", help="exponential, uniform, equal, or wide (12 magnitudes)"),
    ] = "exponential",
    rounds: RoundsOption = 5,
    quick: QuickOption = False,
    out: OutOption = OUT,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Drawing a batch by priority and updating one, over sizes, beside what others do.

    The server's samplers by themselves, on one core; then its whole answer to a
    sample request, without a network, against memcpy. Peers come by pip install
    'drlnet\\[peers]'.

    [bold]Examples[/bold]

    drlnet bench sampler

    drlnet bench sampler --sizes 2^10..2^27 --peers none --rounds 3

    drlnet bench sampler --sizes 2^20 --samplers prioritized --peers cpprb
    """
    output = Output(json)
    names = sampler_bench.Names(samplers, peers, kernels)
    output.result(
        sampler_bench.measure(output, names, sizes, batch, priorities, rounds, quick, out)
    )


@bench.command("replay")
def replay(
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME,...",
            help="cpprb, torchrl, tianshou, redis, reverb, ray, numpy "
            "[dim](default all that can be had; none)[/dim]",
        ),
    ] = None,
    works: Annotated[
        str | None,
        typer.Option("--works", metavar="NAME,...", help="small, atari [dim](default both)[/dim]"),
    ] = None,
    transports: Annotated[
        str | None,
        typer.Option(
            "--transports",
            metavar="NAME,...",
            help="of ours [dim](default dpdk:local,udp; none)[/dim]",
        ),
    ] = None,
    clients: Annotated[
        str, typer.Option("--clients", metavar="N,...", help="that insert beside the learner")
    ] = "0,1,2",
    rounds: RoundsOption = 3,
    quick: QuickOption = False,
    out: OutOption = OUT,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """What learner and actors do with a replay memory: on ours, from another process, and on peers.

    Insert one by one and by 50, sample, update, a learner's cycle; alone and
    beside clients that insert. Peers come by pip install 'drlnet\\[peers]',
    redis-server by the system; what is absent or broken is skipped, with a line.

    [bold]Examples[/bold]

    drlnet bench replay

    drlnet bench replay --against cpprb,redis --works small --quick

    drlnet bench replay --against none --transports udp --clients 0
    """
    output = Output(json)
    names = replay_bench.Names(works, against, transports, clients)
    output.result(replay_bench.measure(output, names, rounds, quick, out))


@bench.command("learning")
def learning(
    env: EnvArgument,
    samplers: Annotated[
        str,
        typer.Option(
            "--samplers",
            metavar="NAME,...",
            help="which [dim](default prioritized, amper-k, amper-fr, amper-fr-prefix, "
            "uniform)[/dim]",
            show_default=False,
        ),
    ] = "prioritized,amper-k,amper-fr,amper-fr-prefix,uniform",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="runs with each sampler")] = 5,
    max_learner_steps: Annotated[
        int, typer.Option("--max-learner-steps", min=1, help="the budget of each run")
    ] = 10_000,
    out: OutFileOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Steps to the goal and greedy return with each sampler, all else alike.

    Serial runs by the environment's recipe: their steps are reproducible bit by
    bit.

    [bold]Examples[/bold]

    drlnet bench learning CartPole-v1 --max-learner-steps 8000

    drlnet bench learning Acrobot-v1 --samplers prioritized,uniform --seeds 3
    """
    from drlnet.bench.learning import Learned, measure_learning

    output = Output(json)

    def report(run: Learned) -> None:
        end = "reached the goal" if run.reached else "spent its budget"
        output.note(
            f"{run.subject} seed {run.seed}: {end}, {run.env_steps} env steps, greedy return "
            f"{run.eval_return_mean:.1f} +- {run.eval_return_std:.1f} ({run.wall_clock_s:.0f} s)"
        )

    require_writable_file(out)
    with until_stopped() as stop:
        measured = measure_learning(
            env, names_in(samplers) or [], seeds, stop, report,
            file=config, sets=set_ or (), max_learner_steps=max_learner_steps,
        )  # fmt: skip
        write_file(output, out, measured)
        output.result(measured.to_json())


@bench.command("distribution")
def distribution(
    batches: Annotated[
        int, typer.Option("--batches", min=1, help="candidate sets, of 512 draws each")
    ] = 2000,
    items: Annotated[int, typer.Option("--items", min=64, help="in the table")] = 4096,
    out: OutFileOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """How far AMPER's draws are from PER's, over its groups and scale.

    KL divergence and largest ratio, for priorities that are log-normal and
    exponential.
    """
    from drlnet.bench.distribution import Distance, measure_distances

    output = Output(json)

    def report(found: Distance) -> None:
        options = ", ".join(f"{name} {value:g}" for name, value in found.options.items())
        output.note(
            f"{found.workload}, {found.subject} {options}: KL {found.kl_nats:.5f} nats, "
            f"frequencies {found.least_frequency:.3f} to {found.most_frequency:.3f} of PER's"
        )

    require_writable_file(out)
    with until_stopped() as stop:
        measured = measure_distances(stop, report, items=items, batches=batches)
        write_file(output, out, measured)
        output.result(measured.to_json())
