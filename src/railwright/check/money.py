"""Rules on prices and on facts that nobody has verified."""

from collections.abc import Iterator

import polars as pl

from railwright.check.engine import Hit, rule
from railwright.check.views import examples
from railwright.design.bom import unpriced as unpriced_rows
from railwright.design.context import resolve_server
from railwright.design.plan import Plan


@rule("RW901")
def unpriced(plan: Plan) -> Iterator[Hit]:
    """Models in use without a price."""
    if "bom" in plan.tables:
        rows = unpriced_rows(plan.table("bom"))
        missing = rows.select(pl.coalesce("part", "item").alias("part"))["part"].unique().sort()
    else:
        models = plan.devices["model"].unique().drop_nulls().sort()
        missing = models.filter(~models.is_in(list(plan.spec.economics.prices)))
    if len(missing):
        yield Hit("economics.prices", f"{len(missing)} kinds of item have no price: {examples(missing, 6)}")


@rule("RW902")
def unverified_facts(plan: Plan) -> Iterator[Hit]:
    """Catalog entries in use with unverified fields."""
    server = resolve_server(plan.spec, plan.catalog)
    keys = plan.devices["model"].unique().drop_nulls().sort().to_list()
    entries = [plan.catalog.switches[key] for key in keys if key in plan.catalog.switches]
    entries_used = [server, *entries]
    entries_used += [
        entry for entry in (plan.catalog.gpus.get(server.gpu), plan.catalog.nics.get(server.backend.nic)) if entry
    ]
    used = plan.table("bom").filter(pl.col("section").is_in(["modules", "cables"]))["part"].unique().drop_nulls().sort()
    parts = [plan.catalog.kind(kind) for kind in ("optics", "cables", "fibre_cables")]
    for entry in (*entries_used, *(kind[key] for key in used for kind in parts if key in kind)):
        if entry.unverified:
            yield Hit(entry.key, f"unverified of {entry.name}: {', '.join(entry.unverified)}")
