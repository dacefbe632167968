"""Servers: how their adapters are set, written as data beside one script that shows and applies it, and read back.

A server's files are ``host.conf`` (one line per adapter port, the contract), ``netplan.yaml`` (or NetworkManager's
keyfiles), ``nccl.conf``, udev rules and a copy of the script ``railwright-host`` (``build/data/railwright-host.sh``),
which prints the commands it would run and runs them only with ``apply --yes``. ``railwright-host show`` prints the true
state as the outputs of the usual tools under ``## command`` lines; ``read`` takes either the files or such a dump
(``show.txt``).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files as resources
from typing import Any

from railwright.build.affinity import DIRECT, nearest_adapters
from railwright.build.contract import Place
from railwright.build.host_model import HostPort, HostView
from railwright.build.netplan import FILE as NETPLAN
from railwright.build.netplan import netplan, read_netplan
from railwright.build.network_manager import SUFFIX as KEYFILE
from railwright.build.network_manager import keyfiles, read_keyfile
from railwright.errors import InputError

__all__ = ["CONTRACT", "DUMP", "KEYFILE", "NCCL", "NETPLAN", "HostPort", "HostReading", "HostView"]

CONTRACT = "host.conf"
NCCL = "nccl.conf"
SCRIPT = "railwright-host"
UDEV = "70-railwright.rules"
DUMP = "show.txt"
TOPOLOGY = "nvidia-smi topo -m"


@dataclass(frozen=True)
class HostReading:
    """A host view read from files or a dump, with the place of each statement (see ``host_statements``)."""

    view: HostView
    files: tuple[str, ...]
    lines: Mapping[str, Place] = field(default_factory=dict)

    def place(self, key: str) -> Place:
        """Return the place of ``key``, or of the nearest thing above it that the files mention."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key.rpartition("/")[0]
        return Place(self.files[0] if self.files else self.view.name, 0)


_INTEGERS = ("gpu", "rail", "plane", "mtu", "traffic_class", "cnp_dscp", "gid")
_TEXTS = ("rdma", "network", "peer", "trust", "pause", "gateway", "bond")
_LISTS = ("pfc", "dcqcn")


def render(view: HostView, network_manager: bool = False) -> dict[str, str]:
    """Return the files of a server: addresses for netplan, or as keyfiles for NetworkManager."""
    network = keyfiles(view) if network_manager else {NETPLAN: netplan(view)}
    return {
        CONTRACT: _conf(view),
        **network,
        NCCL: "".join(f"{key}={value}\n" for key, value in view.nccl),
        UDEV: _udev(view),
        SCRIPT: script(),
    }


def script() -> str:
    """Return the script that shows and applies ``host.conf``."""
    return (resources("railwright.build") / "data" / "railwright-host.sh").read_text(encoding="utf-8")


def host_statements(view: HostView) -> Iterator[tuple[str, str]]:
    """Yield the facts of a host as ``(key, value)``: ``nic/rail1/mtu``, ``nccl/NCCL_IB_TC``; unknown facts are not yielded."""
    for port in view.ports:
        key = f"nic/{port.name}"
        for name in ("gpu", *_INTEGERS[3:], "trust", "pause", "bond", "gateway"):
            value = getattr(port, name)
            if value not in (None, ""):
                yield f"{key}/{name}", str(value)
        for name in _LISTS:
            listed = getattr(port, name)
            if listed is not None:
                yield f"{key}/{name}", ",".join(map(str, listed)) or "none"
        for dscp, priority in port.dscp:
            yield f"{key}/dscp/{dscp}", str(priority)
        if port.addresses:
            yield f"{key}/addresses", ",".join(port.addresses)
    for name, text in view.nccl:
        yield f"nccl/{name}", text


def _conf(view: HostView) -> str:
    lines = [f"# {view.name}: one line per adapter port; read by {SCRIPT}"]
    for port in view.ports:
        words = [f"nic {port.name}"]
        for name in (*_TEXTS, *_INTEGERS):
            value = getattr(port, name)
            if value not in (None, ""):
                words.append(f"{name}={value}")
        if port.speed_gbps:
            words.append(f"speed={port.speed_gbps:g}")
        for name in _LISTS:
            if getattr(port, name) is not None:
                words.append(f"{name}={','.join(map(str, getattr(port, name))) or 'none'}")
        if port.dscp:
            words.append("dscp=" + ",".join(f"{dscp}:{priority}" for dscp, priority in port.dscp))
        if port.addresses:
            words.append(f"addresses={','.join(port.addresses)}")
        lines.append(" ".join(words))
    return "\n".join([*lines, ""])


def _udev(view: HostView) -> str:
    """Return rules that name ports after their RDMA device, whose order follows the PCI order of the adapters.

    They match the kernel's driver, because udev's own ``ID_NET_DRIVER`` is set only by its rules 75 and later.
    """
    named = [p for p in view.ports if p.rdma]
    lines = [f"# Names ports by RDMA device: {SCRIPT} name KERNEL_NAME prints the name that host.conf gives."]
    if named:
        lines.append(
            f'ACTION=="add", SUBSYSTEM=="net", DRIVERS=="mlx5_core", '
            f'PROGRAM="/usr/local/sbin/{SCRIPT} name %k", NAME="%c"'
        )
    return "\n".join([*lines, ""])


def read(name: str, files: Mapping[str, str]) -> HostReading:
    """Return what a server's files say, or what ``show.txt`` says where there is one; ``files`` maps paths to texts."""
    dump = next((p for p in files if p.rpartition("/")[2] == DUMP), None)
    if dump is not None:
        return _read_dump(name, dump, files[dump])
    ports: dict[str, HostPort] = {}
    lines: dict[str, Place] = {}
    nccl: dict[str, str] = {}
    for path, text in files.items():
        base = path.rpartition("/")[2]
        if base == CONTRACT:
            _read_conf(path, text, ports, lines)
        elif base == NCCL:
            _read_nccl(path, text, nccl, lines)
    for path, text in files.items():
        if path.rpartition("/")[2] == NETPLAN:
            read_netplan(path, text, ports, lines)
        elif path.endswith(KEYFILE):
            read_keyfile(path, text, ports, lines)
    return HostReading(HostView(name, tuple(ports.values()), tuple(sorted(nccl.items()))), tuple(files), lines)


def _read_conf(path: str, text: str, ports: dict[str, HostPort], lines: dict[str, Place]) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] != "nic" or len(words) < 2:
            raise InputError("needs lines 'nic NAME key=value …'", file=path, line=number)
        fields: dict[str, Any] = {}
        for word in words[2:]:
            key, _, value = word.partition("=")
            try:
                fields |= _field(key, value)
            except ValueError:
                raise InputError(f"{word!r} is not a setting of an adapter", file=path, line=number, key=key) from None
            lines[f"nic/{words[1]}/{key}"] = Place(path, number)
        ports[words[1]] = HostPort(name=words[1], **fields)
        lines[f"nic/{words[1]}"] = Place(path, number)


def _field(key: str, value: str) -> dict[str, Any]:
    if key in _INTEGERS:
        return {key: int(value)}
    if key in _TEXTS:
        return {key: value}
    if key in _LISTS:
        return {key: () if value == "none" else tuple(int(v) for v in value.split(","))}
    if key == "speed":
        return {"speed_gbps": float(value)}
    if key == "addresses":
        return {key: tuple(value.split(","))}
    if key == "dscp":
        pairs = [pair.split(":") for pair in value.split(",")]
        return {key: tuple((int(d), int(p)) for d, p in pairs)}
    raise ValueError(key)


def _read_nccl(path: str, text: str, nccl: dict[str, str], lines: dict[str, Place], first: int = 1) -> None:
    for number, line in enumerate(text.splitlines(), start=first):
        key, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and re.fullmatch(r"[A-Z][A-Z0-9_]*", key):
            nccl[key] = value.strip("\"'")
            lines[f"nccl/{key}"] = Place(path, number)


def _read_dump(name: str, path: str, text: str) -> HostReading:
    """Return the state that ``railwright-host show`` printed: sections ``## command`` with the command's output."""
    ports: dict[str, HostPort] = {}
    lines: dict[str, Place] = {}
    nccl: dict[str, str] = {}
    names: dict[str, str] = {}
    for number, command, body in _sections(text):
        words = command.split()
        if words[:2] == ["nic", *words[1:2]] and len(words) == 3:
            names[words[2]] = words[1]
            ports.setdefault(words[1], HostPort(name=words[1], rdma=words[2]))
            continue
        if words[:1] == ["cat"] and words[-1].endswith("nccl.conf"):
            _read_nccl(path, body, nccl, lines, number + 1)
            continue
        if command == TOPOLOGY:
            near = nearest_adapters(body)
            for port in tuple(ports.values()):
                own = [gpu for gpu, n in near.items() if port.rdma in n.devices and n.distance in DIRECT]
                if len(own) == 1:
                    ports[port.name] = replace(port, gpu=own[0])
                    lines[f"nic/{port.name}/gpu"] = Place(path, number)
            continue
        owner = _owner(command, names)
        if owner is None:
            continue
        port = ports.setdefault(owner, HostPort(name=owner))
        changed = _observed(command, body, port)
        ports[owner] = replace(port, **changed)
        for key in changed:
            lines[f"nic/{owner}/{key}"] = Place(path, number)
        lines.setdefault(f"nic/{owner}", Place(path, number))
    return HostReading(HostView(name, tuple(ports.values()), tuple(sorted(nccl.items()))), (path,), lines)


def _sections(text: str) -> Iterator[tuple[int, str, str]]:
    start, command, body = 0, "", list[str]()
    for number, line in enumerate([*text.splitlines(), "## "], start=1):
        if line.startswith("## "):
            if command:
                yield start, command, "\n".join(body)
            start, command, body = number, line[3:].strip(), []
        else:
            body.append(line)


def _owner(command: str, names: Mapping[str, str]) -> str | None:
    match = re.search(r"/sys/class/net/([^/\s]+)/|(?:-i|-a|dev) (\S+)$", command)
    if match:
        return match[1] or match[2]
    match = re.search(r"/sys/class/infiniband/([^/\s]+)/|-d (\S+)", command)
    return names.get(match[1] or match[2]) if match else None


def _observed(command: str, body: str, port: HostPort) -> dict[str, Any]:
    """Return what the output of one command says of a port."""
    number = re.search(r"\d+", body)
    if command.startswith("mlnx_qos"):
        return _mlnx_qos(body)
    if command.startswith("ethtool -a"):
        states = dict(re.findall(r"^(RX|TX):\s*(on|off)", body, re.MULTILINE))
        return {"pause": "on" if "on" in states.values() else "off"} if states else {}
    if command.endswith("/mtu") and number:
        return {"mtu": int(number[0])}
    if command.endswith("traffic_class") or command.startswith("cma_roce_tos"):
        found = re.search(r"(?:tclass\s*=\s*|^)(\d+)", body, re.MULTILINE)
        return {"traffic_class": int(found[1])} if found else {}
    if command.endswith("cnp_dscp") and number:
        return {"cnp_dscp": int(number[0])}
    if match := re.search(r"roce_([nr]p)/enable/(\d)$", command):
        on = body.strip() == "1"
        before = set(port.dcqcn or ())
        return {"dcqcn": tuple(sorted(before | {int(match[2])} if on else before - {int(match[2])}))}
    if command.startswith("ip -br address"):
        return {"addresses": tuple(sorted(a for a in body.split()[2:] if not a.startswith("fe80")))}
    if "gid_attrs/types" in command and "v2" in body:
        return {"gid": int(command.rpartition("/")[2])}
    return {}


def _mlnx_qos(body: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if match := re.search(r"Priority trust state:\s*(\w+)", body):
        found["trust"] = match[1]
    pairs = []
    for priority, listed in re.findall(r"prio:(\d) dscp:([\d,]+)", body):
        pairs += [(int(d), int(priority)) for d in listed.strip(",").split(",") if d]
    if pairs:
        found["dscp"] = tuple(sorted(pairs))
    if match := re.search(r"^\s*enabled((?:\s+[01]){8})", body, re.MULTILINE):
        found["pfc"] = tuple(p for p, on in enumerate(match[1].split()) if on == "1")
    return found
