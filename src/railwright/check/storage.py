"""Rules on storage: what the demand needs against what appliances and links give."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.design.plan import Plan
from railwright.units import format_data, format_us


def _appliances_gbytes_s(plan: Plan) -> tuple[float, float]:
    """Return read and write rate of all appliances in bytes/s, bounded by their own links (storage frontends do not count)."""
    appliances = plan.devices.filter((pl.col("role") == "storage") & (pl.col("network") == "storage"))
    count = len(appliances)
    storage = plan.spec.storage
    ports = plan.ports.filter(pl.col("network") == "storage").join(appliances, on="device_id", how="semi")
    wire = float(ports["speed_gbps"].sum()) * 1e9 / 8
    return min(count * storage.appliance_read, wire), min(count * storage.appliance_write, wire)


@rule("RW401")
def slow_checkpoint(plan: Plan) -> Iterator[Hit]:
    """Checkpoints that take longer than allowed."""
    demand = plan.spec.demand
    if demand.checkpoint is None or not plan.spec.storage.enabled:
        return
    _, write = _appliances_gbytes_s(plan)
    took = demand.checkpoint / write * 1e6 if write else float("inf")
    if took > demand.checkpoint_time * 1.001:
        yield Hit(
            "demand.checkpoint",
            f"{format_data(demand.checkpoint)} take {format_us(took)} at {write / 1e9:.0f} GB/s; "
            f"allowed are {format_us(demand.checkpoint_time)}",
        )


@rule("RW402")
def slow_restart(plan: Plan) -> Iterator[Hit]:
    """Restarts that load for longer than allowed."""
    demand = plan.spec.demand
    restart = demand.restart_bytes or demand.checkpoint
    if restart is None or not plan.spec.storage.enabled:
        return
    read, _ = _appliances_gbytes_s(plan)
    took = restart / read * 1e6 if read else float("inf")
    if took > demand.restart_load_time * 1.001:
        yield Hit(
            "demand.restart_load_time",
            f"{format_data(restart)} load in {format_us(took)} at {read / 1e9:.0f} GB/s; "
            f"allowed are {format_us(demand.restart_load_time)}",
        )


@rule("RW403")
def starved_dataset(plan: Plan) -> Iterator[Hit]:
    """Dataset reads above what storage gives."""
    demand = plan.spec.demand
    if demand.dataset_read is None or not plan.spec.storage.enabled:
        return
    read, _ = _appliances_gbytes_s(plan)
    if demand.dataset_read > read * 1.001:
        yield Hit(
            "demand.dataset_read",
            f"{demand.dataset_read / 1e9:.1f} GB/s are needed, storage gives {read / 1e9:.1f} GB/s",
        )


@rule("RW404")
def checkpoint_overhead(plan: Plan) -> Iterator[Hit]:
    """Checkpoints that take more than five percent of the interval."""
    demand = plan.spec.demand
    if demand.checkpoint is None or not plan.spec.storage.enabled:
        return
    _, write = _appliances_gbytes_s(plan)
    took = demand.checkpoint / write * 1e6 if write else float("inf")
    share = took / demand.checkpoint_interval
    if share > 0.05:
        yield Hit("demand.checkpoint_interval", f"a checkpoint of {format_us(took)} takes {share:.1%} of the interval")
