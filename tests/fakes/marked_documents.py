"""Documents with a marker word in each construct that may hold text, built from raw XML.

A `Case` is a file of one format with one construct. Its marker must be in the extracted text; for a
construct without text (a picture), `said` is the text that must be there instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

MARKER = "Quittenbrot"
"""The word that must be found."""
OTHER = "Apfelmus"
"""Another word, which must be found whatever is wrong with the rest."""


@dataclass(frozen=True, slots=True)
class Case:
    """A file: its format (the ending of its name), the construct, and what must be in its text."""

    format: str
    construct: str
    content: bytes
    expected: tuple[str, ...] = (MARKER,)
    absent: tuple[str, ...] = ()


def archive(parts: dict[str, str | bytes]) -> bytes:
    """Return a ZIP archive of these parts."""
    file = BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    return file.getvalue()


_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_STRICT = "http://purl.oclc.org/ooxml/officeDocument/relationships"
_NAMESPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    f'xmlns:r="{_OFFICE}" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)


def relations(*targets: tuple[str, str], base: str = _OFFICE) -> str:
    """Return the relationships of a part: pairs of a kind and a target; their ids are r1, r2, …"""
    items = "".join(
        f'<Relationship Id="r{number}" Type="{base}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f"{items}</Relationships>"
    )


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(inner: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{inner}</w:p>"


def word(
    body: str, *, main: str = "word/document.xml", beside: dict[str, tuple[str, str]] | None = None
) -> bytes:
    """Return a Word file; `beside` are its other parts: name -> kind and inner XML."""
    beside = beside or {}
    parts: dict[str, str | bytes] = {
        "_rels/.rels": relations(("officeDocument", main)),
        main: f"<w:document {_NAMESPACES}><w:body>{body}{paragraph(run(OTHER))}</w:body>"
        "</w:document>",
    }
    folder, _, base = main.rpartition("/")
    parts[f"{folder}/_rels/{base}.rels"] = relations(
        *((kind, name) for name, (kind, _) in beside.items())
    )
    for name, (_, inner) in beside.items():
        parts[f"{folder}/{name}"] = inner.replace("<w:root", f"<w:root {_NAMESPACES}")
    return archive(parts)


_FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> {} </w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r>{}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
)
_BOX = f"<w:txbxContent>{paragraph(run(MARKER))}</w:txbxContent>"
_CELL = "<w:tc>{}</w:tc>"


def _table(inner: str) -> str:
    return f"<w:tbl><w:tr>{_CELL.format(inner)}</w:tr></w:tbl>"


_IN_PARAGRAPH = {
    "plain run": run(MARKER),
    "tracked insertion": f"<w:ins>{run(MARKER)}</w:ins>",
    "moved here": f"<w:moveTo>{run(MARKER)}</w:moveTo>",
    "content control": f"<w:sdt><w:sdtContent>{run(MARKER)}</w:sdtContent></w:sdt>",
    "simple field": f'<w:fldSimple w:instr="AUTHOR">{run(MARKER)}</w:fldSimple>',
    "complex field": _FIELD.format("AUTHOR", run(MARKER)),
    "hyperlink": f"<w:hyperlink>{run(MARKER)}</w:hyperlink>",
    "smart tag": f"<w:smartTag>{run(MARKER)}</w:smartTag>",
    "nested smart tags": f"<w:smartTag><w:smartTag><w:ins>{run(MARKER)}</w:ins></w:smartTag>"
    "</w:smartTag>",
    "custom XML": f"<w:customXml>{run(MARKER)}</w:customXml>",
    "formula": f"<m:oMath><m:r><m:t>{MARKER}</m:t></m:r></m:oMath>",
    "ruby": f"<w:r><w:ruby><w:rt>{run('x')}</w:rt><w:rubyBase>{run(MARKER)}</w:rubyBase></w:ruby>"
    "</w:r>",
    "hidden text": f"<w:r><w:rPr><w:vanish/></w:rPr><w:t>{MARKER}</w:t></w:r>",
    "text box": f"<w:r><mc:AlternateContent><mc:Choice><w:drawing><wps:wsp><wps:txbx>{_BOX}"
    "</wps:txbx></wps:wsp></w:drawing></mc:Choice><mc:Fallback/></mc:AlternateContent></w:r>",
    "text box of old": f"<w:r><w:pict><v:shape><v:textbox>{_BOX}</v:textbox></v:shape></w:pict>"
    "</w:r>",
    "text box in the fallback": "<w:r><mc:AlternateContent><mc:Choice/><mc:Fallback><w:pict>"
    f"<v:textbox>{_BOX}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>",
    "drop-down of an old form": '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList>'
    f'<w:result w:val="1"/><w:listEntry w:val="no"/><w:listEntry w:val="{MARKER}"/></w:ddList>'
    '</w:ffData></w:fldChar></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>',
    "field without result": f'<w:fldSimple w:instr="DOCVARIABLE {MARKER}"/>',
    "WordArt": f'<w:r><w:pict><v:shape><v:textpath string="{MARKER}"/></v:shape></w:pict></w:r>',
    "words for a picture of old": f'<w:r><w:pict><v:shape alt="{MARKER}"><v:imagedata/></v:shape>'
    "</w:pict></w:r>",
    "title of a picture": f'<w:r><w:drawing><wp:inline><wp:docPr title="{MARKER}"/></wp:inline>'
    "</w:drawing></w:r>",
    "words for a picture": f'<w:r><w:drawing><wp:inline><wp:docPr descr="{MARKER}"/></wp:inline>'
    "</w:drawing></w:r>",
}
_BLOCKS = {
    "content control around a paragraph": "<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>",
    "content control around a table": "<w:sdt><w:sdtContent><w:tbl><w:tr><w:tc>{}</w:tc></w:tr>"
    "</w:tbl></w:sdtContent></w:sdt>",
    "content control around a row": "<w:tbl><w:sdt><w:sdtContent><w:tr><w:tc>{}</w:tc></w:tr>"
    "</w:sdtContent></w:sdt></w:tbl>",
    "content control around a cell": "<w:tbl><w:tr><w:sdt><w:sdtContent><w:tc>{}</w:tc>"
    "</w:sdtContent></w:sdt></w:tr></w:tbl>",
    "table": _table("{}"),
    "nested table": _table(_table("{}")),
    "custom XML around a paragraph": "<w:customXml>{}</w:customXml>",
}
_NUMBERING = (
    '<w:root><w:abstractNum w:abstractNumId="7"><w:lvl w:ilvl="0"><w:start w:val="4"/>'
    '<w:numFmt w:val="lowerRoman"/><w:lvlText w:val="§ %1)"/></w:lvl></w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num></w:root>'
)
_LISTED = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'


def word_cases() -> Iterator[Case]:
    for name, inner in _IN_PARAGRAPH.items():
        yield Case("docx", name, word(paragraph(run("The ") + inner)), (MARKER, OTHER))
    for name, block in _BLOCKS.items():
        yield Case("docx", name, word(block.format(paragraph(run(MARKER)))), (MARKER, OTHER))
    for kind, name in (("header", "headers"), ("footer", "footers"), ("comments", "comments"),
                       ("footnotes", "footnotes"), ("endnotes", "endnotes")):  # fmt: skip
        part = f'<w:root><w:note w:id="1">{paragraph(run(MARKER))}</w:note></w:root>'
        content = word("", beside={"part.xml": (kind, part)})
        yield Case("docx", name, content, (MARKER, OTHER))
    listed = paragraph(run("one"), _LISTED) + paragraph(run("two"), _LISTED)
    content = word(listed, beside={"numbering.xml": ("numbering", _NUMBERING)})
    yield Case("docx", "list numbers", content, ("§ iv) one", "§ v) two"))
    chart = f"<w:root><c:v>{MARKER}</c:v></w:root>"
    yield Case("docx", "chart", word("", beside={"chart.xml": ("chart", chart)}))
    plain = paragraph(run(MARKER))
    yield Case("docx", "another name of the main part", word(plain, main="word/document2.xml"))
    strict = word(plain)
    strict = _again(strict, lambda text: text.replace(_OFFICE, _STRICT).replace(
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main"))  # fmt: skip
    yield Case("docx", "strict", strict)
    picture = paragraph("<w:r><w:drawing><pic:pic/></w:drawing></w:r>")
    yield Case("docx", "picture (said)", word(picture), ("1 pictures",))
    deleted = paragraph(f"<w:del><w:r><w:delText>{MARKER}</w:delText></w:r></w:del>")
    yield Case("docx", "deletion (said)", word(deleted), ("deletions",), (MARKER,))
    other = '<w:altChunk r:id="r1"/>'
    yield Case("docx", "part in another format (said)", word(other), ("another format",))
    linked = word(paragraph('<w:subDoc r:id="r1"/>'))
    yield Case("docx", "linked document (said)", linked, ("1 linked documents", OTHER))
    broken = word(plain, beside={"header.xml": ("header", "<w:root"), "n.xml": ("numbering", "no")})
    yield Case("docx", "broken header", broken, (MARKER, OTHER, "damaged"))
    cut = _again(word(plain + "<w:p><w:x>" + plain), lambda text: text.replace("</w:body>", ""))
    yield Case("docx", "broken main part", cut, (MARKER, "damaged"))


def _again(content: bytes, change: Callable[[str], str]) -> bytes:
    """Return the same archive with changed texts."""
    with ZipFile(BytesIO(content)) as packed:
        return archive({name: change(packed.read(name).decode()) for name in packed.namelist()})


_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def excel(
    rows: str,
    *,
    before: str = "",
    after: str = "",
    styles: str = "",
    strings: str = "",
    beside: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """An Excel file: the XML of the rows of its first sheet; `beside` are parts of the sheet."""
    own, names = f'xmlns="{_SHEET}" xmlns:r="{_OFFICE}"', [f"part{n}.xml" for n in range(9)]
    parts: dict[str, str | bytes] = {
        "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook {own}><sheets><sheet name="One" sheetId="1" r:id="r1"/>'
        '<sheet name="Two" sheetId="2" r:id="r2"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(
            ("worksheet", "worksheets/a.xml"),
            ("worksheet", "worksheets/b.xml"),
            ("styles", "styles.xml"),
            ("sharedStrings", "strings.xml"),
        ),
        "xl/styles.xml": f"<styleSheet {own}>{styles}</styleSheet>",
        "xl/strings.xml": f"<sst {own}>{strings}</sst>",
        "xl/worksheets/a.xml": f"<worksheet {own}>{before}<sheetData>{rows}</sheetData>{after}"
        "</worksheet>",
        "xl/worksheets/b.xml": f"<worksheet {own}><sheetData><row>{cell(OTHER)}</row></sheetData>"
        "</worksheet>",
        "xl/worksheets/_rels/a.xml.rels": relations(
            *((kind, f"/xl/{name}") for (kind, _), name in zip(beside, names, strict=False))
        ),
    }
    for (_, inner), name in zip(beside, names, strict=False):
        parts[f"xl/{name}"] = inner.replace("<w:root", f"<w:root {_NAMESPACES}")
    return archive(parts)


def cell(text: str, place: str = "") -> str:
    where = f' r="{place}"' if place else ""
    return f'<c{where} t="inlineStr"><is><t>{text}</t></is></c>'


def excel_cases() -> Iterator[Case]:
    plain = f"<row>{cell(MARKER)}</row>"
    far = f'<row r="1">{cell("x", "A1")}</row><row r="1048576">{cell(MARKER, "XFD1048576")}</row>'
    wide = f"<row>{''.join(cell(f'c{n}') for n in range(300))}{cell(MARKER)}</row>"
    shared = f"<si><r><t>{MARKER[:4]}</t></r><r><t>{MARKER[4:]}</t></r></si>"
    second = f'<row r="2">{cell("x", "A2")}{cell(MARKER, "B2")}</row>'
    wrong = '<dimension ref="A1"/>'
    formula = f'<row><c r="A1"><f>CONCAT("{MARKER}")</f></c></row>'
    dates = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    fills = '<fills><fill><patternFill patternType="odd"/></fill></fills>'
    anchor = f"<w:root><w:sp><w:txBody><a:p><a:r><a:t>{MARKER}</a:t></a:r></a:p></w:txBody></w:sp>"
    comment = f'<w:root><w:comment ref="A1"><w:t>{MARKER}</w:t></w:comment></w:root>'
    both = (MARKER, OTHER)
    button = (
        '<xml xmlns:v="v" xmlns:x="x"><v:shape><v:textbox><div>{}</div></v:textbox>'
        '<x:ClientData ObjectType="{}"/></v:shape></xml>'
    )
    rule = (
        '<dataValidations><dataValidation type="list" sqref="A1" prompt="{}"><formula1>"a,{}"'
        "</formula1></dataValidation></dataValidations>"
    )
    first = f"<headerFooter><firstFooter>{MARKER}</firstFooter></headerFooter>"
    for name, content, expected in (
        ("text at the edge of the first page", excel("", after=first), both),
        ("button", excel("", beside=(("vmlDrawing", button.format(MARKER, "Button")),)), both),
        ("what may be chosen", excel("", after=rule.format("b", MARKER)), both),
        ("what is told at a cell", excel("", after=rule.format(MARKER, "b")), both),
        ("inline text", excel(plain), both),
        ("shared text in parts", excel('<row><c t="s"><v>0</v></c></row>', strings=shared), both),
        ("result of a formula", excel(f'<row><c t="str"><f>A1</f><v>{MARKER}</v></c></row>'), both),
        ("formula without result", excel(formula), (*both, "without a saved result")),
        ("wrong dimension", excel(second, before=wrong), both),
        ("columns beyond 200", excel(wide), (*both, "c299")),
        ("last corner", excel(far), (*both, f"… XFD: {MARKER}")),
        ("rows without numbers", excel(plain * 3), both),
        ("date", excel('<row><c s="1"><v>45000</v></c></row>', styles=dates), ("2023-03-15",)),
        ("unknown fill", excel(plain, styles=fills), both),
        ("comment", excel("", beside=(("comments", comment),)), both),
        ("text box", excel("", beside=(("drawing", f"{anchor}</w:root>"),)), both),
        ("text at the edge", excel("", after="<headerFooter><oddHeader>"
                                   f"{MARKER}</oddHeader></headerFooter>"), both),
        ("broken sheet", excel(f"{plain}<row><"), (*both, "damaged")),
        ("missing text", excel('<row><c t="s"><v>9</v></c></row>'), (OTHER, "text is missing")),
        ("broken styles", _again(excel(plain), lambda t: t if "styleSheet" not in t else "no"),
         both),
    ):  # fmt: skip
        yield Case("xlsx", name, content, expected)


def slides(shapes: str, *, beside: tuple[tuple[str, str], ...] = (), second: str = "") -> bytes:
    """A PowerPoint file with two slides; `beside` are parts of the first."""
    ids = "".join(f'<p:sldId id="{256 + n}" r:id="r{n}"/>' for n in (1, 2))
    slide = f"<p:sld {_NAMESPACES}><p:cSld><p:spTree>{{}}</p:spTree></p:cSld></p:sld>"
    parts: dict[str, str | bytes] = {
        "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f"<p:presentation {_NAMESPACES}><p:sldIdLst>{ids}</p:sldIdLst>"
        "</p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(
            ("slide", "slides/slide1.xml"), ("slide", "slides/slide2.xml")
        ),
        "ppt/slides/slide1.xml": slide.format(shapes),
        "ppt/slides/slide2.xml": second or slide.format(shape(OTHER)),
        "ppt/slides/_rels/slide1.xml.rels": relations(
            *((kind, f"../part{number}.xml") for number, (kind, _) in enumerate(beside))
        ),
    }
    for number, (_, inner) in enumerate(beside):
        parts[f"ppt/part{number}.xml"] = inner.replace("<w:root", f"<w:root {_NAMESPACES}")
    return archive(parts)


def line(text: str) -> str:
    return f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"


def shape(text: str) -> str:
    return f"<p:sp><p:txBody>{line(text)}</p:txBody></p:sp>"


def slide_cases() -> Iterator[Case]:
    both = (MARKER, OTHER)
    row = f"<a:tr><a:tc><a:txBody>{line(MARKER)}</a:txBody></a:tc></a:tr>"
    notes = f"<w:root>{shape(MARKER)}</w:root>"
    comment = f"<w:root><p:cm><p:text>{MARKER}</p:text></p:cm></w:root>"
    for name, content, expected in (
        ("shape", slides(shape(MARKER)), both),
        ("group in a group", slides(f"<p:grpSp><p:grpSp>{shape(MARKER)}</p:grpSp></p:grpSp>"),
         both),
        ("table", slides(f"<p:graphicFrame><a:tbl>{row}</a:tbl></p:graphicFrame>"), both),
        ("field", slides(f"<p:sp><p:txBody><a:p><a:fld><a:t>{MARKER}</a:t></a:fld></a:p>"
                         "</p:txBody></p:sp>"), both),
        ("formula", slides("<p:sp><p:txBody><a:p><mc:AlternateContent><mc:Choice><m:oMath><m:r>"
                           f"<m:t>{MARKER}</m:t></m:r></m:oMath></mc:Choice></mc:AlternateContent>"
                           "</a:p></p:txBody></p:sp>"), both),
        ("notes", slides("", beside=(("notesSlide", notes),)), both),
        ("comment", slides("", beside=(("comments", comment),)), both),
        ("chart", slides("", beside=(("chart", f"<w:root><c:v>{MARKER}</c:v></w:root>"),)), both),
        ("diagram", slides("", beside=(("diagramData", f"<w:root>{line(MARKER)}</w:root>"),)),
         both),
        ("words for a shape", slides(f'<p:sp><p:nvSpPr><p:cNvPr descr="{MARKER}"/></p:nvSpPr>'
                                     "</p:sp>"), both),
        ("embedded object (said)", slides("<p:graphicFrame><p:oleObj/></p:graphicFrame>"),
         ("1 embedded objects", OTHER)),
        ("picture (said)", slides("<p:pic/>"), ("1 pictures", OTHER)),
        ("broken slide", slides(shape(MARKER), second="no XML"), (MARKER, "damaged")),
    ):  # fmt: skip
        yield Case("pptx", name, content, expected)


def epub(files: dict[str, str | bytes], *hrefs: str, beside: str = "") -> bytes:
    """A book: the files of its folder, and the parts of its reading order."""
    items = "".join(f'<item id="c{n}" href="{href}"/>' for n, href in enumerate(hrefs))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(hrefs)))
    return archive({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="b/c.opf"/>'
        "</rootfiles></container>",
        "b/c.opf": f"<package><manifest>{items}{beside}</manifest><spine>{spine}</spine></package>",
        **{f"b/{name}": content for name, content in files.items()},
    })  # fmt: skip


def book_cases() -> Iterator[Case]:
    both = (MARKER, OTHER)
    page = f"<html><body><p id='top'>{MARKER}</p></body></html>"
    end = f"<html><body>{OTHER}</body></html>"
    wide = f'<?xml version="1.0" encoding="UTF-16"?>{page}'.encode("utf-16")
    latin = '<?xml version="1.0" encoding="iso-8859-1"?><p>Größe</p>'.encode("latin-1")
    files: dict[str, str | bytes] = {"a b.xhtml": page, "z.xhtml": end}
    extra = '<item id="x" href="a%20b.xhtml" media-type="application/xhtml+xml"/>'
    for name, content, expected in (
        ("chapter", epub(files, "a%20b.xhtml", "z.xhtml"), both),
        ("place in a chapter", epub(files, "a%20b.xhtml#top", "z.xhtml"), both),
        ("outside the reading order", epub(files, "z.xhtml", beside=extra), both),
        ("UTF-16", epub({"a.xhtml": wide, "z.xhtml": end}, "a.xhtml", "z.xhtml"), both),
        ("Latin-1", epub({"a.xhtml": latin}, "a.xhtml"), ("Größe",)),
        ("another case of letters", epub(files, "A%20B.xhtml", "z.xhtml"), both),
        ("missing chapter", epub(files, "no.xhtml", "a%20b.xhtml", "z.xhtml"),
         (*both, "this chapter is missing")),
    ):  # fmt: skip
        yield Case("epub", name, content, expected)
