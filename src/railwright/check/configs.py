"""The linter of configurations: reads what boxes are told, proves that they agree hop by hop, and with a plan if there is one.

Without a plan the two ends of every cable, every adapter with its switch, and every box with its peers are compared
(``check/config_rules.py``). With a plan every fact of every box is compared with what the plan's contract says: a join over
the keys of ``build.contract.statements``. A finding names the hop on a real path, the fact, and file and line.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path

import polars as pl
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from railwright.build import opensm, partitions
from railwright.build.contract import CARRIES, Reading, project, statements
from railwright.build.host_views import host_views
from railwright.build.hosts import HostReading, host_statements
from railwright.build.partitions import Partition, read_partitions
from railwright.build.path_modes import shortfall
from railwright.build.readings import Readings, read_configs
from railwright.build.render import MANIFEST
from railwright.build.services import routed_view
from railwright.build.views import Target, device_views, retarget
from railwright.build.withheld import covers
from railwright.check.config_frames import Frames, frames, paths_through
from railwright.check.config_isolation import edge_sessions, leaks, partition_mistakes, port_membership
from railwright.check.config_rules import Mistake, mistakes, own_mistakes
from railwright.check.engine import RuleText
from railwright.design.headroom import STEP_BYTES
from railwright.design.plan import Plan
from railwright.design.qos_table import contracts_for
from railwright.errors import InputError
from railwright.findings import Finding, Severity

_CODES = {
    "dscp": "RW005",
    "priority": "RW006",
    "queue": "RW029",
    "watchdog": "RW013",
    "bgp": "RW025",
    "peer": "RW028",
    "speed_gbps": "RW012",
    "split": "RW012",
    "lanes": "RW012",
    "fec": "RW011",
    "mtu": "RW010",
    "cable_m": "RW009",
    "trust_dscp": "RW030",
    "pfc": "RW003",
    "marking": "RW022",
    "headroom": "RW008",
    "vlan": "RW037",
    "vrf": "RW037",
    "leak": "RW038",
    "policy": "RW039",
    "aggregate": "RW039",
    "balancing": "RW041",
    "pool": "RW044",
}
_HOST_CODES = {
    "mtu": "RW010",
    "trust": "RW016",
    "pfc": "RW015",
    "dscp": "RW024",
    "traffic_class": "RW014",
    "cnp_dscp": "RW004",
    "dcqcn": "RW023",
    "pause": "RW017",
    "gid": "RW018",
    "NCCL_IB_TC": "RW019",
    "NCCL_IB_GID_INDEX": "RW018",
    "NCCL_IB_HCA": "RW020",
    "NCCL_SOCKET_IFNAME": "RW020",
}
_OTHER = "RW026"
ISOLATION = (port_membership, leaks, edge_sessions)
_LOSSLESS = ("xoff_bytes", "xon_bytes", "size_bytes")


@cache
def config_rule_texts() -> dict[str, RuleText]:
    """Return the text of every rule on configurations, in order of the codes."""
    text = resources.files("railwright.check").joinpath("data/config_rules.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, RuleText]).validate_python(YAML(typ="safe", pure=True).load(text))


def check_configs(directory: Path, plan: Plan | None = None) -> list[Finding]:
    """Return what is wrong with the configurations in ``directory``, and where they differ from ``plan``.

    ``directory`` has a folder per device. A ``build.json`` in it says to which platform and convention a plan was built.
    Raises InputError for files that cannot be read, with the line.
    """
    readings = read_configs(directory)
    tables = frames(readings)
    if plan is None:
        found = [*mistakes(readings, tables), *(m for rule in ISOLATION for m in rule(readings, tables))]
        pairs, servers = _pairs_read(tables), [reading.view.name for reading in readings.servers]
    else:
        found = [*_against(plan, directory, readings), *own_mistakes(readings, tables), *leaks(readings, tables)]
        pairs, servers = _pairs_planned(plan), plan.devices.filter(pl.col("role") == "server")["name"].to_list()
    found += _partitions(directory, plan)
    for reading in readings.switches:
        found += [
            Mistake(code, reading.view.name, item, str(place), message)
            for code, item, message, place in reading.problems
        ]
    return _findings(found, readings, paths_through(pairs, servers))


def _partitions(directory: Path, plan: Plan | None) -> Iterator[Mistake]:
    """Yield what is wrong with the partitions of every InfiniBand fabric below ``opensm/``."""
    planned: dict[str, list[Partition]] = {}
    owners: dict[str, dict[int, str]] = {}
    if plan is not None:
        for network, contract in contracts_for(plan, None).items():
            links = plan.links.filter(pl.col("network").cast(pl.String) == network)
            for fabric in opensm.fabrics(plan, network) if contract.transport == "infiniband" and len(links) else ():
                planned[fabric.name] = read_partitions(fabric.name, opensm.partitions(plan, fabric))
                owners[fabric.name] = dict(fabric.nodes.select("guid", "name").iter_rows())
    root = directory.resolve().parent if directory.resolve().name in CARRIES else directory
    for file in sorted(root.glob(f"opensm/*/{partitions.FILE}")):
        name = file.parent.name
        path = f"opensm/{name}/{partitions.FILE}"
        read = read_partitions(path, file.read_text(encoding="utf-8"))
        yield from partition_mistakes(path, read, planned.get(name), owners.get(name, {}))


def _pairs_read(tables: Frames) -> pl.DataFrame:
    return pl.concat(
        [tables.cables().select(a="device", b="device_b"), tables.uplinks().select(a="device", b="device_b")]
    ).unique()


def _pairs_planned(plan: Plan) -> pl.DataFrame:
    ports = plan.ports.join(plan.devices.select("device_id", device="name"), on="device_id").select("port_id", "device")
    links = plan.links.filter(pl.col("network") != "management")
    return (
        links.join(ports.rename({"port_id": "a_port", "device": "a"}), on="a_port")
        .join(ports.rename({"port_id": "b_port", "device": "b"}), on="b_port")
        .select("a", "b")
        .unique()
    )


def _against(plan: Plan, directory: Path, readings: Readings) -> Iterator[Mistake]:
    """Yield where the readings differ from the plan, and which devices only one of the two knows."""
    platform, convention = _built_for(directory)
    moved, _ = retarget(plan, Target(platform=platform))
    contracts = contracts_for(moved, convention)
    by_nos: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings.switches:
        by_nos[reading.view.nos].append(reading)
    wanted: list[tuple[str, str, str]] = []
    said: list[tuple[str, str, str]] = []
    known: set[str] = set()
    for nos, own in sorted(by_nos.items()):
        names = {reading.view.name for reading in own}
        services = [routed_view(moved, name) for name in sorted(names & _routers(moved))]
        for view in [*device_views(moved, contracts, Target(nos), names), *services]:
            if view.name in names:
                known.add(view.name)
                wanted += [(view.name, key, value) for key, value in statements(project(view))]
                missing = shortfall(nos, view.balancing) if "balancing" in CARRIES[nos]["device"] else ""
                if missing:
                    yield Mistake(
                        "RW041", view.name, "paths", "balancing", f"the plan wants {view.balancing}: {missing}"
                    )
        said += [
            (r.view.name, key, value) for r in own if r.view.name in known for key, value in statements(project(r.view))
        ]
    yield from _differences(wanted, said, _CODES)
    hosts = {reading.view.name: reading for reading in readings.servers}
    expected = {view.name: view for view in host_views(moved, contracts, {}) if view.name in hosts}
    wanted = [(name, key, value) for name, view in expected.items() for key, value in host_statements(view)]
    said = [(name, key, value) for name in expected for key, value in host_statements(hosts[name].view)]
    spoken = {(name, key.rpartition("/")[0] if "/dscp/" in key else key) for name, key, _ in said}
    dumps = {name for name, reading in hosts.items() if reading.files and reading.files[0].endswith("show.txt")}
    # A dump shows what its tools know; what it does not show is not a mistake, nor are DSCPs that the contract does not name.
    wanted = [row for row in wanted if row[0] not in dumps or (row[0], _group(row[1])) in spoken]
    asked = {(name, key) for name, key, _ in wanted}
    said = [row for row in said if row[0] not in dumps or (row[0], row[1]) in asked]
    yield from _differences(wanted, said, _HOST_CODES)
    yield from _strangers(moved, known | set(expected), readings)


def _routers(plan: Plan) -> set[str]:
    """Return the firewalls and load balancers: they speak BGP with FRR."""
    return set(plan.devices.filter(pl.col("role").cast(pl.String).is_in(["firewall", "load_balancer"]))["name"])


def _group(key: str) -> str:
    return key.rpartition("/")[0] if "/dscp/" in key else key


def _built_for(directory: Path) -> tuple[str | None, str | None]:
    parent = directory.resolve().parent
    places = [directory, *([parent] if directory.resolve().name in CARRIES else [])]
    file = next((place / MANIFEST for place in places if (place / MANIFEST).is_file()), None)
    if file is None:
        return None, None
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        return manifest.get("platform"), manifest.get("convention")
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError) as error:
        raise InputError(f"not a manifest of railwright build: {error}", file=file) from None


def _strangers(plan: Plan, known: set[str], readings: Readings) -> Iterator[Mistake]:
    planned = set(plan.devices["name"])
    present = {reading.view.name for reading in readings.all()}
    for name in sorted(present - planned):
        yield Mistake("RW027", name, "", "", "has a configuration here and is not in the plan")
    fabric = plan.devices.filter(
        pl.col("role").cast(pl.String).is_in(["server", "leaf", "spine", "core", "border"])
        & (pl.col("network").is_null() | (pl.col("network").cast(pl.String) != "management"))
    )
    infiniband = {
        key
        for key in fabric["model"].unique()
        if key in plan.catalog.switches and plan.catalog.switches[key].protocol == "infiniband"
    }
    for name, model in fabric.select("name", "model").iter_rows():
        if name not in present and model not in infiniband:
            yield Mistake("RW027", name, "", "", "is in the plan and has no configuration here")


def _differences(
    wanted: list[tuple[str, str, str]], said: list[tuple[str, str, str]], codes: dict[str, str]
) -> Iterator[Mistake]:
    """Yield one mistake per key that the two sides do not say alike."""
    schema = {"device": pl.String, "key": pl.String, "value": pl.String}
    expected = pl.DataFrame(wanted, schema=schema, orient="row")
    found = pl.DataFrame(said, schema=schema, orient="row")
    both = expected.join(found, on=["device", "key"], how="full", suffix="_found", coalesce=True)
    differ = both.filter(pl.col("value").ne_missing(pl.col("value_found"))).sort("device", "key")
    seen: set[tuple[str, str]] = set()
    for device, key, value, other in differ.iter_rows():
        item, field, rest = _parts(key)
        code = codes.get(field, _OTHER)
        if field == "headroom" and not _too_small(rest, value, other):
            continue
        if key == "bgp/withheld":
            yield from _announced(device, value, other)
            continue
        if field == "headroom" and other is None:
            code = "RW007"
        if field == "marking":
            code = "RW002" if other is None else "RW001" if key.endswith("/enabled") else code
        whole = (
            key.rpartition("/")[0]
            if field in ("marking", "headroom", "bgp") and (value is None or other is None)
            else key
        )
        if (device, whole) in seen:
            continue
        seen.add((device, whole))
        what = " ".join(part for part in (field.replace("_", " "), *rest) if part)
        yield Mistake(code, device, item, key, f"{what} is {other or 'not there'}, the plan says {value or 'nothing'}")


def _announced(device: str, value: str | None, other: str | None) -> Iterator[Mistake]:
    """Yield the management networks of which connected routes are announced; a box that withholds more than that is right."""
    for net in (value or "").split(", ") if value else ():
        if not covers((other or "").split(", ") if other else (), net):
            message = f"connected routes in {net} are announced into the fabric: the plan keeps them on the management network"
            yield Mistake("RW043", device, "bgp", "bgp/withheld", message)


def _parts(key: str) -> tuple[str, str, tuple[str, ...]]:
    """Return item, field and the rest of a key; a port's name may hold slashes."""
    parts = key.split("/")
    if parts[0] in ("port", "nic"):
        fields = [
            n
            for n, part in enumerate(parts)
            if n > 1 and (part in _CODES or part in _HOST_CODES or part in ("watchdog", "addresses", "vrf"))
        ]
        at = fields[0] if fields else len(parts) - 1
        return "/".join(parts[1:at]), parts[at], tuple(parts[at + 1 :])
    if parts[0] == "nccl":
        return "NCCL", parts[1], ()
    if parts[0] == "bgp" and parts[-1] in ("policy", "maximum_prefixes"):
        return f"session {'/'.join(parts[3:-1])}", "policy", (parts[-1],)
    if parts[0] in ("policy", "aggregate", "leak"):
        return " ".join(parts[:2]), parts[0], tuple(parts[2:])
    return " ".join(parts[:2]) if parts[0] in ("dscp", "priority", "queue") else parts[0], parts[0], tuple(parts[1:])


def _too_small(rest: tuple[str, ...], value: str | None, other: str | None) -> bool:
    """Say whether headroom is less than planned by more than one step; more is no mistake."""
    if value is None or rest[-1:] != ("xoff_bytes",):
        return False
    return other is None or int(other) + STEP_BYTES < int(value)


def _findings(found: Iterable[Mistake], readings: Readings, paths: dict[str, str]) -> list[Finding]:
    """Return findings with hop and place; the same statement about many ports of a box is one finding."""
    by_name: dict[str, Reading | HostReading] = {r.view.name: r for r in readings.all()}
    grouped: dict[tuple[str, str, str], list[Mistake]] = {}
    for mistake in found:
        grouped.setdefault((mistake.code, mistake.device, mistake.message), []).append(mistake)
    findings = []
    for (code, device, message), group in grouped.items():
        first = group[0]
        text = config_rule_texts()[code]
        reading = by_name.get(device)
        place = (
            first.key
            if first.key.rpartition(":")[2].isdigit()
            else str(reading.place(first.key))
            if reading and first.key
            else device
        )
        more = (
            f" (and {len(group) - 1} more: {', '.join(m.item for m in group[1:6])}{' …' if len(group) > 6 else ''})"
            if len(group) > 1
            else ""
        )
        hop = f"hop {paths[device]}: " if device in paths and paths[device] != device else ""
        subject = f"{device} {first.item}".strip()
        findings.append(Finding(code, text.severity, subject, f"{hop}{message}{more} [{place}]", text.fix, text.source))
    order = {severity: rank for rank, severity in enumerate(Severity)}
    return sorted(findings, key=lambda f: (order[f.severity], f.code, f.subject, f.message))
