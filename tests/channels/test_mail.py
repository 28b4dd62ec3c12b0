"""Tests of mail: the author of a message, the text written in it, and the senders that are never
answered."""

from __future__ import annotations

import asyncio
import quopri
import re
from base64 import b64encode
from email import policy
from email.message import EmailMessage
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.kit.platform import Media, Post
from channels.mail import MailSettings
from channels.mail.bounds import TooManyParts, parse_bounded
from channels.mail.inbox import Inbox, is_verified, parse
from channels.mail.reading import Letter, cut_quotation, read, read_html, thread_of
from channels.mail.writing import MailThread, make_mail, make_mail_with
from tests.tables import each_row
from tests.waiting import PATIENCE

ANN = "ann@example.org"


def test_what_the_receiving_server_has_verified_is_believed() -> None:
    for result in [
        "dmarc=pass header.from=example.org",
        "dmarc=pass (p=REJECT sp=REJECT) header.from=example.org; spf=fail smtp.mailfrom=x.org",
        "dkim=pass header.i=@example.org header.s=s1 header.b=abc",
        "spf=fail; dkim=pass header.d=EXAMPLE.org",
        "spf=pass (sender permitted) smtp.mailfrom=bounces@example.org",
        "spf=pass smtp.mailfrom=example.org",
        "auth=pass (plain) smtp.auth=ann@example.org",
        'dkim=pass reason="good; signature" header.d="example.org"',
        'dkim=none; spf=pass (a (b) c \\) d) smtp.mailfrom="a(b"@example.org; dmarc=none (x)',
    ]:
        assert is_verified(ANN, [f"mx.example.net; {result}"], "mx.example.net"), result
        assert is_verified(ANN, [f"MX.example.net 1;\r\n {result}"], "mx.example.net"), result


def test_what_it_has_not_is_not() -> None:
    for result in [
        "none",
        "dmarc=fail header.from=example.org; spf=pass smtp.mailfrom=example.org",
        "dmarc=pass header.from=evil.example",
        "dkim=pass header.d=evil.example; spf=pass smtp.mailfrom=evil.example",
        "dkim=pass header.d=mail.example.org",
        "dkim=pass header.d=org",
        "dkim=fail header.d=example.org",
        "dkim=pass (header.d=example.org) header.d=evil.example",
        'dkim=fail reason="dkim=pass header.d=example.org"',
        "auth=pass smtp.auth=bob@example.org",
        "auth=pass smtp.auth=bob@example.org smtp.mailfrom=ann@example.org",
        'spf=pass smtp.mailfrom="x@example.org"@evil.example',
        'spf=pass smtp.mailfrom=x@evil.example smtp.helo="("; dmarc=fail reason=")"',
        'dkim=pass header.i="@example.org"@evil.example',
        'spf=pass smtp.mailfrom="a;dkim=pass header.d=example.org;b"@evil.example',
        'spf=fail smtp.mailfrom="(\\"; dkim=pass header.d=example.org; a=\\")"@evil.example',
        "spf=pass (of example.org) (smtp.mailfrom=example.org (or) dkim=pass header.d=example.org)",
        "spf=pass",
        "",
    ]:
        assert not is_verified(ANN, [f"mx.example.net; {result}"], "mx.example.net"), result


def test_the_word_of_another_server_counts_for_nothing() -> None:
    forged = "mx.evil.example; dmarc=pass header.from=example.org"
    assert not is_verified(ANN, [forged], "mx.example.net")
    assert not is_verified(ANN, [], "mx.example.net")


def test_only_the_topmost_field_is_the_servers_own() -> None:
    genuine = "mx.example.net; dkim=none"
    forged = "mx.example.net; dmarc=pass header.from=example.org"
    assert not is_verified(ANN, [genuine, forged], "mx.example.net")
    assert is_verified(ANN, ["other.example; none", forged], "mx.example.net")


@given(st.text(max_size=300))
def test_any_field_can_be_read(text: str) -> None:
    parse(text)


def test_a_long_field_is_read_at_once() -> None:
    parse("(" * 100_000)
    parse("a;" + "dkim=pass (" * 10_000)


def test_a_reply_is_what_was_written_and_not_what_it_quotes() -> None:
    for text, own in [
        ("Yes.\n\nOn Mon, Nov 23, 2026 at 10:00 AM Bot <bot@x.org>\nwrote:\n\n> What?\n", "Yes."),
        ("Ja.\n\nAm 23.11.26 um 10:00 schrieb Bot:\n> Was?\n>\n> mehr", "Ja."),
        ("Oui\n\nLe lun. 23 nov. 2026 à 10:00, Bot <bot@x.org> a écrit :\n\n> Quoi ?", "Oui"),
        ("好的\n\nBot <bot@x.org> 于2026年11月23日周一 10:00写道：\n\n> 什么？", "好的"),
        ("1\n\n-----Original Message-----\nFrom: Bot\nSent: Monday\n\nhello", "1"),
        ("1\n\n________________________________\nVon: Bot\nGesendet: Montag\n\nhallo", "1"),
        ("1\n\nFrom: Bot <b@x>\nSent: Monday\nTo: Ann\nSubject: x\n\nhello", "1"),
        ("> What?\n\nThis.\n\n> And?\n\nThat.", "> What?\n\nThis.\n\n> And?\n\nThat."),
        ("At 10:00 I need:\n\n    code()\n- tea", "At 10:00 I need:\n\n    code()\n- tea"),
        ("From: here\nto: there", "From: here\nto: there"),
        ("> only quoted", ""),
        ("", ""),
    ]:
        assert cut_quotation(text) == own, text


@given(st.text(alphabet="ab >:@1\n-", max_size=200))
def test_what_is_above_a_quotation_stays_as_it_is(text: str) -> None:
    kept = cut_quotation(text)
    assert kept in text
    assert cut_quotation(f"{text}x").rstrip().endswith("x") or ">" in text.rpartition("\n")[2]


def test_a_long_reply_is_read_at_once() -> None:
    for text in ["> ", "On \n", ":\n", "From: \n", "@1:\n"]:
        cut_quotation(text * 50_000)


def test_a_message_of_html_alone_is_read_as_it_looks() -> None:
    page = (
        "<html><head><style>p {}</style></head><body><p>Hello<br>there,\n <b>you</b></p><ul><li>a"
        "</li><li>b</li></ul><script>x()</script>"
        "<div class='gmail_quote'>On Monday wrote: <blockquote>old</blockquote></div></body></html>"
    )
    assert read_html(page, is_reply=True) == "Hello\nthere, you\n\n- a\n- b"
    assert "old" in read_html(page, is_reply=False)
    outlook = "<p>1</p><div id='divRplyFwdMsg'>From: Bot</div><div>old</div>"
    assert read_html(outlook, is_reply=True) == "1"


@given(st.text(alphabet='<>/="abdivpstyle blockquote', max_size=200))
def test_any_html_can_be_read(markup: str) -> None:
    read_html(markup, is_reply=True)


def message(text: str = "Hello", **fields: str) -> EmailMessage:
    made = EmailMessage()
    for name, value in {"From": ANN, "Message-ID": "<1@x>", **fields}.items():
        made[name.replace("_", "-")] = value
    made.set_content(text)
    return made


def letter(made: EmailMessage) -> Letter:
    return read(made.as_bytes(policy=policy.SMTP), "<fallback@imap>", "bot@example.org")


def test_what_is_written_below_a_picture_is_read_too() -> None:
    for kind, line in [("plain", "{}\n"), ("html", "<p>{}</p>\n")]:
        made = message()
        made.set_content(line.format("This is it:"), subtype=kind)
        made.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="a.png")
        made.add_attachment(line.format("What is it?"), subtype=kind, disposition="inline")
        made.add_attachment("a note", filename="note.txt")
        made.add_attachment("a note without a name")
        found = letter(made)
        assert re.sub(r"\n+", "\n", found.text) == "This is it:\nWhat is it?", kind
        assert [file.name for file in found.files] == ["a.png", "note.txt", "file5.plain"], kind


MACHINES: dict[str, tuple[str, ...]] = {
    "Auto_Submitted": (
        *("auto-replied", "auto-generated; x=y", "Auto-Notified", "auto-generated (rejected)"),
        *("whatever", " auto-replied "),
    ),
    "Precedence": ("bulk", "list", "Junk", "auto_reply", "auto-reply"),
    "X_Auto_Response_Suppress": (
        *("All", "OOF", "AutoReply", "DR, OOF, AutoReply"),
        "-1",
        "oof",
        "63",
    ),
    "X_Autoreply": ("yes", "true"),
    "X_Autorespond": ("Out of the office",),
    "X_Autogenerated": ("Reply",),
    "X_Mail_Autoreply": ("yes",),
    "X_FC_MachineGenerated": ("true",),
    "X_Failed_Recipients": ("bob@example.org",),
    "Return_Path": ("<>",),
    "List_Id": ("<list.example.org>",),
    "List_Help": ("<mailto:help@example.org>",),
    "From": ("MAILER-DAEMON@example.org", "no-reply@example.org", "bot@example.org"),
}
PEOPLE: dict[str, tuple[str, ...]] = {
    "Auto_Submitted": ("no", "No", "no (sent by hand)", "no; x=y"),
    "Precedence": ("normal", "first-class", "special-delivery"),
    "X_Auto_Response_Suppress": ("None", "none", "DR", "DR, NDR, RN, NRN", "RN,NRN", "0"),
    "X_Autoreply": ("no", "false"),
    "X_FC_MachineGenerated": ("false",),
    "Return_Path": ("<ann@example.net>",),
}


def listed(kinds: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(name, value) for name, values in kinds.items() for value in values]


@each_row(("name", "value"), listed(MACHINES))
def test_a_machine_is_not_answered(name: str, value: str) -> None:
    assert letter(message(**{name: value})).automatic


@each_row(("name", "value"), listed(PEOPLE))
def test_a_person_is_answered(name: str, value: str) -> None:
    assert not letter(message(**{name: value})).automatic


def test_a_report_that_something_was_not_delivered_is_not_answered() -> None:
    made = message()
    made.make_mixed()
    made.replace_header("Content-Type", "multipart/report; report-type=delivery-status; boundary=b")
    assert letter(made).automatic


def test_a_message_by_nobody_or_by_several_has_no_sender() -> None:
    for sender in ["", "Ann", "ann@example.org, bob@example.org", "undisclosed:;"]:
        raw = f"From: {sender}\r\nMessage-ID: <1@x>\r\n\r\nHello".encode()
        assert read(raw, "<f@imap>", "bot@example.org").sender == "", sender
        twice = b"From: ann@example.org\r\nFrom: bob@example.org\r\n\r\nHello"
        assert read(twice, "<f@imap>", "bot@example.org").sender == "", sender


def test_the_subject_begins_a_thread_and_no_command() -> None:
    assert letter(message("What?", Subject="Tea")).text == "Tea\n\nWhat?"
    assert letter(message("", Subject="/help")).text == "/help"
    assert letter(message("/context detail\n\nBest, Ann", Subject="Tea")).text == (
        "/context detail"
    )
    assert letter(message("2", Subject="Re: Tea", In_Reply_To="<0@x>")).text == "2"


def test_a_thread_is_known_by_its_first_message_or_by_ours() -> None:
    first = letter(message()).thread
    second = letter(message(References="<1@x> <2@x>", In_Reply_To="<2@x>")).thread
    assert first == second == thread_of((), "<1@x>")
    ours = make_mail(MailThread("bot@example.org", ANN, first, "Tea", ("<1@x>",)), Post("Yes"))
    short = message(In_Reply_To=ours["Message-ID"])  # an app that leaves References out
    assert letter(short).thread == first


def test_files_come_with_their_names_and_signatures_do_not() -> None:
    made = message("See here.")
    made.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="x.png")
    made.add_attachment(b"sig", maintype="application", subtype="pgp-signature", filename="s.asc")
    found = letter(made)
    assert [(file.name, file.media_type) for file in found.files] == [("x.png", "image/png")]
    assert [file.content for file in found.files] == [b"\x89PNG"]
    assert found.text == "See here."


@given(st.binary(max_size=400), st.sampled_from([b"", b"From: ann@example.org\r\n"]))
def test_whatever_comes_is_read_or_fails_as_a_message(raw: bytes, head: bytes) -> None:
    try:
        found = read(head + raw, "<f@imap>", "bot@example.org")
    except (AttributeError, IndexError, KeyError, LookupError, TypeError, ValueError):
        return  # the platform leaves it out
    assert found.id


def test_long_fields_are_cut_before_they_are_parsed() -> None:
    for name, value in [
        ("Subject", "=?utf-8?q?a?= " * 9_000),
        ("From", "(" * 9_000 + "ann@example.org"),
        ("From", "ann@example.org, " * 9_000),
        ("Content-Type", "text/plain" + ";a=b" * 9_000),
        ("Content-Type", "text/plain; a=" + "b" * 9_000),
        ("Content-Disposition", "attachment" + ";filename*1*=a" * 9_000),
        ("X-Unknown", "a" * 90_000),
    ]:
        found = parse_bounded(f"{name}: {value}\r\n\r\nHello".encode())
        assert sum(len(one) for one in found.get_raw(name)) <= 2_000, name
        assert found.get_payload() == "Hello", name
        assert sum(one.count(";") for one in found.get_raw(name)) <= 20, name
    many = parse_bounded(b"From: ann@example.org\r\n" * 9_000 + b"\r\nHello")
    assert len(many.get_raw("From")) == 2, "which is nobody"


def test_a_sender_that_was_cut_is_nobody() -> None:
    raw = f"From: ann@example.org{' ' * 9_000}(evil)\r\n\r\nHello".encode()
    assert read(raw, "<f@imap>", "bot@example.org").sender == ""


def test_below_results_that_are_too_long_no_others_are_believed() -> None:
    long = f"Authentication-Results: {' ' * 20_000}mx.example.net; dkim=none\r\n"
    forged = "Authentication-Results: mx.example.net; dkim=pass header.d=example.org\r\n"
    found = read(f"{long}{forged}From: {ANN}\r\n\r\na".encode(), "<f@imap>", "bot@example.org")
    assert not is_verified(ANN, found.results, "mx.example.net")
    late = "mx.example.net; dkim=pass header.d=example.org; " + "a=b; " * 9_000 + "dmarc=fail"
    assert not is_verified(ANN, [late], "mx.example.net")


def test_a_message_of_too_many_parts_is_not_read() -> None:
    raw = b"Content-Type: multipart/mixed; boundary=a\r\n\r\n" + b"--a\r\n\r\n" * 1_000
    with pytest.raises(TooManyParts):
        parse_bounded(raw)


UNREADABLE = ("punycode", "idna", "unicode_escape", "undefined", "base64", "zlib", "rot13", "no")


@each_row("name", UNREADABLE)
def test_what_is_no_character_set_of_mail_is_read_as_utf_8(name: str) -> None:
    for head in (f'charset="{name}"', f"charset*=us-ascii'en'{name}", f"charset={name}"):
        raw = f"From: {ANN}\r\nContent-Type: text/plain; {head}\r\n\r\nTea für 2-abc".encode()
        assert read(raw, "<f@imap>", "bot@example.org").text == "Tea für 2-abc"


CHARSETS = ("utf-8", "utf-7", "iso-8859-1", "windows-1252", "gbk", "big5", "shift_jis", "euc-kr")


@each_row(
    ("name", "encoding"),
    product([*CHARSETS, "iso-2022-jp", "utf-16"], ["base64", "8bit", "quoted-printable"]),
)
def test_a_long_text_is_read_in_its_character_set(name: str, encoding: str) -> None:
    """It may be decoded in pieces."""
    sample = {"gbk": "明天", "big5": "明天", "euc-kr": "한국", "windows-1252": "\u20acé"}.get(name)
    text = (sample or ("日本" if "j" in name else "é")) * 40_000
    body = text.encode(name)
    if encoding == "base64" or name == "utf-16":
        encoding, body = "base64", b64encode(body)
    elif encoding == "quoted-printable":
        body = quopri.encodestring(body)
    head = f"From: {ANN}\r\nContent-Type: text/plain; charset={name}\r\n"
    raw = f"{head}Content-Transfer-Encoding: {encoding}\r\n\r\n".encode() + body
    assert read(raw, "<f@imap>", "bot@example.org").text == text


NAMES = {
    'filename="a (1).pdf"': "a (1).pdf",
    'filename="=?utf-8?q?f=C3=BCr?= =?utf-8?q?_2.pdf?="': "für 2.pdf",
    'filename="=?gbk?b?w/fM7A==?=.pdf"': "明天.pdf",
    "filename*=utf-8''f%C3%BCr.pdf": "für.pdf",
    "filename*0*=utf-8''f%C3; filename*1*=%BCr.pdf": "für.pdf",
    'filename="a\r\n b.pdf"': "a b.pdf",
    'filename="für.pdf"': "für.pdf",
    'filename="=?nonsense?q?a=C3=A9?="': "aé",
    "filename=a.pdf; size=3": "a.pdf",
}


@each_row(("written", "name"), NAMES.items())
def test_a_file_has_its_name_however_that_is_written(written: str, name: str) -> None:
    raw = f"From: {ANN}\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; "
    found = read(f"{raw}{written}\r\n\r\nabc".encode(), "<f@imap>", "bot@example.org")
    assert [file.name for file in found.files] == [name]


def test_an_answer_is_text_and_html_and_answers_no_machine() -> None:
    course = MailThread("bot@example.org", ANN, "0" * 16, "Tea", ("<1@x>", "<2@x>"))
    made = make_mail(course, Post("It is **hot** <b>"))
    assert made["Subject"] == "Re: Tea"
    assert (made["In-Reply-To"], made["References"]) == ("<2@x>", "<1@x> <2@x>")
    assert made["Auto-Submitted"] == "auto-replied"
    plain, page = made.iter_parts()
    assert plain.get_content() == "It is **hot** <b>\n"
    assert "<strong>hot</strong> &lt;b&gt;" in page.get_content()
    assert letter(made).automatic


@given(st.text(max_size=100), st.text(max_size=100))
def test_any_answer_can_be_sent(text: str, subject: str) -> None:
    found = letter(message(subject or "x")).subject  # as it would arrive
    made = make_mail(MailThread("bot@example.org", ANN, "0" * 16, found or subject), Post(text))
    raw = made.as_bytes(policy=policy.SMTP)
    assert re.search(rb"^Subject: ", raw, re.MULTILINE)


def test_what_is_sent_again_has_the_same_id() -> None:
    course = MailThread("bot@example.org", ANN, "0" * 16)
    first, again, other = (make_mail(course, Post("Tea", once=one)) for one in ("o1", "o1", "o2"))
    assert first["Message-ID"] == again["Message-ID"] != other["Message-ID"]
    assert thread_of((first["Message-ID"],), "<1@x>") == course.thread


def test_a_file_goes_as_one() -> None:
    media = Media("document", "answer.md", b"all", "All of it is in this file.", "text/markdown")
    made = make_mail_with(MailThread("bot@example.org", ANN, "0" * 16), media)
    text, file = made.iter_parts()
    assert isinstance(file, EmailMessage)
    content: Any = file.get_content()
    assert (file.get_filename(), content) == ("answer.md", "all")
    assert text.get_content().strip() == "All of it is in this file."


async def serve_imap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An empty mailbox. A message arrives while the server accepts IDLE: in the same packet."""
    answers = {
        "CAPABILITY": "* CAPABILITY IMAP4rev1 IDLE",
        "LIST": '* LIST () "/" "INBOX"',
        "SELECT": "* OK [UIDVALIDITY 1] valid\r\n* OK [UIDNEXT 1] next",
    }
    writer.write(b"* OK [CAPABILITY IMAP4rev1 IDLE] ready\r\n")
    idle = ""
    async for line in reader:
        tag, *command = line.decode().split()
        if command[:1] == ["IDLE"]:
            idle = tag
            writer.write(b"+ idling\r\n* 1 EXISTS\r\n")
        elif not command:  # DONE
            writer.write(f"{idle} OK done\r\n".encode())
        else:
            said = answers.get(command[0], "* OK going on")
            writer.write(f"{said}\r\n{tag} OK done\r\n".encode())
    writer.close()


async def test_news_that_comes_with_the_consent_to_wait_for_it_is_not_waited_for() -> None:
    server = await asyncio.start_server(serve_imap, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    inbox = Inbox(
        MailSettings(address="bot@parley.test", verified_by="mx", imap=f"127.0.0.1:{port}"), "x"
    )
    async with server:
        await asyncio.to_thread(inbox.open)
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.to_thread(inbox.wait)
        finally:
            inbox.end()
            inbox.close()
