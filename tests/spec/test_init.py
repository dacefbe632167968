"""``init`` writes specs that load as they are."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.catalog.load import Catalog, load_catalog
from railwright.errors import InputError
from railwright.spec.init import initial_spec
from railwright.spec.load import parse_spec

TOPOLOGIES = ["auto", "rail-only", "rail-optimized", "leaf-spine", "multi-plane"]


@cache
def catalog() -> Catalog:
    return load_catalog()


GPUS = sorted(load_catalog().gpus)
SPEAKS_NO_INFINIBAND = {"mi350x", "mi355x"}


@settings(max_examples=150, deadline=None)
@given(
    gpus=st.integers(8, 100_000),
    gpu=st.sampled_from(GPUS),
    transport=st.sampled_from(["rocev2", "infiniband"]),
    topology=st.sampled_from(TOPOLOGIES),
)
def test_every_initial_spec_loads_without_edits(gpus, gpu, transport, topology):
    if transport == "infiniband" and gpu in SPEAKS_NO_INFINIBAND:
        with pytest.raises(InputError, match="do not speak infiniband; write rocev2"):
            initial_spec(gpus, gpu, transport, topology, catalog())
        return
    spec = parse_spec(initial_spec(gpus, gpu, transport, topology, catalog())).checked(catalog())
    assert spec.cluster.gpus is not None
    assert gpus <= spec.cluster.gpus < gpus + 8
    assert (spec.backend.transport, spec.backend.topology) == (transport, topology)
    assert catalog().servers[spec.cluster.server].gpu == gpu


def test_1024_b200_over_rocev2_are_128_dgx_b200():
    text = initial_spec(1024, "b200", "rocev2")
    spec = parse_spec(text).checked(catalog())
    assert (spec.name, spec.cluster.gpus, spec.cluster.server) == ("b200-1024", 1024, "dgx-b200")


def test_every_section_of_the_spec_is_in_the_file_and_explained():
    text = initial_spec(1024, "b200", "rocev2")
    for section in parse_spec(text).spec.model_dump():
        if section != "ignore":
            assert f"{section}:" in text
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.endswith(":") and line[0].isalpha():
            assert lines[number - 1].startswith("#"), f"no comment above {line}"


def test_every_commented_example_is_valid_when_its_comment_sign_is_taken_away():
    examples = {
        "cluster": ("# nic_gbps: ", "# nics_per_server: "),
        "backend": ("# switch: ", "# counts: "),
        "storage": ("# appliance_read: ", "# appliance_write: "),
        "demand": ("# requests: ", "# dataset_read: ", "# checkpoint: "),
        "top": (
            "# tenants:",
            "#   - {",
            "# workload:",
            "#   name",
            "#   tensor",
            "# growth: ",
            "# converge: ",
            "# prices:",
        ),
        "economics": ("#   dgx-h100: ",),
    }
    text = initial_spec(1024, "h100", "rocev2")
    for mark in (mark for marks in examples.values() for mark in marks):
        assert mark in text
        text = text.replace(mark, mark.replace("# ", "", 1))
    spec = parse_spec(text).checked(catalog())
    assert spec.demand.checkpoint == 1024e9
    assert spec.tenants[0].servers == 32
    assert spec.growth is not None
    assert spec.growth.gpus == 2048
    assert spec.economics.prices["dgx-h100"].usd == 300_000


def test_a_size_that_is_not_whole_servers_is_rounded_up_and_says_so():
    text = initial_spec(100, "h100", "rocev2")
    assert "gpus: 104  # 100 asked for, in whole servers of 8" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((1024, "b20"), "did you mean 'b200'?"),
        ((1024, "b200", "roce"), "'roce' is not allowed; one of rocev2, infiniband (did you mean 'rocev2'?)"),
        ((1024, "b200", "rocev2", "rail_only"), "(did you mean 'rail-only'?)"),
        ((0, "b200"), "0 GPUs are no cluster"),
    ],
)
def test_wrong_arguments_are_refused_with_the_right_ones(arguments, says):
    with pytest.raises(InputError) as caught:
        initial_spec(*arguments)
    assert says in str(caught.value)


def test_the_racks_of_an_initial_nvl72_spec_carry_its_trays():
    known = catalog()
    for gpu in ("gb200", "gb300"):
        spec = parse_spec(initial_spec(576, gpu, "infiniband")).checked(known)
        tray = known.servers[spec.cluster.server]
        assert tray.rack is not None
        assert spec.sites[0].racks.power >= tray.rack.servers * tray.power_max_w
