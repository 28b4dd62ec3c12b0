"""Matrix's own server, Synapse, on this machine, and people who talk there.

Its packages conflict with ours. They are in a separate virtual environment (at `ENVIRONMENT`),
which `.ci/run` makes from `synapse.txt`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
import yaml

from tests.waiting import PATIENCE, wait_until

ENVIRONMENT = Path.home() / ".cache" / "parley-tests" / "synapse"
NAME = "parley.test"
_PLENTY = {"per_second": 10_000, "burst_count": 10_000}
_SECRET = "to register people with"
# The kernel kills a server with the thread that started it (--pdeathsig), so no thread of a test
# may start it.
_starter = ThreadPoolExecutor(1)
_numbers = count(1)


def _settings(folder: Path, port: int) -> dict[str, Any]:
    listener = {
        "port": port,
        "bind_addresses": ["127.0.0.1"],
        "type": "http",
        "resources": [{"names": ["client"], "compress": False}],
    }
    login = dict.fromkeys(("address", "account", "failed_attempts"), _PLENTY)
    return {
        "server_name": NAME,
        "report_stats": False,
        "signing_key_path": str(folder / "signing.key"),
        "media_store_path": str(folder / "media"),
        "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
        "listeners": [listener],
        "trusted_key_servers": [],
        "suppress_key_server_warning": True,
        "presence": {"enabled": False},
        "bcrypt_rounds": 4,
        "caches": {"sync_response_cache_duration": "0s"},
        "registration_shared_secret": _SECRET,
        "macaroon_secret_key": "not secret",
        "form_secret": "not secret",
        "rc_message": _PLENTY,
        "rc_registration": _PLENTY,
        "rc_login": login,
        "rc_joins": {"local": _PLENTY, "remote": _PLENTY},
        "rc_joins_per_room": _PLENTY,
        "rc_invites": {"per_room": _PLENTY, "per_user": _PLENTY, "per_issuer": _PLENTY},
        "rc_admin_redaction": _PLENTY,
        "rc_room_creation": _PLENTY,
        "url_preview_enabled": False,
    }


@dataclass(frozen=True)
class Account:
    """A user of the server, and their access token."""

    user: str
    token: str


@dataclass
class SynapseServer:
    """A server that runs until `stop`, on an SQLite file."""

    folder: Path
    port: int = field(init=False)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        config = self.folder / "homeserver.yaml"
        config.write_text(yaml.safe_dump(_settings(self.folder, self.port)))
        command = [str(ENVIRONMENT / "bin" / "python"), "-m", "synapse.app.homeserver"]
        command += ["--config-path", str(config)]
        subprocess.run([*command, "--generate-keys"], check=True, capture_output=True)
        with (self.folder / "log").open("ab") as log:
            self.process = _starter.submit(
                subprocess.Popen,
                ["setpriv", "--pdeathsig=TERM", *command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ).result()
        self._wait()
        self.admin = self.register("admin", is_admin=True)

    def _wait(self) -> None:
        wait_until(self._answers, lambda: (self.folder / "log").read_text()[-2_000:])

    def _answers(self) -> bool:
        try:
            self.request("GET", "/_matrix/client/versions")
        except httpx.TransportError:
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2_000:]
            return False
        return True

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        self.process = None

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, token: str = ""
    ) -> dict[str, Any]:
        """Call an API of the server."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = httpx.request(
            method, self.url + path, json=body, headers=headers, timeout=PATIENCE, trust_env=False
        )
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def register(self, name: str, *, is_admin: bool = False) -> Account:
        """Create an account with the server's shared secret ("Shared-Secret Registration"). Its id
        ends in a unique number."""
        path = "/_synapse/admin/v1/register"
        nonce = str(self.request("GET", path)["nonce"])
        user = f"{name}{next(_numbers)}"
        said = (nonce, user, "a password", "admin" if is_admin else "notadmin")
        proof = hmac.new(_SECRET.encode(), "\0".join(said).encode(), hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": user, "displayname": name.capitalize()}
        body |= {"password": "a password", "mac": proof}
        made = self.request("POST", path, {**body, "admin": is_admin})
        return Account(str(made["user_id"]), str(made["access_token"]))

    def limit(self, account: Account, per_second: int, at_once: int) -> None:
        """Limit the messages that an account may send; 0 for no limit."""
        path = f"/_synapse/admin/v1/users/{quote(account.user)}/override_ratelimit"
        limits = {"messages_per_second": per_second, "burst_count": at_once}
        self.request("POST", path, limits, self.admin.token)


class MatrixPerson:
    """A person with an app: their actions, and the events they see."""

    def __init__(self, server: SynapseServer, name: str) -> None:
        self.server, self.name = server, name.capitalize()
        self.account = server.register(name)
        self.user = self.account.user

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self.server.request(method, f"/_matrix/client/v3/{path}", body, self.account.token)

    def shrink_request(self, *others: str, **more: Any) -> str:
        """Create a room without encryption, and invite these people; return its id."""
        body = {"preset": "private_chat", "invite": others, **more}
        return str(self.call("POST", "createRoom", body)["room_id"])

    def chat_with(self, other: str, **more: Any) -> str:
        """Create a direct chat."""
        preset = {"preset": "trusted_private_chat", "is_direct": True}
        return self.shrink_request(other, **{**preset, **more})

    def send(self, room: str, content: Mapping[str, Any], kind: str = "m.room.message") -> str:
        path = f"rooms/{quote(room)}/send/{kind}/{uuid4().hex}"
        return str(self.call("PUT", path, content)["event_id"])

    def says(self, room: str, text: str, **more: Any) -> str:
        return self.send(room, {"msgtype": "m.text", "body": text, **more})

    def edits(self, room: str, message: str, text: str) -> str:
        new = {"msgtype": "m.text", "body": text}
        relation = {"rel_type": "m.replace", "event_id": message}
        more: dict[str, Any] = {"m.new_content": new, "m.relates_to": relation}
        return self.says(room, f"* {text}", **more)

    def reacts(self, room: str, message: str, emoji: str) -> str:
        relation = {"rel_type": "m.annotation", "event_id": message, "key": emoji}
        return self.send(room, {"m.relates_to": relation}, "m.reaction")

    def deletes(self, room: str, message: str) -> None:
        self.call("PUT", f"rooms/{quote(room)}/redact/{quote(message)}/{uuid4().hex}", {})

    def uploads(self, content: bytes, media_type: str, name: str) -> str:
        answer = httpx.post(
            f"{self.server.url}/_matrix/media/v3/upload",
            params={"filename": name},
            content=content,
            headers={"Authorization": f"Bearer {self.account.token}", "Content-Type": media_type},
            trust_env=False,
        )
        answer.raise_for_status()
        return str(answer.json()["content_uri"])

    def downloads(self, address: str) -> bytes:
        answer = httpx.get(
            f"{self.server.url}/_matrix/client/v1/media/download/{address.removeprefix('mxc://')}",
            headers={"Authorization": f"Bearer {self.account.token}"},
            trust_env=False,
        )
        answer.raise_for_status()
        return answer.content

    def sends_file(
        self, room: str, kind: str, content: bytes, media_type: str, name: str, **more: Any
    ) -> str:
        address = self.uploads(content, media_type, name)
        info = {"mimetype": media_type, "size": len(content)}
        return self.send(
            room, {"msgtype": kind, "body": name, "url": address, "info": info, **more}
        )

    def joins(self, room: str) -> None:
        self.call("POST", f"join/{quote(room)}", {})

    def members(self, room: str) -> dict[str, str]:
        """Return the members of a room by membership, including invited and former ones."""
        found = self.call("GET", f"rooms/{quote(room)}/members")["chunk"]
        return {str(one["state_key"]): str(one["content"]["membership"]) for one in found}

    def invitations(self) -> list[str]:
        return [*self.call("GET", "sync")["rooms"].get("invite", ())]

    def reads(self, room: str) -> list[dict[str, Any]]:
        """Return all events of a room, in order."""
        path = f"rooms/{quote(room)}/messages?dir=b&limit=500"
        return [*reversed(self.call("GET", path)["chunk"])]


@contextmanager
def running_synapse() -> Iterator[SynapseServer]:
    """Run a separate server. Skips the test if Synapse is not installed."""
    if not (ENVIRONMENT / "bin" / "python").exists():
        pytest.skip(f"Synapse is not installed in {ENVIRONMENT} (.ci/run does that)")
    with tempfile.TemporaryDirectory(prefix="parley-synapse-") as folder:
        server = SynapseServer(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()
