"""A job's NCCL variables, pasted as text, and what they change.

Accepted are the ways in which people keep them: ``export A=B``, ``-x A=B`` of mpirun, ``-e A=B`` of docker, ``A=B command``,
one or many per line, with quotes, line continuations and ``#`` comments. NCCL ignores names that it does not know; this module
says so, with the nearest spelling.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from railwright.errors import InputError, nearest
from railwright.workload.collectives.meaning import COLLECTIVES, collective_name
from railwright.workload.nccl.constants import ALGORITHMS, PROTOCOLS, read_data

_ASSIGNMENT = re.compile(r"""(?<![\w$])(?P<name>(?:NCCL|RCCL)_[A-Za-z0-9_]+)=(?P<value>"[^"]*"|'[^']*'|[^\s"']*)""")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_TOKENS = {name.replace("-", ""): name for name in ALGORITHMS}
_LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
_DRIVERS = ("mlx4", "mlx5")
_OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")

Allowed = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Environment:
    """What the variables say. ``variables`` are name → value as read, ``remarks`` what the user should know about them.

    ``algorithms`` and ``protocols`` (by collective) are None when not restricted; then LL128 is on only where NCCL turns it
    on by default. ``min_channels`` and ``max_channels`` 0: no bound; ``adapters`` None: all.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    algorithms: Allowed | None = None
    protocols: Allowed | None = None
    min_channels: int = 0
    max_channels: int = 0
    nvls: bool = True
    collnet: bool | None = None
    cross_nic: int = 2
    queue_pairs: int = 1
    split_data: bool = False
    pxn_level: int = 2
    gdr: bool = True
    adapters: int | None = None
    sockets: bool = False
    nvlink: bool = True
    pat: int = 2
    net_overhead_us: float | None = None
    threads: int | None = None
    ll128_threads: int | None = None


def parse_environment(text: str, *, file: str | None = None) -> Environment:
    """Return what ``text`` sets; the last assignment of a name wins, as in a shell.

    Raises InputError with line and key for a value that the variable cannot have. Names that NCCL does not read are remarks.
    """
    data = read_data("environment.yaml")
    modelled: Mapping[str, str] = data["modelled"]
    known = {*modelled, *str(data["known"]).split()}
    plugins = tuple(data["plugins"])
    values: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _ASSIGNMENT.finditer(_COMMENT.sub("", line)):
            values[match["name"]] = (match["value"].strip("\"'").rstrip("\\;,"), number)
    remarks = []
    settings: dict[str, Any] = {}
    for name, (value, number) in values.items():
        if name.startswith(plugins):
            remarks.append(f"line {number}: {name} is read by a plugin; the model knows nothing of it")
        elif name not in known:
            remarks.append(f"line {number}: {name} is not read by NCCL 2.30 or RCCL 2.21{nearest(name, known)}")
        elif name in _READERS:
            try:
                settings |= _READERS[name](value)
            except ValueError as error:
                raise InputError(str(error), file=file, line=number, key=name) from None
        else:
            remarks.append(f"line {number}: {name} is known and does not change the model's answer")
    if {"min_channels", "max_channels"} <= settings.keys():
        least, most = settings["min_channels"], settings["max_channels"]
        if most and least > most:
            remarks.append(
                f"the least number of channels ({least}) is above the largest ({most}); NCCL obeys the least"
            )
    variables = {name: value for name, (value, _) in values.items()}
    return Environment(variables=variables, remarks=tuple(remarks), **settings)


def _count(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(value: str) -> int:
        try:
            number = int(value, 0)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            upto = f" to {most}" if most is not None else " or more"
            raise ValueError(f"{value!r} is not allowed; write {least}{upto}")
        return number

    return read


def _level(value: str) -> str:
    if value.isdigit():
        return _OLD_LEVELS[min(int(value), len(_OLD_LEVELS) - 1)]
    if value not in _LEVELS:
        raise ValueError(
            f"{value!r} is not a distance{nearest(value.upper(), _LEVELS)}; choose one of {', '.join(_LEVELS)}"
        )
    return value


def _selection(value: str, names: Mapping[str, str]) -> Allowed:
    """Return what NCCL_ALGO or NCCL_PROTO allows by collective: ``Ring,Tree``, ``^LL128``, ``allreduce:tree;broadcast:ring``."""
    allowed = {collective: frozenset(names.values()) for collective in COLLECTIVES}
    for position, entry in enumerate(value.split(";")):
        prefix, colon, listed = entry.rpartition(":")
        if not colon and position:
            raise ValueError(f"{entry!r} has no collective before it; only the first entry may lack one")
        inverted = listed.startswith("^")
        tokens = [token.strip().lower() for token in listed.removeprefix("^").split(",")]
        for token in tokens:
            if token not in names:
                hint = nearest(token, names)
                raise ValueError(f"{token!r} is unknown{hint}; choose among {', '.join(names)}")
        chosen = frozenset(names[token] for token in tokens)
        picked = frozenset(names.values()) - chosen if inverted else chosen
        try:
            touched = [collective_name(prefix)] if prefix else list(allowed)
        except InputError as error:
            raise ValueError(error.message) from None
        allowed |= dict.fromkeys(touched, picked)
    return allowed


def _adapters(value: str) -> int | None:
    """Return how many adapters NCCL_IB_HCA names one by one; None when it names prefixes or exclusions."""
    listed = value.lstrip("=")
    if listed.startswith("^") or value.startswith("^"):
        return None
    names = [entry.split(":")[0] for entry in listed.split(",") if entry]
    if not names:
        raise ValueError("no adapter is named; write for example mlx5_0,mlx5_1")
    one_by_one = all(name[-1:].isdigit() and name not in _DRIVERS for name in names)
    return len(names) if one_by_one else None


def _network(value: str) -> bool:
    return value.lower() == "socket"


_flag = _count(0, 1)


def _least_channels(value: str) -> dict[str, object]:
    return {"min_channels": _count(0, 64)(value)}


def _most_channels(value: str) -> dict[str, object]:
    return {"max_channels": _count(1, 64)(value)}


_READERS: Mapping[str, Callable[[str], dict[str, object]]] = {
    "NCCL_ALGO": lambda value: {"algorithms": _selection(value, _TOKENS)},
    "NCCL_PROTO": lambda value: {"protocols": _selection(value, {name: name for name in PROTOCOLS})},
    **dict.fromkeys(("NCCL_MIN_NRINGS", "NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS"), _least_channels),
    **dict.fromkeys(("NCCL_MAX_NRINGS", "NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"), _most_channels),
    "NCCL_NVLS_ENABLE": lambda value: {"nvls": _count(0, 2)(value) > 0},
    "NCCL_COLLNET_ENABLE": lambda value: {"collnet": bool(_flag(value))},
    "NCCL_CROSS_NIC": lambda value: {"cross_nic": _count(0, 2)(value)},
    "NCCL_IB_QPS_PER_CONNECTION": lambda value: {"queue_pairs": _count(1, 128)(value)},
    "NCCL_IB_SPLIT_DATA_ON_QPS": lambda value: {"split_data": bool(_flag(value))},
    "NCCL_P2P_PXN_LEVEL": lambda value: {"pxn_level": _count(0, 2)(value)},
    "NCCL_PXN_DISABLE": lambda value: {"pxn_level": 0} if _flag(value) else {},
    "NCCL_NET_GDR_LEVEL": lambda value: {"gdr": _level(value) != "LOC"},
    "NCCL_IB_HCA": lambda value: {"adapters": _adapters(value)},
    "NCCL_IB_DISABLE": lambda value: {"sockets": True} if _flag(value) else {},
    "NCCL_NET": lambda value: {"sockets": True} if _network(value) else {},
    "NCCL_P2P_DISABLE": lambda value: {"nvlink": not _flag(value)},
    "NCCL_P2P_LEVEL": lambda value: {"nvlink": _level(value) != "LOC"},
    "NCCL_PAT_ENABLE": lambda value: {"pat": _count(0, 2)(value)},
    "NCCL_NET_OVERHEAD": lambda value: {"net_overhead_us": _count(0)(value) / 1000},
    "NCCL_NTHREADS": lambda value: {"threads": _count(64, 1024)(value)},
    "NCCL_LL128_NTHREADS": lambda value: {"ll128_threads": _count(160, 640)(value)},
}
