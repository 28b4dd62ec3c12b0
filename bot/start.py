"""The start of a bot: its channels, its logs and its monitoring.

A feature with its own way to run the bot has a module `process.py` in its folder, with two
functions: `add_options(parser)` adds options to the command line, and `run_bot(start)` runs the
bot, or returns False if it is not responsible.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agent.models.embedded import is_installed
from agent.models.selection import Models
from bot.app import VERSION
from bot.choices import choice_of
from bot.command_line import CommandRefused, call_of, write_line
from bot.data_folder import plugins_folder
from bot.early import history_in
from bot.logs import set_up_logs
from bot.recent import Monitoring
from bot.settings import Layers, Settings, SettingsStore
from bot.stages import credentials
from channels.base import Channel, WithWebhook
from channels.pipe import standard
from plugins.features import list_features

if TYPE_CHECKING:
    from channels.web import Web

TOKEN = "TELEGRAM_BOT_TOKEN"
SMALL = (
    "The demo model answers: it is small and often wrong. `python main.py init` connects another "
    "one."
)
BESIDE = "Also set up: {channels}. /status shows each connection."
TITLES = {"wecom": "WeCom", "whatsapp": "WhatsApp"}
"""Messengers with other capital letters than their first."""
STARTERS = (
    "`/tour fill` fills a context with an example, `/tour forecast` shows the next compaction, "
    "`/tour compact` compacts it."
)


class BotStart(Struct, frozen=True):
    """The command line, the configuration and the environment of the starting bot."""

    options: argparse.Namespace
    layers: Layers
    is_terminal: bool
    watch: Monitoring

    @property
    def settings(self) -> Settings:
        return SettingsStore(self.layers).effective()

    @property
    def has_page(self) -> bool:
        return self.options.web or self.settings.channels.web

    @property
    def has_telegram(self) -> bool:
        """Return whether there is a token for Telegram."""
        return bool(self.layers.secrets.get(TOKEN))

    @property
    def beside(self) -> str:
        """Return a sentence about the other configured messengers; "" without any."""
        names = ["telegram"] * self.has_telegram
        names += [entry["name"] for entry in self.settings.channels.messengers]
        channels = ", ".join(TITLES.get(name, name.capitalize()) for name in names)
        return BESIDE.format(channels=channels) if names else ""

    def set_up_logs(self, folder: Path) -> Callable[[], None]:
        """Set up the logs; return a function that closes them."""
        try:
            return set_up_logs(folder, self.layers, self.is_terminal, self.watch.recent.failures)
        except OSError as error:
            raise CommandRefused(
                f"Logs can't be written to {folder} ({error.strerror}); correct its permissions, "
                "or choose another data folder with --data DIR."
            ) from None

    def make_main_channel(self, book: SettingsStore) -> Channel | None:
        """Make the channel whose end also ends the bot, if there is one."""
        if self.is_terminal:
            return self._make_terminal(book)
        options = self.options
        is_headless = options.web or options.telegram or options.serve
        return standard(options.jsonl) if options.jsonl or not is_headless else None

    def make_channels(self, standing: Channel | None, book: SettingsStore) -> list[Channel]:
        """Make all channels that run here, besides the given one."""
        options = self.options
        is_terminal = standing is not None and standing.name == "terminal"
        is_beside = options.web or options.serve or is_terminal
        channels = [standing] if standing else []
        if options.telegram or (is_beside and self.has_telegram):
            channels.append(self.make_telegram(book))
        if is_beside:
            channels += self.make_messengers()
        if self.has_page:
            page = self._make_page(is_quiet=standing is not None)
            page.webhooks = {one.name: one for one in channels if isinstance(one, WithWebhook)}
            channels.insert(1 if standing else 0, page)
        if not channels:
            raise CommandRefused(
                "No channel is set up: name one in the configuration under channels "
                '(documentation: "Channels").'
            )
        return channels

    def make_messengers(self) -> Sequence[Channel]:
        """Make the messengers in the configuration."""
        settings = self.settings
        if not settings.channels.messengers:
            return ()
        from bot.messengers import make_messengers  # noqa: PLC0415 - rarely needed

        folder = plugins_folder(settings, self.options.data)
        return make_messengers(
            settings.channels.messengers, self.layers.secrets, folder, has_server=self.has_page
        )

    def make_telegram(self, book: SettingsStore) -> Channel:
        """Make the Telegram channel."""
        token = self.layers.secrets.get(TOKEN, "")
        if not token:
            raise CommandRefused(
                f"Telegram needs a token: ask @BotFather for one, and write {TOKEN}=… into .env."
            )
        # slow, and not needed for the terminal
        from channels.telegram import telegram_channel  # noqa: PLC0415

        return telegram_channel(token, lambda: book.effective().telegram)

    def _make_page(self, is_quiet: bool) -> Web:
        """Make the web channel, bound to its port."""
        # slow, and not needed by others
        from channels.web import ListenError, Web, WebConfig  # noqa: PLC0415

        web = self.settings.web
        try:
            channel = Web(
                WebConfig(
                    web.host,
                    web.port,
                    self.layers.secrets.get("PARLEY_WEB_TOKEN", ""),
                    web.upload_limit * 1_000_000,
                    VERSION,
                    web.trusted_proxies,
                    web.connections_per_address,
                    pages=self.watch.pages,
                )
            )
        except ListenError as error:
            raise CommandRefused(str(error)) from None
        if not is_quiet:
            write_line(f"Parley {VERSION} is at {channel.url} (Ctrl-C stops it).")
        return channel

    def _make_terminal(self, book: SettingsStore) -> Channel:
        # slow, and not needed for a pipe
        from channels.terminal import conversations  # noqa: PLC0415
        from channels.terminal.terminal import Terminal  # noqa: PLC0415

        options = self.options
        name = conversations.clean_name(options.chat or "") or conversations.MAIN
        chat = None if options.resume else name
        return Terminal(
            history_in(options.data),
            self._greet(),
            chat,
            options.early,
            program=call_of(options),
            theme=lambda: book.effective().terminal.theme,
        )

    def _greet(self) -> str:
        is_small = Models(credentials(self.layers)).uses_embedded(choice_of(self.settings))
        hello = f"Parley {VERSION}. Just write; /help lists the commands, Ctrl-D quits."
        hello = "\n".join(filter(None, (hello, self.beside)))
        starters = f"\n{STARTERS}" if "tour" in list_features() else ""
        answers = f"\n{SMALL}" if is_installed() else ""  # else the terminal says so
        return f"{hello}{answers}{starters}" if is_small else hello
