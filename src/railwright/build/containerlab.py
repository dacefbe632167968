"""The Ethernet fabrics of a plan as a containerlab topology: FRR or SONiC containers, servers as plain Linux.

A lab holds some dozen containers, a plan some thousand boxes. ``scaled`` keeps the plan's own names and ports and takes the
first servers with the switches above them; what was left out stands in the file's first lines. InfiniBand
fabrics have no container. Interfaces of SONiC-VS are ``eth1``, ``eth2`` … in the order of the front panel; on Linux nodes they
have the names of the plan, so that rendered configuration fits (containerlab 0.79, ``docs/manual/kinds``).
"""

import re
from pathlib import Path
from typing import Any

import polars as pl

from railwright.build import names
from railwright.design.plan import Plan
from railwright.design.sockets import network_protocol
from railwright.documents import write_yaml
from railwright.errors import InputError

MOST_NODES = 48
"""Containers in a lab: a few hundred megabytes each for SONiC, a few dozen for FRR."""

IMAGES = {"frr": "frrouting/frr:v8.4.1", "sonic-vs": "docker-sonic-vs:latest", "host": "alpine:3.20"}
FABRIC_ROLES = ("leaf", "spine", "core", "border", "tor")

# What Linux takes as the name of an interface: 15 characters without blank and slash (include/uapi/linux/if.h, IFNAMSIZ).
_LINUX_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")


def write_containerlab(plan: Plan, directory: Path, most_nodes: int = MOST_NODES) -> list[Path]:
    """Write ``NAME.clab.yml`` into ``directory`` and return it. Raises InputError when the plan has no Ethernet fabric.

    Where ``frr.conf`` of a switch stands two folders above (as ``railwright build`` writes it), the node mounts it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{names.checked(plan.spec.name, names.DEVICE, 'the name of a lab')}.clab.yml"
    file.write_text(containerlab(plan, directory.parent.parent, most_nodes), encoding="utf-8")
    return [file]


def containerlab(plan: Plan, configurations: Path | None = None, most_nodes: int = MOST_NODES) -> str:
    """Return the topology of at most ``most_nodes`` nodes; ``configurations`` is the folder with a folder per device."""
    names.check_all(plan.devices["name"], names.DEVICE, "the name of a device")
    links = fabric_links(plan)
    if links.is_empty():
        raise InputError("the plan has no Ethernet fabric of servers and switches; containerlab has no InfiniBand")
    kept = scaled(links, most_nodes)
    inside = links.join(kept.select(a="device_id"), on="a", how="semi").join(
        kept.select(b="device_id"), on="b", how="semi"
    )
    kinds = {row["device_id"]: _kind(plan, row) for row in kept.iter_rows(named=True)}
    interfaces = _interfaces(inside, kinds)
    nodes = {
        row["name"]: _node(row["name"], kinds[row["device_id"]], configurations) for row in kept.iter_rows(named=True)
    }
    ends = [
        f"{row['a_name']}:{interfaces[row['a_port']]} {row['b_name']}:{interfaces[row['b_port']]}".split(" ")
        for row in inside.iter_rows(named=True)
    ]
    data = {
        "name": plan.spec.name,
        "topology": {"nodes": nodes, "links": [{"endpoints": pair} for pair in ends]},
    }
    everything = pl.concat([links["a"], links["b"]]).n_unique()
    head = [
        f"# {plan.spec.name}: {len(nodes)} of {everything} boxes and {len(ends)} of {links.height} links (Ethernet fabrics).",
        "# containerlab deploy -t this file. The image of SONiC has to be loaded by hand (docker load).",
    ]
    return "\n".join(head) + "\n" + write_yaml(data)


def fabric_links(plan: Plan) -> pl.DataFrame:
    """Return the links between servers and switches of Ethernet fabrics: ``a, b`` (devices), ``a_name, b_name, a_role, b_role,
    a_port, b_port, a_port_name, b_port_name, network``."""
    fabrics = [n for n in ("backend", "frontend", "storage") if network_protocol(plan.spec, n) == "ethernet"]
    wanted = ("server", *FABRIC_ROLES)
    named = plan.named_links().filter(
        pl.col("network").cast(pl.String).is_in(fabrics)
        & pl.col("a_role").cast(pl.String).is_in(wanted)
        & pl.col("b_role").cast(pl.String).is_in(wanted)
    )
    return named.select(
        "network",
        "a_port",
        "b_port",
        "a_port_name",
        "b_port_name",
        a="a_device_id",
        b="b_device_id",
        a_name="a_device",
        b_name="b_device",
        a_role=pl.col("a_role").cast(pl.String),
        b_role=pl.col("b_role").cast(pl.String),
    )


def scaled(links: pl.DataFrame, most_nodes: int) -> pl.DataFrame:
    """Return the boxes of a lab, ``device_id, name, role``: as many servers as fit with all that stands above them.

    Where the switches above two servers are too many already, each tier is cut to half of the room that is left.
    """
    sides = [links.select(device_id=side, name=f"{side}_name", role=f"{side}_role") for side in ("a", "b")]
    boxes = pl.concat(sides).unique("device_id").sort("device_id")
    servers = boxes.filter(pl.col("role") == "server")
    if boxes.height <= most_nodes or servers.is_empty():
        return boxes.head(most_nodes)
    fitting, too_many = 0, servers.height + 1
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if _with_tiers(links, boxes, servers.head(middle)).height <= most_nodes:
            fitting = middle
        else:
            too_many = middle
    if fitting >= min(2, servers.height):
        return _with_tiers(links, boxes, servers.head(fitting))
    return _with_tiers(links, boxes, servers.head(max(2, most_nodes // 3)), most_nodes)


def _with_tiers(
    links: pl.DataFrame, boxes: pl.DataFrame, servers: pl.DataFrame, most_nodes: int | None = None
) -> pl.DataFrame:
    """Return ``servers`` and the boxes above them, tier by tier, those with the most links first where there is a limit."""
    kept = frontier = servers
    while not frontier.is_empty() and (most_nodes is None or kept.height < most_nodes):
        above = (
            links.join(frontier.select(a="device_id"), on="a", how="semi")
            .join(kept.select(b="device_id"), on="b", how="anti")
            .group_by("b")
            .len()
            .sort(pl.col("len"), "b", descending=[True, False])
        )
        if most_nodes is not None:
            above = above.head(max(1, (most_nodes - kept.height) // 2))
        frontier = boxes.join(above.select(device_id="b"), on="device_id", how="semi")
        kept = pl.concat([kept, frontier])
    return kept.sort("device_id")


def _kind(plan: Plan, row: dict[str, Any]) -> str:
    if row["role"] == "server":
        return "host"
    model = plan.devices.filter(pl.col("device_id") == row["device_id"])["model"].item()
    platform = plan.catalog.switches.get(model)
    return "sonic-vs" if platform is not None and platform.nos[:1] == ("sonic",) else "frr"


def _node(name: str, kind: str, configurations: Path | None) -> dict[str, Any]:
    if kind == "sonic-vs":
        return {"kind": "sonic-vs", "image": IMAGES[kind]}
    node: dict[str, Any] = {"kind": "linux", "image": IMAGES[kind]}
    binds = [
        f"../../{name}/{file}:/etc/frr/{file}"
        for file in ("daemons", "frr.conf")
        if kind == "frr" and configurations is not None and (configurations / name / file).is_file()
    ]
    return {**node, "binds": binds} if binds else node


def _interfaces(links: pl.DataFrame, kinds: dict[int, str]) -> dict[int, str]:
    """Return the name of every port inside the lab; a name that Linux cannot take becomes ``ethN``."""
    ports = pl.concat(
        [links.select(device=side, port=f"{side}_port", name=f"{side}_port_name") for side in ("a", "b")]
    ).sort("device", "port")
    found: dict[int, str] = {}
    for (device,), own in ports.group_by("device", maintain_order=True):
        listed = own["name"].to_list()
        fits = all(_LINUX_NAME.fullmatch(name) and name != "eth0" for name in listed) and len(set(listed)) == len(
            listed
        )
        keeps = fits and kinds[device] != "sonic-vs"
        for number, (port, name) in enumerate(own.select("port", "name").iter_rows(), start=1):
            found[port] = name if keeps else f"eth{number}"
    return found
