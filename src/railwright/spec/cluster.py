"""What the user wants: the models behind ``cluster.yaml``.

A key that is left out has the default written here; a key that nobody knows is an error. ``None`` means "let the design
choose" and the resolved plan says what was chosen and why. Explicit ``counts`` are obeyed even where they break a rule:
``railwright check`` reports them.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from railwright.spec.economics import Economics
from railwright.spec.quantities import (
    Bytes,
    BytesPerSecond,
    Fraction,
    Gbps,
    Kilograms,
    Metres,
    Microseconds,
    PerSecond,
    Ratio,
    Watts,
)

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
CatalogKey = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$")]
NetworkName = Literal["backend", "frontend", "storage", "management"]
Transport = Literal["rocev2", "infiniband"]
Isolation = Literal["physical", "vrf", "vlan", "partition", "none"]


class Model(BaseModel):
    """Base of every part of the spec: unknown keys are errors, values do not change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Cluster(Model):
    """How many GPUs, in which servers.

    Give ``gpus`` or ``servers``. The catalog's server is used as it is unless one of the ``*_per_server`` keys changes it.
    """

    gpus: PositiveInt | None = None
    servers: PositiveInt | None = None
    server: CatalogKey
    gpus_per_server: PositiveInt | None = None
    nics_per_server: PositiveInt | None = None
    nic_gbps: Gbps | None = None

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.gpus is None) == (self.servers is None):
            raise ValueError("give either gpus or servers, not both and not neither")
        return self


class Oversubscription(Model):
    """Capacity toward the endpoints over capacity toward the core, per tier (1 = non-blocking)."""

    leaf: Ratio = 1.0
    spine: Ratio = 1.0


class Counts(Model):
    """Switch and port counts that the user insists on; each is per network (per plane and rail where these are separate)."""

    leaves: PositiveInt | None = None
    spines: NonNegativeInt | None = None
    cores: NonNegativeInt | None = None
    leaf_down_ports: PositiveInt | None = None
    leaf_up_ports: NonNegativeInt | None = None


class Backend(Model):
    """The GPU fabric. ``switch`` is the default for each tier's own key; ``uplink_gbps`` defaults to the NIC's rate."""

    topology: Literal["auto", "rail-only", "rail-optimized", "leaf-spine", "multi-plane"] = "auto"
    transport: Transport = "rocev2"
    tiers: Literal[1, 2, 3] | None = None
    planes: PositiveInt | None = None
    switch: CatalogKey | None = None
    leaf_switch: CatalogKey | None = None
    spine_switch: CatalogKey | None = None
    core_switch: CatalogKey | None = None
    uplink_gbps: Gbps | None = None
    oversubscription: Oversubscription = Oversubscription()
    servers_per_unit: PositiveInt | None = None
    pod_units: PositiveInt | None = None
    full_units: bool = True
    counts: Counts = Counts()
    load_balancing: Literal["ecmp", "ecmp-qp", "flowlet", "adaptive", "spray"] | None = None
    congestion: Literal["dcqcn+pfc", "ecn-only", "pfc-only", "lossy+spray", "credits"] | None = None
    underlay: Literal["unnumbered", "numbered"] = "unnumbered"
    isolation: Isolation = "physical"
    bfd: bool = True
    in_network_reduction: bool = False
    subnet_managers: NonNegativeInt | None = None
    latency_target_ns: PositiveInt = 1000


class Frontend(Model):
    """The service entrance: leaf-spine Ethernet with dual-homed servers, borders, firewalls and load balancers."""

    enabled: bool = True
    attach: Literal["routed", "lacp", "evpn-multihoming"] = "evpn-multihoming"
    ports_per_server: PositiveInt | None = None
    leaf_switch: CatalogKey | None = None
    spine_switch: CatalogKey | None = None
    uplink_gbps: Gbps | None = None
    oversubscription: Ratio = 3.0
    counts: Counts = Counts()
    border_leaves: NonNegativeInt | None = None
    firewalls: NonNegativeInt | None = None
    firewall_gbps: Gbps = 400.0
    load_balancers: NonNegativeInt | None = None
    load_balancer_gbps: Gbps = 200.0
    head_nodes: NonNegativeInt | None = None
    service_nodes: NonNegativeInt | None = None
    external_links: NonNegativeInt | None = None
    external_gbps: Gbps = 100.0
    underlay: Literal["unnumbered", "numbered"] = "unnumbered"
    isolation: Isolation = "vrf"
    bfd: bool = True
    anycast: bool = False


class Storage(Model):
    """Datasets and checkpoints: appliances on their own fabric, or converged with the frontend (see ``converge``)."""

    enabled: bool = True
    transport: Literal["tcp", "rocev2", "infiniband"] = "rocev2"
    ports_per_server: PositiveInt | None = None
    leaf_switch: CatalogKey | None = None
    spine_switch: CatalogKey | None = None
    uplink_gbps: Gbps | None = None
    oversubscription: Ratio = 1.0
    counts: Counts = Counts()
    appliances: NonNegativeInt | None = None
    appliance_ports: PositiveInt = 4
    appliance_gbps: Gbps = 200.0
    appliance_read: BytesPerSecond = 80e9
    appliance_write: BytesPerSecond = 40e9
    isolation: Isolation = "vrf"


class Management(Model):
    """In-band management and the out-of-band network to every BMC, switch and PDU."""

    enabled: bool = True
    in_band: Literal["frontend", "own"] = "frontend"
    oob_switch: CatalogKey | None = None
    oob_uplinks: PositiveInt = 2
    aggregation_switch: CatalogKey | None = None
    counts: Counts = Counts()
    pdus_per_rack: NonNegativeInt = 2
    telemetry_interval: Microseconds = 10e6
    telemetry_bytes_per_port: Bytes = 2000.0
    isolation: Isolation = "physical"


class Tenant(Model):
    """A share of the servers with its own isolation in each network."""

    name: Name
    servers: PositiveInt
    isolation: Isolation = "vrf"


class RackPlan(Model):
    """Racks of a site and what they can bear."""

    height_ru: PositiveInt = 48
    power: Watts = 44000.0
    weight: Kilograms = 1360.0
    servers_per_rack: PositiveInt | None = None
    racks_per_row: PositiveInt = 16
    pitch: Metres = 0.6
    row_pitch: Metres = 2.7
    cable_ladder_height: Metres = 0.7
    slack: Fraction = 0.1
    switches: Literal["top-of-rack", "middle-of-row", "end-of-row"] = "middle-of-row"
    feeds: Literal[1, 2] = 2
    pdu_power: Watts | None = None
    cooling: Watts | None = None
    airflow: Literal["front-to-rear", "rear-to-front"] = "front-to-rear"


class Site(Model):
    """One place. ``distance`` is the fibre length to the first site; ``share`` is its part of the service nodes and demand."""

    name: Name
    distance: Metres = 0.0
    share: Fraction | None = None
    backend: bool = True
    racks: RackPlan = RackPlan()


class Demand(Model):
    """What the cluster has to serve; each part that is given sizes the network that carries it."""

    requests: PerSecond | None = None
    request_bytes: Bytes = 4e3
    response_bytes: Bytes = 40e3
    requests_per_service_node: PerSecond = 5000.0
    dataset_read: BytesPerSecond | None = None
    checkpoint: Bytes | None = None
    checkpoint_interval: Microseconds = 1800e6
    checkpoint_time: Microseconds = 60e6
    restart_load_time: Microseconds = 300e6
    ingest: BytesPerSecond | None = None


class Workload(Model):
    """The job that the fabric is for: a built-in name or a file, and how it is laid out."""

    name: str
    tensor_parallel: PositiveInt | None = None
    pipeline_parallel: PositiveInt | None = None
    data_parallel: PositiveInt | None = None
    expert_parallel: PositiveInt | None = None
    cross_rail: Literal["nvlink", "network"] = "nvlink"
    flows_per_pair: PositiveInt = 1


class Growth(Model):
    """Room left for later: ports and addresses are reserved for this many GPUs in total."""

    gpus: PositiveInt


class Ignore(Model):
    """A rule that the user waives, from a comment ``# railwright: ignore RW101 because …``."""

    code: Annotated[str, Field(pattern=r"^RW\d{3}$")]
    reason: Annotated[str, Field(min_length=3)]


class ClusterSpec(Model):
    """A whole ``cluster.yaml``."""

    railwright: Literal[1] = 1
    name: Name
    seed: NonNegativeInt = 0
    catalog: str | None = None
    cluster: Cluster
    backend: Backend = Backend()
    frontend: Frontend = Frontend()
    storage: Storage = Storage()
    management: Management = Management()
    converge: tuple[NetworkName, ...] = ()
    sites: Annotated[tuple[Site, ...], Field(min_length=1)] = (Site(name="site1"),)
    tenants: tuple[Tenant, ...] = ()
    demand: Demand = Demand()
    workload: Workload | None = None
    economics: Economics = Economics()
    growth: Growth | None = None
    ignore: tuple[Ignore, ...] = ()

    @field_validator("converge")
    @classmethod
    def _two_or_more(cls, value: tuple[NetworkName, ...]) -> tuple[NetworkName, ...]:
        if len(value) == 1:
            raise ValueError("name at least two networks that share one fabric, for example [frontend, storage]")
        if len(set(value)) != len(value):
            raise ValueError("names a network twice")
        return value

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for what, names in (("sites", [s.name for s in self.sites]), ("tenants", [t.name for t in self.tenants])):
            if len(set(names)) != len(names):
                raise ValueError(f"two {what} have the same name")
        return self
