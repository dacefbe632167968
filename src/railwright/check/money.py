"""Rules on prices and on facts that nobody has verified."""

from collections.abc import Iterator

import polars as pl

from railwright.catalog.model import Record
from railwright.check.engine import Hit, rule
from railwright.check.views import examples
from railwright.design.bom import unpriced as unpriced_rows
from railwright.design.context import resolve_server
from railwright.design.plan import Plan
from railwright.units import counted


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
        kinds = counted(len(missing), "kind of item has", "kinds of item have")
        yield Hit("economics.prices", f"{kinds} no price: {examples(missing, 6)}")


@rule("RW902")
def unverified_facts(plan: Plan) -> Iterator[Hit]:
    """Catalog entries in use with unverified fields; the report lists them field by field."""
    told = [entry for entry in entries_in_use(plan) if entry.unverified]
    if told:
        fields = sum(len(entry.unverified) for entry in told)
        keys = pl.Series([f"{entry.key} ({', '.join(entry.unverified)})" for entry in told])
        yield Hit("catalog", f"{fields} fields of {len(told)} entries in use are unverified: {examples(keys, 4)}")


def entries_in_use(plan: Plan) -> list[Record]:
    """Return the catalog entries that the plan rests on: server, GPU, adapter, switches and, once cabled, parts."""
    server = resolve_server(plan.spec, plan.catalog)
    models = plan.devices["model"].unique().drop_nulls().sort()
    parts = (
        plan.table("bom").filter(pl.col("section").is_in(["modules", "cables"]))["part"].unique().drop_nulls().sort()
    )
    kinds = [plan.catalog.kind(kind) for kind in ("optics", "cables", "fibre_cables")]
    return [
        server,
        plan.catalog.gpu(server.gpu),
        plan.catalog.nic(server.backend.nic),
        *(plan.catalog.switches[key] for key in models if key in plan.catalog.switches),
        *(kind[key] for key in parts for kind in kinds if key in kind),
    ]
