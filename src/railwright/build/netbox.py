"""Import files for NetBox 4.6: what a person loads, in the order of their numbers, to have the plan in NetBox.

Rules from netbox-community/netbox 4.6.8 (``dcim/forms/bulk_import.py``, ``dcim/choices.py``, ``dcim/models/cables.py``): CSV
headers are form fields, objects are named by name, a cable in CSV has one object per side. A cable of several legs ends on the
cage as a whole: an interface ``cageN`` that is physical, with the logical ports as its virtual children; its profile says how
its positions go to the other side. Cables with several objects on a side go through the REST API (``netbox_loader``).
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from railwright.build import names
from railwright.build.cable_schedule import cable_label
from railwright.build.netbox_power import power_tables
from railwright.build.netbox_types import device_types, slug, type_names
from railwright.build.sheets import write_csv
from railwright.design.plan import Plan
from railwright.design.power import rack_loads
from railwright.design.sockets import Socket, find_sockets
from railwright.documents import parse_document

LONGEST_DESCRIPTION = 200


def write_netbox(plan: Plan, directory: Path) -> list[Path]:
    """Write the import files of ``plan`` into ``directory`` and return them in the order in which NetBox takes them.

    Raises InputError for names that cannot stand in them.
    """
    names.check_all(plan.devices["name"], names.DEVICE, "the name of a device")
    names.check_all(plan.ports["name"], names.PORT, "the name of a port")
    names.check_all(plan.racks["name"], names.DEVICE, "the name of a rack")
    directory.mkdir(parents=True, exist_ok=True)
    types = type_names(plan)
    ends = cable_ends(plan)
    cables = netbox_cables(plan, ends)
    power = power_tables(plan, types)
    single = (pl.col("a_terminations").list.len() == 1) & (pl.col("b_terminations").list.len() == 1)
    tables: dict[str, pl.DataFrame | str] = {
        "01-manufacturers.csv": _slugged(types["manufacturer"].unique().sort()),
        "02-sites.csv": _slugged(_sites(plan)).with_columns(status=pl.lit("planned")),
        "03-rack-roles.csv": _coloured(plan.racks["kind"].cast(pl.String).unique().sort()),
        "04-racks.csv": _racks(plan),
        "05-device-roles.csv": _coloured(plan.devices["role"].cast(pl.String).unique().sort()).with_columns(
            vm_role=pl.lit("false")
        ),
        "06-device-types.yaml": device_types(plan, types),
        "07-devices.csv": _devices(plan, types),
        "08-interfaces.csv": netbox_interfaces(plan, ends),
        "09-power-panels.csv": power["panels"],
        "10-power-feeds.csv": power["feeds"],
        "11-power-outlets.csv": power["outlets"],
        "12-cables.csv": _csv_cables(cables.filter(single)),
        "13-power-cables.csv": power["cables"],
        "14-breakout-cables.json": _json_cables(cables.filter(~single)),
        "load_breakouts.py": files("railwright.build").joinpath("netbox_loader.py").read_text(encoding="utf-8"),
        "README.md": _guide(plan, types, cables.filter(~single).height),
    }
    written = []
    for name, table in tables.items():
        file = directory / name
        if isinstance(table, str):
            file.write_text(table, encoding="utf-8")
        else:
            write_csv(table, file)
        written.append(file)
    return written


@cache
def words() -> Mapping[str, Any]:
    """Return NetBox's words for what a plan has (``data/netbox.yaml``)."""
    text = files("railwright.build").joinpath("data", "netbox.yaml").read_text(encoding="utf-8")
    return parse_document(text, "netbox.yaml").data


def cable_ends(plan: Plan) -> pl.DataFrame:
    """Return the ends of cables with the interface that each lands on.

    Columns: ``cable_id, end, port_id, device_id, device, port, cage, shared`` (the cable takes several ports of the cage),
    ``interface`` (that of the cage where ``shared``).
    """
    ends = (
        plan.table("cable_ends")
        .join(
            plan.ports.select("port_id", "device_id", "cage", "lane_first", port="name"),
            on="port_id",
            maintain_order="left",
        )
        .join(plan.devices.select("device_id", device="name"), on="device_id", maintain_order="left")
    )
    shared = (pl.len().over("cable_id", "end", "device_id", "cage") > 1) & (pl.col("cage") > 0)
    cables = pl.when("shared").then("cable_id")
    # A module with several connectors takes several such cables: cage5/1, cage5/2.
    several = cables.n_unique().over("device_id", "cage", "shared") > 1
    connector = cables.rank("dense").over("device_id", "cage", "shared")
    whole = pl.when(several).then(pl.format("cage{}/{}", "cage", connector)).otherwise(pl.format("cage{}", "cage"))
    return (
        ends.with_columns(shared=shared)
        .with_columns(interface=pl.when("shared").then(whole).otherwise("port"))
        .sort("cable_id", "end", "device_id", "cage", "lane_first", "port_id")
        .select("cable_id", "end", "port_id", "device_id", "device", "port", "cage", "shared", "interface")
    )


def netbox_cables(plan: Plan, ends: pl.DataFrame) -> pl.DataFrame:
    """Return one row per cable: ``label, type, status, profile, length, length_unit, description`` and the terminations.

    ``a_terminations`` and ``b_terminations`` are lists of ``{object_type, device, name}``; a breakout has its one end on side a,
    as NetBox's breakout profiles want.
    """
    known = words()
    fibre = {key: known["fibres"].get(entry.fibre) for key, entry in plan.catalog.fibre_cables.items()}
    objects = pl.struct(object_type=pl.lit("dcim.interface"), device="device", name="interface")
    sides = (
        ends.group_by("cable_id", "end", maintain_order=True)
        .agg(objects=objects.unique(maintain_order=True), legs=pl.len())
        .with_columns(pl.col("end").cast(pl.String))
        .pivot("end", index="cable_id", values=["objects", "legs"], maintain_order=True)
    )
    count = {side: pl.col(f"objects_{side}").list.len() for side in ("a", "b")}
    legs = pl.col("legs_a").cast(pl.Int64)
    turned = (count["b"] == 1) & (count["a"] > 1)
    profile = (
        pl.when((count["a"] == 1) & (count["b"] == 1))
        .then(_profile(legs, known["straight"]))
        .when((pl.min_horizontal(*count.values()) == 1) & (pl.max_horizontal(*count.values()) == legs))
        .then(_profile(legs, known["breakout"]))
    )
    return (
        sides.join(plan.table("cables"), on="cable_id", maintain_order="left")
        .sort("cable_id")
        .select(
            a_terminations=pl.when(turned).then("objects_b").otherwise("objects_a"),
            b_terminations=pl.when(turned).then("objects_a").otherwise("objects_b"),
            label=cable_label(pl.col("cable_id")),
            type=pl.coalesce(
                pl.col("part").replace_strict(fibre, default=None, return_dtype=pl.String),
                pl.col("medium").cast(pl.String).replace_strict(known["cables"], default=None, return_dtype=pl.String),
            ),
            status=pl.lit("planned"),
            profile=profile,
            length=pl.col("length_m").round(2),
            length_unit=pl.when(pl.col("length_m").is_not_null()).then(pl.lit("m")),
            description=pl.format("{}, {}", pl.col("part").fill_null("no part fits"), pl.col("route").fill_null("")),
        )
    )


def _profile(legs: pl.Expr, profiles: Mapping[str, str]) -> pl.Expr:
    """Return the smallest of ``profiles`` (by positions) that holds ``legs``: a splitter may have tails that hang loose."""
    sizes = sorted((int(positions), word) for positions, word in profiles.items())
    fitting = {n: next(word for most, word in sizes if most >= n) for n in range(1, sizes[-1][0] + 1)}
    return legs.replace_strict(fitting, default=None, return_dtype=pl.String)


def netbox_interfaces(plan: Plan, ends: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of ``08-interfaces.csv``: the cages that a cable takes as a whole first, then all logical ports."""
    modules = plan.table("modules").select("module_id", module="part")
    plugged = plan.table("cable_ends").join(modules, on="module_id", maintain_order="left").select("port_id", "module")
    shared = ends.filter("shared").select("port_id", parent="interface")
    ports = (
        pl.concat([plan.ports, _interface_types(plan)], how="horizontal")
        .join(plan.devices.select("device_id", "role", device="name"), on="device_id", maintain_order="left")
        .join(plugged.unique("port_id"), on="port_id", how="left", maintain_order="left")
        .join(shared.unique("port_id"), on="port_id", how="left", maintain_order="left")
        .with_columns(kbps=(pl.col("speed_gbps") * 1e6).cast(pl.Int64))
    )
    place = pl.when(pl.col("cage") > 0).then(pl.format("cage {}", "cage"))
    management = (pl.col("network") == "management") & (pl.col("direction") == "host")
    says = pl.concat_str(
        pl.col("network").cast(pl.String), pl.format("module {}", "module"), separator=", ", ignore_nulls=True
    )
    logical = ports.select(
        "device",
        "name",
        place.alias("label"),
        "parent",
        pl.when(pl.col("parent").is_null()).then("type").otherwise(pl.lit("virtual")).alias("type"),
        pl.col("kbps").alias("speed"),
        pl.lit("true").alias("enabled"),
        pl.when(management).then(pl.lit("true")).otherwise(pl.lit("false")).alias("mgmt_only"),
        says.str.slice(0, LONGEST_DESCRIPTION).alias("description"),
    )
    whole = (
        ports.filter(pl.col("parent").is_not_null())
        .group_by("device", "parent", maintain_order=True)
        .agg(
            place.first().alias("label"),
            pl.col("whole_type").first().alias("type"),
            pl.col("kbps").sum().alias("speed"),
            pl.lit("true").alias("enabled"),
            pl.lit("false").alias("mgmt_only"),
            says.first().str.slice(0, LONGEST_DESCRIPTION).alias("description"),
        )
        .rename({"parent": "name"})
        .with_columns(parent=pl.lit(None, pl.String))
        .select(logical.columns)
    )
    return pl.concat([whole, logical])


def _interface_types(plan: Plan) -> pl.DataFrame:
    """Return NetBox's type for every port (row of ``plan.ports``): ``type``, and ``whole_type`` of its cage as a whole."""
    sockets = find_sockets(plan)
    rows = [
        (number, _interface_type(kind, kind.gbps), _interface_type(kind, kind.gbps * kind.ports))
        for number, kind in enumerate(sockets.kinds)
    ]
    lookup = pl.DataFrame(rows, schema={"socket": pl.Int64, "type": pl.String, "whole_type": pl.String}, orient="row")
    of_port = pl.DataFrame({"socket": sockets.socket}, schema={"socket": pl.Int64})
    return of_port.join(lookup, on="socket", how="left", maintain_order="left").drop("socket")


def _interface_type(kind: Socket, gbps: float) -> str:
    """Return the type of an interface of ``gbps`` in a cage of ``kind``; ``other`` where NetBox has none."""
    if kind.protocol == "infiniband":
        rates, least = words()["infiniband"], kind.gbps / kind.port_lanes
    else:
        rates, least = words()["ethernet"].get(kind.form_factor, {}), gbps
    return next((str(word) for rate, word in rates.items() if float(rate) >= least), "other")


def _sites(plan: Plan) -> pl.Series:
    names.check_all((site.name for site in plan.spec.sites), names.DEVICE, "the name of a site")
    return pl.Series([site.name for site in plan.spec.sites], dtype=pl.String)


def _slugged(texts: pl.Series) -> pl.DataFrame:
    values = texts.to_list()
    schema = dict.fromkeys(("name", "slug"), pl.String)
    return pl.DataFrame({"name": values, "slug": [slug(value) for value in values]}, schema=schema)


def _coloured(roles: pl.Series) -> pl.DataFrame:
    colours: Mapping[str, str] = words()["colours"]
    frame = _slugged(roles)
    return frame.with_columns(color=pl.col("name").replace_strict(colours, default="9e9e9e", return_dtype=pl.String))


def _racks(plan: Plan) -> pl.DataFrame:
    height = plan.racks.select("rack_id", "height_ru")
    racks = rack_loads(plan).join(height, on="rack_id", maintain_order="left").sort("rack_id")
    return racks.select(
        "site",
        "name",
        status=pl.lit("planned"),
        role=pl.col("kind").cast(pl.String),
        form_factor=pl.lit("4-post-cabinet"),
        width=pl.lit(19),
        u_height="height_ru",
        max_weight=pl.col("weight_limit_kg").ceil().cast(pl.Int64),
        weight_unit=pl.lit("kg"),
        description=pl.format("Limit {} kW", (pl.col("power_limit_w") / 1000).round(1)),
    )


def _devices(plan: Plan, types: pl.DataFrame) -> pl.DataFrame:
    racks = plan.racks.select("rack_id", rack_name="name", rack_site="site")
    first_site = plan.spec.sites[0].name
    mounted = pl.col("ru").is_not_null() & pl.col("rack_name").is_not_null() & (pl.col("u_height") > 0)
    return (
        plan.devices.join(types, on="model", how="left", maintain_order="left")
        .join(racks, left_on="rack", right_on="rack_id", how="left", maintain_order="left")
        .select(
            "name",
            role=pl.col("role").cast(pl.String),
            manufacturer="manufacturer",
            device_type="device_type",
            status=pl.lit("planned"),
            site=pl.coalesce("rack_site", "site", pl.lit(first_site)),
            rack="rack_name",
            position=pl.when(mounted).then("ru"),
            face=pl.when(mounted).then(pl.lit("front")),
            description=pl.format("network {}", pl.col("network").cast(pl.String)),
        )
    )


def _csv_cables(cables: pl.DataFrame) -> pl.DataFrame:
    sides = []
    for side in ("a", "b"):
        end = pl.col(f"{side}_terminations").list.first()
        sides += [
            end.struct.field("device").alias(f"side_{side}_device"),
            end.struct.field("object_type").alias(f"side_{side}_type"),
            end.struct.field("name").alias(f"side_{side}_name"),
        ]
    return cables.select(*sides, "type", "status", "profile", "label", "length", "length_unit", "description")


def _json_cables(cables: pl.DataFrame) -> str:
    """Return cables as bodies of the REST API with names in place of numbers; what is not known is left out."""
    rows = json.loads(cables.write_json()) if cables.height else []
    return (
        json.dumps([{key: value for key, value in row.items() if value is not None} for row in rows], indent=1) + "\n"
    )


def _guide(plan: Plan, types: pl.DataFrame, breakouts: int) -> str:
    unknown = types.filter(pl.col("psus").is_null() & (pl.col("u_height") > 0))
    boxes = plan.devices.filter(pl.col("model").is_in(unknown["model"].implode())).height
    loader = (
        f"{breakouts:,} cables have several objects on a side, which the import of cables cannot take. Load them with "
        "`NETBOX_TOKEN=... python load_breakouts.py https://netbox.example 14-breakout-cables.json`."
        if breakouts
        else "No cable has several objects on a side; `14-breakout-cables.json` is empty."
    )
    return f"""# {plan.spec.name}: import into NetBox

For NetBox 4.6 (cable profiles came with 4.5). Import the files in the order of their numbers, each on the page of its kind:
Manufacturers, Sites, Rack Roles, Racks, Device Roles, Device Types, Devices, Interfaces, Power Panels, Power Feeds, Power
Outlets, Cables (12 and 13). Large files as background jobs.

{loader}

- Everything has the status `planned`.
- A cage that one cable takes as a whole is the interface `cageN`; its logical ports are virtual children of it.
- Retimed and redriven copper is `dac-active`: NetBox has no word of its own.
- Voltages of power feeds are assumed; correct `10-power-feeds.csv` first.
- Racks are written as cabinets of 19 inches: correct `04-racks.csv` for others.
- {boxes:,} boxes of {unknown.height} models have no power supplies here, because nobody knows how many they have
  (`psus` in a catalog file of your own).
"""
