"""Quantities: decimal exactness, and writing that reads back to the same float."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railwright import units

FLOATS = st.floats(min_value=0, max_value=1e15, allow_nan=False, allow_infinity=False, allow_subnormal=False)
PAIRS = [
    (units.parse_gbps, units.write_gbps),
    (units.parse_bytes, units.write_bytes),
    (units.parse_bytes_per_s, units.write_bytes_per_s),
    (units.parse_m, units.write_m),
    (units.parse_us, units.write_us),
    (units.parse_w, units.write_w),
    (units.parse_per_s, units.write_per_s),
    (units.parse_kg, units.write_kg),
    (units.parse_usd, units.write_usd),
    (units.parse_usd_per_kwh, units.write_usd_per_kwh),
    (units.parse_ratio, units.write_ratio),
    (units.parse_fraction, units.write_fraction),
]


@pytest.mark.parametrize(("parse", "write"), PAIRS)
@given(value=FLOATS)
def test_a_quantity_that_is_written_reads_back_as_the_same_float(parse, write, value):
    assert parse(write(value)) == value


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_gbps, "400G", 400.0),
        (units.parse_gbps, "400 Gb/s", 400.0),
        (units.parse_gbps, "400GbE", 400.0),
        (units.parse_gbps, "1.6T", 1600.0),
        (units.parse_gbps, "51.2 Tb/s", 51200.0),
        (units.parse_gbps, "100M", 0.1),
        (units.parse_gbps, 800, 800.0),
        (units.parse_bytes, "1 GiB", 1_073_741_824.0),
        (units.parse_bytes, "1 GB", 1_000_000_000.0),
        (units.parse_bytes, "1.1 TB", 1_100_000_000_000.0),
        (units.parse_us, "4.35 ms", 4350.0),
        (units.parse_us, "30 min", 1.8e9),
        (units.parse_m, "2.3 km", 2300.0),
        (units.parse_m, "57 cm", 0.57),
        (units.parse_w, "10.2 kW", 10200.0),
        (units.parse_usd, "$1,234.50", 1234.5),
        (units.parse_usd, "1.2k", 1200.0),
        (units.parse_usd_per_kwh, "$0.09/kWh", 0.09),
        (units.parse_usd_per_kwh, "8.06 c/kWh", 0.0806),
        (units.parse_ratio, "3:1", 3.0),
        (units.parse_ratio, "8:3", 8 / 3),
        (units.parse_ratio, "1.067", 1.067),
        (units.parse_fraction, "7%", 0.07),
        (units.parse_per_s, "120/min", 2.0),
        (units.parse_kg, "1.36 t", 1360.0),
    ],
)
def test_a_quantity_is_the_decimal_number_that_it_says(parse, text, value):
    assert parse(text) == value


@given(number=st.decimals(min_value=0, max_value=10**6, places=3))
def test_every_decimal_of_a_rate_in_terabits_is_rounded_once(number):
    assert units.parse_gbps(f"{number}T") == float(number * 1000)


@pytest.mark.parametrize(
    ("parse", "value", "says"),
    [
        (units.parse_gbps, "400 GB/s", "'400 GB/s' is not a rate; write for example 400G (units: kb/s, Mb/s, Gb/s"),
        (units.parse_gbps, True, "true is not a rate"),
        (units.parse_gbps, float("nan"), "nan is not a rate"),
        (units.parse_gbps, float("inf"), "inf is not a rate"),
        (units.parse_gbps, "1e999", "too large"),
        (units.parse_gbps, [400], "[400] is not a rate"),
        (units.parse_bytes, "1 Gib", "write for example 1 GiB"),
        (units.parse_ratio, "3:0", "'3:0' is not a ratio; write for example 3:1"),
        (units.parse_ratio, "nan:1", "is not a ratio"),
        (units.parse_ratio, "1e99:1e-300", "is not a ratio"),
        (units.parse_count, 12.5, "12.5 is not a whole number"),
        (units.parse_count, True, "true is not a whole number"),
        (units.parse_count, "1,02", "'1,02' is not a whole number"),
    ],
)
def test_what_is_not_a_quantity_is_refused_with_an_example(parse, value, says):
    with pytest.raises(ValueError) as caught:
        parse(value)
    assert says in str(caught.value)


@given(text=st.text(max_size=30))
def test_any_text_is_a_number_or_a_value_error(text):
    for parse, _ in PAIRS:
        try:
            assert parse(text) == parse(text)
        except ValueError as error:
            assert "is not" in str(error) or "too large" in str(error)


def test_counts_may_have_separators():
    assert [units.parse_count(text) for text in ("1024", "1_024", "1,024", 1024, 1024.0)] == [1024] * 5


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (units.format_bytes(2.0**30), "1 GiB"),
        (units.format_bytes(0), "0 B"),
        (units.format_bytes(3.2e16), "29,104 TiB"),
        (units.format_gbps(51200), "51.2 Tb/s"),
        (units.format_us(1500), "1.5 ms"),
        (units.format_w(1.2e6), "1.2 MW"),
        (units.format_usd(1234567.2), "$1,234,567"),
        (units.format_ratio(8 / 3), "2.667:1"),
    ],
)
def test_quantities_are_shown_in_the_unit_that_fits(text, shown):
    assert text == shown


def test_units_of_a_message_are_listed_once():
    with pytest.raises(ValueError) as caught:
        units.parse_us("5 years")
    assert "(units: ns, us, ms, s, min, h, d)" in str(caught.value)
