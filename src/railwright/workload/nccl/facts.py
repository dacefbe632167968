"""What NCCL itself says in a log: network, adapters, GPUDirect RDMA, channels, algorithms, variables and warnings.

Only the first line of each kind is kept as evidence, with its number. Formats: NCCL 2.8 to 2.30 and RCCL.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

_VERSION = re.compile(r"\b(NCCL|RCCL) version (?:: )?(\d+\.\d+\.\d{1,9})")
_NETWORK = re.compile(r"Using network (\S.*?)\s*$|Initialized NET plugin (\S+)")
_ADAPTERS = re.compile(r"NET/\S+ ?: Using ((?:\[\d+\]\S+ ?)+)")
_ADAPTER = re.compile(r"\[\d+\]([^\s:]+:\d+/\w+|[^\s:<]+)")
_VIA_NET = re.compile(r"via NET/([A-Za-z][\w ]*?)/(\d{1,9})(?:\(\d+\))?(/GDRDMA)?")
_VIA_LOCAL = re.compile(r"via (P2P|SHM|direct shared memory|NVL)")
_SHAPE = re.compile(r"nRanks (\d{1,9}) nNodes (\d{1,9}) localRanks (\d{1,9})")
_INIT = re.compile(r"\brank \d+ nranks (\d{1,9})\b")
_CHANNELS = re.compile(r"(\d{1,9}) coll channels(?:, \d+ collnet channels)?, (\d{1,9}) nvls channels")
_CHOICE = re.compile(r"(\w+): (\d{1,9}) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d{1,9})\.\.(\d{1,9})\}")
_SET = re.compile(r"\b(NCCL_\w+) set (?:by environment )?to (.+?)\.?\s*$")
_NVLS = re.compile(r"NVLS multicast support is (not )?available")
_OPERATION = re.compile(r"NCCL INFO (AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|AllToAll|SendRecv): opCount")
_ALGORITHMS = {
    "TREE": "tree",
    "RING": "ring",
    "COLLNET_DIRECT": "collnet-direct",
    "COLLNETDIRECT": "collnet-direct",
    "COLLNET_CHAIN": "collnet-chain",
    "COLLNETCHAIN": "collnet-chain",
    "NVLS": "nvls",
    "NVLS_TREE": "nvls-tree",
    "NVLSTREE": "nvls-tree",
    "PAT": "pat",
}

CHOICES = pl.Schema(
    {
        "line": pl.UInt32,
        "collective": pl.String,
        "bytes": pl.Float64,
        "algorithm": pl.String,
        "protocol": pl.String,
        "channels": pl.UInt32,
    }
)
"""Columns of `Facts.choices`. ``bytes`` is count x type as NCCL prints it: for all-gather and reduce-scatter one rank's part."""


@dataclass(frozen=True)
class Evidence:
    """One line of the log: its number (from 1) and what stands there."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(frozen=True, eq=False)
class Facts:
    """What the notices between two lines of a log say; everything is None or empty when the log does not say.

    ``network`` is the plugin (``IB``, ``Socket``, ``IBext_v8``…); ``via`` counts connections by transport: ``gdr`` (network that
    reads GPU memory), ``host`` (network through the CPU), ``socket``, ``p2p``, ``shm``; ``adapters`` are names as
    ``mlx5_0:1/IB``, ``adapter_use`` counts connections by adapter number.
    """

    version: str | None
    network: str | None
    adapters: tuple[str, ...]
    adapter_use: Mapping[int, int]
    via: Mapping[str, int]
    ranks: int | None
    nodes: int | None
    channels: int | None
    nvls_channels: int | None
    nvls: bool | None
    choices: pl.DataFrame
    variables: Mapping[str, str]
    warnings: tuple[Evidence, ...]
    collective: str | None
    seen: Mapping[str, Evidence]

    @property
    def silent(self) -> bool:
        """Whether the log holds no notice about how ranks are connected (NCCL_DEBUG=INFO was not set)."""
        return self.network is None and not self.via


class FactsReader:
    """Collects the notices of a log line by line, then tells the facts of any range of lines."""

    def __init__(self) -> None:
        self._notices: list[tuple[int, str]] = []

    def read(self, number: int, line: str) -> None:
        """Keep one line."""
        self._notices.append((number, line))

    def facts(self, first: int, end: int) -> Facts:
        """Return what the notices of lines ``first`` to ``end - 1`` say."""
        teller = _Teller()
        for number, line in self._notices:
            if first <= number < end:
                teller.take(number, line)
        return teller.told()


class _Teller:
    def __init__(self) -> None:
        self.seen: dict[str, Evidence] = {}
        self.text: dict[str, str] = {}
        self.number: dict[str, int] = {}
        self.adapters: dict[str, None] = {}
        self.adapter_use: dict[int, int] = {}
        self.via: dict[str, int] = {}
        self.choices: list[tuple[int, str, float, str, str, int]] = []
        self.variables: dict[str, str] = {}
        self.warnings: dict[str, Evidence] = {}

    def _see(self, key: str, number: int, line: str) -> None:
        self.seen.setdefault(key, Evidence(number, _short(line)))

    def take(self, number: int, line: str) -> None:
        if match := _VERSION.search(line):
            self.text.setdefault("version", f"{match[1]} {match[2]}")
        if "NCCL WARN" in line:
            text = line.split("NCCL WARN", 1)[1].strip()
            self.warnings.setdefault(re.sub(r"\d+", "0", text), Evidence(number, text[:200]))
            return
        if match := _NETWORK.search(line):
            self.text["network"] = match[1] or match[2]
            self._see("network", number, line)
        if match := _ADAPTERS.search(line):
            self.adapters.update(dict.fromkeys(_ADAPTER.findall(match[1])))
            self._see("adapters", number, line)
        if "No device found" in line:
            self._see("no_device", number, line)
        if match := _VIA_NET.search(line):
            kind = "socket" if match[1].lower() == "socket" else "gdr" if match[3] else "host"
            self.via[kind] = self.via.get(kind, 0) + 1
            self.adapter_use[int(match[2])] = self.adapter_use.get(int(match[2]), 0) + 1
            self._see(kind, number, line)
        elif match := _VIA_LOCAL.search(line):
            kind = "p2p" if match[1] in ("P2P", "NVL") else "shm"
            self.via[kind] = self.via.get(kind, 0) + 1
            self._see(kind, number, line)
        if match := _SHAPE.search(line):
            self.number.update(ranks=int(match[1]), nodes=int(match[2]))
            self._see("shape", number, line)
        elif match := _INIT.search(line):
            self.number["ranks"] = max(self.number.get("ranks", 0), int(match[1]))
        if match := _CHANNELS.search(line):
            self.number.update(channels=int(match[1]), nvls_channels=int(match[2]))
            self._see("channels", number, line)
        if match := _NVLS.search(line):
            self.number["nvls"] = 0 if match[1] else 1
            self._see("nvls", number, line)
        if match := _CHOICE.search(line):
            count = int(match[6]) - int(match[5]) + 1
            algorithm = _ALGORITHMS.get(match[3].upper(), match[3].lower())
            self.choices.append((number, match[1], float(match[2]), algorithm, match[4].lower(), max(count, 0)))
            self.text.setdefault("collective", match[1])
            self._see("choice", number, line)
        if match := _OPERATION.search(line):
            self.text.setdefault("collective", match[1])
        if match := _SET.search(line):
            self.variables[match[1]] = match[2].strip()
            self._see(match[1], number, line)

    def told(self) -> Facts:
        nvls = self.number.get("nvls")
        return Facts(
            version=self.text.get("version"),
            network=self.text.get("network"),
            adapters=tuple(self.adapters),
            adapter_use=self.adapter_use,
            via=self.via,
            ranks=self.number.get("ranks"),
            nodes=self.number.get("nodes"),
            channels=self.number.get("channels"),
            nvls_channels=self.number.get("nvls_channels"),
            nvls=None if nvls is None else bool(nvls),
            choices=pl.DataFrame(self.choices, schema=CHOICES, orient="row"),
            variables=self.variables,
            warnings=tuple(self.warnings.values()),
            collective=self.text.get("collective"),
            seen=self.seen,
        )


def _short(line: str) -> str:
    """Return what NCCL says, without host, process and tag."""
    return line.split("NCCL INFO", 1)[-1].strip()[:200]
