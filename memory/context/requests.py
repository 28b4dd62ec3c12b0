"""Requests of a person in turns: those that are finished, and those that are still open. Found
without a model, by how they are put and by what followed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from memory.context.wording import WordsOf, cue, shared, split_sentences, stems
from memory.patterns import lazy
from memory.turns import Turn

MOST = 12
"""Requests of a kind that are told of: the newest."""
SHOWN = 200  # characters of a request
_LOOKED_AT = 4_000  # characters of a message, from both ends
LIKE = 0.6  # of the words that say something: two requests are the same
_FILLERS = frozenset(
    ("überl", "heute", "etwas", "jetzt", "somet", "someb", "today", "maybe", "nicht")
)
_CLEAR = 3  # words that say what a request is about; else the sentence before it does


class PersonRequest(Struct, frozen=True, dict=True):
    """A request: the turn that it was made in (0: only a summary tells of it), the person's words,
    what these are about (`stems`), and what they and the answer are about, by which it is found
    again."""

    turn: int
    text: str
    own: frozenset[str] = frozenset()
    about: frozenset[str] = frozenset()

    @cached_property
    def heads(self) -> frozenset[str]:
        """The beginnings by which `shared` knows shorter words."""
        return frozenset(word[:4] for word in self.own)

    @property
    def line(self) -> str:
        return f"t{self.turn}: {self.text}" if self.turn else self.text


class Requests(NamedTuple):
    """The requests in turns, oldest first."""

    open: tuple[PersonRequest, ...] = ()
    finished: tuple[PersonRequest, ...] = ()


NONE = Requests()


def find_requests(
    turns: Sequence[Turn], known: Requests = NONE, words_of: WordsOf | None = None
) -> Requests:
    """Find the requests of turns in their order, after those that are `known` already. One is
    finished once it was answered without a question back and the person went on; it is open where
    it was put off, asked last, or met with a question."""
    is_open, finished = list(known.open), list(known.finished)
    pending: list[PersonRequest] = []  # met with a question, which the next turn may answer
    replies: dict[int, str] = {}
    words_of = words_of or WordsOf()
    for turn, following in pairwise((*turns, None)):
        if turn is None:
            continue
        asked = _ends(turn.question.text)
        reply = _ends(turn.reply.text) if turn.reply else ""
        made = _requests_in(turn.number, asked, words_of(asked))
        replies[turn.number] = reply
        if not (made or pending) and _promises(reply):
            said = frozenset(stems(asked))
            made = [PersonRequest(turn.number, _shorten(asked), said)] if said else []
        is_all_later = bool(made) and _is_put_off(asked, reply)
        put_off = [one for one in made if is_all_later or _LATER.is_in(one.text, words_of(asked))]
        now = [*pending, *(one for one in made if one not in put_off)]
        is_open, finished = _not_like(is_open, made), _not_like(finished[-MOST:], made)
        done = _dealt_with(is_open, asked, reply, words_of) if reply else []
        finished += done
        is_open = [*(one for one in is_open if one not in done), *put_off][-2 * MOST :]
        pending = []
        if not now:
            continue
        if not reply or _puts_off(reply, words_of(reply)):
            is_open += now
        elif _asks_back(reply) or (following and _goes_on(reply, _said(following))):
            pending = now
        else:
            finished += now
    newest = ([*is_open, *pending][-MOST:], finished[-MOST:])
    return Requests(*(tuple(_with_answer(one, replies) for one in some) for some in newest))


def make_request(turn: int, text: str) -> PersonRequest:
    """Return a request of these words alone."""
    said = frozenset(stems(text))
    return PersonRequest(turn, text, said, said)


def as_text(found: Requests) -> str:
    """Return the requests as the model that summarises is told of them; "" where there is none."""
    parts = []
    if found.open:
        parts.append("Open requests:\n" + "\n".join(f"- {one.line}" for one in found.open))
    if found.finished:
        lines = "\n".join(f"- {one.line}" for one in found.finished)
        parts.append(f"Finished, not to be done again:\n{lines}")
    return "\n\n".join(parts)


def find_deeds(turns: Sequence[Turn]) -> list[PersonRequest]:
    """Return as requests the messages, however they are put, to which a reply says that something
    was done."""
    found = []
    for turn in turns:
        reply = turn.reply.text[:_LOOKED_AT] if turn.reply else ""
        if _DEED.search(reply) and not _PROMISES.pattern.search(reply):
            about = frozenset(stems(_ends(turn.question.text)) | stems(reply))
            found.append(PersonRequest(turn.number, _shorten(turn.question.text), about, about))
    return found


def _with_answer(one: PersonRequest, replies: Mapping[int, str]) -> PersonRequest:
    """Return a request that was just found with what its answer is about, too."""
    if one.about or one.turn not in replies:
        return one
    return replace(one, about=one.own | stems(replies[one.turn]))


def _requests_in(turn: int, asked: str, words: Set[str]) -> list[PersonRequest]:
    """Return the requests in a person's message, which has these words, one after another; where
    one says nothing by itself ("Can you help?"), with what stands before it."""
    has_cue = _may_ask(asked, words)
    if not has_cue and _QUESTIONS.isdisjoint(asked):
        return []
    sentences, found = split_sentences(asked), list[PersonRequest]()
    for number, sentence in enumerate(sentences):
        is_question = not _QUESTIONS.isdisjoint(sentence)
        if not (is_question or (has_cue and _asks(sentence))) or _NO_REQUEST.match(sentence):
            continue
        said = frozenset(stems(sentence))
        if len(said - _FILLERS) < _CLEAR and number:
            sentence = f"{sentences[number - 1]} {sentence}"
            said = frozenset(stems(sentence))
        if said:
            found.append(PersonRequest(turn, _shorten(sentence), said))
    return found


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _may_ask(asked: str, words: Set[str]) -> bool:
    """Return whether a message has a word without which no sentence of it asks for anything, unless
    it is a question."""
    if not (_VERBS.isdisjoint(words) and _HEADS.isdisjoint(words)) or "sie" in words:
        return True
    return not asked.isascii() and (any(sign in asked for sign in _SIGNS) or "把" in asked)


def _asks(sentence: str) -> bool:
    """Return whether a sentence asks for something: by its first verb, or a phrase."""
    words = _WORD.findall(sentence.casefold())
    first = next((word for word in words[:3] if word not in _BEFORE_VERBS), "")
    if first in _VERBS or _FORMAL.match(sentence):
        return True
    said = f" {' '.join(words)} "
    if not _HEADS.isdisjoint(_LETTERS.findall(said)) and any(phrase in said for phrase in _PHRASES):
        return True
    if said.isascii():
        return False
    return sentence.startswith(_OBJECT_FIRST) or any(sign in said for sign in _SIGNS)


def _dealt_with(
    known: list[PersonRequest], asked: str, reply: str, words_of: WordsOf
) -> list[PersonRequest]:
    """Return the requests that a later turn is about, and says that it is done."""
    if not known or not any(DONE.may_be_in(text, words_of(text)) for text in (asked, reply)):
        return []
    said = f"{asked} {reply}"
    words = words_of.stems((asked, reply))
    found = [one for one in known if one.own and _is_like(one, words)]
    return found if found and DONE.pattern.search(said) and not _asks_back(said) else []


def _not_like(known: list[PersonRequest], made: list[PersonRequest]) -> list[PersonRequest]:
    """Return the requests that none of these makes anew."""
    if not made:
        return known
    return [one for one in known if not any(_is_like(one, new.own) for new in made)]


def _is_like(one: PersonRequest, words: Set[str]) -> bool:
    """Return whether most of what a request is about is among words."""
    if one.own.isdisjoint(words) and one.heads.isdisjoint(words):
        return False
    return len(shared(one.own, words)) >= LIKE * max(1, len(one.own))


def _puts_off(reply: str, words: Set[str]) -> bool:
    """Return whether a reply promises what was asked for. A time by which it is promised counts in
    a line of the bot's own alone: in a draft of a letter somebody else promises it."""
    return _PROMISES.is_in(reply, words) or _promises(reply)


def _promises(reply: str) -> bool:
    """Return whether a reply is a line in which the bot itself says that it will do something at
    another time."""
    is_line = len(reply) <= SHOWN and _OF_OTHERS.isdisjoint(reply.strip())
    is_later = _PROMISES_BY.search(reply) or (AGREES.match(reply) and _WAITS.search(reply))
    return is_line and bool(is_later)


def _is_put_off(asked: str, reply: str) -> bool:
    """Return whether a person puts off all that a message asks for: a clause of it says when, and
    the reply is neither the work itself nor says that it is done."""
    if not _NOT_NOW.search(asked) or len(reply) > 2 * SHOWN:
        return False
    return not _DEED.search(reply)


def _goes_on(reply: str, said: str) -> bool:
    """Return whether what a person says next leaves their request undone: they object, or answer a
    question."""
    if _OBJECTS.match(said):
        return True
    is_question = reply.rstrip('"”’)】」* ').endswith(("?", "？"))
    return is_question and not _MORE.search(reply[-SHOWN:]) and _YES.match(said) is not None


def _said(turn: Turn) -> str:
    return turn.question.text.strip()[:200]


def _ends(text: str) -> str:
    """Return the text, of a long one its beginning and its end."""
    half = _LOOKED_AT // 2
    return text if len(text) <= _LOOKED_AT else f"{text[:half]}\n{text[-half:]}"


def _asks_back(reply: str) -> bool:
    """Return whether a reply ends with a question that has to be answered first; an offer of more
    is none."""
    if _QUESTIONS.isdisjoint(reply):
        return False
    last = [line.rstrip('"”’)】」* ') for line in split_sentences(reply)[-2:]]
    return any(one.endswith(("?", "？", "؟")) and not _OFFERS.search(one) for one in last)


_WORD = lazy(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_LETTERS = lazy(r"[^\W\d_]+")
_QUESTIONS = frozenset("?？؟")
_BEFORE = "and then now so ok okay also great und dann jetzt gut"
_ASKING = (
    "add answer ask book build buy "
    "calculate call cancel change check clean compare convert copy correct create delete "
    "deploy describe design draft explain find fix generate get give help implement install "
    "list look make move note open order plan prepare print put read recommend remember "
    "remind remove rename reply research reserve rewrite run save schedule search send set "
    "show sort start stop suggest summarize summarise tell test translate turn update use "
    "write berechne buch buche erklär erkläre erstell erstelle find finde gib hilf kauf kaufe "
    "korrigier korrigiere leg lege lies lösch lösche mach mache merk merke nenn nenne notier "
    "notiere öffne plan plane prüf prüfe reservier reserviere ruf rufe sag schau schick "
    "schicke schreib schreibe send sende setz setze start starte stornier storniere such "
    "suche trag trage übersetz übersetze vergleich vergleiche zeig zeige "
)
_FORMAL = lazy(r"(?:(?:und|dann|bitte|jetzt|also) )?[A-ZÄÖÜ]?[a-zäöüß]{2,20}e?n Sie\b")
"""The beginning of an order to somebody in German who is not a friend."""
_BEFORE_VERBS, _VERBS = frozenset(_BEFORE.split()), frozenset(_ASKING.split())
_PHRASES = (
    *(" can you ", " could you ", " would you ", " will you ", " please ", " remind me "),
    *(" i'd like you to ", " i would like you to ", " i want you to ", " i need ", " i also need "),
    *(" i still need ", " asks whether ", " asks if ", " wants you ", " don't forget ", " let's "),
    *(" don’t forget ", " let’s ", " i’d like you to ", " bitte ", " kannst du ", " könntest du "),
    *(" we need ", " we want ", " we also need ", " we also want ", " wir brauchen "),
    *(" würdest du ", " sollst du ", " können sie ", " könnten sie ", " würden sie "),
    *(" ich brauche ", " ich bräuchte ", " ich benötige ", " erinnere ", " erinner ", " vergiss "),
)
_HEADS = frozenset(max(_LETTERS.findall(one), key=len) for one in _PHRASES)
"""A word of each phrase."""
_IN_CHINESE = (
    "请 請 帮我 幫我 帮忙 麻烦 麻煩 能不能 可不可以 提醒我 给我 給我 替我 别忘 別忘 就订 订一"
)
_SIGNS = tuple(_IN_CHINESE.split())
_OBJECT_FIRST = ("把", "先把", "再把", "都把")
"""The beginnings of orders in Chinese that name their object first."""
_NO_REQUEST = lazy(
    r"(?:how are you|what['’]s up|wie geht['’]?s|wie geht es|你好吗|you know|isn['’]t it|right)\b",
    re.IGNORECASE,
)
_LATER = cue(
    "later remind don forget other now after tomorrow später nachher erinner erinnere erinnerst "
    "vergiss noch andermal jetzt",
    "稍 以后 以後 之后 回头 回頭 提醒 别忘 別忘 待会 改天",
    lazy(
        r"\b(?:later|remind me|don['’]t forget|some other time|not now|after that|tomorrow)\b"
        r"|\b(?:später|nachher|erinner(?:e|st)?|vergiss|morgen noch|ein andermal|nicht jetzt)\b"
        r"|稍后|稍後|以后再|以後再|之后再|回头|回頭|提醒我|别忘|別忘|待会|改天",
        re.IGNORECASE,
    ),
)
_CLAUSE = r"(?:^|[.!?;,\n]\s*|\b(?:but|aber)\s+)(?:but |aber |please |bitte )?"
_NOT_NOW = lazy(
    rf"{_CLAUSE}(?:not (?:today|tonight|now|yet|this week)|wait (?:till|until)|let it rest"
    r"|hold off|no (?:rush|hurry))\b"
    rf"|{_CLAUSE}(?:nicht (?:mehr )?(?:heute|jetzt)|erst (?:wenn|nachdem|sobald)|es eilt nicht)\b"
    r"|(?:^|[，。！？\n])(?:先放着|先不急|不急|现在先放着|等[^，。！？]{1,20}(?:再|之后|以后|后)"
    r"|[^，。！？]{1,12}[了后]再(?:算|做|说|写|弄|办|发|订|看|买|处理))",
    re.IGNORECASE,
)
"""Clauses with which a person puts off all that a message asks for."""
_PROMISES = cue(
    "ll will moment yet can still ich noch einen",
    "我会 我會 稍 还没 還沒 尚未 到时候",
    lazy(
        r"\bI(?:['’]ll| will) (?:get back|remind|keep (?:you|an eye)|look into"
        r"|do (?:it|that) later|come back|let you)"
        r"|\b(?:in a moment|not yet|can['’]t do (?:that|it) (?:yet|now)|still working)\b"
        r"|\bich (?:melde mich|erinnere dich|komme darauf zurück|kümmere mich später)"
        r"|\b(?:noch nicht|einen Moment)\b"
        r"|我会提醒|我會提醒|稍后|稍後|还没|還沒|尚未|到时候",
        re.IGNORECASE,
    ),
)
_OF_OTHERS = frozenset('\n"“”„«»「」')
_DAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTHS = "january|february|march|april|june|july|august|september|october|november|december"
_TAGE = r"(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch"
_REST = r"\b(?:[^.!?]|(?<=\d)\.){0,160}\b"
_PROMISES_BY = lazy(
    rf"\bI(?:['’]ll| will){_REST}(?:(?:get|come|report) back|let you know|tomorrow|tonight"
    rf"|(?:by|until|before) (?:then|noon|midnight|the (?:end|weekend|\d)|next|\d|{_DAYS}|{_MONTHS})"
    rf"|(?:in|next) (?:{_MONTHS}|week|month))\b"
    rf"|\bich{_REST}(?:melde mich|(?:gebe?|sage?) \w+ bescheid|morgen|heute abend"
    rf"|bis (?:mittag|abend|nächste|zum|\d|{_TAGE}))\b"
    r"|(?:明天|明早|明晚|后天|今晚|下周|周[一二三四五六日天末]|星期.|\d[号日点])[^。！？]{0,40}"
    r"(?:给|給|发|发给|告诉|通知|回复)[你您]",
    re.IGNORECASE,
)
AGREES = lazy(
    r"(?:ok(?:ay)?|understood|got it|all right|alright|noted|agreed|will do|i won['’]t|sure)\b"
    r"|(?:gut|gern|verstanden|alles klar|in ordnung|notiert|einverstanden|mache ich|klar)\b"
    r"|明白|好|行|记下|收到|知道了",
    re.IGNORECASE,
)
"""The beginning of a reply that agrees to what a person wants."""
_WAITS = lazy(
    rf"\bI(?:['’]ll| will)? (?:wait|leave \S[^.!?]{{0,60}}alone) (?:until|till)\b"
    rf"|\b(?:warte ich|ich warte)\b{_REST}bis\b"
    r"|\bbekomm(?:en Sie|st du|t ihr) (?:morgen|heute (?:abend|noch))\b"
    r"|等[^，。！？]{1,20}[后了]?，?我?再|一[^，。！？]{1,8}我?就",
    re.IGNORECASE,
)
"""Words of a reply that agrees to do something at another time; in others, they say anything."""
_OBJECTS = lazy(
    r"(?:no\b(?!,? thank)|not yet|wrong|that['’]s not|that is not|it still|still (?:not|doesn)"
    r"|doesn['’]t work|you (?:didn|haven)|nein\b(?!,? danke)|falsch|stimmt nicht|immer noch nicht"
    r"|das ist nicht|geht nicht|du hast nicht|不对|不對|错了|錯了|还是不|還是不|还没|還沒|不行)",
    re.IGNORECASE,
)
_YES = lazy(
    r"(?:yes|yeah|yep|sure|ok(?:ay)?|please do|go ahead|ja|gern\w?|mach|klar)\b"
    r"|[好行嗯要]|可以|是的",
    re.IGNORECASE,
)
_MORE = lazy(r"\b(?:anything else|sonst noch)\b|还有什么|還有什麼|还需要|還需要", re.IGNORECASE)
_OFFERS = lazy(
    r"\b(?:anything else|shall I|should I|would you like (?:me|more|another|to see)|do you want me"
    r"|want me to|can I help|sonst noch|soll ich|möchtest du noch|möchten Sie noch)\b"
    r"|还有什么|還有什麼|需要我|要不要我|还需要|還需要",
    re.IGNORECASE,
)
DONE = cue(
    "done finished completed fixed written booked sent made noted answered solved resolved was "
    "already erledigt fertig abgeschlossen geschrieben gebucht verschickt gesendet notiert "
    "gelöst beantwortet bereits schon",
    "✓ ✔ ✅ [x] [X] 已 完成了 搞定 写好了",
    lazy(
        r"\b(?:done|finished|completed|fixed|written|booked|sent|made|noted|answered|solved|resolved"
        r"|was (?:set|found|added|created|given)|already)\b|✓|✔|✅|\[x\]"
        r"|\b(?:erledigt|fertig|abgeschlossen|geschrieben|gebucht|verschickt|gesendet|notiert|gelöst"
        r"|beantwortet|bereits|schon)\b"
        r"|已[经完定记發发订預预做解写寫答]|完成了|搞定|写好了",
        re.IGNORECASE,
    ),
)
_DEEDS = (
    "added|asked|booked|bought|called|cancell?ed|changed|checked|created|deleted|deployed|drafted"
    "|fixed|informed|installed|made|merged|moved|opened|ordered|paid|published|put|removed|renamed"
    "|renewed|repeated|reserved|restarted|scheduled|sent|set|told|updated|uploaded|wrote|written"
)
_GETAN = (
    "angelegt|angerufen|bestellt|bezahlt|eingerichtet|eingestellt|eingetragen|entfernt|erledigt"
    "|erneuert|erstellt|gebucht|gefragt|gelöscht|gemeldet|gesendet|gesetzt|gestartet|geschickt"
    "|geschrieben|informiert|installiert|reserviert|storniert|umgemeldet|verschickt|verschoben"
)
_DEED = lazy(
    rf"\A(?:done|{_DEEDS})\b|\bI(?:['’]ve| have)?(?: just| now)? (?:{_DEEDS})\b"
    rf"|\b(?:is|are|was|were|been)(?: now)? (?:open|done|set up|{_DEEDS})\b"
    rf"|\A(?:{_GETAN})\b|\bich habe?\b[^.!?]{{0,80}}\b(?:{_GETAN})\b"
    rf"|\b(?:ist|sind|wurden?|läuft)\b[^.!?]{{0,60}}\b(?:{_GETAN}|wieder)\b"
    r"|已[^经更记，。]{0,12}[订预发交做写改加建删付联约续办买卖停启重更清装存传好]|[订办写改做发交]好了",
    re.IGNORECASE,
)
