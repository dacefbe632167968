"""From a plan to files: every switch, every server, the subnet managers, the services, and the contract that they share.

Nothing is written here: a :class:`Build` maps relative paths to texts. Files of a device stand in a folder of its name.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import polars as pl

from railwright.build import frr, host_views, hosts, names, nvue, opensm, sonic
from railwright.build.contract import DeviceView
from railwright.build.path_modes import shortfall
from railwright.build.services import service_files
from railwright.build.views import Target, device_views, retarget
from railwright.design.plan import Plan
from railwright.design.qos import QosContract
from railwright.design.qos_table import SWITCH_ROLES, contracts_for
from railwright.errors import InputError

MANIFEST = "build.json"
CONTRACT = "contract.json"
_INTERFACE_NAME_LENGTH = 15

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Build:
    """Rendered files: relative path → text. ``systems`` is the operating system per switch, ``skipped`` why a box has none.

    ``shortfalls`` says per switch what its operating system cannot do of the plan's path mode.
    """

    files: Mapping[str, str]
    systems: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    shortfalls: Mapping[str, str] = field(default_factory=dict)
    platform: str | None = None
    convention: str | None = None

    def with_files(self, more: Mapping[str, str]) -> "Build":
        """Return the build with ``more`` files."""
        return replace(self, files={**self.files, **more})

    def manifest(self) -> dict[str, Any]:
        """Return what ``build.json`` says: the files in order, operating systems and what was left out."""
        return {
            "railwright_build": 1,
            "platform": self.platform,
            "convention": self.convention,
            "systems": dict(self.systems),
            "skipped": dict(self.skipped),
            "shortfalls": dict(self.shortfalls),
            "files": sorted(self.files),
        }


def renderer(nos: str) -> ModuleType:
    """Return the module that renders and reads ``nos``; EOS is imported only when it is asked for."""
    if nos == "eos":
        from railwright.build import eos

        return eos
    return {"sonic": sonic, "nvue": nvue, "frr": frr}[nos]


def render_plan(
    plan: Plan,
    systems: Sequence[str] = (),
    platform: str | None = None,
    convention: str | None = None,
    guids: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    network_manager: bool = False,
) -> Build:
    """Return the files of every box of ``plan``.

    ``systems`` names the operating systems for the switches (none: each platform's own; several: each gets a folder of its
    own above the devices). ``platform`` re-targets the Ethernet fabrics, ``convention`` takes a vendor's DSCPs, priorities
    and thresholds, ``guids`` are the GUIDs of InfiniBand nodes by description. ``network_manager`` writes the
    servers' addresses for NetworkManager instead of netplan. Raises InputError for an operating system that
    a platform does not run, MissingError for a renderer that is not installed.
    """
    say = progress or _silent
    names.check_plan(plan)
    _refuse_long_vrfs(plan)
    _refuse_routed_servers(plan)
    moved, skipped = retarget(plan, Target(platform=platform))
    skipped = dict(skipped)
    contracts = contracts_for(moved, convention)
    files: dict[str, str] = {}
    shown: dict[str, str] = {}
    shortfalls: dict[str, str] = {}
    peers: dict[int, str] = {}
    for nos in systems or (None,):
        say(f"views{f' for {nos}' if nos else ''}")
        views = device_views(_without(moved, skipped), contracts, Target(nos))
        peers = peers or _peers(moved, views)
        prefix = f"{nos}/" if len(systems) > 1 else ""
        for view in views:
            say(view.name)
            for file, text in renderer(view.nos).render(view).items():
                files[f"{prefix}{view.name}/{file}"] = text
            shown[view.name] = view.nos
            missing = shortfall(view.nos, view.balancing)
            if missing:
                shortfalls[view.name] = f"{view.nos}: {missing}"
    say("servers")
    for host in host_views.host_views(moved, contracts, peers):
        files |= {f"{host.name}/{file}": text for file, text in hosts.render(host, network_manager).items()}
    files |= _infiniband(moved, contracts, guids)
    slurm = _slurm(moved)
    if slurm:
        files["slurm/topology.conf"] = slurm
    files |= service_files(moved, shown)
    files[CONTRACT] = _contracts(contracts)
    skipped |= _others(moved, set(shown) | set(skipped))
    return Build(files, shown, skipped, shortfalls, platform, convention)


def _refuse_long_vrfs(plan: Plan) -> None:
    """Raise InputError for a VRF whose name no Linux interface can have: 15 characters with SONiC's ``Vrf-`` before it.

    Source: IFNAMSIZ of the Linux kernel (16 with the closing zero). FRR, SONiC and Cumulus make each VRF an interface.
    """
    limit = _INTERFACE_NAME_LENGTH - len("Vrf-")
    for name in plan.addresses["vrf"].drop_nulls().unique().sort():
        if len(name) > limit:
            raise InputError(
                f"VRF {name!r} has {len(name)} characters; switches take {limit} (15 with SONiC's 'Vrf-' before it): "
                "give the tenant a shorter name",
                key="tenants[].name",
            )


def _refuse_routed_servers(plan: Plan) -> None:
    """Raise InputError for servers that are to speak BGP on the frontend: a build would leave them without any session."""
    front = plan.spec.frontend
    if front.enabled and front.attach == "routed":
        raise InputError(
            "build makes no sessions between leaves and servers yet, so that routed servers would have no frontend; "
            "plan with evpn-multihoming or lacp to build",
            key="frontend.attach",
        )


def _others(plan: Plan, known: set[str]) -> dict[str, str]:
    """Return why each switch outside ``known`` has no files of its own."""
    found = {}
    for name, role, network, model in plan.devices.select("name", "role", "network", "model").iter_rows():
        if name in known or role not in (*SWITCH_ROLES, "oob"):
            continue
        platform = plan.catalog.switches.get(model)
        if platform is not None and platform.protocol == "infiniband":
            found[name] = "the subnet manager configures it (opensm/)"
        else:
            found[name] = f"no configuration is made for a {network} {role}"
    return found


def _without(plan: Plan, skipped: Mapping[str, str]) -> Plan:
    """Return the plan without the switches that could not be re-targeted."""
    if not skipped:
        return plan
    return plan.with_tables(
        devices=plan.devices.with_columns(
            model=pl.when(pl.col("name").is_in(list(skipped))).then(None).otherwise("model")
        )
    )


def _peers(plan: Plan, views: Sequence[DeviceView]) -> dict[int, str]:
    """Return for each server port the ``switch:port`` at the other end, as the switch's operating system calls it."""
    held = [(view.name, port.name, port.peer) for view in views for port in view.ports]
    if not held:
        return {}
    frame = pl.DataFrame(held, schema={"switch": pl.String, "port": pl.String, "peer": pl.String}, orient="row")
    ports = plan.ports.join(plan.devices.select("device_id", device="name"), on="device_id").select(
        "port_id", peer=pl.concat_str("device", pl.lit(":"), "name")
    )
    return dict(
        frame.join(ports, on="peer").select("port_id", pl.concat_str("switch", pl.lit(":"), "port")).iter_rows()
    )


def _infiniband(plan: Plan, contracts: Mapping[str, QosContract], guids: Mapping[str, int] | None) -> dict[str, str]:
    files: dict[str, str] = {}
    for network, contract in contracts.items():
        if contract.transport == "infiniband" and not plan.links.filter(pl.col("network") == network).is_empty():
            for fabric in opensm.fabrics(plan, network, guids):
                files |= {
                    f"opensm/{fabric.name}/{file}": t for file, t in opensm.render(plan, fabric, contract).items()
                }
    return files


def _slurm(plan: Plan) -> str:
    """Return Slurm's tree topology: servers behind the same backend leaves are one switch, all of them one fabric."""
    servers = plan.devices.filter(pl.col("role") == "server").select("device_id", server="name")
    leaves = plan.devices.filter((pl.col("network") == "backend") & (pl.col("role") == "leaf")).select(
        "device_id", leaf="name"
    )
    ports = plan.ports.select("port_id", "device_id")
    pairs = (
        plan.links.filter((pl.col("network") == "backend") & (pl.col("tier") == "host"))
        .join(ports.rename({"port_id": "a_port", "device_id": "a"}), on="a_port")
        .join(ports.rename({"port_id": "b_port", "device_id": "b"}), on="b_port")
        .join(servers, left_on="a", right_on="device_id")
        .join(leaves, left_on="b", right_on="device_id")
    )
    units = (
        pairs.group_by("server")
        .agg(pl.col("leaf").unique().sort().str.join(","), first=pl.col("a").first())
        .sort("first")
        .group_by("leaf", maintain_order=True)
        .agg("server")
    )
    if units.is_empty():
        return ""
    lines = [f"SwitchName=unit{n} Nodes={','.join(row)}" for n, row in enumerate(units["server"].to_list(), start=1)]
    if len(lines) > 1:
        lines.append(f"SwitchName=fabric Switches=unit[1-{len(lines)}]")
    return "\n".join(["# TopologyPlugin=topology/tree", *lines, ""])


def _contracts(contracts: Mapping[str, QosContract]) -> str:
    return json.dumps({network: c.model_dump(mode="json") for network, c in contracts.items()}, indent=2) + "\n"


def _silent(_step: str) -> None:
    pass


def check_paths(files: Mapping[str, str]) -> None:
    """Raise InputError when a path of ``files`` leaves its folder: the last guard before anything is written."""
    for path in files:
        for part in path.split("/"):
            names.checked(part, names.TOKEN, "part of a file name")
