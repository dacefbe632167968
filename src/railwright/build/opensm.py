"""InfiniBand: files of the subnet manager for every InfiniBand fabric of a plan.

``opensm.conf`` has keys of the open-source OpenSM only; routing engines and options that exist only in NVIDIA's build
(``ar_updn``, ``ar_ftree``, SHARP, its congestion control) stand in a file of their own that says so. GUIDs are not known to
a plan: pass those that ``ibnetdiscover`` reports, otherwise the files hold placeholders that follow the device ids.

``ftree`` needs a pure fat tree: every switch of a rank has the same number of up-going port groups with the same number of
ports each (OpenSM ``doc/current-routing.txt``). That is what :func:`choose_routing` checks.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from railwright.build import names
from railwright.build.opensm_congestion import congestion
from railwright.design.plan import Plan
from railwright.design.qos import QosContract
from railwright.design.qos_table import SWITCH_ROLES
from railwright.errors import InputError

HCA_GUID = 0x02C9_0300_0000_0000
SWITCH_GUID = 0x02C9_0200_0000_0000
PKEY_FIRST = 0x8001

_VLS = {1: 1, 2: 2, 4: 3, 8: 4, 15: 5}
_RANK = {"leaf": 1, "tor": 1, "border": 1, "spine": 2, "core": 3}


@dataclass(frozen=True)
class Fabric:
    """One InfiniBand subnet.

    ``nodes``: ``device_id, name, role, model, kind`` (``Switch`` or ``Hca``), ``label`` (node description), ``guid``,
    ``radix``; a host has one node per port. The GUID of a switch is its node's, that of an adapter its port's, as OpenSM's
    files want them. ``cables``: ``a, a_port, b, b_port`` (labels and port numbers, ``a`` the lower end).
    """

    name: str
    nodes: pl.DataFrame
    cables: pl.DataFrame


def fabrics(plan: Plan, network: str, guids: Mapping[str, int] | None = None) -> list[Fabric]:
    """Return the subnets of an InfiniBand ``network``: one per plane.

    ``guids`` maps node descriptions to GUIDs (see :func:`guids_from`); a node that it lacks keeps its placeholder.
    """
    names.check_all(plan.devices["name"], names.DEVICE, "the name of a device")
    ends = _ends(plan, network)
    links = plan.links.filter(pl.col("network") == network)
    found = []
    for plane in links["plane"].unique().sort():
        own = links.filter(pl.col("plane").eq_missing(plane))
        cables = (
            own.select("link_id", port_id="a_port")
            .join(ends, on="port_id", maintain_order="left")
            .join(
                own.select("link_id", port_id="b_port").join(ends, on="port_id", maintain_order="left"),
                on="link_id",
                suffix="_b",
                maintain_order="left",
            )
        )
        sides = [cables.select("device_id", "name", "role", "model", "kind", "label", "port_id", "number")]
        sides.append(cables.select(pl.col(f"{c}_b").alias(c) for c in sides[0].columns))
        nodes = (
            pl.concat(sides)
            .group_by("label", maintain_order=True)
            .agg(pl.col("device_id", "name", "role", "model", "kind", "port_id").first(), radix=pl.col("number").max())
            .sort("kind", "device_id", "port_id", descending=[True, False, False])
        )
        placeholder = (
            pl.when(pl.col("kind") == "Switch")
            .then(SWITCH_GUID + pl.col("device_id").cast(pl.UInt64))
            .otherwise(HCA_GUID + pl.col("port_id").cast(pl.UInt64) * 16 + 1)
        )
        real = dict(guids or {})
        known = (
            pl.col("label").replace_strict(real, default=None, return_dtype=pl.UInt64)
            if real
            else pl.lit(None, pl.UInt64)
        )
        several = plane is not None and links["plane"].n_unique() > 1
        found.append(
            Fabric(
                f"{network}-plane{plane}" if several else network,
                nodes.with_columns(guid=pl.coalesce(known, placeholder)),
                cables.select(a="label", a_port="number", b="label_b", b_port="number_b"),
            )
        )
    return found


def guids_from(discovered: str) -> dict[str, int]:
    """Return node description → GUID (a switch's node, an adapter's port) from the output of ``ibnetdiscover``.

    Raises InputError when it has no node.
    """
    found: dict[str, int] = {}
    adapter = ""
    for line in discovered.splitlines():
        head = re.match(r'(Switch|Ca|Hca)\s+\d+\s+"[SH]-([0-9a-fA-F]+)"\s*#\s*"([^"]+)"', line)
        port = re.match(r"\[\d+\]\(([0-9a-fA-F]+)\)", line)
        if head:
            adapter = "" if head[1] == "Switch" else head[3].strip()
            found[head[3].strip()] = int(head[2], 16)
        elif port and adapter:
            found[adapter] = int(port[1], 16)
            adapter = ""
    if not found:
        raise InputError("has no line 'Switch …' or 'Ca …' as ibnetdiscover writes them")
    return found


def choose_routing(fabric: Fabric) -> tuple[str, str]:
    """Return the ``routing_engine`` and why."""
    between = _between(fabric)
    if between.is_empty():
        return "minhop", "one tier of switches: every path is one hop"
    groups = between.group_by("a", "b").len("ports")
    ups = groups.group_by("a").agg(groups=pl.len(), least=pl.col("ports").min(), most=pl.col("ports").max())
    ups = ups.join(_ranks(fabric), left_on="a", right_on="label")
    uneven = ups.filter(pl.col("least") != pl.col("most"))
    if not uneven.is_empty():
        row = uneven.sort("a").row(0, named=True)
        return "updn", (
            f"not a pure fat tree: {row['a']} has {row['least']} to {row['most']} ports to the {row['groups']} switches above "
            "it, and ftree wants equal groups"
        )
    ranks = ups.group_by("rank").agg(pl.col("groups", "most").n_unique())
    if (ranks["groups"] > 1).any() or (ranks["most"] > 1).any():
        return "updn", "not a pure fat tree: switches of one rank differ in their up-going port groups"
    row = ups.row(0, named=True)
    return "ftree,updn", (
        f"a pure fat tree: {row['groups']} equal groups of {row['most']} ports upwards from every leaf; updn takes over when "
        "a lost link makes the tree uneven"
    )


def render(plan: Plan, fabric: Fabric, contract: QosContract) -> dict[str, str]:
    """Return the subnet manager's files of one fabric."""
    engine, why = choose_routing(fabric)
    roots = fabric.nodes.filter(pl.col("kind") == "Switch").join(_ranks(fabric), on="label", maintain_order="left")
    roots = roots.filter(pl.col("rank") == roots["rank"].max())
    hosts = fabric.nodes.filter(pl.col("kind") == "Hca")
    lists = {
        "root_guid_file": ("root_guids.conf", _guid_list(roots)),
        "cn_guid_file": ("cn_guids.conf", _guid_list(hosts.filter(pl.col("role") == "server"))),
        "io_guid_file": ("io_guids.conf", _guid_list(hosts.filter(pl.col("role") != "server"))),
    }
    # An empty list makes ftree give up ("has no valid guids"), so a file without members is not named.
    lists = {key: (file, text) for key, (file, text) in lists.items() if text}
    return {
        "opensm.conf": _conf(contract, engine, why, {key: file for key, (file, _) in lists.items()}),
        **dict(lists.values()),
        "partitions.conf": partitions(plan, fabric),
        "fabric.topo": topo(fabric),
        "congestion.conf": congestion(contract),
        "nvidia-only.conf": _vendor(plan),
    }


def partitions(plan: Plan, fabric: Fabric) -> str:
    """Return ``partitions.conf``: with tenants everybody is a limited member of the default partition and full in its own."""
    tenants = plan.spec.tenants
    if not tenants:
        return "Default=0x7fff, ipoib, mtu=5, defmember=full : ALL=full, ALL_SWITCHES=full, SELF=full ;\n"
    lines = ["Default=0x7fff, ipoib, mtu=5, defmember=limited : ALL=limited, ALL_SWITCHES=full, SELF=full ;"]
    servers = plan.devices.filter(pl.col("role") == "server")["name"].to_list()
    of_server = dict(
        fabric.nodes.filter((pl.col("kind") == "Hca") & (pl.col("role") == "server"))
        .group_by("name", maintain_order=True)
        .agg("guid")
        .iter_rows()
    )
    first = 0
    for number, tenant in enumerate(tenants):
        own = servers[first : first + tenant.servers]
        first += tenant.servers
        members = ", ".join(f"0x{guid:016x}=full" for server in own for guid in of_server.get(server, ()))
        key = names.checked(tenant.name, names.DEVICE, "the name of a partition").replace("-", "_")
        lines.append(f"{key}=0x{PKEY_FIRST + number:04x}, ipoib, mtu=5, defmember=full : {members or 'SELF=full'} ;")
    return "\n".join([*lines, ""])


def topo(fabric: Fabric) -> str:
    """Return the fabric as a ``.topo`` file, for ``ibdiagnet -t``, ``ibtopodiff`` and UFM's comparison."""
    both = pl.concat(
        [
            fabric.cables,
            fabric.cables.select(a="b", a_port="b_port", b="a", b_port="a_port"),
        ]
    )
    shown_kind = pl.when(pl.col("kind") == "Switch").then(pl.col("model").str.to_uppercase()).otherwise(pl.lit("HCA_1"))
    kinds = fabric.nodes.select("label", shown=shown_kind)
    lines = (
        both.join(kinds.rename({"label": "b", "shown": "b_kind"}), on="b")
        .sort("a", "a_port")
        .group_by("a", maintain_order=True)
        .agg(text=pl.format("    P{} -> {} {} P{}", "a_port", "b_kind", _file_label("b"), "b_port").str.join("\n"))
    )
    shown = lines.join(kinds, left_on="a", right_on="label", maintain_order="left")
    return "\n\n".join(shown.select(pl.format("{} {}\n{}", "shown", _file_label("a"), "text")).to_series()) + "\n"


def ibsim_network(fabric: Fabric) -> str:
    """Return the fabric as a network file of ibsim, with its GUIDs (ibsim makes a port's GUID from the node's, plus one)."""
    both = pl.concat(
        [
            fabric.cables,
            fabric.cables.select(a="b", a_port="b_port", b="a", b_port="a_port"),
        ]
    )
    lines = (
        both.sort("a", "a_port")
        .group_by("a", maintain_order=True)
        .agg(text=pl.format('[{}] "{}"[{}]', "a_port", "b", "b_port").str.join("\n"))
    )
    shown = fabric.nodes.join(lines, left_on="label", right_on="a", maintain_order="left")
    switch = pl.col("kind") == "Switch"
    node_guid = pl.when(switch).then("guid").otherwise(pl.col("guid") - 1)
    hexadecimal = node_guid.map_batches(lambda s: pl.Series([f"{v:x}" for v in s]), return_dtype=pl.String)
    head = pl.when(switch).then(pl.lit("switchguid")).otherwise(pl.lit("caguid"))
    blocks = shown.select(
        pl.format('{}=0x{}\n{} {} "{}"\n{}', head, hexadecimal, "kind", "radix", "label", "text")
    ).to_series()
    return "\n\n".join(blocks) + "\n"


def _file_label(column: str) -> pl.Expr:
    """Node descriptions of adapters have a blank; topology files take neither it nor, at the head of a section, a slash."""
    return pl.col(column).str.replace(" ", ":", literal=True)


def _ends(plan: Plan, network: str) -> pl.DataFrame:
    """Return per port of ``network``: its node's label and kind, and the InfiniBand port number."""
    devices = plan.devices.select("device_id", "name", "role", "model")
    switch = pl.col("role").cast(pl.String).is_in(SWITCH_ROLES)
    lanes = {
        (key, cage): group.lanes
        for key in devices["model"].drop_nulls().unique().sort()
        if key in plan.catalog.switches
        for cage, group in enumerate((g for g in plan.catalog.switches[key].cages for _ in range(g.count)), start=1)
    }
    known = pl.DataFrame(
        [(model, cage, count) for (model, cage), count in lanes.items()],
        schema={"model": pl.String, "cage": pl.UInt16, "cage_lanes": pl.Int64},
        orient="row",
    )
    ports = (
        plan.ports.filter(pl.col("network") == network)
        .rename({"name": "port_name"})
        .join(devices, on="device_id", maintain_order="left")
        .join(known, on=["model", "cage"], how="left", maintain_order="left")
    )
    narrow = pl.col("lanes").min().over("device_id").cast(pl.Int64)
    number = (pl.col("cage").cast(pl.Int64) - 1) * (pl.col("cage_lanes") // narrow) + pl.col("lane_first") // narrow + 1
    return ports.select(
        "port_id",
        "device_id",
        "name",
        pl.col("role").cast(pl.String),
        "model",
        kind=pl.when(switch).then(pl.lit("Switch")).otherwise(pl.lit("Hca")),
        label=pl.when(switch).then("name").otherwise(pl.concat_str("name", pl.lit(" "), "port_name")),
        number=pl.when(switch).then(number).otherwise(1),
    )


def _between(fabric: Fabric) -> pl.DataFrame:
    """Return the cables between switches, ``a`` the lower one."""
    switches = fabric.nodes.filter(pl.col("kind") == "Switch")["label"].implode()
    return fabric.cables.filter(pl.col("a").is_in(switches) & pl.col("b").is_in(switches))


def _ranks(fabric: Fabric) -> pl.DataFrame:
    switches = fabric.nodes.filter(pl.col("kind") == "Switch")
    return switches.select("label", rank=pl.col("role").replace_strict(_RANK, default=1, return_dtype=pl.Int64))


def _guid_list(nodes: pl.DataFrame) -> str:
    return "".join(f"0x{guid:016x}\n" for guid in nodes["guid"])


def _conf(contract: QosContract, engine: str, why: str, lists: Mapping[str, str]) -> str:
    lanes = max((c.queue for c in contract.classes), default=0) + 1
    vls = next(code for count, code in _VLS.items() if count >= lanes)
    of_level = {c.priority: c for c in contract.classes}
    default = contract.default_class
    sl2vl = ",".join(str(of_level.get(level, default).queue) for level in range(16))
    low = ",".join(f"{c.queue}:{min(255, max(1, (c.weight or 1) * 255 // 100))}" for c in contract.classes)
    high = ",".join(f"{c.queue}:0" for c in contract.classes)
    settings: dict[str, object] = {
        "routing_engine": engine,
        **{key: f"/etc/opensm/{file}" for key, file in lists.items()},
        "max_reverse_hops": 2,
        "use_ucast_cache": "TRUE",
        "scatter_ports": 8,
        "partition_config_file": "/etc/opensm/partitions.conf",
        "qos": "TRUE",
        "qos_max_vls": 2 ** (vls - 1) if vls < 5 else 15,
        "qos_high_limit": 0,
        "qos_vlarb_high": high,
        "qos_vlarb_low": low,
        "qos_sl2vl": sl2vl,
        "congestion_control": "FALSE",
        "sweep_interval": 10,
        "force_log_flush": "TRUE",
        "log_flags": "0x03",
    }
    lines = [
        f"# Routing: {engine}: {why}.",
        "# Watch the log for 'Fabric topology is not a fat-tree': OpenSM then falls back.",
    ]
    return "\n".join([*lines, *(f"{key} {value}" for key, value in settings.items()), ""])


def _vendor(plan: Plan) -> str:
    backend = plan.spec.backend
    sharp = "sharp_enabled 2" if backend.in_network_reduction else "sharp_enabled 0"
    return "\n".join(
        [
            "# VARIANT for NVIDIA's OpenSM (MLNX_OFED, UFM) only: the open-source OpenSM does not know these keys.",
            "# Not verified against a running UFM. Use instead of the lines of the same name in opensm.conf.",
            "routing_engine ar_ftree",
            "# adaptive routing per service level; the adapters must accept reordered packets",
            "ar_sl_mask 0xFFFF",
            sharp,
            "# congestion control is set by UFM or by a cc-mgr policy file in this build",
            "",
        ]
    )
