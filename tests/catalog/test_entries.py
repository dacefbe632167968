"""The packaged catalog against facts from outside and against itself."""

import csv
import re
from importlib.resources import files
from pathlib import Path

import pytest

from railwright.catalog.load import KINDS, load_catalog
from railwright.catalog.validate import catalog_findings

CATALOG = load_catalog()
ENTRIES = [(kind, key) for kind in KINDS for key in CATALOG.kind(kind)]

with (Path(__file__).parent / "facts" / "devices.csv").open(newline="") as stream:
    FACTS = list(csv.DictReader(stream))


@pytest.mark.parametrize(("kind", "key"), ENTRIES)
def test_every_entry_is_valid_and_every_field_has_a_source(kind: str, key: str) -> None:
    entry = CATALOG.kind(kind)[key]
    assert entry.key == key
    assert all(entry.source_of(field) for field in type(entry).model_fields)


def test_a_packaged_key_names_one_entry() -> None:
    keys = [key for kind in KINDS for key in CATALOG.kind(kind)]
    assert len(keys) == len(set(keys))
    assert len(keys) == sum(len(CATALOG.kind(kind)) for kind in KINDS)


def test_no_key_stands_twice_in_a_packaged_file() -> None:
    for kind in KINDS:
        text = files("railwright.catalog").joinpath("data", f"{kind}.yaml").read_text(encoding="utf-8")
        keys = re.findall(r"^([a-z0-9][^:\s]*):$", text, re.MULTILINE)
        assert sorted(keys) == sorted(CATALOG.kind(kind))


def test_the_packaged_catalog_is_consistent() -> None:
    assert catalog_findings(CATALOG) == []


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact['key']}-{fact['field']}")
def test_published_figures_of_devices(fact: dict[str, str]) -> None:
    entry = CATALOG.kind(fact["kind"])[fact["key"]]
    name = fact["field"]
    value = entry.ports_at(float(name[6:])) if name.startswith("ports_") else getattr(entry, name)
    assert value == float(fact["value"])


def test_every_gpu_has_a_server_that_carries_it() -> None:
    assert set(CATALOG.gpus) == {server.gpu for server in CATALOG.servers.values()}


def test_a_value_from_memory_is_marked_unverified() -> None:
    for kind, key in ENTRIES:
        entry = CATALOG.kind(kind)[key]
        for field, source in entry.sources.items():
            if field != "*" and "from memory" in source:
                assert field in entry.unverified, (kind, key, field)


def test_a_connectx_8_is_one_800g_port_on_infiniband_and_two_of_400g_on_ethernet() -> None:
    nic = CATALOG.nic("connectx-8-c8180")
    assert nic.logical_ports("infiniband") == (1, 800)
    assert nic.logical_ports("ethernet") == (2, 400)
    assert CATALOG.nic("pollara-400").logical_ports("infiniband") == (0, 0.0)


def test_a_dgx_h100_reaches_its_eight_compute_adapters_through_four_cages() -> None:
    backend = CATALOG.server("dgx-h100").backend
    assert backend.count * backend.ports / backend.ports_per_cage == 4


def test_sn5400_offers_21_watts_on_every_fourth_cage_only() -> None:
    cages = CATALOG.switch("sn5400").cages[0]
    assert cages.module_limit_w == 12
    assert cages.high_power_limit_w == 21
    assert cages.high_power_cages == tuple(range(1, 65, 4))
