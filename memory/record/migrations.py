"""Numbered migrations: the list index plus one is the schema's version. Append, never edit."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from peewee import DatabaseError

from memory.record.database import Database, Migration


def _taint(database: Database) -> None:
    """Mark the messages after an untrusted result, which may repeat it, up to the next clear."""
    ends: defaultdict[int, list[int]] = defaultdict(list)
    for conversation, cut in database.execute_sql(
        """SELECT conversation,
                CASE WHEN json_valid(change) THEN json_extract(change, '$.cut') END AS cut
            FROM view_event WHERE kind IN ('clear', 'new') AND cut AND id NOT IN (
                SELECT CASE WHEN json_valid(change) THEN json_extract(change, '$.target') END AS of
                    FROM view_event WHERE kind = 'undo' AND of)
            ORDER BY cut"""
    ):
        ends[conversation].append(cut)
    since: dict[tuple[int, int], int] = {}
    tainted: list[tuple[int]] = []
    for row, conversation, seq, role, is_untrusted in database.execute_sql(
        """SELECT id, conversation, seq, role, json_extract(extra, '$.is_untrusted') FROM message
            WHERE conversation IN (SELECT conversation FROM message
                WHERE CASE WHEN json_valid(extra) THEN json_extract(extra, '$.is_untrusted') END)
                AND json_valid(extra)
            ORDER BY conversation, seq"""
    ):
        period = conversation, bisect_right(ends[conversation], seq)
        if is_untrusted:
            since.setdefault(period, seq)
        elif role != "user" and period in since:
            tainted.append((row,))
    marked = "UPDATE message SET extra = json_set(extra, '$.is_tainted', json('true')) WHERE id = ?"
    for row in tainted:
        database.execute_sql(marked, row)


def _forms_of_turns(database: Database) -> None:
    """Store the forms that events give to turns (`memory/record/old_events.py`)."""
    for table in ("summary", "job"):
        database.execute_sql(f"ALTER TABLE {table} RENAME COLUMN stand_ins TO ranges")
    from memory.record import old_events  # noqa: PLC0415 - large, and needed once

    old_events.convert(database)
    database.execute_sql("DELETE FROM proposal")  # the person is asked again


# AUTOINCREMENT for tables whose rows are deleted and referred to by others: ids are never reused.
MIGRATIONS: list[Migration] = [
    Migration(
        "first_tables",
        """CREATE TABLE conversation (
            id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, audience TEXT NOT NULL,
            last_seq INTEGER NOT NULL DEFAULT 0, last_turn INTEGER NOT NULL DEFAULT 0,
            created_at REAL NOT NULL, active_at REAL NOT NULL)""",
        """CREATE TABLE message (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            seq INTEGER NOT NULL, turn INTEGER NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL,
            extra TEXT NOT NULL, tokens INTEGER NOT NULL, inbox INTEGER, at REAL NOT NULL)""",
        "CREATE UNIQUE INDEX message_place ON message(conversation, seq)",
        "CREATE INDEX message_turn ON message(conversation, turn)",
        """CREATE TABLE view_event (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            at REAL NOT NULL, kind TEXT NOT NULL, actor TEXT NOT NULL, strategy TEXT NOT NULL,
            reason TEXT NOT NULL, change TEXT NOT NULL, turn INTEGER NOT NULL,
            leaving TEXT NOT NULL, tokens_before INTEGER NOT NULL,
            tokens_after INTEGER NOT NULL)""",
        "CREATE INDEX view_event_conversation ON view_event(conversation, id)",
        """CREATE TABLE summary (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            turns TEXT NOT NULL, prior INTEGER NOT NULL, focus TEXT NOT NULL, text TEXT NOT NULL,
            tokens INTEGER NOT NULL, model TEXT NOT NULL, at REAL NOT NULL)""",
        """CREATE TABLE job (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            event INTEGER NOT NULL, turns TEXT NOT NULL, prior INTEGER NOT NULL,
            focus TEXT NOT NULL, summary INTEGER NOT NULL, at REAL NOT NULL,
            is_done INTEGER NOT NULL DEFAULT 0)""",
        "CREATE INDEX job_conversation ON job(conversation, event)",
        """CREATE TABLE usage (
            id INTEGER PRIMARY KEY,
            conversation INTEGER REFERENCES conversation(id) ON DELETE SET NULL,
            turn INTEGER, at REAL NOT NULL, purpose TEXT NOT NULL, model TEXT NOT NULL,
            prompt INTEGER NOT NULL, cached INTEGER NOT NULL, completion INTEGER NOT NULL,
            cost REAL, is_reported INTEGER NOT NULL)""",
        "CREATE INDEX usage_conversation ON usage(conversation)",
        """CREATE TABLE calibration (
            model TEXT PRIMARY KEY, ratio REAL NOT NULL)""",
        """CREATE TABLE override (
            scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (scope, key)) WITHOUT ROWID""",
        """CREATE TABLE inbox (
            id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, chat TEXT NOT NULL,
            thread TEXT NOT NULL, user TEXT NOT NULL, platform_id TEXT NOT NULL,
            digest TEXT NOT NULL, text TEXT NOT NULL, sender TEXT NOT NULL, at REAL NOT NULL,
            is_done INTEGER NOT NULL DEFAULT 0)""",
        "CREATE UNIQUE INDEX inbox_once ON inbox(channel, chat, thread, platform_id, digest)",
        "CREATE INDEX inbox_waiting ON inbox(id) WHERE is_done = 0",
        """CREATE TABLE outbox (
            id INTEGER PRIMARY KEY AUTOINCREMENT, inbox INTEGER NOT NULL, channel TEXT NOT NULL,
            chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL, reply_to TEXT NOT NULL,
            turn TEXT, reply TEXT NOT NULL, at REAL NOT NULL,
            is_sent INTEGER NOT NULL DEFAULT 0)""",
        "CREATE INDEX outbox_waiting ON outbox(id) WHERE is_sent = 0",
    ),
    Migration(
        "spending",
        "CREATE INDEX usage_at ON usage(at)",
        """CREATE TABLE spending_note (
            month TEXT NOT NULL, conversation TEXT NOT NULL, note TEXT NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (month, conversation, note)) WITHOUT ROWID""",
    ),
    # The index for finding the turn of an inbox row without a scan of its conversation.
    Migration(
        "answered_inbox",
        "CREATE INDEX message_inbox ON message(conversation, inbox) WHERE inbox IS NOT NULL",
    ),
    # Columns for the style of a job's summary, and for the snapshot of a compaction.
    Migration(
        "strategies",
        "ALTER TABLE job ADD COLUMN style TEXT NOT NULL DEFAULT 'notes'",
        "ALTER TABLE view_event ADD COLUMN snapshot TEXT NOT NULL DEFAULT ''",
    ),
    Migration(
        "attachments",
        "ALTER TABLE inbox ADD COLUMN attachments TEXT NOT NULL DEFAULT '[]'",
    ),
    # The index of `memory/record/search/index.py`; it is filled before a search.
    Migration(
        "recall",
        """CREATE VIRTUAL TABLE passage_words USING fts5(
            words, content='', columnsize=0, detail=none, prefix=5, tokenize='porter unicode61')""",
        """CREATE TABLE passage (
            place INTEGER PRIMARY KEY, sitting INTEGER NOT NULL, words INTEGER NOT NULL,
            signs INTEGER NOT NULL, speaker TEXT NOT NULL)""",
        "CREATE INDEX passage_sitting ON passage(sitting)",
        """CREATE TABLE sitting (
            first INTEGER PRIMARY KEY, last INTEGER NOT NULL, at REAL NOT NULL,
            messages INTEGER NOT NULL, words INTEGER NOT NULL, speakers TEXT NOT NULL)""",
        "CREATE INDEX conversation_audience ON conversation(audience)",
    ),
    Migration(
        "people",
        """CREATE TABLE user (
            kind TEXT NOT NULL, id TEXT NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL,
            by TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID""",
        """CREATE TABLE pairing (
            person TEXT PRIMARY KEY, name TEXT NOT NULL, channel TEXT NOT NULL,
            chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL, digest TEXT NOT NULL,
            at REAL NOT NULL, tries INTEGER NOT NULL)""",
        # The last speaker in a conversation; calls and summaries are charged to that person.
        "ALTER TABLE conversation ADD COLUMN person TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE usage ADD COLUMN person TEXT NOT NULL DEFAULT ''",
    ),
    # Columns for the attempts of a message, and the messages of its turn at the last attempt.
    Migration(
        "attempts",
        "ALTER TABLE inbox ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE inbox ADD COLUMN progress INTEGER NOT NULL DEFAULT 0",
    ),
    Migration(
        "titles",
        "ALTER TABLE conversation ADD COLUMN title TEXT NOT NULL DEFAULT ''",
    ),
    Migration(
        "quarantine",
        "ALTER TABLE summary ADD COLUMN is_untrusted INTEGER NOT NULL DEFAULT 0",
    ),
    # A table of begun tool calls that must not run twice.
    Migration(
        "call_starts",
        """CREATE TABLE call_start (
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            turn INTEGER NOT NULL, call TEXT NOT NULL,
            PRIMARY KEY (conversation, turn, call)) WITHOUT ROWID""",
    ),
    # A column for the fingerprint of a conversation's last prefix.
    Migration(
        "framing",
        "ALTER TABLE conversation ADD COLUMN framing TEXT NOT NULL DEFAULT '{}'",
    ),
    # A table of API keys for OpenAI's protocol; only the digest of a key is stored.
    Migration(
        "api_keys",
        """CREATE TABLE api_key (
            person TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, may_command INTEGER NOT NULL,
            at REAL NOT NULL, used REAL NOT NULL DEFAULT 0)""",
    ),
    # A table for the clock's time when the bot ran last (`memory/record/bot_state.py`).
    Migration(
        "clock",
        """CREATE TABLE clock (
            id INTEGER PRIMARY KEY CHECK (id = 1), believed REAL NOT NULL, seen REAL NOT NULL,
            waited REAL NOT NULL, is_told INTEGER NOT NULL)""",
    ),
    Migration("taint", _taint),
    # A column for the failed retries of sending a reply.
    Migration(
        "outbox_tries",
        "ALTER TABLE outbox ADD COLUMN tries INTEGER NOT NULL DEFAULT 0",
    ),
    # A column for the attempts of a job, and a table of rows that were put aside
    # (`memory/record/mailbox.py`).
    Migration(
        "aside",
        "ALTER TABLE job ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0",
        """CREATE TABLE aside (
            id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, chat TEXT NOT NULL,
            content TEXT NOT NULL, why TEXT NOT NULL, at REAL NOT NULL)""",
    ),
    # A column, since from now on the start of every call is stored until it has a result.
    Migration(
        "every_call_start",
        "ALTER TABLE call_start ADD COLUMN is_once INTEGER NOT NULL DEFAULT 1",
    ),
    # A column for a plugin's reference to the offloaded turns of a job.
    Migration(
        "references",
        "ALTER TABLE job ADD COLUMN reference TEXT NOT NULL DEFAULT ''",
    ),
    # A column for the part of a summary that is in the daily memory. Until now this was all of
    # it, including the part that it continued.
    Migration(
        "sections",
        "ALTER TABLE summary ADD COLUMN section TEXT NOT NULL DEFAULT ''",
        """UPDATE summary SET section = text WHERE model != '' OR id IN
            (SELECT summary FROM job WHERE style IN ('lines', 'excerpt'))""",
    ),
    # The number of a conversation's last summary, the number of each summary, and the other
    # summaries from which it was made, besides the previous one.
    Migration(
        "summary_numbers",
        "ALTER TABLE conversation ADD COLUMN last_summary INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE summary ADD COLUMN number INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE summary ADD COLUMN stand_ins TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE job ADD COLUMN stand_ins TEXT NOT NULL DEFAULT '[]'",
        """UPDATE summary SET number = counted.number FROM
            (SELECT id, row_number() OVER (PARTITION BY conversation ORDER BY id) AS number
                FROM summary WHERE id NOT IN
                    (SELECT summary FROM job WHERE style IN ('lines', 'excerpt'))) AS counted
            WHERE counted.id = summary.id""",
        """UPDATE conversation SET last_summary = (SELECT coalesce(max(number), 0) FROM summary
            WHERE summary.conversation = conversation.id)""",
    ),
    # Tables of the versions of each `MEMORY.md`, and of the distilled sections of daily files.
    Migration(
        "memory_versions",
        """CREATE TABLE memory_version (
            id INTEGER PRIMARY KEY AUTOINCREMENT, audience TEXT NOT NULL, number INTEGER NOT NULL,
            state TEXT NOT NULL, actor TEXT NOT NULL, why TEXT NOT NULL, at REAL NOT NULL,
            is_written INTEGER NOT NULL, lines TEXT NOT NULL, operations TEXT NOT NULL,
            UNIQUE (audience, number))""",
        """CREATE TABLE distilled (
            audience TEXT NOT NULL, section TEXT NOT NULL,
            PRIMARY KEY (audience, section)) WITHOUT ROWID""",
    ),
    # Tables of conversations that share the beginning of another one (`seq`, `turn` and `event`
    # are the last shared ones), and of each chat's current branch.
    Migration(
        "branches",
        """CREATE TABLE branch (
            conversation INTEGER PRIMARY KEY REFERENCES conversation(id) ON DELETE CASCADE,
            parent INTEGER NOT NULL REFERENCES conversation(id), seq INTEGER NOT NULL,
            turn INTEGER NOT NULL, event INTEGER NOT NULL, at REAL NOT NULL)""",
        "CREATE INDEX branch_parent ON branch(parent)",
        """CREATE TABLE current_branch (
            chat TEXT PRIMARY KEY,
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE)""",
        "ALTER TABLE inbox ADD COLUMN branch TEXT NOT NULL DEFAULT ''",
    ),
    # A table of the people whose next message is the argument of a command (`bot/forms.py`).
    Migration(
        "forms",
        """CREATE TABLE form (
            channel TEXT NOT NULL, chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL,
            command TEXT NOT NULL, until REAL NOT NULL,
            PRIMARY KEY (channel, chat, thread, user)) WITHOUT ROWID""",
    ),
    # Tables of the requests to models (`plugins/request_log/record.py`).
    Migration(
        "requests",
        """CREATE TABLE request_prefix (
            digest TEXT PRIMARY KEY, system TEXT NOT NULL, tools TEXT NOT NULL,
            parameters TEXT NOT NULL, is_masked INTEGER NOT NULL)""",
        """CREATE TABLE request (
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            number INTEGER NOT NULL, turn INTEGER NOT NULL, at REAL NOT NULL,
            prefix TEXT NOT NULL, strategy TEXT NOT NULL, event INTEGER NOT NULL,
            seq INTEGER NOT NULL, first INTEGER NOT NULL, messages INTEGER NOT NULL,
            merges_system INTEGER NOT NULL, pictures TEXT NOT NULL, size INTEGER NOT NULL,
            digest TEXT NOT NULL, tokens INTEGER NOT NULL, ratio REAL NOT NULL,
            model TEXT NOT NULL, outcome TEXT NOT NULL, seconds REAL NOT NULL,
            prompt INTEGER NOT NULL, cached INTEGER NOT NULL, completion INTEGER NOT NULL,
            is_reported INTEGER NOT NULL, cost REAL,
            PRIMARY KEY (conversation, number)) WITHOUT ROWID""",
        "CREATE INDEX request_by_prefix ON request(prefix)",
    ),
    # Change the flags of messages in the index: two fewer, and one for a user's message. The
    # indexed words stay the same.
    Migration(
        "search_signs",
        """UPDATE passage SET signs = (signs >> 1 & 3) | (signs >> 2 & 4)
            | 8 * EXISTS (SELECT * FROM message WHERE conversation = place >> 32
                AND seq = place & 0xffffffff AND role = 'user')""",
    ),
    # Columns for the summary that a person edited, and for the summaries that continue it.
    Migration(
        "edited_summaries",
        "ALTER TABLE summary ADD COLUMN edits INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE job ADD COLUMN edited INTEGER NOT NULL DEFAULT 0",
    ),
    # Columns for the cached tokens that a change invalidated, and for their replacement.
    Migration(
        "broken_tokens",
        "ALTER TABLE view_event ADD COLUMN broken INTEGER NOT NULL DEFAULT -1",
        "ALTER TABLE view_event ADD COLUMN anew INTEGER NOT NULL DEFAULT 0",
    ),
    # A table of side questions, the turns before them, and their answers; they are not part of
    # the transcript.
    Migration(
        "side_questions",
        """CREATE TABLE side_question (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            turn INTEGER NOT NULL, speaker TEXT NOT NULL, question TEXT NOT NULL,
            answer TEXT NOT NULL, state TEXT NOT NULL, at REAL NOT NULL)""",
        "CREATE INDEX side_question_conversation ON side_question(conversation, id)",
    ),
    # A table of compactions that wait for approval, at most one per conversation.
    Migration(
        "proposals",
        """CREATE TABLE proposal (
            conversation INTEGER PRIMARY KEY REFERENCES conversation(id) ON DELETE CASCADE,
            plan TEXT NOT NULL, actor TEXT NOT NULL, spec TEXT NOT NULL,
            summary INTEGER NOT NULL, asked_at REAL NOT NULL)""",
    ),
    # A column for the facts of the removed turns that a summary kept.
    Migration(
        "receipts",
        "ALTER TABLE summary ADD COLUMN receipt TEXT NOT NULL DEFAULT ''",
    ),
    # A column for the version of a `MEMORY.md` from which another one was made.
    Migration(
        "memory_bases",
        "ALTER TABLE memory_version ADD COLUMN base INTEGER NOT NULL DEFAULT 0",
        """UPDATE memory_version SET base = (SELECT coalesce(max(number), 0)
            FROM memory_version AS earlier WHERE earlier.audience = memory_version.audience
                AND earlier.number < memory_version.number AND earlier.state = 'held')""",
    ),
    # Tables of the processes that share the database, and of the owners, and a column for the
    # process that sends a reply.
    Migration(
        "cluster",
        """CREATE TABLE process (
            id TEXT PRIMARY KEY, role TEXT NOT NULL, version TEXT NOT NULL, since REAL NOT NULL,
            is_fenced INTEGER NOT NULL)""",
        """CREATE TABLE owner (
            name TEXT PRIMARY KEY, process TEXT NOT NULL, epoch INTEGER NOT NULL)""",
        "ALTER TABLE outbox ADD COLUMN claim TEXT NOT NULL DEFAULT ''",
    ),
    # Tables of chats that are linked to another one's conversation (`plugins/links/record.py`).
    Migration(
        "links",
        """CREATE TABLE link (
            home TEXT NOT NULL, target TEXT NOT NULL, person TEXT NOT NULL, giver TEXT NOT NULL,
            at REAL NOT NULL, is_over INTEGER NOT NULL, PRIMARY KEY (home, target)) WITHOUT ROWID""",  # noqa: E501
        """CREATE TABLE link_code (
            target TEXT PRIMARY KEY, digest TEXT NOT NULL, giver TEXT NOT NULL,
            channel TEXT NOT NULL, chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL,
            at REAL NOT NULL, tries INTEGER NOT NULL)""",
    ),
    # A column for the place of a chat in lists.
    Migration(
        "standings",
        "ALTER TABLE conversation ADD COLUMN standing TEXT NOT NULL DEFAULT ''",
    ),
    # Tables of the people who are signed in on the page, and of invitations
    # (`plugins/accounts/record.py`).
    Migration(
        "logins",
        """CREATE TABLE invite (
            person TEXT PRIMARY KEY, role TEXT NOT NULL, digest TEXT NOT NULL, by TEXT NOT NULL,
            at REAL NOT NULL)""",
        "CREATE TABLE account (person TEXT PRIMARY KEY, password TEXT NOT NULL)",
        """CREATE TABLE login (
            id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE,
            person TEXT NOT NULL, proof TEXT NOT NULL, browser TEXT NOT NULL, at REAL NOT NULL,
            used REAL NOT NULL)""",
    ),
    # A table of later view events of other conversations that apply to a branch as well
    # (`memory/context/steering.py`).
    Migration(
        "steering",
        """CREATE TABLE steering (
            branch INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            event INTEGER NOT NULL, conversation INTEGER NOT NULL, PRIMARY KEY (branch, event))""",
        "CREATE INDEX steering_conversation ON steering(conversation)",
    ),
    # Tables of reminders, jobs and runs (`plugins/jobs/record.py`), and the run of a message.
    Migration(
        "scheduled_jobs",
        """CREATE TABLE scheduled_job (
            id INTEGER PRIMARY KEY AUTOINCREMENT, home TEXT NOT NULL, channel TEXT NOT NULL,
            chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL, kind TEXT NOT NULL,
            text TEXT NOT NULL, rule TEXT NOT NULL, zone TEXT NOT NULL, next_at REAL NOT NULL,
            anchor REAL NOT NULL, planned_at REAL NOT NULL, state TEXT NOT NULL,
            why TEXT NOT NULL, turn TEXT NOT NULL, grants TEXT NOT NULL,
            max_steps INTEGER NOT NULL, run_budget REAL NOT NULL, day_budget REAL NOT NULL,
            branch INTEGER NOT NULL, retry_at REAL NOT NULL, retry_due REAL NOT NULL,
            attempts INTEGER NOT NULL, failures INTEGER NOT NULL, created_at REAL NOT NULL)""",
        "CREATE INDEX scheduled_job_next ON scheduled_job(next_at)",
        """CREATE TABLE job_run (
            id INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, due REAL NOT NULL,
            at REAL NOT NULL, outcome TEXT NOT NULL, why TEXT NOT NULL, inbox INTEGER NOT NULL,
            outbox TEXT NOT NULL, cost REAL NOT NULL, ended REAL NOT NULL)""",
        "CREATE INDEX job_run_job ON job_run(job, id)",
        "ALTER TABLE inbox ADD COLUMN run INTEGER NOT NULL DEFAULT 0",
    ),
    # A column for the tokens written to a provider's cache, which may have a price of their
    # own.
    Migration(
        "cache_writes",
        "ALTER TABLE usage ADD COLUMN written INTEGER NOT NULL DEFAULT 0",
    ),
    # Columns for jobs that are called over HTTP, for forged calls, and for messages from
    # outside.
    Migration(
        "hooks",
        "ALTER TABLE scheduled_job ADD COLUMN hook TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE scheduled_job ADD COLUMN forged INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE scheduled_job ADD COLUMN forged_at REAL NOT NULL DEFAULT 0",
        "CREATE UNIQUE INDEX scheduled_job_hook ON scheduled_job(hook) WHERE hook != ''",
        "ALTER TABLE inbox ADD COLUMN is_outside INTEGER NOT NULL DEFAULT 0",
    ),
    # A column for the reasoning tokens of answers.
    Migration(
        "reasoning",
        "ALTER TABLE usage ADD COLUMN reasoning INTEGER NOT NULL DEFAULT 0",
    ),
    # Columns for the condition that a job checks before it calls a model.
    Migration(
        "conditions",
        "ALTER TABLE scheduled_job ADD COLUMN condition TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE scheduled_job ADD COLUMN found TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE scheduled_job ADD COLUMN looked_at REAL NOT NULL DEFAULT 0",
    ),
    # Tables of the last listed tools of MCP servers (`plugins/mcp/record.py`), and of changes
    # of these lists.
    Migration(
        "mcp_tools",
        """CREATE TABLE mcp_tool (
            server TEXT NOT NULL, tool TEXT NOT NULL, listed TEXT NOT NULL,
            calls INTEGER NOT NULL, called_at REAL NOT NULL, is_gone INTEGER NOT NULL,
            PRIMARY KEY (server, tool))""",
        """CREATE TABLE mcp_change (
            id INTEGER PRIMARY KEY AUTOINCREMENT, server TEXT NOT NULL, at REAL NOT NULL,
            what TEXT NOT NULL)""",
        "CREATE INDEX mcp_change_server ON mcp_change(server, id)",
    ),
    # A table of the texts that channels keep across restarts
    # (`memory/record/bot_state.py`).
    Migration(
        "channel_state",
        """CREATE TABLE channel_state (
            channel TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL,
            PRIMARY KEY (channel, name)) WITHOUT ROWID""",
    ),
    # A table of the facts about models learnt from refusals (`memory/record/bot_state.py`).
    Migration(
        "learnt_models",
        """CREATE TABLE learnt_model (
            place TEXT NOT NULL, model TEXT NOT NULL, facts TEXT NOT NULL,
            PRIMARY KEY (place, model)) WITHOUT ROWID""",
    ),
    # A table of requests to link a chat to another one's conversation
    # (`plugins/links/record.py`).
    Migration(
        "link_requests",
        """CREATE TABLE link_request (
            home TEXT PRIMARY KEY, target TEXT NOT NULL, person TEXT NOT NULL, giver TEXT NOT NULL,
            channel TEXT NOT NULL, chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL,
            at REAL NOT NULL)""",
    ),
    # A table of the number of applied migrations of each plugin
    # (`memory/record/feature_tables.py`).
    Migration(
        "feature_schema",
        "CREATE TABLE feature_schema (feature TEXT PRIMARY KEY, version INTEGER NOT NULL)",
    ),
    Migration("forms_of_turns", _forms_of_turns),
    # The digests of a prefix's parts (`plugins/request_log/record.py`).
    Migration(
        "prefix_parts",
        "ALTER TABLE request_prefix ADD COLUMN parts TEXT NOT NULL DEFAULT '{}'",
    ),
]


def list_pending(database: Database) -> list[tuple[int, Migration]]:
    """Return the pending migrations, each with its version. Raises DatabaseError for a database of
    a newer Parley."""
    version = database.schema_version()
    if version > len(MIGRATIONS):
        raise DatabaseError(
            f"it was written by a newer Parley: schema {version}, known here {len(MIGRATIONS)}"
        )
    return [*enumerate(MIGRATIONS[version:], version + 1)]


def migrate(database: Database, until: int | None = None) -> None:
    """Upgrade the schema to the newest version, or to `until`, each step in a transaction with its
    version number."""
    for number, step in list_pending(database):
        if until is None or number <= until:
            database.upgrade(step, number)
