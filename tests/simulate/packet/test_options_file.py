"""``OPTIONS.yaml``: changes to a profile, and every mistake at its line."""

from pathlib import Path

import pytest

from railwright.errors import InputError
from railwright.simulate.options_file import read_options
from railwright.simulate.own_network import simulate_own
from railwright.simulate.packet.options import infiniband, reference, rocev2

NETWORKS = Path(__file__).parents[3] / "examples" / "networks"


@pytest.fixture
def write(tmp_path: Path):
    def to_file(text: str) -> Path:
        file = tmp_path / "OPTIONS.yaml"
        file.write_text(text)
        return file

    return to_file


@pytest.mark.parametrize(
    ("text", "preset"),
    [
        ("profile: rocev2\n", rocev2()),
        ("profile: infiniband\npaths: adaptive\n", infiniband()),
        ("profile: reference\ngbps: 100\n", reference(100.0)),
        ("congestion_control: none\n", rocev2(congestion_control="none")),
        ("paths: spray\n", rocev2(paths="spray")),
    ],
)
def test_a_profile_alone_is_its_preset(write, text: str, preset) -> None:
    assert read_options(write(text)) == preset


def test_what_a_file_says_changes_and_the_rest_stays(write) -> None:
    told = read_options(
        write("classes:\n  data: {alpha: 0.5}\n  bulk: {weight: 3, lossless: false}\ndcqcn: {g: 0.125}\n")
    )
    assert [item.name for item in told.classes] == ["data", "cnp", "best_effort", "bulk"]
    assert told.classes[0] == rocev2().classes[0].model_copy(update={"alpha": 0.5})
    assert told.dcqcn == rocev2().dcqcn.model_copy(update={"g": 0.125})


def test_paths_of_the_command_line_go_first(write) -> None:
    assert read_options(write("paths: ecmp\n"), paths="spray") == rocev2(paths="spray")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("profile: roce\n", 1, "one of rocev2, infiniband, reference"),
        ("# a\nprofile: reference\n", 2, "needs the rate of its links"),
        ("profile: rocev2\ngbps: 100\n", 2, "only profile reference has a rate"),
        ("mtu_bytes: 4096\nheadrom_bytes: 1\n", 2, "did you mean 'headroom_bytes'"),
        ("classes:\n  data:\n    alfa: 1\n", 3, "did you mean 'alpha'"),
        ("classes:\n  data:\n    weight: 2\n    alpha: -1\n", 4, "must be more than 0"),
        ("classes: [data]\n", 1, "is not a mapping of class names"),
        ("classes:\n  data: 5\n", 2, "is not a mapping"),
        ("classes:\n  data: {kmin_bytes: 9, kmax_bytes: 5}\n", 2, "kmin_bytes 9 is above kmax_bytes 5"),
        ("classes:\n  data: {name: x}\n", 2, "the key of the class is its name"),
        ("congestion_control: dcqn\n", 1, "did you mean 'dcqcn'"),
        ("congestion_control: cubic\n", 1, "selective_repeat"),
        ("paths: random\n", 1, "one of ecmp"),
        ("paths: spray\nprofile: reference\ngbps: 25\n", 1, "reorders packets"),
        ("dcqcn: {g: 2}\n", 1, "must be less than 1"),
        ("dcqcn: fast\n", 1, "is not a mapping"),
        ("notify_class: cpn\n", 1, "there is no class 'cpn'"),
        ("time_limit_us: .nan\n", 1, ""),
    ],
)
def test_a_mistake_is_told_with_its_place(write, text: str, line: int, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_options(write(text))
    error = caught.value.flat()[0]
    assert error.line == line
    assert says in error.message


def test_the_flow_engine_takes_no_options(write) -> None:
    with pytest.raises(InputError, match="no queues"):
        simulate_own(
            NETWORKS / "two-leaves.yaml", NETWORKS / "incast.csv", "flow", options_file=write("profile: rocev2\n")
        )


def test_a_run_obeys_its_options_file(write) -> None:
    def marks(text: str) -> float | None:
        result = simulate_own(NETWORKS / "two-leaves.yaml", NETWORKS / "incast.csv", options_file=write(text))
        return result.engine.counters["ecn_marks"]

    assert marks("congestion_control: none\n") != marks("congestion_control: dcqcn\n")
