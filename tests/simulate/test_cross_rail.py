"""A workload that sends across rails over the network loads the spines; one that hands over by NVLink keeps to its rails."""

from pathlib import Path

import polars as pl
import pytest

from railwright.catalog.load import load_catalog
from railwright.design.design import design_plan
from railwright.simulate.run import simulate_collective
from railwright.spec.load import load_spec

SPEC = """name: crossing
cluster: {servers: 16, server: hgx-h100}
backend: {topology: rail-optimized, transport: rocev2, tiers: 2}
workload: {name: llama3-70b, tensor_parallel: 8, cross_rail: WAY}
"""
SIZE = 128 * 65536.0


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_traffic_between_rails_goes_where_the_workload_says(tmp_path: Path, engine: str) -> None:
    def between_servers(way: str) -> pl.DataFrame:
        file = tmp_path / f"{way}.yaml"
        file.write_text(SPEC.replace("WAY", way))
        plan = design_plan(load_spec(file), load_catalog())
        flows = simulate_collective(plan, "all-to-all", SIZE, engine=engine).engine.flows
        return flows.filter(pl.col("src") // 8 != pl.col("dst") // 8)

    by_nvlink, by_network = between_servers("nvlink"), between_servers("network")
    assert by_nvlink.filter(pl.col("src") % 8 != pl.col("dst") % 8).is_empty()
    assert by_network.height == 128 * 120
    assert by_nvlink["bytes"].sum() == by_network["bytes"].sum() == 128 * 120 * SIZE / 128
