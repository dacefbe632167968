"""The storage appliances: how many, where, and why; the same whether they have a fabric of their own or share one."""

from railwright.design import demand as sizing
from railwright.design.attach import Boxes
from railwright.design.context import Context
from railwright.design.server_ports import converged_host
from railwright.spec.cluster import NetworkName

MODEL = "generic-storage-appliance"


def storage_host(context: Context) -> NetworkName | None:
    """Return the network whose switches carry storage; None when there is no storage.

    Servers without storage ports reach it over the frontend.
    """
    if not context.spec.storage.enabled:
        return None
    host = converged_host(context, "storage")
    if host == "storage" and context.server.storage is None and context.spec.frontend.enabled:
        return converged_host(context, "frontend")
    return host


def appliance_boxes(context: Context, host: NetworkName) -> dict[int, Boxes]:
    """Return the appliances by site when ``host`` carries storage, else nothing; records their number and why.

    They stand where the GPU servers do, in proportion to these.
    """
    if storage_host(context) != host:
        return {}
    section, decisions = context.spec.storage, context.decisions["storage"]
    here = [int((context.server_site == site).sum()) for site in range(len(context.spec.sites))]
    if section.appliances is not None:
        counts, why = sizing.split_by_share(section.appliances, here), "asked for"
    else:
        load = sizing.storage_load(context.spec.demand, context.servers)
        wire = section.appliance_ports * section.appliance_gbps * 1e9 / 8
        rates = section.appliance_read, section.appliance_write, wire
        counts = [
            sizing.appliances_needed(load.part(servers / context.servers), *rates) if servers else 0 for servers in here
        ]
        why = (
            f"read {load.read_bytes_s / 1e9:.4g} GB/s ({load.read_why}), write {load.write_bytes_s / 1e9:.4g} GB/s "
            f"({load.write_why}); one gives {min(section.appliance_read, wire) / 1e9:g} and "
            f"{min(section.appliance_write, wire) / 1e9:g} GB/s; one more to lose at each site"
        )
    decisions.choose("appliances", sum(counts), why)
    name = "ib{}" if section.transport == "infiniband" else "eth{}"
    role = context.catalog.box(MODEL).role
    return {
        site: Boxes("storage", role, MODEL, boxes, section.appliance_ports, section.appliance_gbps, "storage", name)
        for site, boxes in enumerate(counts)
        if boxes
    }
