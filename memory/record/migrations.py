"""Numbered migrations: the list index plus one is the schema's version. Append, never edit."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable

from peewee import DatabaseError

from memory.record.database import Database


# AUTOINCREMENT for tables whose rows are deleted and referred to by others: ids are never reused.
def _first_tables(database: Database) -> None:
    for statement in (
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
    ):
        database.execute_sql(statement)


def _spending(database: Database) -> None:
    database.execute_sql("CREATE INDEX usage_at ON usage(at)")
    database.execute_sql(
        """CREATE TABLE spending_note (
            month TEXT NOT NULL, conversation TEXT NOT NULL, note TEXT NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (month, conversation, note)) WITHOUT ROWID"""
    )


def _answered_inbox(database: Database) -> None:
    """Add the index for finding the turn of an inbox row without a scan of its conversation."""
    database.execute_sql(
        "CREATE INDEX message_inbox ON message(conversation, inbox) WHERE inbox IS NOT NULL"
    )


def _strategies(database: Database) -> None:
    """Add columns for the style of a job's summary, and for the snapshot of a compaction."""
    database.execute_sql("ALTER TABLE job ADD COLUMN style TEXT NOT NULL DEFAULT 'notes'")
    database.execute_sql("ALTER TABLE view_event ADD COLUMN snapshot TEXT NOT NULL DEFAULT ''")


def _attachments(database: Database) -> None:
    database.execute_sql("ALTER TABLE inbox ADD COLUMN attachments TEXT NOT NULL DEFAULT '[]'")


def _recall(database: Database) -> None:
    """Create the index of `memory/record/search/index.py`; it is filled before a search."""
    for statement in (
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
    ):
        database.execute_sql(statement)


def _people(database: Database) -> None:
    for statement in (
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
    ):
        database.execute_sql(statement)


def _attempts(database: Database) -> None:
    """Add columns for the attempts of a message, and the messages of its turn at the last
    attempt."""
    database.execute_sql("ALTER TABLE inbox ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0")
    database.execute_sql("ALTER TABLE inbox ADD COLUMN progress INTEGER NOT NULL DEFAULT 0")


def _titles(database: Database) -> None:
    database.execute_sql("ALTER TABLE conversation ADD COLUMN title TEXT NOT NULL DEFAULT ''")


def _quarantine(database: Database) -> None:
    database.execute_sql("ALTER TABLE summary ADD COLUMN is_untrusted INTEGER NOT NULL DEFAULT 0")


def _call_starts(database: Database) -> None:
    """Add a table of begun tool calls that must not run twice."""
    database.execute_sql(
        """CREATE TABLE call_start (
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            turn INTEGER NOT NULL, call TEXT NOT NULL,
            PRIMARY KEY (conversation, turn, call)) WITHOUT ROWID"""
    )


def _framing(database: Database) -> None:
    """Add a column for the fingerprint of a conversation's last prefix."""
    database.execute_sql("ALTER TABLE conversation ADD COLUMN framing TEXT NOT NULL DEFAULT '{}'")


def _api_keys(database: Database) -> None:
    """Add a table of API keys for OpenAI's protocol; only the digest of a key is stored."""
    database.execute_sql(
        """CREATE TABLE api_key (
            person TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, may_command INTEGER NOT NULL,
            at REAL NOT NULL, used REAL NOT NULL DEFAULT 0)"""
    )


def _clock(database: Database) -> None:
    """Add a table for the clock's time when the bot ran last (`memory/record/clock.py`)."""
    database.execute_sql(
        """CREATE TABLE clock (
            id INTEGER PRIMARY KEY CHECK (id = 1), believed REAL NOT NULL, seen REAL NOT NULL,
            waited REAL NOT NULL, is_told INTEGER NOT NULL)"""
    )


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


def _outbox_tries(database: Database) -> None:
    """Add a column for the failed retries of sending a reply."""
    database.execute_sql("ALTER TABLE outbox ADD COLUMN tries INTEGER NOT NULL DEFAULT 0")


def _aside(database: Database) -> None:
    """Add a column for the attempts of a job, and a table of rows that were put aside
    (`memory/record/mailbox.py`)."""
    database.execute_sql("ALTER TABLE job ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0")
    database.execute_sql(
        """CREATE TABLE aside (
            id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, chat TEXT NOT NULL,
            content TEXT NOT NULL, why TEXT NOT NULL, at REAL NOT NULL)"""
    )


def _every_call_start(database: Database) -> None:
    """Add a column, since from now on the start of every call is stored until it has a result."""
    database.execute_sql("ALTER TABLE call_start ADD COLUMN is_once INTEGER NOT NULL DEFAULT 1")


def _references(database: Database) -> None:
    """Add a column for a plugin's reference to the offloaded turns of a job."""
    database.execute_sql("ALTER TABLE job ADD COLUMN reference TEXT NOT NULL DEFAULT ''")


def _sections(database: Database) -> None:
    """Add a column for the part of a summary that is in the daily memory. Until now this was all of
    it, including the part that it continued."""
    database.execute_sql("ALTER TABLE summary ADD COLUMN section TEXT NOT NULL DEFAULT ''")
    database.execute_sql(
        """UPDATE summary SET section = text WHERE model != '' OR id IN
            (SELECT summary FROM job WHERE style IN ('lines', 'excerpt'))"""
    )


def _summary_numbers(database: Database) -> None:
    """Add the number of a conversation's last summary, the number of each summary, and the other
    summaries from which it was made, besides the previous one."""
    for table, column in (
        ("conversation", "last_summary INTEGER NOT NULL DEFAULT 0"),
        ("summary", "number INTEGER NOT NULL DEFAULT 0"),
        ("summary", "stand_ins TEXT NOT NULL DEFAULT '[]'"),
        ("job", "stand_ins TEXT NOT NULL DEFAULT '[]'"),
    ):
        database.execute_sql(f"ALTER TABLE {table} ADD COLUMN {column}")
    database.execute_sql(
        """UPDATE summary SET number = counted.number FROM
            (SELECT id, row_number() OVER (PARTITION BY conversation ORDER BY id) AS number
                FROM summary WHERE id NOT IN
                    (SELECT summary FROM job WHERE style IN ('lines', 'excerpt'))) AS counted
            WHERE counted.id = summary.id"""
    )
    database.execute_sql(
        """UPDATE conversation SET last_summary = (SELECT coalesce(max(number), 0) FROM summary
            WHERE summary.conversation = conversation.id)"""
    )


def _memory_versions(database: Database) -> None:
    """Add tables of the versions of each `MEMORY.md`, and of the distilled sections of daily
    files."""
    database.execute_sql(
        """CREATE TABLE memory_version (
            id INTEGER PRIMARY KEY AUTOINCREMENT, audience TEXT NOT NULL, number INTEGER NOT NULL,
            state TEXT NOT NULL, actor TEXT NOT NULL, why TEXT NOT NULL, at REAL NOT NULL,
            is_written INTEGER NOT NULL, lines TEXT NOT NULL, operations TEXT NOT NULL,
            UNIQUE (audience, number))"""
    )
    database.execute_sql(
        """CREATE TABLE distilled (
            audience TEXT NOT NULL, section TEXT NOT NULL,
            PRIMARY KEY (audience, section)) WITHOUT ROWID"""
    )


def _branches(database: Database) -> None:
    """Add tables of conversations that share the beginning of another one (`seq`, `turn` and
    `event` are the last shared ones), and of each chat's current branch."""
    for statement in (
        """CREATE TABLE branch (
            conversation INTEGER PRIMARY KEY REFERENCES conversation(id) ON DELETE CASCADE,
            parent INTEGER NOT NULL REFERENCES conversation(id), seq INTEGER NOT NULL,
            turn INTEGER NOT NULL, event INTEGER NOT NULL, at REAL NOT NULL)""",
        "CREATE INDEX branch_parent ON branch(parent)",
        """CREATE TABLE current_branch (
            chat TEXT PRIMARY KEY,
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE)""",
        "ALTER TABLE inbox ADD COLUMN branch TEXT NOT NULL DEFAULT ''",
    ):
        database.execute_sql(statement)


def _forms(database: Database) -> None:
    """Add a table of the people whose next message is the argument of a command
    (`bot/forms.py`)."""
    database.execute_sql(
        """CREATE TABLE form (
            channel TEXT NOT NULL, chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL,
            command TEXT NOT NULL, until REAL NOT NULL,
            PRIMARY KEY (channel, chat, thread, user)) WITHOUT ROWID"""
    )


def _requests(database: Database) -> None:
    """Add tables of the requests to models (`plugins/request_log/record.py`)."""
    database.execute_sql(
        """CREATE TABLE request_prefix (
            digest TEXT PRIMARY KEY, system TEXT NOT NULL, tools TEXT NOT NULL,
            parameters TEXT NOT NULL, is_masked INTEGER NOT NULL)"""
    )
    database.execute_sql(
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
            PRIMARY KEY (conversation, number)) WITHOUT ROWID"""
    )
    database.execute_sql("CREATE INDEX request_by_prefix ON request(prefix)")


def _search_signs(database: Database) -> None:
    """Change the flags of messages in the index: two fewer, and one for a user's message. The
    indexed words stay the same."""
    database.execute_sql(
        """UPDATE passage SET signs = (signs >> 1 & 3) | (signs >> 2 & 4)
            | 8 * EXISTS (SELECT * FROM message WHERE conversation = place >> 32
                AND seq = place & 0xffffffff AND role = 'user')"""
    )


def _edited_summaries(database: Database) -> None:
    """Add columns for the summary that a person edited, and for the summaries that continue it."""
    for table, column in (
        ("summary", "edits INTEGER NOT NULL DEFAULT 0"),
        ("job", "edited INTEGER NOT NULL DEFAULT 0"),
    ):
        database.execute_sql(f"ALTER TABLE {table} ADD COLUMN {column}")


def _broken_tokens(database: Database) -> None:
    """Add columns for the cached tokens that a change invalidated, and for their replacement."""
    for column in ("broken INTEGER NOT NULL DEFAULT -1", "anew INTEGER NOT NULL DEFAULT 0"):
        database.execute_sql(f"ALTER TABLE view_event ADD COLUMN {column}")


def _side_questions(database: Database) -> None:
    """Add a table of side questions, the turns before them, and their answers; they are not part of
    the transcript."""
    database.execute_sql(
        """CREATE TABLE side_question (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            turn INTEGER NOT NULL, speaker TEXT NOT NULL, question TEXT NOT NULL,
            answer TEXT NOT NULL, state TEXT NOT NULL, at REAL NOT NULL)"""
    )
    database.execute_sql(
        "CREATE INDEX side_question_conversation ON side_question(conversation, id)"
    )


def _proposals(database: Database) -> None:
    """Add a table of compactions that wait for approval, at most one per conversation."""
    database.execute_sql(
        """CREATE TABLE proposal (
            conversation INTEGER PRIMARY KEY REFERENCES conversation(id) ON DELETE CASCADE,
            plan TEXT NOT NULL, actor TEXT NOT NULL, spec TEXT NOT NULL,
            summary INTEGER NOT NULL, asked_at REAL NOT NULL)"""
    )


def _receipts(database: Database) -> None:
    """Add a column for the facts of the removed turns that a summary kept."""
    database.execute_sql("ALTER TABLE summary ADD COLUMN receipt TEXT NOT NULL DEFAULT ''")


def _memory_bases(database: Database) -> None:
    """Add a column for the version of a `MEMORY.md` from which another one was made."""
    database.execute_sql("ALTER TABLE memory_version ADD COLUMN base INTEGER NOT NULL DEFAULT 0")
    database.execute_sql(
        """UPDATE memory_version SET base = (SELECT coalesce(max(number), 0)
            FROM memory_version AS earlier WHERE earlier.audience = memory_version.audience
                AND earlier.number < memory_version.number AND earlier.state = 'held')"""
    )


def _cluster(database: Database) -> None:
    """Add tables of the processes that share the database, and of the owners, and a column for the
    process that sends a reply."""
    for statement in (
        """CREATE TABLE process (
            id TEXT PRIMARY KEY, role TEXT NOT NULL, version TEXT NOT NULL, since REAL NOT NULL,
            is_fenced INTEGER NOT NULL)""",
        """CREATE TABLE owner (
            name TEXT PRIMARY KEY, process TEXT NOT NULL, epoch INTEGER NOT NULL)""",
        "ALTER TABLE outbox ADD COLUMN claim TEXT NOT NULL DEFAULT ''",
    ):
        database.execute_sql(statement)


def _links(database: Database) -> None:
    """Add tables of chats that are linked to another one's conversation
    (`plugins/links/record.py`)."""
    database.execute_sql(
        """CREATE TABLE link (
            home TEXT NOT NULL, target TEXT NOT NULL, person TEXT NOT NULL, giver TEXT NOT NULL,
            at REAL NOT NULL, is_over INTEGER NOT NULL, PRIMARY KEY (home, target)) WITHOUT ROWID"""
    )
    database.execute_sql(
        """CREATE TABLE link_code (
            target TEXT PRIMARY KEY, digest TEXT NOT NULL, giver TEXT NOT NULL,
            channel TEXT NOT NULL, chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL,
            at REAL NOT NULL, tries INTEGER NOT NULL)"""
    )


def _standings(database: Database) -> None:
    """Add a column for the place of a chat in lists."""
    database.execute_sql("ALTER TABLE conversation ADD COLUMN standing TEXT NOT NULL DEFAULT ''")


def _logins(database: Database) -> None:
    """Add tables of the people who are signed in on the page, and of invitations
    (`plugins/accounts/record.py`)."""
    for statement in (
        """CREATE TABLE invite (
            person TEXT PRIMARY KEY, role TEXT NOT NULL, digest TEXT NOT NULL, by TEXT NOT NULL,
            at REAL NOT NULL)""",
        "CREATE TABLE account (person TEXT PRIMARY KEY, password TEXT NOT NULL)",
        """CREATE TABLE login (
            id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE,
            person TEXT NOT NULL, proof TEXT NOT NULL, browser TEXT NOT NULL, at REAL NOT NULL,
            used REAL NOT NULL)""",
    ):
        database.execute_sql(statement)


def _steering(database: Database) -> None:
    """Add a table of later view events of other conversations that apply to a branch as well
    (`memory/context/steering.py`)."""
    for statement in (
        """CREATE TABLE steering (
            branch INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
            event INTEGER NOT NULL, conversation INTEGER NOT NULL, PRIMARY KEY (branch, event))""",
        "CREATE INDEX steering_conversation ON steering(conversation)",
    ):
        database.execute_sql(statement)


def _scheduled_jobs(database: Database) -> None:
    """Add tables of reminders, jobs and runs (`plugins/jobs/record.py`), and the run of a
    message."""
    for statement in (
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
    ):
        database.execute_sql(statement)


def _cache_writes(database: Database) -> None:
    """Add a column for the tokens written to a provider's cache, which may have a price of their
    own."""
    database.execute_sql("ALTER TABLE usage ADD COLUMN written INTEGER NOT NULL DEFAULT 0")


def _hooks(database: Database) -> None:
    """Add columns for jobs that are called over HTTP, for forged calls, and for messages from
    outside."""
    for statement in (
        "ALTER TABLE scheduled_job ADD COLUMN hook TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE scheduled_job ADD COLUMN forged INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE scheduled_job ADD COLUMN forged_at REAL NOT NULL DEFAULT 0",
        "CREATE UNIQUE INDEX scheduled_job_hook ON scheduled_job(hook) WHERE hook != ''",
        "ALTER TABLE inbox ADD COLUMN is_outside INTEGER NOT NULL DEFAULT 0",
    ):
        database.execute_sql(statement)


def _reasoning(database: Database) -> None:
    """Add a column for the reasoning tokens of answers."""
    database.execute_sql("ALTER TABLE usage ADD COLUMN reasoning INTEGER NOT NULL DEFAULT 0")


def _conditions(database: Database) -> None:
    """Add columns for the condition that a job checks before it calls a model."""
    for column in (
        "condition TEXT NOT NULL DEFAULT ''",
        "found TEXT NOT NULL DEFAULT ''",
        "looked_at REAL NOT NULL DEFAULT 0",
    ):
        database.execute_sql(f"ALTER TABLE scheduled_job ADD COLUMN {column}")


def _mcp_tools(database: Database) -> None:
    """Add tables of the last listed tools of MCP servers (`plugins/mcp/record.py`), and of changes
    of these lists."""
    for statement in (
        """CREATE TABLE mcp_tool (
            server TEXT NOT NULL, tool TEXT NOT NULL, listed TEXT NOT NULL,
            calls INTEGER NOT NULL, called_at REAL NOT NULL, is_gone INTEGER NOT NULL,
            PRIMARY KEY (server, tool))""",
        """CREATE TABLE mcp_change (
            id INTEGER PRIMARY KEY AUTOINCREMENT, server TEXT NOT NULL, at REAL NOT NULL,
            what TEXT NOT NULL)""",
        "CREATE INDEX mcp_change_server ON mcp_change(server, id)",
    ):
        database.execute_sql(statement)


def _channel_state(database: Database) -> None:
    """Add a table of the texts that channels keep across restarts
    (`memory/record/channel_state.py`)."""
    database.execute_sql(
        """CREATE TABLE channel_state (
            channel TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL,
            PRIMARY KEY (channel, name)) WITHOUT ROWID"""
    )


def _learnt_models(database: Database) -> None:
    """Add a table of the facts about models learnt from refusals (`memory/record/learnt.py`)."""
    database.execute_sql(
        """CREATE TABLE learnt_model (
            place TEXT NOT NULL, model TEXT NOT NULL, facts TEXT NOT NULL,
            PRIMARY KEY (place, model)) WITHOUT ROWID"""
    )


def _link_requests(database: Database) -> None:
    """Add a table of requests to link a chat to another one's conversation
    (`plugins/links/record.py`)."""
    database.execute_sql(
        """CREATE TABLE link_request (
            home TEXT PRIMARY KEY, target TEXT NOT NULL, person TEXT NOT NULL, giver TEXT NOT NULL,
            channel TEXT NOT NULL, chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL,
            at REAL NOT NULL)"""
    )


def _feature_schema(database: Database) -> None:
    """Add a table of the number of applied migrations of each plugin
    (`memory/record/feature_tables.py`)."""
    database.execute_sql(
        "CREATE TABLE feature_schema (feature TEXT PRIMARY KEY, version INTEGER NOT NULL)"
    )


def _forms_of_turns(database: Database) -> None:
    """Store the forms that events give to turns (`memory/record/old_events.py`)."""
    for table in ("summary", "job"):
        database.execute_sql(f"ALTER TABLE {table} RENAME COLUMN stand_ins TO ranges")
    from memory.record import old_events  # noqa: PLC0415 - large, and needed once

    old_events.convert(database)
    database.execute_sql("DELETE FROM proposal")  # the person is asked again


def _prefix_parts(database: Database) -> None:
    """Add the digests of a prefix's parts (`plugins/request_log/record.py`)."""
    database.execute_sql("ALTER TABLE request_prefix ADD COLUMN parts TEXT NOT NULL DEFAULT '{}'")


MIGRATIONS: list[Callable[[Database], None]] = [
    _first_tables,
    _spending,
    _answered_inbox,
    _strategies,
    _attachments,
    _recall,
    _people,
    _attempts,
    _titles,
    _quarantine,
    _call_starts,
    _framing,
    _api_keys,
    _clock,
    _taint,
    _outbox_tries,
    _aside,
    _every_call_start,
    _references,
    _sections,
    _summary_numbers,
    _memory_versions,
    _branches,
    _forms,
    _requests,
    _search_signs,
    _edited_summaries,
    _broken_tokens,
    _side_questions,
    _proposals,
    _receipts,
    _memory_bases,
    _cluster,
    _links,
    _standings,
    _logins,
    _steering,
    _scheduled_jobs,
    _cache_writes,
    _hooks,
    _reasoning,
    _conditions,
    _mcp_tools,
    _channel_state,
    _learnt_models,
    _link_requests,
    _feature_schema,
    _forms_of_turns,
    _prefix_parts,
]


def list_pending(database: Database) -> list[tuple[int, Callable[[Database], None]]]:
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
