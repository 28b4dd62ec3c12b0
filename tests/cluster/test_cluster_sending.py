"""Replies of a gateway, whose database is restarted at the worst moment."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from bot.delivery import columns_of
from bot.recent import RecentActivity
from bot.sending import dump_reply
from channels.message import Address, Outbound, Reply
from memory.record import mailbox
from memory.record.database import Database
from memory.record.mailbox import OutboxRow
from memory.record.store import Store, StoreError
from plugins.cluster.node import ClusterSender

HOME = Address("pipe", "home")


async def test_a_reply_that_could_not_be_marked_as_sent_is_marked_later_and_sent_once(
    tmp_path: Path,
) -> None:
    """A gateway waits for its mark when it ends."""
    store, sent, is_down = await Store.open(tmp_path / "parley.db"), list[Outbound](), False

    class Pipe:
        name = "pipe"

        async def send(self, outbound: Outbound) -> None:
            nonlocal is_down
            sent.append(outbound)
            is_down = True

    def check(db: Database) -> None:
        if is_down:
            raise StoreError("the database is being restarted")

    store.fence(check)
    sender = ClusterSender(store, {"pipe": Pipe()}, tmp_path, RecentActivity())  # type: ignore[dict-item]
    sender.node = SimpleNamespace(me="gateway")  # type: ignore[assignment]
    try:
        row = OutboxRow(columns_of(HOME), "m1", None, dump_reply(Reply("Hello!")))
        outbox = await store.write(lambda db: mailbox.put_out(db, row))
        for _ in range(3):  # told of, and found in the outbox again and again
            sender.deliver(Outbound(outbox, HOME, Reply("Hello!"), "m1"))
            await sender.queues.idle()
        assert await store.read(lambda db: mailbox.is_waiting(db, ["pipe"], ()))
        is_down = False
        sender.deliver(Outbound(outbox, HOME, Reply("Hello!"), "m1"))
        await sender.queues.idle()
        assert not await store.read(lambda db: mailbox.is_waiting(db, ["pipe"], ()))
        assert len(sent) == 1
    finally:
        await store.close()
