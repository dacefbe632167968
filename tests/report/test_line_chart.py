"""Lines as SVG: points where they belong, hostile names as text, the same bytes for the same data."""

from xml.etree import ElementTree

import pytest

from railwright.report.line_chart import Line, line_chart

SVG = "{http://www.w3.org/2000/svg}"
LABELS = {"title": "t", "x_label": "x", "y_label": "y"}


def drawn(lines: list[Line], **options: bool) -> ElementTree.Element:
    return ElementTree.fromstring(line_chart(lines, **LABELS, **options))  # noqa: S314 (our own text)


def points(root: ElementTree.Element) -> list[tuple[float, float]]:
    text = root.findall(f"{SVG}polyline")[0].attrib["points"]
    return [tuple(map(float, spot.split(","))) for spot in text.split()]


def test_equal_steps_are_equally_far_apart() -> None:
    spots = points(drawn([Line("a", [0, 1, 2], [0, 5, 10])]))
    assert spots[1][0] - spots[0][0] == pytest.approx(spots[2][0] - spots[1][0], abs=0.2)
    assert spots[0][1] - spots[1][1] == pytest.approx(spots[1][1] - spots[2][1], abs=0.2)
    assert spots[0][1] > spots[2][1]


def test_equal_ratios_are_equally_far_apart_on_logarithmic_axes() -> None:
    spots = points(drawn([Line("a", [1, 2, 4], [10, 100, 1000])], log_x=True, log_y=True))
    assert spots[1][0] - spots[0][0] == pytest.approx(spots[2][0] - spots[1][0], abs=0.2)
    assert spots[0][1] - spots[1][1] == pytest.approx(spots[1][1] - spots[2][1], abs=0.2)


def test_ticks_are_round_numbers_that_cover_the_data() -> None:
    texts = [item.text for item in drawn([Line("a", [0, 37], [0, 990_000])]).findall(f"{SVG}text")]
    assert "40" in texts
    assert "1,000,000" in texts


def test_a_name_is_text_and_never_markup() -> None:
    texts = [item.text for item in drawn([Line("<script>&", [0, 1], [0, 1])]).findall(f"{SVG}text")]
    assert "<script>&" in texts


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0]])
def test_nothing_to_draw_is_an_empty_frame(values: list[float]) -> None:
    assert drawn([Line("a", values, values)]).findall(f"{SVG}rect")


def test_the_same_data_give_the_same_bytes() -> None:
    line = [Line("a", [0.1, 0.2], [1 / 3, 2 / 3], dashed=True, marked=True)]
    assert line_chart(line, **LABELS) == line_chart(line, **LABELS)
