"""A job's NCCL variables as people paste them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railwright.errors import InputError
from railwright.workload.nccl.environment import parse_environment

PASTED = """
#!/bin/bash
export NCCL_ALGO="Ring,Tree"   # the tree is for small ones
export NCCL_IB_HCA=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1
mpirun -np 16 -x NCCL_PROTO=^LL128 -x NCCL_IB_QPS_PER_CONNECTION=4 \\
  -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH \\
  NCCL_CROSS_NIC=0 ./all_reduce_perf -b 8 -e 8G -f 2
docker run -e NCCL_P2P_PXN_LEVEL=0 image
"""


def test_all_the_ways_of_writing_variables_are_read() -> None:
    read = parse_environment(PASTED)
    assert read.variables["NCCL_ALGO"] == "Ring,Tree"
    assert read.algorithms is not None
    assert read.algorithms["all-reduce"] == {"ring", "tree"}
    assert read.protocols is not None
    assert read.protocols["all-gather"] == {"ll", "simple"}
    assert (read.adapters, read.queue_pairs, read.cross_nic, read.pxn_level) == (4, 4, 0, 0)
    assert any("NCCL_DEBUG" in remark for remark in read.remarks)


def test_the_last_value_wins_and_comments_do_not_count() -> None:
    read = parse_environment("NCCL_CROSS_NIC=1\n# export NCCL_CROSS_NIC=2\nexport NCCL_CROSS_NIC=0\n")
    assert read.cross_nic == 0


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("NCCL_IB_QPS_PER_CONECTION", "NCCL_IB_QPS_PER_CONNECTION"),
        ("NCCL_ALOG", "NCCL_ALGO"),
        ("NCCL_CROSSNIC", "NCCL_CROSS_NIC"),
        ("NCCL_IB_HCAS", "NCCL_IB_HCA"),
    ],
)
def test_a_name_that_nccl_does_not_read_is_reported_with_the_nearest_one(wrong: str, right: str) -> None:
    (remark,) = parse_environment(f"\nexport {wrong}=1").remarks
    assert remark.startswith(f"line 2: {wrong} is not read")
    assert f"did you mean '{right}'?" in remark


def test_variables_of_plugins_are_known_as_such() -> None:
    (remark,) = parse_environment("NCCL_FASTRAK_NUM_FLOWS=2").remarks
    assert "plugin" in remark


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("NCCL_ALGO=Rings", "did you mean 'ring'"),
        ("NCCL_ALGO=allreduce:Tree;Ring", "no collective before it"),
        ("NCCL_ALGO=allredcue:Tree", "did you mean"),
        ("NCCL_PROTO=LL64", "ll"),
        ("NCCL_CROSS_NIC=3", "write 0 to 2"),
        ("NCCL_MAX_NCHANNELS=zero", "write 1 to 64"),
        ("NCCL_IB_QPS_PER_CONNECTION=0", "write 1 to 128"),
        ("NCCL_NET_GDR_LEVEL=PXI", "did you mean"),
        ("NCCL_IB_HCA=", "no adapter is named"),
    ],
)
def test_a_value_that_cannot_be_is_an_error_with_its_line(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as raised:
        parse_environment(f"# job\n{text}", file="job.sh")
    assert raised.value.line == 2
    assert str(raised.value).startswith("job.sh:2: NCCL_")


def test_prefixes_select_a_collective() -> None:
    read = parse_environment("NCCL_ALGO=ring,collnetdirect;allreduce:tree;broadcast:ring")
    assert read.algorithms is not None
    assert read.algorithms["all-reduce"] == {"tree"}
    assert read.algorithms["reduce"] == {"ring", "collnet-direct"}


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("NCCL_IB_DISABLE=1", "sockets", True),
        ("NCCL_NET=Socket", "sockets", True),
        ("NCCL_P2P_DISABLE=1", "nvlink", False),
        ("NCCL_P2P_LEVEL=NVL", "nvlink", True),
        ("NCCL_NET_GDR_LEVEL=0", "gdr", False),
        ("NCCL_NET_GDR_LEVEL=SYS", "gdr", True),
        ("NCCL_PXN_DISABLE=1", "pxn_level", 0),
        ("NCCL_IB_HCA=mlx5", "adapters", None),
        ("NCCL_IB_HCA==mlx5_0,mlx5_3", "adapters", 2),
        ("NCCL_IB_HCA=^mlx5_2", "adapters", None),
        ("NCCL_COLLNET_ENABLE=1", "collnet", True),
        ("NCCL_NET_OVERHEAD=2500", "net_overhead_us", 2.5),
    ],
)
def test_variables_change_what_they_say(text: str, attribute: str, value: object) -> None:
    assert getattr(parse_environment(text), attribute) == value


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        parse_environment(text + "\nNCCL_ALGO=" + text[:20])
    except InputError:
        return
