"""Spreadsheets from tables: CSV and XLSX, written column by column, so that 400,000 rows cost no loop over rows.

Text that a spreadsheet would read as a formula (it starts with ``=``, ``+``, ``-``, ``@``, a tab or a line break) gets an
apostrophe in front, in both formats (OWASP, "CSV Injection"). An XLSX file holds text as inline strings, numbers as numbers
and never a formula. A sheet takes 1,048,576 rows (ECMA-376 applications' limit); a longer table goes on in further sheets.
"""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

MOST_ROWS = 1_048_575
"""Rows of one sheet below the header: what Excel and LibreOffice can open, less one."""

CHUNK_ROWS = 50_000
"""Rows turned into XML at a time: bounds the memory."""

WIDEST = 60
"""The widest column, in characters."""

LINE_POINTS = 13.0
"""Height of a line of the sheets' 10 point type."""

_FORMULA = r"^[=+\-@\t\r\n]"
_CONTROLS = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
_EPOCH = (1980, 1, 1, 0, 0, 0)

# Cell formats by name: the position is the style's index in styles.xml.
_FORMATS = {
    "exact": "General",
    "text": "General",
    "wrapped": "General",
    "integer": "#,##0",
    "decimal": "#,##0.00",
    "usd": "$#,##0.00",
}
_ALIGNED = {"text": 'horizontal="left" indent="1"', "wrapped": 'horizontal="left" indent="1" wrapText="1"'}
_STYLE = {name: number for number, name in enumerate(_FORMATS)}
_HEAD_STYLE = len(_FORMATS)


@dataclass(frozen=True)
class Sheet:
    """A table on a sheet. ``formats`` maps columns to ``integer, decimal, usd, exact`` or ``wrapped`` (long text, broken
    into lines within its column); others follow from the type."""

    frame: pl.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)


def guarded(frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` without control characters and with an apostrophe before every text that looks like a formula."""
    texts = [pl.col(name).str.replace_all(_CONTROLS, "") for name, kind in frame.schema.items() if kind == pl.String]
    return frame.with_columns(
        pl.when(text.str.contains(_FORMULA)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text).name.keep()
        for text in texts
    )


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` with enumerations as text, so that every column is text, a number or a truth value."""
    return frame.with_columns(
        pl.col(name).cast(pl.String) for name, kind in frame.schema.items() if kind in (pl.Enum, pl.Categorical)
    )


def write_csv(frame: pl.DataFrame, file: Path) -> Path:
    """Write ``frame`` as CSV (UTF-8, header, empty where nothing is known), guarded, and return ``file``."""
    partial = file.with_name(f".{file.name}.partial")
    guarded(plain(frame)).write_csv(partial, line_terminator="\n")
    partial.replace(file)
    return file


def write_workbook(sheets: Mapping[str, Sheet], file: Path) -> Path:
    """Write ``sheets`` by name as one XLSX workbook with frozen headers and filters, and return ``file``."""
    parts = [
        (name if not start else f"{name} {start // MOST_ROWS + 1}", sheet, start)
        for name, sheet in sheets.items()
        for start in range(0, max(1, sheet.frame.height), MOST_ROWS)
    ]
    partial = file.with_name(f".{file.name}.partial")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, text in _frame_of([name for name, _, _ in parts]).items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
        for number, (_, sheet, start) in enumerate(parts, start=1):
            info = zipfile.ZipInfo(f"xl/worksheets/sheet{number}.xml", _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as stream:
                for text in _sheet_xml(sheet, start):
                    stream.write(text.encode())
    partial.replace(file)
    return file


def _sheet_xml(sheet: Sheet, start: int) -> Iterator[str]:
    rows = guarded(plain(sheet.frame.slice(start, MOST_ROWS)))
    last = f"{_letters(max(1, rows.width))}{rows.height + 1}"
    yield (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
        f'<worksheet xmlns="{_MAIN}"><sheetPr><pageSetUpPr fitToPage="1"/></sheetPr><dimension ref="A1:{last}"/><sheetViews>'
        '<sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView>'
        "</sheetViews><cols>"
    )
    for number, width in enumerate(_widths(rows), start=1):
        yield f'<col min="{number}" max="{number}" width="{width}" customWidth="1"/>'
    heads = "".join(
        f'<c r="{_letters(number)}1" s="{_HEAD_STYLE}" t="inlineStr"><is><t>{_escape_text(name)}</t></is></c>'
        for number, name in enumerate(rows.columns, start=1)
    )
    yield f'</cols><sheetData><row r="1">{heads}</row>'
    for first in range(0, rows.height, CHUNK_ROWS):
        chunk = rows.slice(first, CHUNK_ROWS)
        row_number = pl.int_range(first + 2, first + 2 + chunk.height).cast(pl.String)
        cells = [
            _cell(name, kind, _letters(place), row_number, sheet.formats.get(name))
            for place, (name, kind) in enumerate(chunk.schema.items(), start=1)
        ]
        height = _height([name for name, form in sheet.formats.items() if form == "wrapped"])
        row = pl.concat_str(
            [pl.lit('<row r="'), row_number, pl.lit('"'), height, pl.lit(">"), *cells, pl.lit("</row>")]
        )
        yield "".join(chunk.select(row.alias("row")).to_series())
    yield (
        f'</sheetData><autoFilter ref="A1:{last}"/>'
        '<pageSetup paperSize="8" orientation="landscape" fitToWidth="1" fitToHeight="0"/></worksheet>'
    )


def _height(wrapped: Sequence[str]) -> pl.Expr:
    """Return the attributes that make a row as high as its longest wrapped text is broken into lines."""
    if not wrapped:
        return pl.lit("")
    per_line = WIDEST - 5
    lines = pl.max_horizontal((pl.col(name).str.len_chars() / per_line).ceil().fill_null(1) for name in wrapped)
    return pl.when(lines > 1).then(pl.format(' ht="{}" customHeight="1"', lines * LINE_POINTS)).otherwise(pl.lit(""))


def _cell(name: str, kind: pl.DataType, letters: str, number: pl.Expr, form: str | None) -> pl.Expr:
    """Return the XML of one column's cells; nothing where the value is null or not finite."""
    place = pl.concat_str(pl.lit(f'<c r="{letters}'), number)
    value = pl.col(name)
    if kind == pl.String:
        clean = value
        for plain_text, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            clean = clean.str.replace_all(plain_text, escaped, literal=True)
        cell = pl.concat_str(
            place,
            pl.lit(f'" s="{_STYLE["wrapped" if form == "wrapped" else "text"]}" t="inlineStr"><is><t>'),
            clean,
            pl.lit("</t></is></c>"),
        )
        return pl.when(value.is_null() | (value == "")).then(pl.lit("")).otherwise(cell)
    if kind == pl.Boolean:
        cell = pl.concat_str(place, pl.lit('" t="b"><v>'), value.cast(pl.Int8).cast(pl.String), pl.lit("</v></c>"))
        return pl.when(value.is_null()).then(pl.lit("")).otherwise(cell)
    style = _STYLE[form or ("integer" if kind.is_integer() else "exact")]
    known = value.is_not_null() if kind.is_integer() else value.is_finite().fill_null(value=False)
    cell = pl.concat_str(place, pl.lit(f'" s="{style}"><v>'), value.cast(pl.String), pl.lit("</v></c>"))
    return pl.when(known).then(cell).otherwise(pl.lit(""))


def _widths(rows: pl.DataFrame) -> list[float]:
    """Return the widths of columns in characters, from the longest of the first rows and the header with its filter button."""
    head = rows.head(5000)
    found = head.select(
        pl.col(name).cast(pl.String).str.len_chars().max().fill_null(0) for name in head.columns
    ).row(0) if head.height else [0] * head.width  # fmt: skip
    return [
        min(WIDEST, max(int(longest), len(name) + 3) + 3.0) for name, longest in zip(rows.columns, found, strict=True)
    ]


def _letters(column: int) -> str:
    """Return the letters of a column from its number: 1 is A, 27 is AA."""
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _escape_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def _frame_of(names: list[str]) -> dict[str, str]:
    """Return the parts of a workbook around its sheets (ECMA-376, parts 1 and 2)."""
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    numbers = range(1, len(names) + 1)
    sheets = "".join(
        f'<sheet name="{_escape_text(name)}" sheetId="{n}" r:id="rId{n}"/>'
        for n, name in zip(numbers, names, strict=True)
    )
    # The header is repeated on every printed page (paper A3, as wide as the sheet).
    titles = "".join(
        f'<definedName name="_xlnm.Print_Titles" localSheetId="{n}">\'{_escape_text(name)}\'!$1:$1</definedName>'
        for n, name in enumerate(names)
    )
    related = "".join(
        f'<Relationship Id="rId{n}" Type="{_RELATIONS}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n in numbers
    )
    overrides = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{_TYPE}.worksheet+xml"/>' for n in numbers
    )
    formats = "".join(
        f'<numFmt numFmtId="{164 + n}" formatCode="{_escape_text(code)}"/>' for n, code in enumerate(_FORMATS.values())
    )
    cells = "".join(
        f'<xf numFmtId="{0 if code == "General" else 164 + n}" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" '
        f'applyAlignment="1"><alignment vertical="top" {_ALIGNED.get(name, "")}/></xf>'
        for n, (name, code) in enumerate(_FORMATS.items())
    )
    return {
        "[Content_Types].xml": (
            f'{head}<Types xmlns="{_PACKAGE}/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            '<Default Extension="xml" ContentType="application/xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
            f'<Override PartName="/xl/styles.xml" ContentType="{_TYPE}.styles+xml"/>{overrides}</Types>'
        ),
        "_rels/.rels": (
            f'{head}<Relationships xmlns="{_PACKAGE}/relationships">'
            f'<Relationship Id="rId1" Type="{_RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
        ),
        "xl/workbook.xml": (
            f'{head}<workbook xmlns="{_MAIN}" xmlns:r="{_RELATIONS}"><sheets>{sheets}</sheets>'
            f"<definedNames>{titles}</definedNames></workbook>"
        ),
        "xl/_rels/workbook.xml.rels": (
            f'{head}<Relationships xmlns="{_PACKAGE}/relationships">{related}'
            f'<Relationship Id="rId{len(names) + 1}" Type="{_RELATIONS}/styles" Target="styles.xml"/></Relationships>'
        ),
        "xl/styles.xml": (
            f'{head}<styleSheet xmlns="{_MAIN}"><numFmts count="{len(_FORMATS)}">{formats}</numFmts>'
            '<fonts count="2"><font><sz val="10"/><name val="Arial"/></font>'
            '<font><b/><sz val="10"/><color rgb="FFFFFFFF"/><name val="Arial"/></font></fonts>'
            '<fills count="3"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>'
            '<fill><patternFill patternType="solid"><fgColor rgb="FF1F2937"/></patternFill></fill></fills>'
            '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
            '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
            f'<cellXfs count="{len(_FORMATS) + 1}">{cells}'
            '<xf numFmtId="0" fontId="1" fillId="2" borderId="0" xfId="0" applyFont="1" applyFill="1" applyAlignment="1">'
            '<alignment horizontal="left" indent="1"/></xf></cellXfs>'
            '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
        ),
    }
