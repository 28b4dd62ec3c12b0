"""Random conversations of a whole bot through all three protocols, in front of ten providers that
enforce every rule that is known of them.

python -m benchmarks.providers                        20,000 turns
python -m benchmarks.providers --turns 500 --profile mistral --seed 3
python -m benchmarks.providers --short                some hundred turns, for CI
python -m benchmarks.providers --rules                every rule with its source

The bot is real, and so are the SDKs and the database; the providers are a server on this machine.
A refusal is a fault, unless it teaches what could not be known before (`lessons`: once for a bot on
a fresh folder, a model and a lesson). Faults are also a request that comes again unchanged after
a refusal, and a message after a turn without an answer that has none either (`dead`). The exit code
is 1 where there was one.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter

from agent.models import anthropic_client, fallback, openai_client
from benchmarks.provider_answers import Script
from benchmarks.provider_profiles import PROFILES
from benchmarks.provider_server import ProviderServer, Tally
from benchmarks.provider_talks import Crashes, Talks
from memory.record.engines import sqlite

TURNS = 20_000
SHORT = 250


def hurry() -> None:
    """Disable disk syncs and the delays between attempts."""
    sqlite.SYNCED = sqlite.UNSYNCED = "off"
    fallback.RETRY_DELAY = 0.0
    for client in (openai_client, anthropic_client):
        sdk = sys.modules[f"{client.APIError.__module__.partition('.')[0]}._base_client"]
        sdk.INITIAL_RETRY_DELAY = sdk.MAX_RETRY_DELAY = 0.001  # type: ignore[attr-defined]


async def measure(
    names: list[str], turns: int, seed: int
) -> tuple[ProviderServer, Counter[str], Counter[str]]:
    """Talk with each provider in turn; return the server, crashes, and counts of the actions."""
    crashes = Crashes()
    logging.getLogger().addHandler(crashes)
    done: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    async with ProviderServer(Script(random.Random(seed))) as server:
        for number, name in enumerate(names):
            talks = Talks(server, PROFILES[name], seed * 1_000 + number)
            await talks.run(-(-turns // len(names)))
            done += talks.done
            lost += talks.crashes
    return server, crashes.seen + lost, done


def print_table(server: ProviderServer) -> None:
    """Print the providers and rules, with the numbers of refused requests."""
    print("| provider | rule | refused | lessons |\n|---|---|---|---|")
    for name, profile in PROFILES.items():
        if name in server.tallies:
            tally = server.tallies[name]
            for rule in profile.rules:
                refused = tally.refused[rule.name] + tally.misled[rule.name]
                print(f"| {name} | {rule.name} | {refused} | {tally.lessons[rule.name]} |")
    print(
        "\n| provider | turns | requests | refused | lessons | again unchanged | no answer | dead |"
        "\n|---|---|---|---|---|---|---|---|"
    )
    for name in PROFILES:
        if name in server.tallies:
            print(_line(name, server.tallies[name]))


def _line(name: str, tally: Tally) -> str:
    refused = sum(tally.refused.values()) + sum(tally.misled.values())
    lessons = sum(tally.lessons.values())
    figures = (tally.turns, tally.requests, refused, lessons, tally.repeated, tally.unanswered)
    return f"| {name} | {' | '.join(f'{n:,}' for n in (*figures, tally.dead))} |"


def print_rules() -> None:
    """Print every rule and its source."""
    print("| provider | rule | source | lesson |\n|---|---|---|---|")
    for name, profile in PROFILES.items():
        for rule in profile.rules:
            print(f"| {name} | {rule.name} | {rule.source} | {rule.teaches or 'none'} |")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=TURNS, help="over all providers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="append", choices=list(PROFILES), help="these alone")
    parser.add_argument("--short", action="store_true", help=f"{SHORT} turns")
    parser.add_argument("--rules", action="store_true", help="print the rules, and nothing else")
    options = parser.parse_args()
    if options.rules:
        print_rules()
        return 0
    hurry()
    turns = SHORT if options.short else options.turns
    start = time.perf_counter()
    names = options.profile or list(PROFILES)
    server, crashes, done = asyncio.run(measure(names, turns, options.seed))
    seconds = time.perf_counter() - start
    print_table(server)
    made = sum(tally.turns for tally in server.tallies.values())
    print(f"\n{made:,} turns in {seconds:.0f} s ({made / seconds:.1f} a second), {dict(done)}")
    for kind, fault in sorted(server.faults.items(), key=lambda one: -one[1].count):
        print(f"\n{fault.count} times {kind}: {fault.example}")
    for crash, count in crashes.most_common(10):
        print(f"\n{count} times: {crash}")
    faults = sum(tally.faults for tally in server.tallies.values())
    print(f"\n{faults} faults, {sum(crashes.values())} crashes.")
    return int(bool(faults or crashes))


if __name__ == "__main__":
    sys.exit(main())
