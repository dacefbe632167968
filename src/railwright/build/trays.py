"""What lies on every piece of cable ladder: cables, and the bundles that they are pulled in.

A bundle is what runs between the same two racks. Ways are those of ``design/routes.py``: along the row of the lower end, then
across; cables that leave the hall are not counted.
"""

import numpy as np
import polars as pl

from railwright.design.plan import Plan
from railwright.design.routes import find_routes, ladder_load


def tray_list(plan: Plan) -> pl.DataFrame:
    """Return one row per piece of ladder that carries anything: ``site, tray, from_place, to_place, cables, bundles``.

    ``tray`` is ``row 3`` (pieces from one rack position to the next) or ``cross at position 8`` (from one row to the next).
    """
    routes = find_routes(plan)
    keys = pl.DataFrame(
        {
            "cable": plan.links["cable_id"].cast(pl.Int64).fill_null(-1),
            "low": np.minimum(routes.rack_a, routes.rack_b),
            "high": np.maximum(routes.rack_a, routes.rack_b),
        }
    )
    has_cable = keys["cable"].to_numpy() >= 0
    first_of_cable = keys["cable"].is_first_distinct().to_numpy() & has_cable
    pairs = keys.select(pl.when(pl.Series(has_cable)).then(pl.struct("low", "high"))).to_series()
    first_of_bundle = pairs.is_first_distinct().to_numpy() & has_cable
    cables = ladder_load(plan, routes, first_of_cable).rename({"links": "cables"})
    bundles = ladder_load(plan, routes, first_of_bundle).rename({"links": "bundles"})
    along = pl.col("ladder") == "row"
    return (
        cables.join(bundles, on=["site", "ladder", "row", "position"], how="left", maintain_order="left")
        .sort("site", "ladder", "row", "position", descending=[False, True, False, False])
        .select(
            "site",
            tray=pl.when(along)
            .then(pl.format("row {}", "row"))
            .otherwise(pl.format("cross at position {}", "position")),
            from_place=pl.when(along).then(pl.format("rack {}", "position")).otherwise(pl.format("row {}", "row")),
            to_place=pl.when(along)
            .then(pl.format("rack {}", pl.col("position") + 1))
            .otherwise(pl.format("row {}", pl.col("row") + 1)),
            cables="cables",
            bundles=pl.col("bundles").fill_null(0),
        )
    )
