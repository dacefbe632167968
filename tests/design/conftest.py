"""Specs and plans for the design tests."""

from collections.abc import Callable
from typing import Any

import pytest

from railwright.catalog.load import Catalog, load_catalog
from railwright.design.design import design_plan
from railwright.design.plan import Plan
from railwright.spec.cluster import ClusterSpec

MakePlan = Callable[..., Plan]


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="session")
def backend_plan(catalog: Catalog) -> MakePlan:
    """Return a function that plans a cluster with the backend only: ``backend_plan(servers, server, catalog=, **backend)``."""

    def make(servers: int, server: str = "hgx-h100", use: Catalog | None = None, **backend: Any) -> Plan:
        spec = {
            "name": "test",
            "cluster": {"servers": servers, "server": server},
            "backend": backend,
            **{network: {"enabled": False} for network in ("frontend", "storage", "management")},
        }
        return design_plan(ClusterSpec.model_validate(spec), use or catalog)

    return make


@pytest.fixture(scope="session")
def make_plan(catalog: Catalog) -> MakePlan:
    """Return a function that plans a cluster with all networks: ``make_plan(servers, server, **sections)``."""

    def make(servers: int = 64, server: str = "hgx-h100", **sections: Any) -> Plan:
        spec = {"name": "test", "cluster": {"servers": servers, "server": server}, **sections}
        return design_plan(ClusterSpec.model_validate(spec), catalog)

    return make
