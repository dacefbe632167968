"""A plan: the spec as resolved, the catalog it was made with, its tables and the reasons for what was chosen.

On disk a plan is a directory: ``plan.yaml`` (spec, version, seed, design facts and reasons) beside one Parquet file per
table, and the user's own catalog file when there is one. A directory is written under a temporary name and then renamed.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

import railwright
from railwright import tables
from railwright.catalog.load import Catalog, load_catalog
from railwright.design.context import count_servers, resolve_server
from railwright.errors import InputError
from railwright.spec.cluster import ClusterSpec

PLAN_FILE = "plan.yaml"
CATALOG_FILE = "catalog.yaml"


@dataclass(frozen=True)
class Plan:
    """A designed cluster.

    ``tables`` has the frames of ``tables.PLAN_TABLES`` and, once the physical layer is done, of ``PHYSICAL_TABLES``.
    ``facts`` maps a network's name to what the design chose for it (topology, tiers, oversubscription …) and ``reasons``
    lists ``{"network", "what", "value", "why"}`` in the order of the choices.
    """

    spec: ClusterSpec
    catalog: Catalog
    tables: Mapping[str, pl.DataFrame]
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reasons: tuple[Mapping[str, str], ...] = ()
    version: str = railwright.__version__

    @property
    def devices(self) -> pl.DataFrame:
        """Table ``devices``."""
        return self.tables["devices"]

    @property
    def ports(self) -> pl.DataFrame:
        """Table ``ports``."""
        return self.tables["ports"]

    @property
    def links(self) -> pl.DataFrame:
        """Table ``links``."""
        return self.tables["links"]

    @property
    def racks(self) -> pl.DataFrame:
        """Table ``racks``."""
        return self.tables["racks"]

    @property
    def addresses(self) -> pl.DataFrame:
        """Table ``addresses``."""
        return self.tables["addresses"]

    def table(self, name: str) -> pl.DataFrame:
        """Return table ``name``, empty when the plan does not have it (yet)."""
        return self.tables.get(name, tables.empty(name))

    def with_tables(self, **frames: pl.DataFrame) -> "Plan":
        """Return a copy with some tables added or replaced."""
        return replace(self, tables={**self.tables, **{n: tables.conform(n, f) for n, f in frames.items()}})

    def named_links(self) -> pl.DataFrame:
        """Return the links with the names of both ends.

        Columns: those of ``links`` and, for each side ``a`` and ``b``, ``{side}_device_id, {side}_device, {side}_role,
        {side}_port_name, {side}_gpu, {side}_nic``.
        """
        ends = self.ports.join(self.devices.select("device_id", "role", device="name"), on="device_id").select(
            "port_id", "device_id", "device", "role", "gpu", "nic", port_name="name"
        )
        named = self.links
        for side in ("a", "b"):
            named = named.join(
                ends.rename({column: f"{side}_{column}" for column in ends.columns if column != "port_id"}),
                left_on=f"{side}_port",
                right_on="port_id",
                maintain_order="left",
            )
        return named

    def save(self, directory: Path) -> Path:
        """Write the plan as ``directory``; an older plan there is replaced as a whole.

        Raises InputError when ``directory`` exists and is not a plan.
        """
        if directory.exists() and not (directory / PLAN_FILE).is_file() and any(directory.iterdir()):
            raise InputError("is not empty and not a plan; choose another directory", file=directory)
        directory.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
        try:
            for name, frame in self.tables.items():
                tables.write(name, frame, partial)
            (partial / PLAN_FILE).write_text(self._head(), encoding="utf-8")
            if self.catalog.user_file is not None:
                shutil.copyfile(self.catalog.user_file, partial / CATALOG_FILE)
            partial.chmod(0o755)
            if directory.exists():
                shutil.rmtree(directory)
            partial.replace(directory)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return directory

    def _head(self) -> str:
        head = {
            "railwright_plan": 1,
            "version": self.version,
            "seed": self.spec.seed,
            "spec": self.spec.model_dump(mode="json", exclude_none=True),
            "facts": {network: dict(facts) for network, facts in self.facts.items()},
            "reasons": [dict(reason) for reason in self.reasons],
        }
        yaml = YAML(typ="safe", pure=True)
        yaml.default_flow_style = False
        yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        stream = StringIO()
        yaml.dump(head, stream)
        return stream.getvalue()


def load_plan(directory: Path) -> Plan:
    """Read the plan in ``directory``; raises InputError that names what is missing or broken."""
    file = directory / PLAN_FILE
    if not file.is_file():
        raise InputError(
            f"is not a plan: it has no {PLAN_FILE} (make one with: railwright plan SPEC -o DIR)", file=directory
        )
    try:
        head = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
        spec = ClusterSpec.model_validate(head["spec"])
    except (YAMLError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"is not a plan of this version: {error}", file=file) from None
    user_file = directory / CATALOG_FILE
    present = [
        name for name in (*tables.PLAN_TABLES, *tables.PHYSICAL_TABLES) if (directory / f"{name}.parquet").is_file()
    ]
    missing = [name for name in tables.PLAN_TABLES if name not in present]
    if missing:
        raise InputError(f"the plan has no table {missing[0]!r}", file=directory / f"{missing[0]}.parquet")
    plan = Plan(
        spec=spec,
        catalog=load_catalog(user_file if user_file.is_file() else None),
        tables={name: tables.read(name, directory) for name in present},
        facts=head.get("facts", {}),
        reasons=tuple(head.get("reasons", ())),
        version=head["version"],
    )
    _check_size(plan, file)
    return plan


def _check_size(plan: Plan, file: Path) -> None:
    """Raise InputError when the spec in ``plan.yaml`` is of another size than the tables beside it."""
    wanted, _ = count_servers(plan.spec, resolve_server(plan.spec, plan.catalog))
    built = plan.devices.filter(pl.col("role") == "server").height
    if wanted != built:
        raise InputError(
            f"asks for {wanted} servers, but the plan's tables have {built}: a plan is not edited but made again from its spec",
            file=file,
            key="spec.cluster",
        )
