"""Sentences of a summary with orders that nobody gave, or that allow something forbidden. Pure.

Most inventions of a model are harmless; an invented order is carried out from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from memory.audit.represented_requests import list_tasks
from memory.patterns import lazy
from memory.text.request_signs import AGREES
from memory.text.wording import is_wide, shared, split_sentences, stems

_WORD_AT = lazy(r"[^\W\d_\u4e00-\u9fff]+")
_LEAST = 3  # content words of an order
_READ = 2_000  # characters of a sentence that are read
_FEW = 3
"""Words of a lasting order of which one that was said is enough: there are many for the others."""
_PAIRS = 2
"""A sentence in Chinese is compared by pairs of characters, every other of which spans two words,
and equal only if both characters are: it has twice as many as words, and half of its shared
ones."""
_MOST_BANS = 20
_LOOKED_AT = 4_000  # characters of a message that are checked
_SHORT = 400  # characters of a message with which a person confirms an instruction
_HALF = 1 / 2
_SENDS = ("send", "sent", "forward", "shar", "post", "schick", "gesendet", "weiterleit", "发")
"""Deeds that a summary writes for another word, such as "tell"."""
_UNSAID = 3 / 5  # the most words of an order that may be in the source if its deed is not
_LONG, _NEXT_TO_NONE = 7, 1 / 4
"""The least words of any order that is checked, and the share of them up to which it is made up."""
_LASTS = lazy(
    r"\b(?:always|never|from now on|must not|mustn't|rules?|orders?|instruct\w*|forbid\w*|forbade"
    r"|insists?|insisted|ordered (?:that|to)|demand(?:s|ed) (?:that|to))\b"
    r"|\b(?:immer|nie|niemals|ab (?:jetzt|sofort)|künftig|regeln?|anweisung\w*|angeordnet|verboten"
    r"|verbietet|besteht darauf|darf nicht|dürfen nicht)\b"
    r"|以后|今后|从现在|永远|总是|一律|规则|规定|禁止|不得|不许"
    r"|assistant (?:has )?(?:promised|committed)|i promised|assistent\w* [^.]{0,20}"
    r"(?:zugesagt|versproch\w*|verspricht)|(?:助手|我)(?:已经?)?(?:答应|承诺|保证)",
)
_ASKS = lazy(
    r"\b(?:ask(?:s|ed)|wants?|wanted|request(?:s|ed)|told|tells|wish(?:es|ed)|expects?|agreed)\b"
    r"|\b(?:instructed|ordered|(?:is|are) to be|assistant (?:shall|must|should|is to|has to))\b"
    r"|\b(?:bat|bittet|gebeten|möchte|will|wollte|wünscht|verlangt|soll|sollen|beauftragt\w*)\b"
    r"|要求|(?<!邀)请(?![柬帖假客])|让|希望|想要|叫|吩咐|交代|嘱咐|指示"
)
_ACTS = lazy(
    r"\b(?:delet|wip(?:e|ing)|eras|remov|destroy|format|disabl|deactivat|cancel|transfer|pay|paid"
    r"|wire|forward|send|sent\b|shar(?:e|ing)|publish|post(?:s|ed|ing)?\b|reveal|disclos|leak"
    r"|install|uninstall|buy|sell|grant|shut|revok|resign|sign|redirect|replac|reset|charg|refund"
    r"|struck|strik|collect(?:ed|ing)? \S*\d)"
    r"|einzieh|einzuzieh|einzutreib|austausch|auszutausch|zurücksetz|zurückzusetz|absag|abzusag"
    r"|umleit|umzuleit|erstatt|lösch|formatier|vernicht|entfern|deaktivier|abschalt|abgeschalt|kündig|auflös|aufgelös"
    r"|überweis|überwies|bezahl|weiterleit|weitergeleit|schick|\bsend|gesendet|veröffentlich"
    r"|preisg|installier|kauf|sperr|stornier|unterschreib"
    r"|删|清空|格式化|销毁|关闭|停用|卸载|取消|转账|转到|汇|付款|支付|发给|发到|发送|公开|发布"
    r"|泄露|透露|共享|安装|购买|买|租|注销|出售|签署|拔掉|拆除|关停|退还|退款|涨到|降到|上线|连载"
)
"""Deeds that can't be undone, or that affect other people."""
_OF_ANY = lazy(
    r"person|people|user|alway|never|want|rule|order|instr|assis|said|asked|asks|reque|shoul|must"
    r"|from|open|task|step|next|immer|niema|perso|nutze|möcht|regel|anwei|gesag|künft|jetzt|sofor"
    r"|soll|darf|werde|wurde|alle|offen|nobod|anybo|every|anyth|allow|under|circu|witho|herrn|etwas"
    r"|mein|mich|dazu|ohne|ausse|kein|auf|fall|gibt|frau|niema|somet|place|nothi|goes|comes?$|komme|ever|unles|thats"
    r"|用户|要求|以后|永远|规则|总是|并且|不要|禁止|不得|不许|一律|待办|助手|希望|任何"
)
_BEGINS = r"(?:^|[.!:;,–-]\s*|\b(?:please|and|but|also|so|then|bitte|und|aber|also|auch)\s+)"
_VERBS = {"sent": "send", "told": "tell", "given": "give", "wrote": "write", "written": "write"}
_IRREGULAR = lazy(rf"\b(?:{'|'.join(_VERBS)})\b")
_FORBIDS = lazy(
    rf"{_BEGINS}(?:please\s+)?(?:never|don['’]t|do not|no(?!,|\b(?: one| problem| worries)))\b"
    r"|\b(?:you|nobody|no one|we|they|it|that|this|assistant) (?:\w+ )?"
    r"(?:must not|mustn['’]t|may not|should(?:n['’]t| not| never)|must never|may never)\b"
    r"|\b(?:is|are)(?:n['’]t| not) to\b"
    r"|\b(?:must not|mustn['’]t|must never|may never|not allowed|off limits|under no circumstances"
    r"|i (?:don['’]t|do not|never) want)\b"
    r"|^(?:nobody|no one)\b"
    rf"|{_BEGINS}(?:bitte\s+)?(?:nie|niemals|kein(?:e[nmrs]?)?|keinesfalls|auf keinen fall)\b"
    r"|(?:^|:\s)(?!(?:ich|wir|er|sie|es|man|das|die|der|hab|habe|war|ist|bin|gibt|leider|heute|gestern)\b)"
    r"(?:bitte )?[\w-]+(?:\s[^.,;!?]{0,60})?\s(?:nie|niemals|nicht|niemand(?:em|en)?"
    r"|kein(?:e[nmrs]?)?)\b(?![^,;.!?]*\b(?:ich|wir|hat|hatte|war|waren|ist|sind|gibt|wird)\b)"
    r"|\b(?:darfst|dürfen|darf|sollst|sollen|soll)\b[^.,;!?]{0,60}\b"
    r"(?:nie|niemals|nicht|niemand(?:em)?|keinesfalls|auf keinen fall|kein(?:e[nmrs]?)?)\b"
    r"|\b(?:niemand|keiner) (?:\w+ )?(?:darf|soll|sollte)\b"
    r"|(?<![我他她它们])(?:不要|(?<![特区分级性告识鉴差个派类辨])别(?![的人墅名处扭]|墅)|不许|不准|不得|禁止|千万不|绝对?不)"
)
_GOES_ON = lazy(r"(?:and|but|also|und|aber|auch)\b")
_STATES = lazy(r"\b(?:has|have|had|got|is|are|was|were|hat|haben|hatte|ist|sind|war|gibt)\b")
"""Words of a statement, which forbids nothing: "it has a garden, but no bathtub"."""
_MAY_FORBID = lazy(r"(?i)\bn[eio]|n['’]t\b|\bkein|\bmust|不|别|禁|off limits")
"""A pattern that every message with a ban matches."""
_NEVER = lazy(
    rf"{_FORBIDS.pattern}|\b(?:never|nothing|nobody|no one|nie|niemals|nichts|niemand)\b"
    r"|\bkeine?[nmrs]?\b|\b(?:wird|werden)\b[^.,;!?]{0,40}\bnicht\b|(?<![我他她们对是])不(?!然|过|错|少|久|急|了|上|好|对|够)(?:许|能|得|要|准|可|用)?"
)
"""The same, and the beginnings of sentences that forbid something if the reply agrees."""
_EXCEPT = lazy(
    r"\b(?:unless|except|but|without|until|before (?:you|i)|if)\b"
    r"|\b(?:ausser|ohne|es sei denn|bevor|ehe|bis|wenn)\b|除非|没有|未经|先问|除了"
)
_NOBODY_BUT = lazy(r"\s+(?:but|except|ausser)\s+(?:\w+\s+){1,2}?(?=is\b|may\b|can\b|darf\b|kann\b)")
_MAY = lazy(
    r"\b(?:may|can|could|lets?|allow(?:s|ed)?|permit(?:s|ted)?|welcome|free to|fine|ok(?:ay)?"
    r"|happy (?:for|if|with)|at any time|at will)\b"
    r"|\b(?:darf|dürfen|kann|können|könnte|erlaubt|gestattet|möglich|in ordnung|jederzeit)\b"
    r"|可以|可(?=付|动|写|发)|允许|随时|欢迎"
)
_SHALL = lazy(
    r"\b(?:always|should|(?:is|are) to be|has to be|have to be)\b|\b(?:immer|sollen?|muss|müssen)\b"
    r"|^要|^把|总是|必须"
)
_FREELY = lazy(
    r"\bno need\b|\bneedn['’]t\b|\bat (?:any time|will)\b|\b(?:any|every)(?:body|one)\b"
    r"|\bwithout (?:\w+ )?(?:ask|check|consent|approval|permission|agree)"
    r"|\bohne (?:\w+ )?(?:rückfrage|nachfrage|zustimmung|erlaubnis|einverständnis|zu fragen)"
    r"|\b(?:jederzeit|jeder)\b|不用|不必|无需|无须|随时|任何人都?可"
)
_WITHOUT = lazy(r"\b(?:without|ohne)\b|没有|未经|不经")
_NOT_USED = lazy(r"不(用[\u4e00-\u9fff]{2})")
_NO_NEED = lazy(r"\bno need\b|\bneedn['’]t\b|\bnicht nötig\b|不用|不必|无需|无须")
_DENIES = lazy(
    r"\b(?:not|never|no(?! need)|nothing|none|nobody|only|unless|except|until|up to|at most|if|once"
    r"|when|provided|forbid\w*|forbade|prohibit\w*|avoid\w*|refus\w*|refrain\w*|secret|confidential|away|omit\w*)\b|n['’]t\b|\boff\b"
    r"|\b(?:nicht|nie|niemals|kein\w{0,2}|nichts|niemand\w{0,2}|nur|ausser|erst|falls|wenn|sofern"
    r"|bis|höchstens|verboten|verbietet|untersagt|vermieden|vermeide\w*"
    r"|verzicht\w*|unterlass\w*|unterbleib\w*|geheim\w*|vertraulich|tabu|weglassen)\b"
    r"|不(?!用|必)|别|禁止|未|没有|勿|(?<!无)须|只|才|以内|最多|如果|除非|保密|避免|杜绝|拒绝"
)
_THAN = lazy(
    r"\b(?:younger|older|more|less|fewer|over|above|below|under(?! no| any)|before|after|later"
    r"|earlier)\b"
    r"|\b(?:jünger|älter|mehr|weniger|über|unter|vor|nach|später|früher)(?:e[nrs]?)?\b"
    r"|超过|以上|以下|之前|之后|大于|小于"
)
_SEMICOLON = lazy(r"[;；。]")
_COMMA = lazy(r"，|,(?!\d)|:\s")
_ALIKE = 1 / 2  # of the words of a ban: a text mentions it
_CLAUSE = lazy(r"[;；。，:：]|,(?!\d)|\b(?:but|aber)\b|但")
_GRANTED = 1 / 2  # of the words of a permission: a person gave it
_LIFTED = 3 / 5  # the same, for a later message with another order
_ALIKE_WIDE = 2 / 5


class Ban(Struct, frozen=True):
    """An order of a person not to do something: the beginnings of the words that say what, and of
    those that say when it may be done; what it compares with ("younger"); and its sentence."""

    about: frozenset[str]
    unless: frozenset[str]
    than: frozenset[str]
    text: str = ""


def find_made_up(text: str, said: Set[str], unbacked: Sequence[str] = ()) -> list[str]:
    """Return the sentences of a text with an order too few of whose words are among those of the
    source (`said`, as `stems` makes them). For a lasting order, a promise, or a deed that can't be
    undone: fewer than half, or a few more if the deed itself is not in the source. For any other
    order: almost none. A task that is `unbacked` by any open request is returned if one of its
    deeds is not in the source."""
    given = said | {word[:4] for word in said}
    tasks = {*list_tasks(text)}
    found = []
    for one in dict.fromkeys((*split_sentences(text), *tasks)):
        folded, times = one[:_READ].casefold(), _PAIRS if is_wide(one) else 1
        acts = _ACTS.search(folded) and (one in tasks or _ASKS.search(folded))
        if not (acts or _LASTS.search(folded) or _ASKS.search(folded)):
            continue
        about = {word for word in stems(one) if not _OF_ANY.match(word)}
        known = len({word for word in about if word in given or word[:4] in given})
        is_new = len(about) >= _LONG * times and known <= len(about) * _NEXT_TO_NONE
        least = _HALF if acts else _HALF / times if _LASTS.search(folded) else 0
        is_little = known < len(about) * least and (acts or known == 0 or len(about) > _FEW * times)
        if acts and _ASKS.search(folded) and not is_little:
            deeds = (deed for deed in _ACTS.finditer(folded) if not deed[0].startswith(_SENDS))
            is_new_deed = any(not _has_word(folded, deed.start(), given) for deed in deeds)
            is_little = is_new_deed and known <= len(about) * _UNSAID / times
        if is_new or (len(about) >= _LEAST * times and is_little):
            found.append(one)
    found += [
        part
        for part in unbacked
        for deed in (_ACTS.search(part.casefold()),)
        if deed and not _has_word(part.casefold(), deed.start(), given)
    ]
    return list(dict.fromkeys(found))


def _has_word(text: str, at: int, said: Set[str]) -> bool:
    """Return whether the source has the word at a position in a text."""
    word = _WORD_AT.match(text, at)
    begun = stems(word[0] if word else text[at : at + 2])
    return bool(begun) and not begun.isdisjoint(said)


def find_bans(said: Iterable[tuple[str, str]]) -> list[Ban]:
    """Return the bans in a person's messages, each given with its reply, that no later message
    changes; only the newest `_MOST_BANS`."""
    found = list[Ban]()
    for message, reply in said:
        looked_at = message[:_LOOKED_AT]
        is_agreed = len(message) <= _SHORT and bool(AGREES.match(reply))
        forbids = _NEVER if is_agreed else _FORBIDS
        if not found and not _MAY_FORBID.search(looked_at):
            continue
        all_words = stems(looked_at) if found else set[str]()
        about = [one for one in found if _has_enough(one, all_words)]
        if not about and not _MAY_FORBID.search(looked_at):
            continue
        for sentence in split_sentences(looked_at):
            folded = sentence.casefold()
            if about:
                words = stems(folded)
                lifted = [one for one in about if _is_like(one, folded, words, _LIFTED)]
                found = [one for one in found if one not in lifted]
            if not _MAY_FORBID.search(folded) or sentence.endswith(("?", "？")):
                continue
            ban = forbids.search(folded)
            if ban and not (_GOES_ON.match(ban[0]) and _STATES.search(folded, 0, ban.start())):
                found += _make_bans(folded, ban.end(), sentence)
    return found[-_MOST_BANS:]


def find_grants(said: Iterable[str]) -> list[frozenset[str]]:
    """Return the words of the clauses in which a person allows something."""
    found = list[frozenset[str]]()
    for message in said:
        for sentence in split_sentences(message[:_LOOKED_AT]) if _MAY.search(message) else ():
            for clause in _CLAUSE.split(sentence.casefold()):
                if _MAY.search(clause) and not _DENIES.search(clause) and "?" not in sentence:
                    found.append(frozenset(list_stems(clause)))
    return [one for one in found if one][-_MOST_BANS:]


def find_permitted(
    text: str, bans: Sequence[Ban], grants: Sequence[frozenset[str]] = ()
) -> list[str]:
    """Return the clauses of a text that allow something forbidden, and that no person allowed."""
    found = []
    for sentence in split_sentences(text) if bans else ():
        for part in _SEMICOLON.split(sentence.casefold()):
            clauses = _COMMA.split(part) if _DENIES.search(part) else [part]
            allowed = (one.strip() for one in clauses if any(_permits(one, ban) for ban in bans))
            found += [one for one in allowed if not _is_granted(one, grants)]
    return found


def _is_granted(clause: str, grants: Sequence[frozenset[str]]) -> bool:
    """Return whether a clause states little more than a person allowed."""
    said = list_stems(clause)
    return not _FREELY.search(clause) and any(
        len(shared(said, one)) >= max(1, _GRANTED * len(said)) for one in grants
    )


def _make_bans(sentence: str, at: int, text: str) -> Iterator[Ban]:
    """Yield the ban of a sentence, made from the whole sentence and from its clause, since the text
    beside the clause may belong to it or not."""
    if but := _NOBODY_BUT.match(sentence, at):
        what, exception, begin = sentence[but.end() :], but[0], 0
    else:
        found = _EXCEPT.search(sentence, at)
        end = found.start() if found else len(sentence)
        what, exception = sentence[:end], sentence[end:]
        begin = max((one.end() for one in _COMMA.finditer(what, 0, at)), default=0)
    clause = _COMMA.split(what[begin:], maxsplit=1)[0]
    for part in dict.fromkeys((what, clause)):
        about = frozenset(list_stems(part))
        if len(about) > 1 or (about and part is what):
            unless = frozenset(list_stems(exception)) - about
            yield Ban(about, unless, frozenset(_THAN.findall(part)), text)


def list_stems(text: str) -> set[str]:
    """Return the words of an order that say what it is about."""
    regular = _IRREGULAR.sub(lambda found: _VERBS[found[0]], text.casefold())
    return {word for word in stems(regular) if not _OF_ANY.match(word)}


def _permits(clause: str, ban: Ban) -> bool:
    may = bool(_MAY.search(clause) or _NO_NEED.search(clause))
    if not (may or (not ban.unless and _SHALL.search(clause))) or _DENIES.search(clause):
        return False
    said = list_stems(clause)
    missing = _WITHOUT.search(clause)
    is_without = bool(missing and shared(ban.unless, list_stems(clause[missing.end() :])))
    if is_without:  # the very thing without which it is forbidden
        ban = replace(ban, about=ban.about | ban.unless)
    elif _keeps(clause, ban):
        return False
    if not _is_like(ban, clause, said) or not ban.than <= {*_THAN.findall(clause)}:
        return False
    return bool(_FREELY.search(clause)) or is_without or not shared(ban.unless, said)


def _keeps(clause: str, ban: Ban) -> bool:
    """Return whether a clause says "without" what is forbidden, or repeats 别用 as 不用."""
    missing, unused = _WITHOUT.search(clause), _NOT_USED.search(clause)
    return bool(missing and shared(ban.about, list_stems(clause[missing.end() :]))) or bool(
        unused and unused[1] in ban.text
    )


def _has_enough(ban: Ban, said: Set[str]) -> bool:
    """Return whether a message of these words may be about the same as a ban."""
    return len(shared(ban.about, said)) >= min(2, len(ban.about))


def _is_like(ban: Ban, text: str, said: Set[str], share: float = _ALIKE) -> bool:
    """Return whether a text with these words is about the same as a ban."""
    least = (_ALIKE_WIDE if is_wide(text) else share) * len(ban.about)
    return len(shared(ban.about, said)) >= max(min(2, len(ban.about)), least)
