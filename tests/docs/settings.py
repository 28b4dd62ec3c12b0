"""`docs/configuration.md`, generated from the settings: `python -m tests.docs.settings`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bot.settings.schema import SETTINGS, Setting

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

_INTRODUCTION = """\
# Configuration

<!-- Made by `make docs` from the settings in the code; changes made here by hand are lost. -->

You don't have to set anything. Where a setting is set in several places, the later one wins:

1. the default, in the tables below;
2. `config.json`, or a `.yaml` file of the same shape (`--config FILE`);
3. the environment or a `.env` file: `PARLEY_AGENT_MAX_STEPS=30`, `PARLEY_CONTEXT__STRATEGY=full`;
4. `/config KEY VALUE` in the chat, for everybody: `/config agent_max_steps 30`;
5. the chosen [agent](agents.md), if there is one;
6. `/config KEY VALUE --here`, for one conversation.

`/config KEY` shows the value in force and where it comes from; `/config KEY --unset` takes a
change back. Changes made in the chat are kept in the database; no file is written. They apply from
the next request on, even in a running turn, unless the answer to `/config` says otherwise.

A value that does not fit is refused, and you are told what would fit. “Not `--here`” marks what
can only be set for everybody, “not in the chat” what can only be set in the configuration or the
environment.

```json
{
  "model": "gpt-4o-mini",
  "agent_max_context_turns": 30,
  "context": {"strategy": "trim", "output_reserved": 8192}
}
```

## Secrets

Keys and tokens are not settings. Put them into the environment, or into a file `.env` beside
the configuration, one `NAME=value` a line; the environment wins over the file. They are never
logged or shown. `{{secret.NAME}}` anywhere in the configuration is replaced by that secret.

| name | what it is |
|---|---|
| `OPENAI_API_KEY` | the key for the model's endpoint |
| `OPENAI_BASE_URL` | the endpoint, if it is not OpenAI's own: `http://127.0.0.1:8080/v1` |
| `TELEGRAM_BOT_TOKEN` | the token of a bot at [Telegram](telegram.md) |
| `DEEPSEEK_API_KEY`, … | the key of another provider, for a [brain](agents.md#brains) there |
| `PARLEY_WEB_TOKEN` | opens the [web page](web.md) and the HTTP API; use a long random text |
| `PARLEY_METRICS_TOKEN` | opens [/metrics](monitoring.md#metrics), and nothing else |
| `PARLEY_HOOK_SECRET_NAME` | opens the [webhook](jobs.md#webhooks) `name` to a program |

If neither of the first two is set, the demo model answers, if it is installed.
"""


def page() -> str:
    """Return the whole page, as Markdown."""
    groups = dict.fromkeys(key.rpartition(".")[0] for key in SETTINGS)
    return "\n".join([_INTRODUCTION, *(_table(group) for group in groups)])


def _table(group: str) -> str:
    title = f"The group `{group}`" if group else "Settings"
    rows = [_row(setting) for key, setting in SETTINGS.items() if key.rpartition(".")[0] == group]
    return "\n".join(
        [f"## {title}\n", "| key | default | value | meaning |", "|---|---|---|---|", *rows, ""]
    )


def _row(setting: Setting) -> str:
    wants = f"{setting.wants} ({setting.unit})" if setting.unit else setting.wants
    scope = "" if setting.is_per_conversation else " Not `--here`."
    meaning = f"{setting.meaning}{' Not in the chat.' if setting.is_fixed else scope}"
    return f"| `{setting.key}` | {_value(setting.default)} | {wants} | {meaning} |"


def _value(value: Any) -> str:
    return f"`{value if isinstance(value, str) and value else json.dumps(value)}`"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
