"""Whether ECN marks before PFC pauses: the order of the two thresholds of the QoS contract, switch by switch.

The worst case is that of Zhu et al. (SIGCOMM 2015, section 4): everything that one ingress holds stands in all n egress
queues, each just below Kmin. With a shared pool of B bytes, H of them kept for headroom and reserves, and a dynamic threshold
alpha x free pool, that ingress must not have to pause yet, with c lossless classes that do the same at once:

    alpha (B - H - c n Kmin) >= n Kmin    or    Kmin <= alpha (B - H) / (n (1 + c alpha))

and with a fixed threshold ``xoff`` in place of alpha: Kmin <= xoff / n. The paper's form is the same with c = 8 and its beta =
8 alpha. ``alpha`` is the spec's, else 2 to the power of the platform's dynamic threshold in its headroom table. Known error:
the pool of some platforms is split between ingress and egress or over slices, which lowers the bound; pools are SONiC's
defaults (unverified per image).
"""

import polars as pl

from railwright.catalog import qos
from railwright.design.headroom import link_headroom
from railwright.design.plan import Plan


def marking_bounds(plan: Plan, table: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return one row per switch and class of ``table`` (`tables` ``qos``) that is lossless and marked.

    ``ends`` as of `qos_table.link_ends`.
    Columns: ``device_id, device, model, class, ports`` (n), ``classes`` (c), ``pool_bytes`` (null: not known),
    ``reserved_bytes`` (H), ``alpha``, ``kmin_bytes`` (the highest of its ports), ``most_bytes`` (the bound; null where pool or
    alpha is not known). The spec's PFC thresholds hold on the backend's switches.
    """
    own = plan.spec.backend.pfc
    backend = pl.col("device_network").cast(pl.String) == "backend"
    pools = {key: float(entry.pool_bytes) for key, entry in qos.platforms().items() if entry.pool_bytes}
    limits = link_headroom(ends.filter(~pl.col("host"))).select("port_id", "threshold")
    devices = plan.devices.select("device_id", "model", device="name", device_network="network")
    ports = (
        table.filter(pl.col("lossless"))
        .join(plan.ports.select("port_id", "device_id"), on="port_id")
        .join(limits, on="port_id")
        .join(devices, on="device_id")
    )
    reserved = ports.group_by("device_id").agg(reserved_bytes=pl.col("headroom_bytes").sum().cast(pl.Float64))
    marked = ports.filter(pl.col("kmin_bytes").is_not_null())
    alpha = pl.when(backend).then(pl.lit(own.alpha if own else None, pl.Float64))
    return (
        marked.group_by("device_id", "device", "model", "device_network", "class")
        .agg(
            ports=pl.len().cast(pl.Float64),
            kmin_bytes=pl.col("kmin_bytes").max().cast(pl.Float64),
            alpha=pl.lit(2.0).pow(pl.col("threshold").min().cast(pl.Float64)),
        )
        .join(reserved, on="device_id")
        .join(marked.group_by("device_id").agg(classes=pl.col("class").n_unique().cast(pl.Float64)), on="device_id")
        .with_columns(alpha=pl.coalesce(alpha, "alpha"))
        .with_columns(pool_bytes=pl.col("model").replace_strict(pools, default=None, return_dtype=pl.Float64))
        .with_columns(
            most_bytes=pl.when(backend & pl.lit(own is not None and own.xoff is not None))
            .then(pl.lit(own.xoff if own else None, pl.Float64) / pl.col("ports"))
            .otherwise(
                pl.col("alpha")
                * (pl.col("pool_bytes") - pl.col("reserved_bytes"))
                / (pl.col("ports") * (1 + pl.col("classes") * pl.col("alpha")))
            )
        )
        .drop("device_network")
        .sort("device_id", "class")
    )


def marked_before_paused(plan: Plan, table: pl.DataFrame, ends: pl.DataFrame, classes: list[str]) -> pl.DataFrame:
    """Return ``table`` with the thresholds of ``classes`` lowered, in proportion, where PFC could pause before ECN marks.

    All switches of a platform get the same: the whole KiB below the lowest bound among them. A switch whose headroom alone
    fills its pool has no bound that could be kept. ``basis`` tells where thresholds were lowered.
    """
    bounds = marking_bounds(plan, table, ends).filter(pl.col("class").is_in(classes) & (pl.col("most_bytes") >= 1024))
    lowest = pl.col("most_bytes").min().over("model", "class")
    most = bounds.select("device_id", "class", most=(lowest / 1024).floor() * 1024)
    owned = table.join(plan.ports.select("port_id", "device_id"), on="port_id", how="left", maintain_order="left")
    joined = owned.join(most, on=["device_id", "class"], how="left", maintain_order="left")
    above = (pl.col("kmin_bytes") > pl.col("most")).fill_null(False)
    lowered = joined.with_columns(
        pl.when(above).then("most").otherwise("kmin_bytes").cast(pl.UInt64).alias("kmin_bytes"),
        pl.when(above)
        .then((pl.col("kmax_bytes") * pl.col("most") / pl.col("kmin_bytes")).round())
        .otherwise("kmax_bytes")
        .cast(pl.UInt64)
        .alias("kmax_bytes"),
        pl.when(above).then(pl.col("basis") + ", lowered to mark before PFC pauses").otherwise("basis").alias("basis"),
    )
    return lowered.select(table.columns)
