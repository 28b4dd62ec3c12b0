"""The judge of whether a model's words are a summary of what it was given: the only one, asked
wherever a model's words are to represent what is removed, since they may be all that is left of it.

It understands nothing. It turns away what is no summary in any language (none of the facts, one
line for thousands of tokens), and refusals and calls of tools that it knows by their beginnings.
"""

from __future__ import annotations

import re

from memory.context.receipt import Receipt

TELLING = 4
"""Facts of which a text that keeps none is no summary. Of fewer, a good one may tell in other
words: a name that is inflected, "noon" for 12:00."""
_MUCH = 2_000  # tokens of which one short line says nothing,
_WORDS = 50  # unless they are so few words over and over
_LINE_SHARE = 100  # of so many tokens one line holds at least one
_LONG_LINE = 60  # tokens of a line that may be a summary of anything
_SCANNED = 100_000  # characters of what was said
_WORD = re.compile(r"[^\W\d_]{1,12}")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|[-=*_]{3,}\s*$|<[^<>]{1,60}>\s*$|[^\n]{0,60}[:：]\s*$)")


def is_summary(
    text: str, tokens: int, source: str, of_tokens: int, receipt: Receipt | None = None
) -> bool:
    """Return whether a text of so many `tokens` may stand for `source`, which has `of_tokens`.
    `receipt` says what it kept; a text that keeps most of the facts is no refusal, however it
    begins."""
    found = receipt or Receipt()
    lines = [line for line in text.splitlines() if line.strip() and not _HEADING.match(line)]
    if not lines or is_call(text) or (found.total >= TELLING and not found.kept):
        return False
    if _REFUSAL.match("\n".join(lines)) and not (found.total and found.share > 1 / 2):
        return False
    is_short = tokens < min(_LONG_LINE, of_tokens // _LINE_SHARE)
    if of_tokens < _MUCH or not is_short or len(lines) > 1:
        return True
    return len({*_WORD.findall(source[:_SCANNED])}) < _WORDS


def is_call(text: str) -> bool:
    """Return whether a text is a call of a tool, or has one in it."""
    return bool(_CALL.search(text))


_SORRY = (
    r"I['’]?m (?:very |so |really )?sorry|I am (?:very |so |really )?sorry|Sorry|I apologi[sz]e"
    r"|My apologies|Unfortunately"
    r"|Es tut mir (?:sehr )?leid|Tut mir (?:sehr )?leid|Entschuldigung|Leider"
    r"|Lo siento(?: mucho)?|Lamentablemente|Disculpa|Perdón"
    r"|Je suis (?:vraiment )?désolée?|Désolée?|Malheureusement"
    r"|Mi dispiace|Purtroppo|Desculpe|Sinto muito|Infelizmente|Het spijt me|Helaas"
    r"|Przepraszam|Přepáčte|Omlouvám se|Jag är ledsen|Tyvärr|Beklager|Üzgünüm"
    r"|Извините|Простите|К сожалению|Вибачте|На жаль"
    r"|抱歉|很抱歉|非常抱歉|对不起|對不起|不好意思|申し訳(?:ありません|ございません)|すみません|ごめんなさい"
    r"|죄송(?:합니다|하지만)|죄송|미안"
)
_CANNOT = (
    r"can['’]?t|cannot|can not|unable|not able|won['’]?t"
    r"|kann (?:ich )?(?:das|dir|Ihnen|dabei|diese|nicht)|nicht möglich"
    r"|no puedo|no me es posible|ne (?:peux|puis)|non posso|não posso"
    r"|kan (?:ik |jag |jeg )?\w* ?(?:niet|inte|ikke)"
    r"|nie mog|nemohu|не мог|yapam|edem(?:em|iyorum)"
    r"|无法|無法|不能|没办法|沒辦法|できません|出来ません|いたしかねます"
    r"|할 수 없|수 없습니다|어렵습니다"
)
_VERBS = (
    r"assist|help|summari[sz]e|comply|do that|fulfil|provide|process|continue|engage|answer"
    r"|discuss|share"
)
_REFUSAL = re.compile(
    rf"[\s\"'*#>-]*(?:{_SORRY})[\s,，.、。:;!-]*(?:but |aber |pero |mais |ma |mas |maar |но |，|,)?"
    rf"\s*.{{0,40}}?(?:{_CANNOT})"
    rf"|[\s\"'*#>-]*(?:I (?:can['’]?t|cannot|can not|won['’]?t|am unable to|am not able to)"
    rf" (?:{_VERBS})"
    r"|As an AI\b|Ich kann (?:dabei |damit |Ihnen |dir )?nicht (?:helfen|zusammenfassen)"
    r"|No puedo (?:ayudar|resumir|cumplir|asistir)"
    r"|Je ne (?:peux|puis) pas (?:vous |t['’])?(?:aider|résumer)"
    r"|Non posso (?:aiutar|riassumere)|Não posso (?:ajudar|resumir)"
    r"|Я не могу (?:помочь|выполнить|ответить|обсуждать)"
    r"|我(?:无法|不能|無法)(?:协助|帮助|总结|提供|完成|協助|幫助|總結))",
    re.IGNORECASE,
)
_CALL = re.compile(
    r"</?(?:tool_call|function_call|function_calls|invoke|tool_use)\b"
    r"|<\|[^|<>]{0,40}tool[^|<>]{0,40}\|>"
    r"|\A\s*(?:```(?:json)?\s*)?\{\s*\"(?:name|tool|function)\"\s*:\s*\"[\w.-]{1,64}\"\s*,"
    r"\s*\"(?:arguments|parameters|input)\"",
    re.IGNORECASE,
)
"""Texts that summarising models have written instead of a summary (openclaw#127987, pi#7048,
hermes-agent#96779, open-webui#29308)."""
