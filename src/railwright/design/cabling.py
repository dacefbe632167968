"""Turns links into cables: one row per cable, its ends port by port and lane by lane, and the modules in the cages.

All links are worked on at once, as arrays. Cages that hang together over links form components (``media``); components of
one kind are decided once, and the decision is spread over all links of that kind. A cable with fixed ends covers a whole
component, a splitter cord the ports that share a connector, a straight cord one link.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from railwright import tables
from railwright.catalog.load import Catalog
from railwright.design.bom import bill_of_materials
from railwright.design.interoperability import power_w
from railwright.design.link_budget import check_channel, mated_pairs
from railwright.design.media import Choice, Chooser, Component, Joint, connector_ports
from railwright.design.plan import Plan
from railwright.design.prices import known_price
from railwright.design.routes import Routes, find_routes, route_names, stock_length
from railwright.design.sockets import Sockets, find_sockets
from railwright.spec.cabling import Part

Index = NDArray[np.int64]
Progress = Callable[[str], None]

NO_PART = -1


@dataclass(frozen=True)
class Cabled:
    """What was worked out on the way to the tables; arrays with one element per row of ``plan.links``.

    ``a_row`` and ``b_row`` are rows of ``plan.ports``; ``component`` numbers the components, ``kind`` (index into ``choices``
    and ``components``) is the kind of each one's component.
    """

    sockets: Sockets
    routes: Routes
    a_row: Index
    b_row: Index
    component: Index
    kind: Index
    components: tuple[Component, ...]
    choices: tuple[Choice, ...]


def cable_plan(plan: Plan, progress: Progress | None = None) -> Plan:
    """Return ``plan`` with tables ``cables, cable_ends, modules, bom`` and ``links.cable_id``.

    A link that no part can join has a cable without medium and part, whose ``reason`` says why (rule RW703). Links that had a
    cable keep its id.
    """
    if progress is not None:
        progress("media")
    cabled = choose_media(plan)
    if progress is not None:
        progress("cables")
    laid = _laid(plan, cabled)
    return laid.with_tables(bom=bill_of_materials(laid))


def choose_media(plan: Plan) -> Cabled:
    """Return the parts of every component of ``plan``."""
    joined = join_components(plan)
    chooser = Chooser(plan.catalog, plan.spec, joined.sockets.kinds)
    return replace(joined, choices=tuple(chooser.choose(found) for found in joined.components))


def join_components(plan: Plan) -> Cabled:
    """Return sockets, ways and components of all links of ``plan``, without choices."""
    sockets, routes = find_sockets(plan), find_routes(plan)
    row_of = np.zeros(int(plan.ports["port_id"].to_numpy().max(initial=0)) + 1, dtype=np.int64)
    row_of[plan.ports["port_id"].to_numpy()] = np.arange(len(plan.ports))
    a_row, b_row = row_of[plan.links["a_port"].to_numpy()], row_of[plan.links["b_port"].to_numpy()]
    component = _components(sockets.cage_id[a_row], sockets.cage_id[b_row])
    kind, components = _kinds(plan, sockets, routes, a_row, b_row, component)
    return Cabled(sockets, routes, a_row, b_row, component, kind, components, ())


def _components(a: Index, b: Index) -> Index:
    """Return for every link the number of its component: cages are nodes, links join them. Label propagation with jumps."""
    if not len(a):
        return a
    label = np.arange(int(max(a.max(), b.max())) + 1)
    while True:
        least = np.minimum(label[a], label[b])
        after = label.copy()
        np.minimum.at(after, label[a], least)
        np.minimum.at(after, label[b], least)
        after = after[after]
        if np.array_equal(after, label):
            break
        label = after
    _, number = np.unique(label[a], return_inverse=True)
    return number


def _grid(catalog: Catalog) -> NDArray[np.float64]:
    """Return every length on sale, rising: links between two of them need the same parts."""
    on_sale = {length for cable in catalog.cables.values() for length in cable.lengths_m}
    on_sale |= {length for cord in catalog.fibre_cables.values() for length in cord.lengths_m}
    return np.array(sorted(on_sale))


def _kinds(
    plan: Plan, sockets: Sockets, routes: Routes, a_row: Index, b_row: Index, component: Index
) -> tuple[Index, tuple[Component, ...]]:
    """Return the kind of every link's component, and the kinds."""
    grid = _grid(plan.catalog)
    step = np.searchsorted(grid, routes.length_m - 1e-9, side="left")
    beyond = np.ceil(routes.length_m / 100) * 100
    length = np.where(step < len(grid), grid[np.minimum(step, len(grid) - 1)], beyond)
    links = pl.DataFrame(
        {
            "component": component,
            "a": sockets.socket[a_row],
            "b": sockets.socket[b_row],
            "part": named_parts(plan),
            "length": length,
            "a_cage": sockets.cage_id[a_row],
            "b_cage": sockets.cage_id[b_row],
            "in_rack": routes.in_rack,
            "straight": sockets.first_lane[a_row] == sockets.first_lane[b_row],
        }
    )
    joints = (
        links.group_by("component", "a", "b", "part")
        .agg(pl.col("length").max())
        .sort("component", "a", "b", "part")
        .group_by("component", maintain_order=True)
        .agg(joints=pl.struct("a", "b", "part", "length"))
    )
    shapes = links.group_by("component").agg(
        links=pl.len(),
        a=pl.col("a_cage").n_unique(),
        b=pl.col("b_cage").n_unique(),
        in_rack=pl.col("in_rack").all(),
        straight=pl.col("straight").all() | (pl.len() == 1),
    )
    one_each = {side: pl.col(side) == pl.col("links") for side in ("a", "b")}
    shaped = joints.join(shapes, on="component").select(
        "component",
        "joints",
        "in_rack",
        pair=(pl.col("a") == 1) & (pl.col("b") == 1) & pl.col("straight"),
        head=pl.when((pl.col("a") == 1) & one_each["b"])
        .then(pl.lit("a"))
        .when((pl.col("b") == 1) & one_each["a"])
        .then(pl.lit("b"))
        .otherwise(pl.lit("")),
    )
    signature = ["joints", "in_rack", "pair", "head"]
    keyed = shaped.with_columns(
        key=pl.concat_str(
            pl.col("joints").list.eval(pl.element().struct.json_encode()).list.join(";"),
            "in_rack",
            "pair",
            "head",
            separator="|",
        )
    ).sort("component")
    unique = keyed.unique("key", maintain_order=True, keep="first").with_row_index("kind")
    number = keyed.select("key").join(unique.select("key", "kind"), on="key", how="left", maintain_order="left")["kind"]
    components = tuple(
        Component(
            joints=tuple(Joint(j["a"], j["b"], j["part"], j["length"]) for j in row["joints"]),
            head=row["head"],
            pair=row["pair"],
            in_rack=row["in_rack"],
        )
        for row in unique.select(signature).iter_rows(named=True)
    )
    return number.to_numpy().astype(np.int64)[component], components


def named_parts(plan: Plan) -> Index:
    """Return for every link the first entry of ``cabling.parts`` that names it, or -1."""
    named = np.full(len(plan.links), NO_PART, dtype=np.int64)
    for number, part in reversed(list(enumerate(plan.spec.cabling.parts))):
        named[_matches(plan.links, part)] = number
    return named


def _matches(links: pl.DataFrame, part: Part) -> NDArray[np.bool_]:
    found = np.ones(len(links), dtype=np.bool_)
    for column, value in (("network", part.network), ("tier", part.tier)):
        if value is not None:
            found &= (links[column] == value).to_numpy()
    return found


def _laid(plan: Plan, cabled: Cabled) -> Plan:
    """Return ``plan`` with the tables of the chosen parts."""
    links = _link_parts(plan, cabled)
    modules, module_of_port = _modules(plan, cabled, links)
    cable_of_link, first = _number_cables(plan, links)
    links = links.with_columns(cable_id=pl.Series(cable_of_link))
    cables = _cables(plan, cabled, links, first)
    ends = _ends(plan, cabled, links, module_of_port)
    return plan.with_tables(
        links=plan.links.with_columns(cable_id=pl.Series(cable_of_link, dtype=pl.UInt32)),
        cables=cables,
        cable_ends=ends,
        modules=modules,
    )


def _link_parts(plan: Plan, cabled: Cabled) -> pl.DataFrame:
    """Return one row per link: its ``medium``, ``part`` (cable or cord), modules, what it shares a cable with (``bundle``)
    and the length that it needs."""
    catalog, kinds = plan.catalog, cabled.sockets.kinds
    rows = []
    for number, (component, choice) in enumerate(zip(cabled.components, cabled.choices, strict=True)):
        for joint in component.joints:
            row: dict[str, object] = {
                "kind": number,
                "a": joint.a,
                "b": joint.b,
                "medium": choice.medium,
                "reason": choice.reason,
                "part": choice.cable or choice.cords.get((joint.a, joint.b)),
                "a_optic": choice.modules.get(joint.a) if choice.medium else None,
                "b_optic": choice.modules.get(joint.b) if choice.medium else None,
                "shares": "component" if choice.cable else "link",
                "connector_lanes": 1,
                "in_rack": component.in_rack,
            }
            if choice.cords:
                shared = {
                    side: connector_ports(catalog, choice.modules[end], kinds[end])
                    for side, end in (("a", joint.a), ("b", joint.b))
                }
                head = max(shared, key=lambda side: shared[side])
                if shared[head] > 1:
                    end = joint.a if head == "a" else joint.b
                    connectors = catalog.optics[choice.modules[end]].connectors
                    row |= {"shares": head, "connector_lanes": max(1, kinds[end].lanes // connectors)}
            rows.append(row)
    schema = {
        "kind": pl.Int64,
        "a": pl.Int64,
        "b": pl.Int64,
        "medium": pl.String,
        "reason": pl.String,
        "part": pl.String,
        "a_optic": pl.String,
        "b_optic": pl.String,
        "shares": pl.String,
        "connector_lanes": pl.Int64,
        "in_rack": pl.Boolean,
    }
    chosen = pl.DataFrame(rows, schema=schema).unique(["kind", "a", "b"], maintain_order=True)
    socket, cage = cabled.sockets.socket, cabled.sockets.cage_id
    links = pl.DataFrame(
        {
            "kind": cabled.kind,
            "component": cabled.component,
            "a": socket[cabled.a_row],
            "b": socket[cabled.b_row],
            "required_m": cabled.routes.length_m,
            "a_cage": cage[cabled.a_row],
            "b_cage": cage[cabled.b_row],
            "a_lane": cabled.sockets.first_lane[cabled.a_row],
            "b_lane": cabled.sockets.first_lane[cabled.b_row],
        }
    ).join(chosen, on=["kind", "a", "b"], how="left", maintain_order="left")
    alone = pl.int_range(pl.len(), dtype=pl.Int64)
    connector = (
        pl.when(pl.col("shares") == "a")
        .then(pl.col("a_cage") * 64 + pl.col("a_lane") // pl.col("connector_lanes"))
        .otherwise(pl.col("b_cage") * 64 + pl.col("b_lane") // pl.col("connector_lanes"))
    )
    bundle = (
        pl.when(pl.col("shares") == "component")
        .then(pl.col("component"))
        .when(pl.col("shares").is_in(["a", "b"]))
        .then(connector)
        .otherwise(alone)
    )
    links = links.with_columns(bundle=bundle)
    alike = ["component"] if plan.spec.cabling.equal_twin_lengths else ["shares", "bundle"]
    longest = pl.col("required_m").max().over(alike)
    cords = pl.col("a_optic").is_not_null()
    if plan.spec.cabling.equal_twin_lengths:
        return links.with_columns(
            required_m=pl.when(cords).then(longest).otherwise(pl.col("required_m").max().over("shares", "bundle"))
        )
    return links.with_columns(required_m=longest)


def _number_cables(plan: Plan, links: pl.DataFrame) -> tuple[Index, Index]:
    """Return the cable of every link and the first link of every cable, by number of cable in order of appearance.

    Cables that links had keep their ids; new ones count on from there.
    """
    before = plan.links["cable_id"].cast(pl.Int64)
    grouped = links.select("shares", "bundle", before=before, row=pl.int_range(pl.len(), dtype=pl.Int64))
    cables = (
        grouped.group_by("shares", "bundle", maintain_order=True)
        .agg(known=pl.col("before").min(), first=pl.col("row").min())
        .sort("first")
        .with_columns(known=pl.when(pl.col("known").is_first_distinct()).then("known"))
    )
    highest = before.max()
    fresh = highest + 1 if isinstance(highest, int) else 0
    new = pl.col("known").is_null().cast(pl.Int64).cum_sum() - 1
    cables = cables.with_columns(cable_id=pl.coalesce("known", fresh + new))
    cable = grouped.join(cables, on=["shares", "bundle"], how="left", maintain_order="left")["cable_id"].to_numpy()
    ordered = cables.sort("cable_id")
    return cable, ordered["first"].to_numpy()


def _modules(plan: Plan, cabled: Cabled, links: pl.DataFrame) -> tuple[pl.DataFrame, Index]:
    """Return the table ``modules`` and for every row of ``plan.ports`` its module (-1: none)."""
    sides = []
    for side, rows in (("a", cabled.a_row), ("b", cabled.b_row)):
        sides.append(links.select(row=pl.Series(rows), cage_id=f"{side}_cage", part=f"{side}_optic", socket=side))
    foreign = [number for number, kind in enumerate(cabled.sockets.kinds) if kind.foreign]
    plugged = pl.concat(sides).filter(pl.col("part").is_not_null() & ~pl.col("socket").is_in(foreign))
    cages = plugged.unique("cage_id", keep="first", maintain_order=True).sort("row").with_row_index("module_id")
    place = plan.ports.select("device_id", "cage")[cages["row"].to_numpy().astype(np.int64)] if len(cages) else None
    powers = {key: power_w(plan.catalog.optics[key]) for key in cages["part"].unique(maintain_order=True)}
    table = (
        tables.empty("modules")
        if place is None
        else tables.conform(
            "modules",
            pl.concat([cages.select("module_id", "part"), place], how="horizontal").with_columns(
                power_w=pl.col("part").replace_strict(powers, return_dtype=pl.Float64)
            ),
        )
    )
    module = np.full(len(plan.ports), -1, dtype=np.int64)
    of_cage = plugged.join(cages.select("cage_id", "module_id"), on="cage_id", how="left", maintain_order="left")
    module[of_cage["row"].to_numpy()] = of_cage["module_id"].to_numpy()
    return table, module


def _cables(plan: Plan, cabled: Cabled, links: pl.DataFrame, first: Index) -> pl.DataFrame:
    """Return the table ``cables``; ``first`` is the first link of every cable."""
    catalog, spec = plan.catalog, plan.spec
    routes = route_names(plan, cabled.routes)
    rows = links.with_columns(route=routes)[first].sort("cable_id")
    length, loss, margin = (np.full(len(rows), np.nan) for _ in range(3))
    power: dict[str, float | None] = {}
    price: dict[str, float | None] = {}
    required = rows["required_m"].to_numpy()
    groups = rows.with_row_index("row").group_by("part", "a_optic", "b_optic", "in_rack", maintain_order=True)
    for (part, a, b, in_rack), group in groups:
        at = group["row"].to_numpy()
        if part is None:
            length[at] = required[at]
            continue
        key = str(part)
        fixed = key in catalog.cables and a is None
        entry = catalog.cables[key] if fixed else catalog.fibre_cables[key]
        stock = stock_length(required[at], entry.lengths_m)
        length[at] = np.where(np.isnan(stock), np.ceil(required[at]), stock)
        known = known_price(catalog, spec, "cables" if fixed else "fibre_cables", key)
        price[key] = None if known is None else known.usd
        power[key] = 0.0
        if fixed:
            sides = (catalog.cables[key].head, catalog.cables[key].tails)
            draws = [None if side.power_w is None else side.power_w * side.count for side in sides]
            power[key] = None if None in draws else sum(draw for draw in draws if draw is not None)
        else:
            cord = catalog.fibre_cables[key]
            plant = Chooser(catalog, spec, cabled.sockets.kinds).plant(in_rack=bool(in_rack))
            pair_loss = max(plant.pair_loss_db(catalog, family) for family in (cord.connector, cord.far_connector))
            pmds = catalog.optics[str(a)].pmd, catalog.optics[str(b)].pmd
            budget = check_channel(
                catalog, pmds, cord.fibre, length[at], pair_loss, mated_pairs(plant.panels), plant.splices
            )
            loss[at], margin[at] = budget.loss_db, budget.least_margin_db
    labels = _labels(plan, cabled, rows, first)
    return tables.conform(
        "cables",
        rows.select(
            "cable_id",
            "medium",
            "part",
            "route",
            "reason",
            pl.Series("length_m", length),
            pl.Series("loss_db", loss).fill_nan(None),
            pl.Series("margin_db", margin).fill_nan(None),
            power_w=pl.col("part").replace_strict(power, default=None, return_dtype=pl.Float64),
            price_usd=pl.col("part").replace_strict(price, default=None, return_dtype=pl.Float64),
            label_a=labels["a"],
            label_b=labels["b"],
        ),
    )


def _labels(plan: Plan, cabled: Cabled, rows: pl.DataFrame, first: Index) -> pl.DataFrame:
    """Return what stands on the flags of both ends of every cable: ``DEVICE:PORT`` of its first link."""
    named = plan.ports.select("device_id", "name").join(
        plan.devices.select("device_id", device="name"), on="device_id", how="left", maintain_order="left"
    )
    label = named.select(pl.format("{}:{}", "device", "name")).to_series()
    order = np.asarray(first)
    return pl.DataFrame({"a": label.gather(cabled.a_row[order]), "b": label.gather(cabled.b_row[order])})


def _ends(plan: Plan, cabled: Cabled, links: pl.DataFrame, module: Index) -> pl.DataFrame:
    """Return the table ``cable_ends``: one row per port, with the lanes of its module (or plug) that it uses."""
    frames = []
    port_id = plan.ports["port_id"]
    for side, rows in (("a", cabled.a_row), ("b", cabled.b_row)):
        host, media = _lanes(plan, cabled, links.select(socket=side, optic=f"{side}_optic"))
        first = cabled.sockets.first_lane[rows]
        frames.append(
            pl.DataFrame(
                {
                    "cable_id": links["cable_id"],
                    "end": pl.repeat(side, len(links), eager=True),
                    "port_id": port_id.gather(rows),
                    "module_id": pl.Series(module[rows]).replace(-1, None),
                    "host_lanes": _masks(host, first),
                    "media_lanes": _masks(media, first * media // host),
                }
            )
        )
    return tables.conform("cable_ends", pl.concat(frames).sort("cable_id", "end", "port_id"))


def _masks(width: Index, first: Index) -> Index:
    """Return bit masks of ``width`` lanes from lane ``first`` on."""
    mask: Index = ((1 << width) - 1) << first
    return mask & 0xFFFF


def _lanes(plan: Plan, cabled: Cabled, ends: pl.DataFrame) -> tuple[Index, Index]:
    """Return how many electrical lanes and how many lanes of the medium the port at every end uses."""
    unique = ends.unique(maintain_order=True).with_row_index("kind")
    kind = ends.join(unique, on=["socket", "optic"], how="left", nulls_equal=True, maintain_order="left")["kind"]
    found = []
    for number, key in unique.select("socket", "optic").iter_rows():
        socket = cabled.sockets.kinds[number]
        optic = None if key is None else plan.catalog.optics[key]
        rate = optic.host_lane_gbps if optic else max(socket.copper_rates, default=socket.lane_gbps[0])
        width = socket.port_lanes if socket.fixed else max(1, round(socket.gbps / rate))
        if optic is None:
            found.append((width, width))
        else:
            found.append(
                (min(width, optic.host_lanes), max(1, round(socket.gbps / plan.catalog.pmds[optic.pmd].lane_gbps)))
            )
    listed = np.array(found, dtype=np.int64).reshape(-1, 2)[kind.to_numpy()]
    return listed[:, 0], listed[:, 1]
