"""Sections ``backend.pfc`` and ``backend.dcqcn``: what they mean to the packet engine, and where they cannot be."""

import pytest

from railwright.errors import InputErrors
from railwright.simulate.packet.options import Dcqcn
from railwright.simulate.packet.settings import pausing_options, rate_control_options
from railwright.spec.load import dump_spec, load_spec, parse_spec

SPEC = "name: small\ncluster: {servers: 16, server: hgx-h100}\n"
FULL = """\
backend:
  pfc: {alpha: 0.25, xon_offset: 9 kB}
  dcqcn: {g: 0.015625, additive_increase: 0.1%, hyper_increase: 2%, increase_timer: 26 us, alpha_timer: 5 us,
    decrease_interval: 4 us, byte_counter: 1 MB, fast_recovery: 3}
"""


def test_every_key_reaches_the_engine(tmp_path):
    spec = parse_spec(SPEC + FULL).spec
    assert pausing_options(spec.backend.pfc) == {"alpha": 0.25, "xon_offset_bytes": 9000}
    assert rate_control_options(spec.backend.dcqcn) == Dcqcn(
        g=1 / 64,
        additive_share=0.001,
        hyper_share=0.02,
        increase_timer_us=26,
        alpha_timer_us=5,
        decrease_interval_us=4,
        byte_counter_bytes=1e6,
        fast_recovery=3,
    )
    (tmp_path / "again.yaml").write_text(dump_spec(spec))
    assert load_spec(tmp_path / "again.yaml") == spec


def test_nothing_said_is_as_published():
    assert pausing_options(None) == {}
    assert rate_control_options(None) == Dcqcn()


@pytest.mark.parametrize(
    ("backend", "key", "said"),
    [
        ("{pfc: {alpha: 0.5, xoff: 1 MB}}", "backend.pfc", "keep one of the two"),
        ("{pfc: {alpha: 0}}", "backend.pfc.alpha", "more than 0"),
        ("{pfc: {alpha: 65}}", "backend.pfc.alpha", "at most 64"),
        ("{pfc: {beta: 1}}", "backend.pfc.beta", "unknown key"),
        ("{dcqcn: {g: 1}}", "backend.dcqcn.g", "less than 1"),
        ("{dcqcn: {alpha_timer: 5}}", "backend.dcqcn.alpha_timer", "no unit"),
        ("{dcqcn: {increase_timer: 0 us}}", "backend.dcqcn.increase_timer", "more than 0"),
        ("{transport: infiniband, pfc: {alpha: 1}}", "backend.pfc", "'credits' has none"),
        ("{congestion: ecn-only, pfc: {alpha: 1}}", "backend.pfc", "dcqcn+pfc or pfc-only"),
        ("{congestion: lossy+spray, dcqcn: {g: 0.5}}", "backend.dcqcn", "dcqcn+pfc or ecn-only"),
    ],
)
def test_wrong_sections_are_named(tmp_path, backend, key, said):
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{SPEC}backend: {backend}\n")
    with pytest.raises(InputErrors) as caught:
        load_spec(file)
    found = [error for error in caught.value.flat() if error.key == key]
    assert found
    assert said in found[0].message
    assert found[0].line == 3
