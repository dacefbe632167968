"""The shape of a job as NCCL sees it: nodes, GPUs, NVLink, NICs and the processor they hang on.

A *node* here is what NVLink joins (a server, or an NVL72 rack). All rates are decimal GB/s in one direction: an H100 has
450 GB/s of NVLink, a 400 Gb/s adapter 50 GB/s.
"""

from dataclasses import dataclass, replace

from railwright.catalog.model import Gpu, Server
from railwright.errors import InputError, nearest
from railwright.workload.nccl.constants import AMD, ARCHITECTURES, Constants, constants_of

TRANSPORTS = ("infiniband", "rocev2", "socket")


@dataclass(frozen=True)
class JobShape:
    """What decides NCCL's choice.

    ``nvlink_gbytes_s`` per GPU and direction as the vendor prints it (0: none); ``nvswitch`` False means direct links between
    all GPUs of the job (xGMI), whose sum ``nvlink_gbytes_s`` then is; ``nics_per_node`` adapters of ``nic_gbytes_s``; ``cpu``
    ``intel``, ``amd`` or ``arm``; ``sharp``: the network reduces (CollNet plugin present); ``gdr``: adapters read GPU memory
    without crossing the CPU; ``pcie_generation`` None: that of the architecture's servers.
    """

    nodes: int
    gpus_per_node: int
    architecture: str
    nvlink_gbytes_s: float
    nics_per_node: int
    nic_gbytes_s: float
    cpu: str = "intel"
    nvswitch: bool = True
    sharp: bool = False
    gdr: bool = True
    transport: str = "infiniband"
    pcie_generation: int | None = None

    def __post_init__(self) -> None:
        for key in ("nodes", "gpus_per_node"):
            if getattr(self, key) < 1:
                raise InputError(f"{getattr(self, key)} is not a count; at least 1 is needed", key=key)
        for key in ("nvlink_gbytes_s", "nics_per_node", "nic_gbytes_s"):
            if getattr(self, key) < 0:
                raise InputError(f"{getattr(self, key)} is negative; 0 or more is needed", key=key)
        for key, allowed in (
            ("architecture", ARCHITECTURES),
            ("transport", TRANSPORTS),
            ("cpu", ("intel", "amd", "arm")),
        ):
            value = getattr(self, key)
            if value not in allowed:
                raise InputError(
                    f"{value!r} is unknown{nearest(str(value), allowed)}; choose one of {', '.join(allowed)}", key=key
                )
        if self.nodes > 1 and not (self.nics_per_node and self.nic_gbytes_s):
            raise InputError(f"{self.nodes} nodes need at least one adapter with a rate", key="nics_per_node")
        known = constants_of(self.architecture).pcie_gbytes_s
        if self.pcie_generation is not None and self.pcie_generation not in known:
            raise InputError(
                f"{self.pcie_generation} is unknown; choose one of {', '.join(map(str, known))}", key="pcie_generation"
            )

    @property
    def ranks(self) -> int:
        """GPUs in the job."""
        return self.nodes * self.gpus_per_node

    @property
    def constants(self) -> Constants:
        """The constants of the library that runs on this architecture."""
        return constants_of(self.architecture)

    @property
    def nvlink_counted(self) -> float:
        """NVLink as the library counts it, GB/s per GPU and direction (H100: 18 links of 20.6 for 450)."""
        link = self.constants.nvlink[self.architecture]
        return self.nvlink_gbytes_s * link["counted"] / link["vendor"]

    @property
    def pcie_counted(self) -> float:
        """Sixteen lanes of PCIe as the library counts them, GB/s."""
        constants = self.constants
        return constants.pcie_gbytes_s[self.pcie_generation or constants.pcie_generation[self.architecture]]

    @property
    def nic_counted(self) -> float:
        """What one adapter can move to a GPU, GB/s: its own rate or PCIe's; half of PCIe when data bounce through the CPU.

        Without GPUDirect RDMA each byte crosses the root port twice (GPU to host memory, host memory to adapter): an
        approximation for adapter and GPU below one PCIe switch; too low where each has its own root port.
        """
        direct = self.gdr and self.transport != "socket"
        return min(self.nic_gbytes_s, self.pcie_counted if direct else self.pcie_counted / 2)

    def at(self, nodes: int) -> "JobShape":
        """Return the same servers, ``nodes`` of them."""
        return replace(self, nodes=nodes)


def shape_of_server(
    server: Server,
    gpu: Gpu,
    *,
    gpus: int,
    transport: str = "infiniband",
    cpu: str = "intel",
    sharp: bool = False,
) -> JobShape:
    """Return the shape of a job of ``gpus`` GPUs on whole servers of the catalog; raises InputError when they do not fit.

    The scale-up domain is the node: ``server.scale_up_gpus`` GPUs, or all of them in a smaller job.
    """
    domain = min(gpus, server.scale_up_gpus)
    if gpus % domain:
        raise InputError(
            f"{gpus} GPUs do not fill domains of {domain}; the nearest counts are {gpus // domain * domain} and "
            f"{(gpus // domain + 1) * domain}",
            key="ranks",
        )
    if gpu.architecture not in ARCHITECTURES:
        raise InputError(
            f"there are no NCCL or RCCL constants for architecture {gpu.architecture!r}; "
            f"known are {', '.join(ARCHITECTURES)}",
            key="gpu",
        )
    ports = server.backend.count * server.backend.ports
    switched = gpu.architecture not in AMD
    linked = 1.0 if switched or server.scale_up_gpus == 1 else (domain - 1) / (server.scale_up_gpus - 1)
    return JobShape(
        nodes=gpus // domain,
        gpus_per_node=domain,
        architecture=gpu.architecture,
        nvlink_gbytes_s=gpu.scale_up_gbytes_s / 2 * linked,
        nics_per_node=max(1, ports * domain // server.gpus),
        nic_gbytes_s=server.backend.gbps / 8,
        cpu=cpu,
        nvswitch=switched,
        sharp=sharp,
        transport=transport,
        pcie_generation=server.pcie_generation,
    )
