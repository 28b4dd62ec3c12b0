"""Mail on this machine: Dovecot, from which the bot fetches it, and an SMTP server. The SMTP server
accepts messages from any sender, as on the internet: it checks the sender, adds the result at the
top, and delivers the message."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import make_msgid
from pathlib import Path
from shutil import which

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError

from tests.waiting import PATIENCE, wait_until

SERVER = "mx.parley.test"
"""The name with which the receiving server signs its results."""
PASSWORD = "correct-horse"
_ACCOUNT = "mail"  # Debian's account under which messages are stored
_starter = ThreadPoolExecutor(1)  # its thread lives as long as the tests (--pdeathsig)

_CONFIG = """\
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail/%u
mail_fsync = never
mail_max_userip_connections = 1000
first_valid_uid = 1
auth_failure_delay = 0
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
passdb {{
  driver = passwd-file
  deny = yes
  args = {folder}/locked-out
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={account} gid={account} home={folder}/home/%u
}}
"""


class Dovecot:
    """An IMAP server with a mailbox for each address, with one password, until it is locked out."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.folder.chmod(0o755)
        for name in ("mail", "home", "state"):
            (self.folder / name).mkdir(exist_ok=True)
            if os.geteuid() == 0:
                (self.folder / name).chmod(0o777)
        config = self.folder / "dovecot.conf"
        config.write_text(
            _CONFIG.format(folder=self.folder, port=self.port, password=PASSWORD, account=_ACCOUNT)
        )
        (self.folder / "locked-out").touch()
        (self.folder / "locked-out").chmod(0o644)  # regardless of the umask
        self._process = _starter.submit(
            subprocess.Popen,
            ["setpriv", "--pdeathsig=TERM", "dovecot", "-F", "-c", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ).result()
        wait_until(self._answers, self._read_log)

    def _answers(self) -> bool:
        try:
            self.sign_in("test@parley.test").logout()
        except (OSError, IMAPClientError):
            assert self._process is not None
            assert self._process.poll() is None, self._read_log()
            return False
        return True

    def _read_log(self) -> str:
        log = self.folder / "log"
        return log.read_text() if log.exists() else "no log"

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
        self._process = None

    def lock_out(self, address: str) -> None:
        """Make the server refuse the password for this mailbox; return once it does."""
        with (self.folder / "locked-out").open("a") as file:
            file.write(f"{address}:\n")
        wait_until(lambda: self._refuses(address))  # it checks the file once a second

    def _refuses(self, address: str) -> bool:
        try:
            self.sign_in(address).logout()
        except IMAPClientError:
            return True
        return False

    def sign_in(self, address: str) -> IMAPClient:
        client = IMAPClient("127.0.0.1", self.port, ssl=False, timeout=PATIENCE)
        try:
            client.login(address, PASSWORD)
            client.select_folder("INBOX")
        except BaseException:
            client.shutdown()
            raise
        return client

    def deliver(self, address: str, raw: bytes) -> None:
        client = self.sign_in(address)
        try:
            client.append("INBOX", raw)
        finally:
            client.logout()


@dataclass
class PostOffice:
    """The SMTP server. Messages to the bot's address go to Dovecot, all others to `sent`.
    `refusals` are the responses to the next senders, whose messages are rejected."""

    dovecot: Dovecot
    sent: list[EmailMessage] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    password: str = PASSWORD
    verdict: str = "dmarc=pass header.from={domain}"
    loses_answers: int = 0
    _controller: Controller = field(init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._controller = Controller(
            self,
            "127.0.0.1",
            _free_port(),
            auth_require_tls=False,
            authenticator=self._sign_in,
            enable_SMTPUTF8=True,
            ready_timeout=PATIENCE,
        )

    def restore(self) -> None:
        """Clear the sent messages, and restore the initial behaviour."""
        self.sent.clear()
        self.refusals.clear()
        self.password, self.loses_answers = PASSWORD, 0
        self.verdict = "dmarc=pass header.from={domain}"

    @property
    def port(self) -> int:
        return int(self._controller.port)

    def start(self) -> None:
        self._controller.start()

    def stop(self) -> None:
        self._controller.stop(no_assert=True)

    def _sign_in(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        is_right = isinstance(data, LoginPassword) and data.password.decode() == self.password
        return AuthResult(success=is_right, handled=False)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Handle a whole message; aiosmtpd calls this."""
        if not session.authenticated:
            return "530 5.7.0 Authentication required"
        if self.refusals:
            return self.refusals.pop(0)
        content = envelope.content
        assert isinstance(content, bytes)
        message = BytesParser(policy=policy.default).parsebytes(content)
        assert isinstance(message, EmailMessage)
        with self._changed:
            self.sent.append(message)
            self._changed.notify_all()
        if self.loses_answers:
            self.loses_answers -= 1
            assert server.transport is not None
            server.transport.close()
        return "250 OK"

    def receive(self, to: str, message: EmailMessage, verdict: str | None = None) -> None:
        """Deliver a message from the internet to a local address."""
        sender = str(message["From"].addresses[0].addr_spec) if message["From"] else ""
        found = (self.verdict if verdict is None else verdict).format(
            domain=sender.rpartition("@")[2], sender=sender
        )
        raw = message.as_bytes(policy=policy.SMTP)
        head = f"Return-Path: <{sender}>\r\n"
        if found:
            head += f"Authentication-Results: {SERVER};\r\n\t{found}\r\n"
        head += f"Received: from elsewhere by {SERVER}; Mon, 23 Nov 2026 10:00:00 +0000\r\n"
        self.dovecot.deliver(to, head.encode() + raw)

    def sent_to(self, address: str) -> list[EmailMessage]:
        return [one for one in list(self.sent) if one["To"].addresses[0].addr_spec == address]


@dataclass
class Correspondent:
    """A person with a mail app."""

    office: PostOffice
    address: str
    bot: str
    name: str = ""

    def writes(
        self,
        text: str,
        subject: str = "",
        answers: EmailMessage | str | None = None,
        verdict: str | None = None,
        file: tuple[str, bytes, str] | None = None,
        **fields: str,
    ) -> EmailMessage:
        """Send a message to the bot, and return it. A file is its name, its content and its
        type."""
        message = EmailMessage()
        message["From"] = f"{self.name} <{self.address}>" if self.name else self.address
        message["To"] = self.bot
        message["Message-ID"] = make_msgid(domain="elsewhere.test")
        message["Subject"] = subject
        if isinstance(answers, EmailMessage):
            message.replace_header("Subject", f"Re: {str(answers['Subject']).removeprefix('Re: ')}")
            message["In-Reply-To"] = answers["Message-ID"]
            message["References"] = f"{answers['References'] or ''} {answers['Message-ID']}".strip()
        elif answers:
            message["In-Reply-To"] = answers
        for name, value in fields.items():
            del message[name.replace("_", "-")]
            message[name.replace("_", "-")] = value
        message.set_content(text)
        if file is not None:
            name, content, media_type = file
            kind, _, subtype = media_type.partition("/")
            message.add_attachment(content, maintype=kind, subtype=subtype, filename=name)
        self.office.receive(self.bot, message, verdict)
        return message

    def reads(self) -> list[EmailMessage]:
        return self.office.sent_to(self.address)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def running_mail() -> Iterator[PostOffice]:
    """Run separate servers. Skips the test if they are not installed."""
    if which("dovecot") is None:
        pytest.skip("Dovecot is not installed (Debian: apt install dovecot-imapd)")
    with tempfile.TemporaryDirectory(prefix="parley-mail-", ignore_cleanup_errors=True) as folder:
        dovecot = Dovecot(Path(folder))
        office = PostOffice(dovecot)
        try:
            dovecot.start()
            office.start()
            yield office
        finally:
            office.stop()
            dovecot.stop()
