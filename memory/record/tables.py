"""The tables as peewee models. They are bound to no database: queries are executed on the one
that a `Store` hands to the work (`query.execute(database)`), so that several can be open."""

from __future__ import annotations

from peewee import AutoField, BooleanField, FloatField, IntegerField, Model, TextField


class Conversation(Model):
    id = AutoField()
    key = TextField()
    audience = TextField()
    last_seq = IntegerField()
    last_turn = IntegerField()
    person = TextField()
    created_at = FloatField()
    active_at = FloatField()
    title = TextField()
    framing = TextField()

    class Meta:
        table_name = "conversation"


class Message(Model):
    id = AutoField()
    conversation = IntegerField()
    seq = IntegerField()
    turn = IntegerField()
    role = TextField()
    text = TextField()
    extra = TextField()
    tokens = IntegerField()
    inbox = IntegerField(null=True)
    at = FloatField()

    class Meta:
        table_name = "message"


class ViewEvent(Model):
    id = AutoField()
    conversation = IntegerField()
    at = FloatField()
    kind = TextField()
    actor = TextField()
    strategy = TextField()
    reason = TextField()
    change = TextField()
    turn = IntegerField()
    leaving = TextField()
    tokens_before = IntegerField()
    tokens_after = IntegerField()
    snapshot = TextField()

    class Meta:
        table_name = "view_event"


class Summary(Model):
    id = AutoField()
    conversation = IntegerField()
    turns = TextField()
    prior = IntegerField()
    focus = TextField()
    text = TextField()
    tokens = IntegerField()
    model = TextField()
    at = FloatField()
    is_untrusted = BooleanField()

    class Meta:
        table_name = "summary"


class Job(Model):
    id = AutoField()
    conversation = IntegerField()
    event = IntegerField()
    turns = TextField()
    prior = IntegerField()
    focus = TextField()
    style = TextField()
    summary = IntegerField()
    at = FloatField()
    is_done = BooleanField()
    attempts = IntegerField(default=0)

    class Meta:
        table_name = "job"


class CallStart(Model):
    conversation = IntegerField()
    turn = IntegerField()
    call = TextField()
    is_once = BooleanField()

    class Meta:
        table_name = "call_start"
        primary_key = False


class Usage(Model):
    id = AutoField()
    conversation = IntegerField(null=True)
    turn = IntegerField(null=True)
    at = FloatField()
    purpose = TextField()
    model = TextField()
    prompt = IntegerField()
    cached = IntegerField()
    completion = IntegerField()
    cost = FloatField(null=True)
    is_reported = BooleanField()
    person = TextField()

    class Meta:
        table_name = "usage"


class Clock(Model):
    id = AutoField()
    believed = FloatField()
    seen = FloatField()
    waited = FloatField()
    is_told = BooleanField()

    class Meta:
        table_name = "clock"


class Aside(Model):
    id = AutoField()
    kind = TextField()
    chat = TextField()
    content = TextField()
    why = TextField()
    at = FloatField()

    class Meta:
        table_name = "aside"


class SpendingNote(Model):
    month = TextField()
    conversation = TextField()
    note = TextField()
    at = FloatField()

    class Meta:
        table_name = "spending_note"
        primary_key = False


class Calibration(Model):
    model = TextField(primary_key=True)
    ratio = FloatField()

    class Meta:
        table_name = "calibration"


class Override(Model):
    scope = TextField()
    key = TextField()
    value = TextField()
    at = FloatField()

    class Meta:
        table_name = "override"
        primary_key = False


class User(Model):
    kind = TextField()
    id = TextField()
    role = TextField()
    name = TextField()
    by = TextField()
    at = FloatField()

    class Meta:
        table_name = "user"
        primary_key = False


class Pairing(Model):
    person = TextField(primary_key=True)
    name = TextField()
    channel = TextField()
    chat = TextField()
    thread = TextField()
    user = TextField()
    digest = TextField()
    at = FloatField()
    tries = IntegerField()

    class Meta:
        table_name = "pairing"


class ApiKey(Model):
    person = TextField(primary_key=True)
    digest = TextField()
    may_command = BooleanField()
    at = FloatField()
    used = FloatField()

    class Meta:
        table_name = "api_key"


class Inbox(Model):
    id = AutoField()
    channel = TextField()
    chat = TextField()
    thread = TextField()
    user = TextField()
    platform_id = TextField()
    digest = TextField()
    text = TextField()
    sender = TextField()
    at = FloatField()
    is_done = BooleanField()
    attachments = TextField()
    attempts = IntegerField()
    progress = IntegerField()

    class Meta:
        table_name = "inbox"


class Outbox(Model):
    id = AutoField()
    inbox = IntegerField()
    channel = TextField()
    chat = TextField()
    thread = TextField()
    user = TextField()
    reply_to = TextField()
    turn = TextField(null=True)
    reply = TextField()
    at = FloatField()
    is_sent = BooleanField()
    tries = IntegerField()

    class Meta:
        table_name = "outbox"
