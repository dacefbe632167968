"""Rules on configurations that need no plan: what a device gets wrong by itself, what two ends of a cable disagree on, and
where one device differs from what nearly all others say.

Every rule yields :class:`Mistake` rows. A disagreement is reported at the end whose value is rarer in the network, so that
one wrong box is named and not its hundred neighbours.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from railwright.build.contract import CARRIES, DeviceView
from railwright.build.readings import Readings
from railwright.check.config_frames import Frames
from railwright.design.headroom import STEP_BYTES, link_headroom, pool_use

LOSSLESS_SHARE = 0.5
CNP_DSCP = 48


@dataclass(frozen=True, slots=True)
class Mistake:
    """One wrong fact. ``key`` finds its line (see ``build.contract.statements``); ``item`` is a port or another part."""

    code: str
    device: str
    item: str
    key: str
    message: str


Rule = Callable[[Readings, Frames], Iterator[Mistake]]


def mistakes(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Yield what all rules find."""
    for rule in RULES:
        yield from rule(readings, frames)


def own_mistakes(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Yield what the rules find that a comparison with a plan does not cover."""
    yield from impossible_marking(readings, frames)
    yield from pool_overflow(readings, frames)
    yield from nccl_ports(readings, frames)
    yield from host_peers(readings, frames)


def disabled_marking(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Profiles whose marking is switched off."""
    for device, port, queue, kmin, kmax in (
        frames.queues.filter(~pl.col("enabled")).select("device", "port", "queue", "kmin", "kmax").iter_rows()
    ):
        key = f"port/{port}/marking/{queue}/enabled"
        yield Mistake(
            "RW001", device, port, key, f"ECN of queue {queue} is off although it has thresholds {kmin} and {kmax}"
        )


def impossible_marking(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Thresholds between which a queue can never mark: Kmin above Kmax."""
    for device, port, queue, kmin, kmax in (
        frames.queues.filter(pl.col("kmin") > pl.col("kmax"))
        .select("device", "port", "queue", "kmin", "kmax")
        .iter_rows()
    ):
        key = f"port/{port}/marking/{queue}/kmin_bytes"
        message = f"queue {queue}: Kmin {kmin} is above Kmax {kmax}: marking can never work as written"
        yield Mistake("RW045", device, port, key, message)


def missing_marking(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Lossless queues without an ECN profile, where most lossless queues have one."""
    lossless = _lossless_queues(frames)
    marked = lossless.join(frames.queues, on=["device", "port", "queue"], how="left")
    if marked.is_empty() or marked["enabled"].is_not_null().sum() < LOSSLESS_SHARE * marked.height:
        return
    for device, port, queue in marked.filter(pl.col("enabled").is_null()).select("device", "port", "queue").iter_rows():
        yield Mistake(
            "RW002", device, port, f"port/{port}/marking/{queue}", f"queue {queue} is lossless and has no ECN profile"
        )


def uneven_thresholds(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Thresholds that differ from those of most ports of the same rate and queue."""
    by = ["speed_gbps", "queue"]
    values = frames.queues.with_columns(value=pl.format("{} to {} bytes, {} percent", "kmin", "kmax", "percent"))
    for row in rare(values, by, "value").iter_rows(named=True):
        key = f"port/{row['port']}/marking/{row['queue']}"
        message = (
            f"queue {row['queue']} marks from {row['value']}; ports of {row['speed_gbps']:g}G elsewhere {row['usual']}"
        )
        yield Mistake("RW022", row["device"], row["port"], key, message)


def uneven_maps(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """DSCP and queue maps that differ from those of most switches."""
    for row in rare(frames.dscp, ["dscp"], "priority").iter_rows(named=True):
        message = f"DSCP {row['dscp']} has priority {row['priority']}, on most switches {row['usual']}"
        yield Mistake("RW005", row["device"], f"DSCP {row['dscp']}", f"dscp/{row['dscp']}", message)
    lossless = frames.ports.filter(pl.col("pfc") != "")["device"].unique()
    usual = frames.dscp.group_by("dscp").agg(
        usual=pl.col("priority").mode().min(), switches=pl.col("device").n_unique()
    )
    mapped = sorted({v.view.name for v in readings.switches if v.view.qos is not None})
    every = pl.DataFrame({"device": mapped}, schema={"device": pl.String})
    expected = every.filter(pl.col("device").is_in(lossless.implode())).join(usual, how="cross")
    absent = expected.filter(pl.col("switches") > 1).join(frames.dscp, on=["device", "dscp"], how="anti")
    for device, dscp, priority in absent.select("device", "dscp", "usual").sort("device", "dscp").iter_rows():
        message = f"DSCP {dscp} is not mapped, on most switches it has priority {priority}"
        yield Mistake("RW005", device, f"DSCP {dscp}", f"dscp/{dscp}", message)
    for row in rare(frames.maps, ["priority"], "queue").iter_rows(named=True):
        message = f"priority {row['priority']} uses queue {row['queue']}, on most switches {row['usual']}"
        yield Mistake("RW006", row["device"], f"priority {row['priority']}", f"priority/{row['priority']}", message)


def scheduling(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Lossless queues that are strict, and schedulers that differ from those of most switches."""
    strict = frames.schedulers.filter(pl.col("scheduler") == "strict")
    for device, queue in (
        _lossless_queues(frames)
        .join(strict, on=["device", "queue"])
        .select("device", "queue")
        .unique()
        .sort("device")
        .iter_rows()
    ):
        message = f"lossless queue {queue} is strict and starves the others"
        yield Mistake("RW029", device, f"queue {queue}", f"queue/{queue}/scheduler", message)
    values = frames.schedulers.with_columns(value=pl.format("{} {}", "scheduler", pl.col("weight").fill_null(0)))
    for row in rare(values, ["queue"], "value").iter_rows(named=True):
        message = f"queue {row['queue']} is {row['value']}, on most switches {row['usual']}".replace(" 0", "")
        yield Mistake("RW029", row["device"], f"queue {row['queue']}", f"queue/{row['queue']}", message)


def cnp_queue(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """The DSCP of CNPs must select a strict queue on every switch that carries lossless traffic."""
    said = frames.nics["cnp_dscp"].drop_nulls().unique().sort().to_list() or [CNP_DSCP]
    if frames.nics["cnp_dscp"].drop_nulls().is_empty() and not frames.nics.is_empty():
        return
    carriers = frames.ports.filter(pl.col("pfc") != "").select("device").unique()
    found = (
        carriers.join(frames.dscp.filter(pl.col("dscp").is_in(said)), on="device")
        .join(frames.maps, on=["device", "priority"], how="left")
        .join(frames.schedulers, on=["device", "queue"], how="left")
        .filter(pl.col("scheduler").is_not_null() & (pl.col("scheduler") != "strict"))
        .sort("device", "dscp")
    )
    for row in found.iter_rows(named=True):
        message = (
            f"CNPs (DSCP {row['dscp']}) have priority {row['priority']}, queue {row['queue']}, which is not strict"
        )
        yield Mistake("RW004", row["device"], f"DSCP {row['dscp']}", f"dscp/{row['dscp']}", message)
    usual = frames.nics.filter(pl.col("cnp_dscp").is_not_null())
    for row in rare(usual.with_columns(one=pl.lit(1)), ["one"], "cnp_dscp").iter_rows(named=True):
        message = f"sends CNPs with DSCP {row['cnp_dscp']}, most adapters with {row['usual']}"
        yield Mistake("RW004", row["device"], row["port"], f"nic/{row['port']}/cnp_dscp", message)


def cable_ends(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """What the two ends of a cable between switches disagree on."""
    cables = frames.cables()
    for code, field, what in (
        ("RW003", "pfc", "PFC priorities"),
        ("RW011", "fec", "FEC"),
        ("RW012", "speed_gbps", "speed"),
        ("RW009", "cable_m", "cable length"),
        ("RW010", "mtu", "MTU"),
    ):
        say = [nos for nos, parts in CARRIES.items() if field in parts["port"]]
        both = cables.filter(pl.col("nos").is_in(say) & pl.col("nos_b").is_in(say))
        differ = both.filter(pl.col(field) != pl.col(f"{field}_b"))
        if field == "mtu":
            differ = differ.filter(~(pl.col("mtu_full") & pl.col("mtu_full_b")))
        counts = dict(frames.ports[field].cast(pl.String).value_counts().iter_rows())
        for row in differ.iter_rows(named=True):
            here, there = row[field], row[f"{field}_b"]
            mine, other = counts.get(_text(here), 0), counts.get(_text(there), 0)
            first = here < there if field == "cable_m" else (mine, row["device"]) <= (other, row["device_b"])
            end, far = ("", "_b") if first else ("_b", "")
            device, port = row[f"device{end}"], row[f"port{end}"]
            message = f"{what} {_text(row[field + end]) or 'none'}, at the other end ({row[f'device{far}']} {row[f'port{far}']}) "
            yield Mistake(code, device, port, f"port/{port}/{field}", message + (_text(row[field + far]) or "none"))


def host_peers(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Adapters that name a switch port which names another server, or another of its RDMA devices."""
    both = frames.nics.filter(pl.col("peer_device") != "").join(
        frames.ports, left_on=["peer_device", "peer_port"], right_on=["device", "port"], suffix="_b", coalesce=False
    )
    rdma = pl.col("peer_port_b").str.starts_with("mlx5_") & pl.col("rdma").str.starts_with("mlx5_")
    wrong = both.filter(
        (pl.col("peer_device_b") != "")
        & ((pl.col("peer_device_b") != pl.col("device")) | (rdma & (pl.col("peer_port_b") != pl.col("rdma"))))
    )
    for row in wrong.iter_rows(named=True):
        message = f"names {row['device_b']} {row['port_b']} as its peer, which names {row['peer_device_b']} {row['peer_port_b']}"
        yield Mistake("RW028", row["device"], row["port"], f"nic/{row['port']}/peer", message)


def peers(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Ports whose named neighbour names another one."""
    both = frames.ports.filter(pl.col("peer_device") != "").join(
        frames.ports, left_on=["peer_device", "peer_port"], right_on=["device", "port"], suffix="_b", coalesce=False
    )
    wrong = both.filter(
        (pl.col("peer_device_b") != "")
        & ((pl.col("peer_device_b") != pl.col("device")) | (pl.col("peer_port_b") != pl.col("port")))
    )
    for row in wrong.iter_rows(named=True):
        message = f"names {row['device_b']} {row['port_b']} as its peer, which names {row['peer_device_b']} {row['peer_port_b']}"
        yield Mistake("RW028", row["device"], row["port"], f"port/{row['port']}/peer", message)


def lossless_ports(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Lossless ports without cable length or watchdog; fabric ports that do not trust DSCP."""
    lossless = frames.ports.filter(pl.col("pfc") != "")
    keep_length = [nos for nos, parts in CARRIES.items() if "cable_m" in parts["port"]]
    for device, port in (
        lossless.filter(pl.col("cable_m").is_null() & pl.col("nos").is_in(keep_length))
        .select("device", "port")
        .iter_rows()
    ):
        yield Mistake("RW009", device, port, f"port/{port}/cable_m", "is lossless and has no cable length")
    if not lossless.is_empty() and lossless["watchdog"].sum() >= LOSSLESS_SHARE * lossless.height:
        for device, port in lossless.filter(~pl.col("watchdog")).select("device", "port").iter_rows():
            yield Mistake("RW013", device, port, f"port/{port}/watchdog", "is lossless and has no PFC watchdog")
    for device, port in lossless.filter(~pl.col("trust")).select("device", "port").iter_rows():
        yield Mistake("RW030", device, port, f"port/{port}/trust_dscp", "does not trust DSCP")


def watchdog_times(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Watchdog times that make no sense or differ from most."""
    rows = [
        (v.name, v.qos.watchdog.detection_ms, v.qos.watchdog.restoration_ms)
        for v in (reading.view for reading in readings.switches)
        if v.qos is not None and v.qos.watchdog is not None
    ]
    times = pl.DataFrame(
        rows, schema={"device": pl.String, "detection": pl.Int64, "restoration": pl.Int64}, orient="row"
    )
    for device, detection, restoration in times.filter(pl.col("restoration") < pl.col("detection")).iter_rows():
        message = f"restores after {restoration} ms, before it can detect ({detection} ms)"
        yield Mistake("RW013", device, "watchdog", "watchdog/restoration_ms", message)
    for field in ("detection", "restoration"):
        odd = rare(times.filter(pl.col(field).is_not_null()).with_columns(one=pl.lit(1)), ["one"], field)
        for row in odd.iter_rows(named=True):
            message = f"watchdog {field} is {row[field]} ms, on most switches {row['usual']} ms"
            yield Mistake("RW013", row["device"], "watchdog", f"watchdog/{field}_ms", message)


def small_headroom(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Headroom below what platform, rate and configured length need."""
    wanted = link_headroom(
        frames.ports.select("device", "port", "model", "speed_gbps", pl.col("cable_m").cast(pl.Float64), "lanes")
    )
    found = frames.headroom.join(wanted, on=["device", "port"], suffix="_need").filter(
        pl.col("cable_m").is_not_null() & (pl.col("xoff_bytes") + STEP_BYTES < pl.col("xoff_bytes_need"))
    )
    for row in found.iter_rows(named=True):
        message = (
            f"priority {row['priority']} has {row['xoff_bytes']} bytes of headroom; {row['speed_gbps']:g}G over "
            f"{row['cable_m']:g} m needs {row['xoff_bytes_need']} ({row['basis']})"
        )
        yield Mistake(
            "RW008", row["device"], row["port"], f"port/{row['port']}/headroom/{row['priority']}/xoff_bytes", message
        )


def pool_overflow(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Switches whose headroom exceeds their pool."""
    models = frames.ports.select("device", "model").unique()
    held = frames.headroom.join(models, on="device").select("model", headroom_bytes="xoff_bytes", device_id="device")
    for row in pool_use(held).filter(pl.col("share") > 1).iter_rows(named=True):
        message = f"headroom of all ports is {row['reserved_bytes']:,} bytes, the pool has {row['pool_bytes']:,.0f}"
        yield Mistake("RW031", row["device_id"], "buffer", "port", message)


def adapters(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Settings of adapters that are wrong by themselves or rare."""
    rdma = frames.nics.filter(pl.col("traffic_class").is_not_null())
    for device, port, trust in (
        frames.nics.filter(pl.col("trust").is_not_null() & (pl.col("trust") != "dscp"))
        .select("device", "port", "trust")
        .iter_rows()
    ):
        yield Mistake("RW016", device, port, f"nic/{port}/trust", f"trusts {trust}")
    for device, port in frames.nics.filter(pl.col("pause") == "on").select("device", "port").iter_rows():
        yield Mistake("RW017", device, port, f"nic/{port}/pause", "global pause is on")
    for device, port, byte in (
        rdma.filter(~(pl.col("traffic_class") & 3).is_in([1, 2])).select("device", "port", "traffic_class").iter_rows()
    ):
        message = f"traffic class {byte} has no ECN-capable bits: switches cannot mark it (DSCP {byte >> 2} is {byte & 252 | 2})"
        yield Mistake("RW014", device, port, f"nic/{port}/traffic_class", message)
    for code, field, what in (
        ("RW010", "mtu", "MTU"),
        ("RW014", "traffic_class", "traffic class"),
        ("RW023", "dcqcn", "DCQCN on"),
        ("RW018", "gid", "GID index"),
    ):
        values = frames.nics.filter(pl.col(field).is_not_null() & (pl.col("network") != ""))
        if values.is_empty():
            values = frames.nics.filter(pl.col(field).is_not_null())
        for row in rare(values, ["network"], field).iter_rows(named=True):
            now, usual = (value if value != "" else "none" for value in (row[field], row["usual"]))
            message = f"{what} {now}, on most adapters {usual}"
            yield Mistake(code, row["device"], row["port"], f"nic/{row['port']}/{field}", message)


def adapter_cables(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """What an adapter and its switch port disagree on, along DSCP, priority, queue and PFC."""
    uplinks = frames.uplinks()
    uplinks = uplinks.filter(pl.col("nos").is_in([nos for nos, parts in CARRIES.items() if "pfc" in parts["port"]]))
    for row in uplinks.filter(pl.col("pfc").is_not_null() & (pl.col("pfc") != pl.col("pfc_b"))).iter_rows(named=True):
        message = f"PFC on {row['pfc'] or 'none'}, {row['device_b']} {row['port_b']} on {row['pfc_b'] or 'none'}"
        mine = frames.nics.filter(pl.col("network") == row["network"])["pfc"].value_counts(sort=True)
        usual = mine["pfc"][0] if len(mine) else None
        if usual == row["pfc"] and len(frames.nics) > 1:
            text = (
                f"PFC on {row['pfc_b'] or 'none'}, the adapter {row['device']} {row['port']} on {row['pfc'] or 'none'}"
            )
            yield Mistake("RW003", row["device_b"], row["port_b"], f"port/{row['port_b']}/pfc", text)
        else:
            yield Mistake("RW015", row["device"], row["port"], f"nic/{row['port']}/pfc", message)
    for row in uplinks.filter(pl.col("mtu") > pl.col("mtu_b")).iter_rows(named=True):
        message = f"MTU {row['mtu_b']} is below the {row['mtu']} of {row['device']} {row['port']}"
        yield Mistake("RW010", row["device_b"], row["port_b"], f"port/{row['port_b']}/mtu", message)
    sent = uplinks.filter(pl.col("traffic_class").is_not_null() & (pl.col("pfc_b") != "")).with_columns(
        dscp=pl.col("traffic_class") // 4
    )
    there = sent.join(frames.dscp, left_on=["device_b", "dscp"], right_on=["device", "dscp"], how="left")
    for row in there.iter_rows(named=True):
        if str(row["priority"]) not in row["pfc_b"].split(","):
            priority = "no priority" if row["priority"] is None else f"priority {row['priority']}"
            message = (
                f"sends DSCP {row['dscp']}, which has {priority} on {row['device_b']}; lossless there: {row['pfc_b']}"
            )
            yield Mistake("RW014", row["device"], row["port"], f"nic/{row['port']}/traffic_class", message)
    mapped = pl.DataFrame(
        [(r.view.name, p.name, d, q) for r in readings.servers for p in r.view.ports for d, q in p.dscp],
        schema={"device": pl.String, "port": pl.String, "dscp": pl.Int64, "own": pl.Int64},
        orient="row",
    )
    used = pl.concat([sent["dscp"], frames.nics["cnp_dscp"]]).drop_nulls().unique()
    both = mapped.filter(pl.col("dscp").is_in(used.implode())).join(
        uplinks.select("device", "port", "device_b"), on=["device", "port"]
    )
    both = both.join(frames.dscp, left_on=["device_b", "dscp"], right_on=["device", "dscp"]).filter(
        pl.col("own") != pl.col("priority")
    )
    for row in both.iter_rows(named=True):
        message = f"DSCP {row['dscp']} has priority {row['own']}, on {row['device_b']} {row['priority']}"
        yield Mistake("RW024", row["device"], row["port"], f"nic/{row['port']}/dscp/{row['dscp']}", message)


def nccl_ports(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """NCCL's environment against the adapters of its own server."""
    for reading in readings.servers:
        view = reading.view
        environment = dict(view.nccl)
        fabric = {p.rdma for p in view.ports if p.network in ("backend", "infiniband", "") and p.rdma}
        known = {p.rdma for p in view.ports if p.rdma}
        named = {d.partition(":")[0] for d in environment.get("NCCL_IB_HCA", "").lstrip("=^").split(",") if d}
        exact = environment.get("NCCL_IB_HCA", "").startswith("=")
        wrong = sorted(d for d in named if exact and known and d not in fabric)
        if wrong:
            yield Mistake(
                "RW020",
                view.name,
                "NCCL",
                "nccl/NCCL_IB_HCA",
                f"NCCL_IB_HCA names {', '.join(wrong)}, no backend device",
            )
        socket = environment.get("NCCL_SOCKET_IFNAME", "").lstrip("=^")
        rails = {p.name for p in view.ports if p.network == "backend"}
        if socket in rails:
            yield Mistake(
                "RW020",
                view.name,
                "NCCL",
                "nccl/NCCL_SOCKET_IFNAME",
                f"NCCL_SOCKET_IFNAME is the backend port {socket}",
            )


def nccl_values(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """NCCL's traffic class and GID index against the adapters of its own server."""
    for reading in readings.servers:
        view = reading.view
        environment = dict(view.nccl)
        backend = [p for p in view.ports if p.network in ("backend", "")]
        for name, field, code in (("NCCL_IB_TC", "traffic_class", "RW019"), ("NCCL_IB_GID_INDEX", "gid", "RW018")):
            own = {getattr(p, field) for p in backend} - {None}
            value = environment.get(name)
            if value is not None and value.isdigit() and own and int(value) not in own:
                shown = ", ".join(map(str, sorted(own)))
                yield Mistake(code, view.name, "NCCL", f"nccl/{name}", f"{name} is {value}, the adapters have {shown}")


def sessions(readings: Readings, frames: Frames) -> Iterator[Mistake]:
    """Unnumbered BGP sessions whose other end has none, or has BFD where this one has not."""
    views: dict[str, DeviceView] = {reading.view.name: reading.view for reading in readings.switches}
    held = {(v.name, n.peer): n.bfd for v in views.values() if v.bgp for n in v.bgp.neighbors if n.unnumbered}
    for row in frames.cables().select("device", "port", "device_b", "port_b").iter_rows():
        ends = ((row[0], row[1]), (row[2], row[3]))
        for here, there in (ends, ends[::-1]):
            if there in held and here not in held and views[here[0]].bgp is not None:
                message = f"has no BGP session, {there[0]} has one on {there[1]}"
                yield Mistake("RW025", here[0], here[1], "bgp", message)
            elif held.get(there) is True and held.get(here) is False:
                message = f"its BGP session has no BFD, the end at {there[0]} {there[1]} has"
                yield Mistake("RW025", here[0], here[1], f"bgp/neighbor/default/{here[1]}/bfd", message)


RULES: tuple[Rule, ...] = (
    disabled_marking,
    impossible_marking,
    missing_marking,
    uneven_thresholds,
    uneven_maps,
    scheduling,
    cnp_queue,
    cable_ends,
    peers,
    host_peers,
    lossless_ports,
    watchdog_times,
    small_headroom,
    pool_overflow,
    adapters,
    adapter_cables,
    nccl_ports,
    nccl_values,
    sessions,
)


def _lossless_queues(frames: Frames) -> pl.DataFrame:
    """Return ``device, port, priority, queue`` of every lossless priority of every port."""
    lossless = (
        frames.ports.filter(pl.col("pfc") != "")
        .select("device", "port", priority=pl.col("pfc").str.split(","))
        .explode("priority")
    )
    return lossless.with_columns(pl.col("priority").cast(pl.Int64)).join(frames.maps, on=["device", "priority"])


def rare(values: pl.DataFrame, by: list[str], column: str) -> pl.DataFrame:
    """Return the rows whose ``column`` is not what most devices have within ``by``, with that as ``usual``.

    Devices vote once each, so that a switch with many ports is not a majority by itself; a tie has no usual value.
    """
    votes = values.unique(["device", *by, column]).group_by([*by, column]).agg(votes=pl.col("device").n_unique())
    ranked = votes.sort([*by, "votes"], descending=[False] * len(by) + [True])
    first = ranked.group_by(by, maintain_order=True).agg(
        usual=pl.col(column).first(), best=pl.col("votes").first(), second=pl.col("votes").slice(1, 1).first()
    )
    clear = first.filter(pl.col("second").is_not_null() & (pl.col("best") > pl.col("second")))
    return values.join(clear, on=by).filter(pl.col(column) != pl.col("usual")).sort("device")


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
