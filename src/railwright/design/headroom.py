"""PFC headroom: the buffer a lossless port needs for what still arrives after it has sent a pause frame.

Frames in, frames out: one row per port with ``model`` (catalog key), ``speed_gbps``, ``cable_m`` and ``lanes``. Spectrum-4
follows the open formula of SONiC, every other platform the table that its vendor ships in SONiC (the two differ by ASIC,
so there is no formula for all). A length between two rows of a table takes the next longer row. A platform, rate or length
that no source covers gives nulls and a ``basis`` that says so.
"""

import polars as pl

from railwright.catalog import qos
from railwright.catalog.qos import HeadroomFormula

STEP_BYTES = 1024
ASSUMED_CABLE_M = 100.0
"""The length assumed where the plan does not know one: the default of Cumulus NVUE's ``cable-length``."""

_EIGHT_LANES = 8


def formula_headroom(frame: pl.DataFrame, formula: HeadroomFormula) -> pl.DataFrame:
    """Return ``frame`` with ``xoff_bytes, xon_bytes, size_bytes`` (UInt64) and the formula's intermediate terms.

    With L the cable length in m and R the rate in bit/s (SONiC's ``buffer_headroom_mellanox.lua``):
    ``bytes_on_cable = 2 L R / v / 8``; ``peer_response = quanta(R) * 512 / 8``;
    ``propagation = port_mtu + bytes_on_cable + 2 gearbox + mac_phy + peer_response + on_tile * R``;
    ``cell_occupancy`` weighs small packets (a packet of 64 bytes fills a cell); then
    ``xoff = lossless_mtu + propagation * cell_occupancy`` and ``size = xoff + xon`` (+ ``port_mtu`` on eight lanes), both
    rounded up to 1 KiB; ``xon`` is the pipeline latency, twice that on eight lanes.
    Known error: equal to or one 1 KiB step below the shipped ACS-SN5600 table over 10G…800G and 5…300 m.
    ``lanes`` may be null: then 800G and faster count as eight lanes. A rate without a response time gives nulls.
    """
    rate = pl.col("speed_gbps")
    eight = pl.coalesce(pl.col("lanes"), pl.when(rate >= 800).then(_EIGHT_LANES).otherwise(1)) == _EIGHT_LANES
    quanta = rate.replace_strict(formula.peer_response_quanta, default=None, return_dtype=pl.Float64)
    return (
        frame.with_columns(
            bytes_on_cable=2 * pl.col("cable_m") * rate * 1e9 / formula.signal_m_per_s / 8,
            peer_response_bytes=quanta * 512 / 8,
            cell_occupancy=pl.lit(_cell_occupancy(formula)),
        )
        .with_columns(
            propagation_bytes=formula.port_mtu_bytes
            + pl.col("bytes_on_cable")
            + 2 * formula.gearbox_bytes
            + formula.mac_phy_bytes
            + pl.col("peer_response_bytes")
            + formula.on_tile_bytes_per_gbps * rate
        )
        .with_columns(
            xoff_bytes=_round_up(formula.lossless_mtu_bytes + pl.col("propagation_bytes") * pl.col("cell_occupancy")),
            xon_bytes=pl.when(pl.col("peer_response_bytes").is_not_null())
            .then(pl.when(eight).then(2 * formula.pipeline_bytes).otherwise(formula.pipeline_bytes))
            .cast(pl.UInt64),
        )
        .with_columns(
            size_bytes=_round_up(
                (pl.col("xoff_bytes") + pl.col("xon_bytes")).cast(pl.Float64)
                + pl.when(eight).then(formula.port_mtu_bytes).otherwise(0)
            )
        )
    )


def link_headroom(frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame``, in its order, with ``xoff_bytes, xon_bytes, size_bytes, headroom_bytes, threshold, basis``.

    ``frame`` has ``model, speed_gbps, cable_m, lanes``. ``xoff_bytes`` is the room behind the pause threshold,
    ``size_bytes`` the ``size`` of SONiC's buffer profile, ``headroom_bytes`` what the port takes from the pool: ``size`` on
    Spectrum (it contains xoff) and ``size + xoff`` on Broadcom (where size is the guaranteed minimum below the threshold).
    A null ``cable_m`` counts as ``ASSUMED_CABLE_M`` and the basis says it.
    """
    needs = frame.select("model", "speed_gbps", "cable_m", "lanes").unique()
    priced = pl.concat([_by_formula(needs), _by_table(needs), _unknown(needs)], how="diagonal_relaxed")
    keys = ["model", "speed_gbps", "cable_m", "lanes"]
    return frame.join(priced, on=keys, how="left", nulls_equal=True, maintain_order="left")


def pool_use(frame: pl.DataFrame) -> pl.DataFrame:
    """Return one row per device: how much of the lossless pool its headroom takes.

    ``frame`` has ``device_id, model, headroom_bytes`` (one row per port and lossless class). Columns returned:
    ``device_id, model, reserved_bytes, unknown`` (rows without a known headroom), ``pool_bytes`` and ``share`` (null when
    the platform's pool is not known). A share above 1 cannot be configured. Pool sizes are SONiC's buffer defaults; whether
    a platform carves headroom out of the pool or beside it is not verified.
    """
    pools = {key: float(entry.pool_bytes) for key, entry in qos.platforms().items() if entry.pool_bytes}
    return (
        frame.group_by("device_id", "model", maintain_order=True)
        .agg(
            reserved_bytes=pl.col("headroom_bytes").sum(),
            unknown=pl.col("headroom_bytes").null_count(),
        )
        .with_columns(pool_bytes=pl.col("model").replace_strict(pools, default=None, return_dtype=pl.Float64))
        .with_columns(share=pl.col("reserved_bytes") / pl.col("pool_bytes"))
    )


def _cell_occupancy(formula: HeadroomFormula) -> float:
    cell, smallest = formula.cell_bytes, formula.minimum_packet_bytes
    worst = cell / smallest if cell > 2 * smallest else 2 * cell / (1 + cell)
    share = formula.small_packet_percent / 100
    return 1 - share + share * worst


def _round_up(value: pl.Expr) -> pl.Expr:
    return ((value / STEP_BYTES).ceil() * STEP_BYTES).cast(pl.UInt64)


def _with_length(needs: pl.DataFrame) -> pl.DataFrame:
    assumed = pl.col("cable_m").is_null()
    return needs.with_columns(
        length=pl.col("cable_m").fill_null(ASSUMED_CABLE_M),
        note=pl.when(assumed).then(pl.lit(f"; length unknown, {ASSUMED_CABLE_M:g} m assumed")).otherwise(pl.lit("")),
    )


def _by_formula(needs: pl.DataFrame) -> pl.DataFrame:
    found = []
    for name, formula in qos.headroom_formulas().items():
        models = [key for key, entry in qos.platforms().items() if entry.formula == name]
        rows = _with_length(needs.filter(pl.col("model").is_in(models)))
        priced = formula_headroom(rows.rename({"cable_m": "given", "length": "cable_m"}), formula)
        found.append(
            priced.select(
                "model",
                "speed_gbps",
                "lanes",
                "xoff_bytes",
                "xon_bytes",
                "size_bytes",
                cable_m="given",
                headroom_bytes="size_bytes",
                threshold=pl.lit(0, dtype=pl.Int64),
                basis=pl.when(pl.col("xoff_bytes").is_null())
                .then(pl.lit(f"unknown: the {name} formula has no response time for this rate"))
                .otherwise(pl.format("SONiC formula, {}{}", pl.lit(name), pl.col("note"))),
            )
        )
    return pl.concat(found)


def _by_table(needs: pl.DataFrame) -> pl.DataFrame:
    chosen = pl.DataFrame(
        [
            {"model": key, "table_gbps": speed, "sku": sku, "inside": entry.asic == "mellanox"}
            for key, entry in qos.platforms().items()
            if entry.formula is None
            for speed, sku in entry.tables.items()
        ],
        schema={"model": pl.String, "table_gbps": pl.Float64, "sku": pl.String, "inside": pl.Boolean},
    )
    wanted = _with_length(needs).join(chosen, on="model")
    exact = wanted.filter(pl.col("table_gbps") == pl.col("speed_gbps"))
    rest = wanted.filter(pl.col("table_gbps") == -1).join(exact, on=["model", "speed_gbps"], how="anti")
    wanted = pl.concat([exact, rest]).sort("length")
    rows = qos.headroom_rows().rename({"cable_m": "row_m"}).sort("row_m")
    priced = wanted.join_asof(
        rows, left_on="length", right_on="row_m", by=["sku", "speed_gbps"], strategy="forward", check_sortedness=False
    )
    return priced.select(
        "model",
        "speed_gbps",
        "cable_m",
        "lanes",
        "xoff_bytes",
        "xon_bytes",
        "size_bytes",
        "threshold",
        headroom_bytes=pl.when(pl.col("inside") & (pl.col("size_bytes") > pl.col("xoff_bytes")))
        .then("size_bytes")
        .otherwise(pl.col("size_bytes") + pl.col("xoff_bytes")),
        basis=pl.when(pl.col("row_m").is_null())
        .then(pl.format("unknown: table {} has no row for this rate and length", "sku"))
        .otherwise(pl.format("table {}, row {} m{}", "sku", pl.col("row_m").cast(pl.Int64), "note")),
    )


def _unknown(needs: pl.DataFrame) -> pl.DataFrame:
    known = [key for key, entry in qos.platforms().items() if entry.formula or entry.tables]
    return needs.filter(~pl.col("model").is_in(known)).with_columns(
        basis=pl.lit("unknown: no headroom table or formula for this platform")
    )
