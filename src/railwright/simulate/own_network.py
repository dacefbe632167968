"""Flows of the user's own on a network of the user's own, with the flow or the packet engine: ``simulate --network``.

The result has the keys of every simulation: ``algbw`` and ``busbw`` are all bytes over the time until the last flow ends.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from railwright.errors import InputError, nearest
from railwright.simulate.flow.engine import FlowOptions, simulate_flows
from railwright.simulate.goodput import calibrated, goodput_share
from railwright.simulate.host_limits import limit_by_host
from railwright.simulate.network_file import read_flows, read_network
from railwright.simulate.options_file import read_options
from railwright.simulate.packet.engine import simulate_packets
from railwright.simulate.packet.on_plan import engine_result, plan_changes
from railwright.simulate.packet.options import PacketOptions, infiniband, parse_options, rocev2
from railwright.simulate.results import SimulationResult
from railwright.simulate.run import PATHS, bottlenecks
from railwright.spec.cluster import Transport

ENGINES = ("flow", "packet")


def simulate_own(
    network_file: Path,
    flows_file: Path,
    engine: str = "packet",
    *,
    paths: str | None = None,
    transport: Transport = "rocev2",
    seed: int = 0,
    sample_us: float = 0.0,
    options_file: Path | None = None,
    fail: Sequence[str] = (),
    reroute_us: float | None = None,
) -> SimulationResult:
    """Run the flows of ``flows_file`` (CSV) on the network of ``network_file`` (YAML), see `network_file`.

    ``paths`` (default ``ecmp``) is how flows without a path of their own go. A flow that cannot finish has a null
    ``finish_us``, and the result a diagnosis. ``sample_us``: time between two looks at all queues (packet engine, 0: never).
    ``fail`` lists failures (see `failures`), beside what the options change; traffic leaves a broken path ``reroute_us`` later
    (default: as the options say, else at once). ``options_file`` (see `options_file`, packet engine) is what else the engine is
    told; its profile replaces ``transport``.
    Raises InputError for wrong files and settings.
    """
    for key, value, allowed in (("engine", engine, ENGINES), ("paths", paths or "ecmp", PATHS)):
        if value not in allowed:
            raise InputError(f"{value!r} is not allowed; one of {', '.join(allowed)}{nearest(value, allowed)}", key=key)
    if engine == "flow" and options_file is not None:
        raise InputError("the flow engine has no queues to set; use engine packet", key="options")
    if engine == "flow" and sample_us:
        raise InputError("the flow engine has no queues to look at; use engine packet", key="series")
    user = read_network(network_file)
    traffic, pinned = read_flows(flows_file, user.network)
    usable, changes = (user.network, ()) if engine == "flow" else plan_changes(user.network, fail, seed)
    network, pinned = limit_by_host(usable, user.pcie_gbps, traffic, pinned)
    if engine == "flow":
        way = paths or "ecmp"
        constants = calibrated("credits" if transport == "infiniband" else "dcqcn+pfc", way)
        options = FlowOptions(
            goodput=goodput_share(transport),
            calibration=constants,
            paths=way,
            fail=tuple(fail),
            reroute_us=reroute_us or 0.0,
        )
        result = simulate_flows(network, traffic, options, seed, pinned=pinned)
    else:
        settings = _options(options_file, transport, paths, sample_us)
        _check_classes(traffic["class"], settings, flows_file)
        transport, way = settings.transport, settings.paths
        told = {} if reroute_us is None else {"reroute_us": reroute_us}
        packets = simulate_packets(
            network,
            traffic,
            settings.model_copy(update=told | {"latency_budget": True, "changes": (*settings.changes, *changes)}),
            seed,
            pinned=pinned,
            thresholds=user.thresholds,
        )
        result = engine_result(packets)
    rate = float(result.flows["bytes"].sum()) / result.finish_us / 1e3 if result.finish_us else 0.0
    return SimulationResult(
        setting={
            "network": network_file.name,
            "flows": flows_file.name,
            "engine": engine,
            "options": options_file.name if options_file is not None else None,
            "transport": transport,
            "paths": way,
            "fail": list(fail),
            "seed": seed,
        },
        time_us=result.finish_us,
        algbw_gbytes_s=rate,
        busbw_gbytes_s=rate,
        engine=result,
        bottleneck=bottlenecks(network, result),
    )


def _check_classes(classes: pl.Series, settings: PacketOptions, file: Path) -> None:
    """Raise InputError for a class of flows that the options do not have; ``data`` stands for the first one."""
    known = (*(item.name for item in settings.classes), "data", *settings.traffic_classes)
    unknown = classes.cast(pl.String).filter(~classes.cast(pl.String).is_in(known))
    if not unknown.is_empty():
        name = unknown[0]
        raise InputError(
            f"there is no class {name!r}{nearest(name, known)}; classes are {', '.join(dict.fromkeys(known))}",
            file=file,
            key="class",
        )


def _options(file: Path | None, transport: Transport, paths: str | None, sample_us: float) -> PacketOptions:
    if file is None:
        preset = infiniband if transport == "infiniband" else rocev2
        return preset(paths=paths or "ecmp", sample_us=sample_us)
    told = read_options(file, profile=transport, paths=paths)
    return parse_options({**told.model_dump(), "sample_us": sample_us}) if sample_us else told


def named_flows(result: SimulationResult, network_file: Path) -> pl.DataFrame:
    """Return the flows of ``result`` as ``flows.csv`` has them: ids of the user's own, ends by name, times in microseconds."""
    names = read_network(network_file).network.node_name
    return result.engine.flows.select(
        pl.col("op_id").alias("flow_id"),
        *(names.gather(result.engine.flows[end]).alias(end) for end in ("src", "dst")),
        "bytes",
        "class",
        "start_us",
        "finish_us",
        "fct_us",
        "ideal_us",
        "hops",
        "retransmitted_bytes",
    )
