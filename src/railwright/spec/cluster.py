"""What the user wants: the models behind ``cluster.yaml``.

A key that is left out has the default written here; a key that nobody knows is an error. ``None`` means "let the design
choose" and the resolved plan says what was chosen and why. Explicit ``counts`` are obeyed even where they break a rule:
``railwright check`` reports them. The descriptions are the reference page ``docs/spec.md`` and ``railwright explain KEY``.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from railwright.spec.addressing import Addressing
from railwright.spec.cabling import Cabling
from railwright.spec.congestion import Pausing, RateControl
from railwright.spec.economics import Economics
from railwright.spec.quantities import (
    Bytes,
    BytesPerSecond,
    CatalogKey,
    Count,
    CountOrZero,
    Fraction,
    Gbps,
    Kilograms,
    Metres,
    Microseconds,
    Name,
    PerSecond,
    Ratio,
    RuleCode,
    Watts,
)

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

    gpus: Count | None = Field(None, description="GPUs in total; whole servers. Give this or `servers`.")
    servers: Count | None = Field(None, description="Servers in total. Give this or `gpus`.")
    server: CatalogKey = Field(description="Catalog key of the server (`railwright catalog list servers`).")
    gpus_per_server: Count | None = Field(None, description="GPUs in one server, where it differs from the catalog.")
    nics_per_server: Count | None = Field(None, description="Backend NICs in one server, where it differs.")
    nic_gbps: Gbps | None = Field(None, description="Rate of one backend NIC (its ports share it), where it differs.")

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.gpus is None) == (self.servers is None):
            raise ValueError("give either gpus or servers, not both and not neither")
        return self


class Oversubscription(Model):
    """Capacity toward the endpoints over capacity toward the core, per tier (1 = non-blocking)."""

    leaf: Ratio = Field(1.0, description="Down over up capacity of a leaf.")
    spine: Ratio = Field(1.0, description="Down over up capacity of a spine (three tiers).")


class Counts(Model):
    """Switch and port counts that the user insists on; each is per network (per plane and rail where these are separate).

    They are obeyed even where they break a design rule.
    """

    leaves: Count | None = Field(None, description="Leaf switches.")
    spines: CountOrZero | None = Field(None, description="Spine switches.")
    cores: CountOrZero | None = Field(None, description="Core switches.")
    leaf_down_ports: Count | None = Field(None, description="Ports of a leaf toward the servers.")
    leaf_up_ports: CountOrZero | None = Field(None, description="Ports of a leaf toward the spines.")


class Marking(Model):
    """ECN thresholds of the RoCE queues, the same at every rate."""

    kmin: Bytes = Field(description="Queue from which packets are marked.")
    kmax: Bytes = Field(description="Queue from which every packet is marked.")
    pmax: Fraction = Field(description="Share of packets that are marked at `kmax`.")


class Backend(Model):
    """The GPU fabric. ``switch`` is the default for each tier's own key; ``uplink_gbps`` defaults to the NIC's rate."""

    topology: Literal["auto", "rail-only", "rail-optimized", "leaf-spine", "multi-plane"] = Field(
        "auto", description="Shape of the fabric; `auto` picks one and says why."
    )
    transport: Transport = Field("rocev2", description="What carries RDMA.")
    tiers: Literal[1, 2, 3] | None = Field(None, description="Switch tiers; left out, as few as the size needs.")
    planes: Count | None = Field(None, description="Independent fabrics over which the ports of each NIC are split.")
    switch: CatalogKey | None = Field(None, description="Switch of every tier that has no key of its own.")
    leaf_switch: CatalogKey | None = Field(None, description="Switch of the leaves.")
    spine_switch: CatalogKey | None = Field(None, description="Switch of the spines.")
    core_switch: CatalogKey | None = Field(None, description="Switch of the cores.")
    uplink_gbps: Gbps | None = Field(None, description="Rate between switches; left out, that of the NIC.")
    oversubscription: Oversubscription = Field(Oversubscription(), description="Per tier; 1 is non-blocking.")
    servers_per_unit: Count | None = Field(None, description="Servers in one scalable unit (a rail group).")
    pod_units: Count | None = Field(None, description="Scalable units in one pod (three tiers).")
    full_units: bool = Field(
        True, description="Build the leaves of a scalable unit in full even if servers are missing."
    )
    counts: Counts = Field(Counts(), description="Counts that are obeyed as given.")
    load_balancing: Literal["ecmp", "ecmp-qp", "flowlet", "adaptive", "spray"] | None = Field(
        None, description="How flows spread over paths; left out, the best that switch and NIC both can do."
    )
    congestion: Literal["dcqcn+pfc", "ecn-only", "pfc-only", "lossy+spray", "credits"] | None = Field(
        None, description="How congestion is met; left out, `dcqcn+pfc` for RoCEv2 and `credits` for InfiniBand."
    )
    ecn: Marking | None = Field(None, description="ECN thresholds; left out, from rate and round trip.")
    pfc: Pausing | None = Field(None, description="PFC thresholds; left out, the platform's.")
    dcqcn: RateControl | None = Field(None, description="DCQCN at the senders; left out, as published.")
    underlay: Literal["unnumbered", "numbered"] = Field(
        "unnumbered", description="BGP over link-local addresses, or an address pair per link."
    )
    isolation: Isolation = Field("physical", description="How tenants and networks are kept apart.")
    bfd: bool = Field(True, description="Bidirectional forwarding detection on the routed links.")
    in_network_reduction: bool = Field(False, description="Reductions in the switches (SHARP).")
    subnet_managers: CountOrZero | None = Field(None, description="InfiniBand subnet manager hosts.")
    latency_target_ns: Count = Field(1000, description="Target for the latency of one switch, port to port.")


class Frontend(Model):
    """The service entrance: leaf-spine Ethernet with dual-homed servers, borders, firewalls and load balancers."""

    enabled: bool = Field(True, description="Whether the network is planned.")
    attach: Literal["routed", "lacp", "evpn-multihoming"] = Field(
        "evpn-multihoming", description="How a server hangs on its leaves; `lacp` is one leaf only."
    )
    ports_per_server: Count | None = Field(None, description="Frontend ports in use per server; left out, all.")
    leaf_switch: CatalogKey | None = Field(None, description="Switch of the leaves.")
    spine_switch: CatalogKey | None = Field(None, description="Switch of the spines.")
    uplink_gbps: Gbps | None = Field(None, description="Rate between leaf and spine.")
    oversubscription: Ratio = Field(3.0, description="Down over up capacity of a leaf.")
    counts: Counts = Field(Counts(), description="Counts that are obeyed as given.")
    border_leaves: CountOrZero | None = Field(
        None, description="Leaves toward the outside, per site; 0 takes the spines for it."
    )
    firewalls: CountOrZero | None = Field(
        None, description="Firewalls per site; left out, sized from the demand, at least two."
    )
    firewall_gbps: Gbps = Field(400.0, description="Throughput of one firewall.")
    load_balancers: CountOrZero | None = Field(
        None, description="Load balancers per site; left out, sized from the demand, at least two."
    )
    load_balancer_gbps: Gbps = Field(200.0, description="Throughput of one load balancer.")
    head_nodes: CountOrZero | None = Field(None, description="CPU head nodes (schedulers, logins), in total.")
    service_nodes: CountOrZero | None = Field(
        None, description="CPU nodes that answer requests, in total; left out, sized from the demand."
    )
    storage_frontends: CountOrZero | None = Field(
        None, description="Nodes that serve storage to the frontend, in total; left out, sized from `demand.ingest`."
    )
    storage_frontend_gbps: Gbps = Field(100.0, description="Throughput of one storage frontend.")
    external_links: CountOrZero | None = Field(None, description="Links to the outside world per site.")
    external_gbps: Gbps = Field(100.0, description="Rate of one external link.")
    inter_site_links: CountOrZero | None = Field(
        None, description="Links of each further site to the first one; left out, sized from the demand."
    )
    inter_site_gbps: Gbps = Field(400.0, description="Rate of one link between sites.")
    peer_links: CountOrZero = Field(
        0, description="Links between the two leaves of a pair (inter-switch links); EVPN multihoming needs none."
    )
    underlay: Literal["unnumbered", "numbered"] = Field(
        "unnumbered", description="BGP over link-local addresses, or an address pair per link."
    )
    isolation: Isolation = Field("vrf", description="How tenants and networks are kept apart.")
    bfd: bool = Field(True, description="Bidirectional forwarding detection on the routed links.")
    anycast: bool = Field(False, description="One service address announced from every site.")


class Storage(Model):
    """Datasets and checkpoints: appliances on their own fabric, or converged with the frontend (see ``converge``)."""

    enabled: bool = Field(True, description="Whether the network is planned.")
    transport: Literal["tcp", "rocev2", "infiniband"] = Field("rocev2", description="What carries storage traffic.")
    ports_per_server: Count | None = Field(None, description="Storage ports in use per server; left out, all.")
    leaf_switch: CatalogKey | None = Field(None, description="Switch of the leaves.")
    spine_switch: CatalogKey | None = Field(None, description="Switch of the spines.")
    uplink_gbps: Gbps | None = Field(None, description="Rate between leaf and spine.")
    oversubscription: Ratio = Field(1.0, description="Down over up capacity of a leaf.")
    counts: Counts = Field(Counts(), description="Counts that are obeyed as given.")
    appliances: CountOrZero | None = Field(None, description="Storage appliances; left out, sized from the demand.")
    subnet_managers: CountOrZero | None = Field(
        None, description="InfiniBand subnet manager hosts of a storage fabric of its own; left out, two."
    )
    appliance_ports: Count = Field(4, description="Network ports of one appliance.")
    appliance_gbps: Gbps = Field(200.0, description="Rate of one appliance port.")
    appliance_read: BytesPerSecond = Field(80e9, description="What one appliance can read.")
    appliance_write: BytesPerSecond = Field(40e9, description="What one appliance can write.")
    isolation: Isolation = Field("vrf", description="How tenants and networks are kept apart.")


class Management(Model):
    """In-band management and the out-of-band network to every BMC, switch and PDU."""

    enabled: bool = Field(True, description="Whether the network is planned.")
    in_band: Literal["frontend", "own"] = Field("frontend", description="Which fabric carries in-band management.")
    oob_switch: CatalogKey | None = Field(None, description="Switch with 1G ports for BMCs, switches and PDUs.")
    oob_uplinks: Count = Field(2, description="Uplinks of one out-of-band switch.")
    aggregation_switch: CatalogKey | None = Field(None, description="Switch above the out-of-band switches.")
    counts: Counts = Field(Counts(), description="Counts that are obeyed as given.")
    pdus_per_rack: CountOrZero = Field(2, description="PDUs with a management port in each rack.")
    pdus_per_network_rack: CountOrZero | None = Field(
        None, description="The same for racks without GPU servers; left out, as `pdus_per_rack`."
    )
    manager_links: CountOrZero = Field(
        1, description="1G cords between the two subnet managers of a pair, which replicate their database over them."
    )
    telemetry_interval: Microseconds = Field(10e6, description="How often every port is read.")
    telemetry_bytes_per_port: Bytes = Field(2000.0, description="What one reading of one port sends.")
    isolation: Isolation = Field("physical", description="How it is kept apart from the other networks.")


class Tenant(Model):
    """A share of the servers with its own isolation in each network."""

    name: Name = Field(description="Name of the tenant.")
    servers: Count = Field(description="Servers that belong to it.")
    isolation: Isolation = Field("vrf", description="How it is kept apart from other tenants.")


class RackPlan(Model):
    """Racks of a site and what they can bear."""

    height_ru: Count = Field(48, description="Rack units in one rack.")
    power: Watts = Field(44000.0, description="What one rack may draw.")
    weight: Kilograms = Field(1360.0, description="What one rack may weigh.")
    servers_per_rack: Count | None = Field(None, description="Left out, as many as height, power and weight allow.")
    network_racks: Count | None = Field(
        None,
        description="Racks for all boxes but the GPU servers, filled evenly; left out, as few as height and power allow.",
    )
    racks_per_row: Count = Field(16, description="Racks in one row.")
    pitch: Metres = Field(0.6, description="From one rack to the next in a row.")
    row_pitch: Metres = Field(2.7, description="From one row to the next, aisle included.")
    cable_ladder_height: Metres = Field(0.7, description="From the top of a rack up to the cable ladder.")
    slack: Fraction = Field(0.1, description="Spare length of a cable.")
    switches: Literal["top-of-rack", "middle-of-row", "end-of-row"] = Field(
        "middle-of-row", description="Where the network racks stand."
    )
    feeds: Literal[1, 2, 3] = Field(2, description="Independent power feeds per rack, PDUs dealt over them in turn.")
    pdu_power: Watts | None = Field(None, description="What one PDU may carry.")
    cooling: Watts | None = Field(None, description="Heat that can be taken from one rack; left out, its power.")
    airflow: Literal["front-to-rear", "rear-to-front"] = Field("front-to-rear", description="Direction of cold air.")


class Site(Model):
    """One place. ``distance`` is the fibre length to the first site; ``share`` is its part of the service nodes and demand."""

    name: Name = Field(description="Name of the site.")
    distance: Metres = Field(0.0, description="Fibre length to the first site.")
    share: Fraction | None = Field(
        None, description="Its part of the service nodes and the demand; left out, an equal part."
    )
    backend: bool = Field(True, description="Whether GPU servers stand here.")
    racks: RackPlan = Field(RackPlan(), description="Its racks.")


class Demand(Model):
    """What the cluster has to serve; each part that is given sizes the network that carries it."""

    requests: PerSecond | None = Field(None, description="Requests from the outside.")
    request_bytes: Bytes = Field(4e3, description="Size of one request.")
    response_bytes: Bytes = Field(40e3, description="Size of one response.")
    requests_per_service_node: PerSecond = Field(5000.0, description="What one service node can answer.")
    dataset_read: BytesPerSecond | None = Field(None, description="Training data read by the whole cluster.")
    checkpoint: Bytes | None = Field(None, description="Size of one checkpoint.")
    checkpoint_interval: Microseconds = Field(1800e6, description="From one checkpoint to the next.")
    checkpoint_time: Microseconds = Field(60e6, description="How long writing one may take.")
    restart_load_time: Microseconds = Field(300e6, description="How long loading one after a failure may take.")
    restart_bytes: Bytes | None = Field(
        None, description="What all servers together read after a failure; left out, one checkpoint."
    )
    ingest: BytesPerSecond | None = Field(None, description="Data that arrives from the outside.")
    headroom: Ratio = Field(1.5, description="Planned capacity of the frontend's entrance over its peak load.")


class Workload(Model):
    """The job that the fabric is for: a built-in name or a file, and how it is laid out."""

    name: str = Field(description="Built-in workload (`llama3-70b`, …) or a file.")
    tensor_parallel: Count | None = Field(None, description="GPUs that share each layer.")
    pipeline_parallel: Count | None = Field(None, description="Stages that layers are cut into.")
    data_parallel: Count | None = Field(None, description="Replicas of the model.")
    expert_parallel: Count | None = Field(None, description="GPUs over which experts are spread.")
    cross_rail: Literal["nvlink", "network"] = Field(
        "nvlink", description="How traffic between ranks of unlike number goes."
    )
    flows_per_pair: Count = Field(1, description="Queue pairs between two GPUs.")


class Growth(Model):
    """Room left for later: ports and addresses are reserved for this many GPUs in total."""

    gpus: Count = Field(description="GPUs in total at the end of the growth.")


class Ignore(Model):
    """A rule that the user waives, from a comment ``# railwright: ignore RW101 because …``."""

    code: RuleCode = Field(description="Code of the rule.")
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=3)] = Field(
        description="Why it is waived."
    )


class ClusterSpec(Model):
    """A whole ``cluster.yaml``."""

    railwright: Literal[1] = Field(1, description="Version of this format.")
    name: Name = Field(description="Name of the cluster.")
    seed: CountOrZero = Field(0, description="Seed of everything random.")
    catalog: str | None = Field(None, description="The user's own catalog file, relative to this file.")
    cluster: Cluster = Field(description="How many GPUs, in which servers.")
    backend: Backend = Field(Backend(), description="The GPU fabric.")
    frontend: Frontend = Field(Frontend(), description="The service entrance.")
    storage: Storage = Field(Storage(), description="Datasets and checkpoints.")
    management: Management = Field(Management(), description="In-band and out-of-band management.")
    converge: tuple[NetworkName, ...] = Field((), description="Networks that share one fabric: `[frontend, storage]`.")
    sites: tuple[Site, ...] = Field((Site(name="site1"),), description="Where it stands.")
    cabling: Cabling = Field(Cabling(), description="The cable plant and the choice of parts.")
    tenants: tuple[Tenant, ...] = Field((), description="Who shares it.")
    demand: Demand = Field(Demand(), description="What it has to serve.")
    addressing: Addressing = Field(Addressing(), description="Address pools.")
    workload: Workload | None = Field(None, description="The job that it is for.")
    economics: Economics = Field(Economics(), description="Prices, energy and lifetime.")
    growth: Growth | None = Field(None, description="Room left for later.")
    ignore: tuple[Ignore, ...] = Field((), description="Rules that are waived; better as a comment at the place.")

    @field_validator("converge")
    @classmethod
    def _two_or_more(cls, value: tuple[NetworkName, ...]) -> tuple[NetworkName, ...]:
        if len(value) == 1:
            raise ValueError("name at least two networks that share one fabric, for example [frontend, storage]")
        if len(set(value)) != len(value):
            raise ValueError("names a network twice")
        return value

    @field_validator("sites")
    @classmethod
    def _somewhere(cls, value: tuple[Site, ...]) -> tuple[Site, ...]:
        if not value:
            raise ValueError("name at least one site, or leave the key out")
        return value
