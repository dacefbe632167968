"""The shared words: the schema of every table, in one place.

A plan and its results are Polars frames with these columns, kept as Parquet. Column names carry units. ``rail``, ``plane``
and ``pod`` count from 1, as in names (``rail3-leaf1`` has rail 3); ``gpu`` and ``nic`` are indices inside a server and
count from 0, as CUDA and NCCL do. Ids are unsigned integers, unique inside their table, never reused: growth appends.
"""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from railwright.errors import InputError

Networks = pl.Enum(["backend", "frontend", "storage", "management"])
Roles = pl.Enum(
    [
        "server",
        "leaf",
        "spine",
        "core",
        "border",
        "firewall",
        "load_balancer",
        "tor",
        "oob",
        "storage",
        "head",
        "appliance",
        "pdu",
        "external",
        "service",
    ]
)
Directions = pl.Enum(["host", "down", "up", "peer"])
Tiers = pl.Enum(["host", "leaf_spine", "spine_core", "border", "service", "peer", "oob", "uplink"])
Mediums = pl.Enum(["dac", "acc", "aec", "aoc", "mmf", "smf", "cat6", "internal"])

_Fields = dict[str, pl.DataType | type[pl.DataType]]

_FIELDS: Mapping[str, _Fields] = {
    # One row per box. `network` is null for a box that stands in several (a server). `rack` is `racks.rack_id`.
    "devices": {
        "device_id": pl.UInt32,
        "name": pl.String,
        "role": Roles,
        "network": Networks,
        "site": pl.String,
        "model": pl.String,
        "plane": pl.UInt16,
        "rail": pl.UInt16,
        "pod": pl.UInt32,
        "rack": pl.UInt32,
        "ru": pl.UInt16,
        "power_w": pl.Float64,
        "asn": pl.UInt32,
        "loopback": pl.String,
    },
    # One row per logical port in use. `cage` counts from 1 as on the face plate; `lane_first` counts from 0 in the cage.
    "ports": {
        "port_id": pl.UInt32,
        "device_id": pl.UInt32,
        "name": pl.String,
        "network": Networks,
        "cage": pl.UInt16,
        "lane_first": pl.UInt8,
        "lanes": pl.UInt8,
        "speed_gbps": pl.Float64,
        "direction": Directions,
        "gpu": pl.UInt16,
        "nic": pl.UInt16,
    },
    # One row per cable leg; `a_port` is the lower end (server before leaf, leaf before spine).
    "links": {
        "link_id": pl.UInt32,
        "a_port": pl.UInt32,
        "b_port": pl.UInt32,
        "network": Networks,
        "tier": Tiers,
        "plane": pl.UInt16,
        "rail": pl.UInt16,
        "speed_gbps": pl.Float64,
        "cable_id": pl.UInt32,
    },
    "racks": {
        "rack_id": pl.UInt32,
        "name": pl.String,
        "site": pl.String,
        "kind": pl.Enum(["compute", "network", "service"]),
        "row": pl.UInt16,
        "position": pl.UInt16,
        "x_m": pl.Float64,
        "y_m": pl.Float64,
        "height_ru": pl.UInt16,
        "power_limit_w": pl.Float64,
    },
    # One row per address; `port_id` is null for a loopback. `address` has its prefix length.
    "addresses": {
        "device_id": pl.UInt32,
        "port_id": pl.UInt32,
        "network": Networks,
        "kind": pl.Enum(["loopback", "p2p", "host", "gateway", "management", "vip"]),
        "vrf": pl.String,
        "vlan": pl.UInt16,
        "address": pl.String,
    },
    # A cable may have several ends per side (breakout): see cable_ends.
    "cables": {
        "cable_id": pl.UInt32,
        "medium": Mediums,
        "part": pl.String,
        "length_m": pl.Float64,
        "route": pl.String,
        "loss_db": pl.Float64,
        "margin_db": pl.Float64,
        "power_w": pl.Float64,
        "price_usd": pl.Float64,
        "label_a": pl.String,
        "label_b": pl.String,
        "reason": pl.String,
    },
    "cable_ends": {
        "cable_id": pl.UInt32,
        "end": pl.Enum(["a", "b"]),
        "port_id": pl.UInt32,
        "module_id": pl.UInt32,
        "host_lanes": pl.UInt16,
        "media_lanes": pl.UInt16,
    },
    "modules": {
        "module_id": pl.UInt32,
        "part": pl.String,
        "device_id": pl.UInt32,
        "cage": pl.UInt16,
        "power_w": pl.Float64,
    },
    # One row per kind of thing to buy; `unit_price_usd` is null where unknown, never 0.
    "bom": {
        "section": pl.String,
        "item": pl.String,
        "part": pl.String,
        "network": Networks,
        "quantity": pl.UInt32,
        "spares": pl.UInt32,
        "unit_price_usd": pl.Float64,
        "price_date": pl.String,
        "price_source": pl.String,
        "unit_power_w": pl.Float64,
        "unverified": pl.Boolean,
    },
    # One row per link end and class.
    "qos": {
        "port_id": pl.UInt32,
        "class": pl.String,
        "dscp": pl.List(pl.UInt8),
        "priority": pl.UInt8,
        "queue": pl.UInt8,
        "lossless": pl.Boolean,
        "scheduler": pl.String,
        "weight": pl.UInt8,
        "xoff_bytes": pl.UInt64,
        "xon_bytes": pl.UInt64,
        "headroom_bytes": pl.UInt64,
        "kmin_bytes": pl.UInt64,
        "kmax_bytes": pl.UInt64,
        "pmax": pl.Float64,
        "mtu_bytes": pl.UInt32,
        "basis": pl.String,
    },
    # One row per operation, or per group of `repeat` alike operations in sequence. `src` and `dst` are global endpoint ids.
    "traffic": {
        "op_id": pl.UInt32,
        "job": pl.String,
        "class": pl.String,
        "direction": pl.Enum(["east_west", "north_south", "storage", "management"]),
        "kind": pl.Enum(["send", "reduce", "compute", "barrier"]),
        "src": pl.UInt32,
        "dst": pl.UInt32,
        "bytes": pl.Float64,
        "duration_us": pl.Float64,
        "repeat": pl.UInt32,
        "after": pl.List(pl.UInt32),
        "start_us": pl.Float64,
        "group": pl.UInt32,
    },
    "flows": {
        "op_id": pl.UInt32,
        "job": pl.String,
        "class": pl.String,
        "src": pl.UInt32,
        "dst": pl.UInt32,
        "bytes": pl.Float64,
        "start_us": pl.Float64,
        "finish_us": pl.Float64,
        "fct_us": pl.Float64,
        "ideal_us": pl.Float64,
        "hops": pl.UInt16,
        "retransmitted_bytes": pl.Float64,
    },
    # One row per link and direction: `forward` is from a_port to b_port.
    "links_used": {
        "link_id": pl.UInt32,
        "forward": pl.Boolean,
        "bytes": pl.Float64,
        "util": pl.Float64,
        "queue_max_bytes": pl.Float64,
        "ecn_marks": pl.UInt64,
        "pause_us": pl.Float64,
        "drops": pl.UInt64,
    },
    "steps": {"job": pl.String, "step": pl.UInt32, "start_us": pl.Float64, "finish_us": pl.Float64},
}

TABLES: Mapping[str, pl.Schema] = {name: pl.Schema(fields) for name, fields in _FIELDS.items()}

PLAN_TABLES = ("devices", "ports", "links", "racks", "addresses")
PHYSICAL_TABLES = ("cables", "cable_ends", "modules", "bom", "qos")
RESULT_TABLES = ("flows", "links_used", "steps")


def empty(name: str) -> pl.DataFrame:
    """Return table ``name`` with its columns and no row."""
    return pl.DataFrame(schema=TABLES[name])


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` with exactly the columns of table ``name``: missing ones null, all cast, in order.

    Raises KeyError for a column that the table does not have: a defect in the caller, not in the user's input.
    """
    schema = TABLES[name]
    unknown = set(frame.columns) - set(schema)
    if unknown:
        raise KeyError(f"table {name!r} has no column {sorted(unknown)}")
    return frame.select(
        (pl.col(column) if column in frame.columns else pl.lit(None)).cast(dtype).alias(column)
        for column, dtype in schema.items()
    )


def check_schema(name: str, frame: pl.DataFrame, file: Path | str) -> pl.DataFrame:
    """Return ``frame`` unchanged when its schema is that of table ``name``; raises InputError that names the column."""
    schema = TABLES[name]
    for column, dtype in schema.items():
        if column not in frame.columns:
            raise InputError(f"the column is missing from table {name!r}", file=file, key=column)
        if frame.schema[column] != dtype:
            raise InputError(f"has type {frame.schema[column]}, table {name!r} needs {dtype}", file=file, key=column)
    extra = [column for column in frame.columns if column not in schema]
    if extra:
        raise InputError(f"table {name!r} has no such column", file=file, key=extra[0])
    return frame


def write(name: str, frame: pl.DataFrame, directory: Path) -> None:
    """Write ``frame`` as ``directory/name.parquet`` through a temporary name, so that a reader never sees half a file."""
    target = directory / f"{name}.parquet"
    temporary = target.with_suffix(".parquet.partial")
    conform(name, frame).write_parquet(temporary, compression="zstd", statistics=False)
    temporary.replace(target)


def read(name: str, directory: Path) -> pl.DataFrame:
    """Read and check ``directory/name.parquet``; raises InputError when it is missing, broken or of another schema."""
    file = directory / f"{name}.parquet"
    try:
        frame = pl.read_parquet(file)
    except FileNotFoundError:
        raise InputError(f"the plan has no table {name!r}", file=file) from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"not a readable Parquet file: {error}", file=file) from None
    return check_schema(name, frame, file)
