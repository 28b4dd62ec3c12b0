"""The shapes of texts that are not summaries, whatever their source: calls of tools, refusals,
thoughts, empty forms, loops, and texts that break off. Recognised by their wording.

Summarising models have written each of them (openclaw#127987, pi#7048, hermes-agent#96779,
open-webui#29308).
"""

from __future__ import annotations

import re
from collections import Counter

from memory.patterns import lazy
from memory.text.receipt import Receipt
from memory.text.wording import split_sentences

_LEAST_LOOPS = 5  # sentences, or words in a row, half of which are repeated
_ROW = 4
_LONGEST = 20_000  # characters of a text that are checked


def find_kind(text: str, finish: str, receipt: Receipt) -> str:
    """Return the kind of a text that is not a summary, as in `audit.REASONS`; "" if it may be one.
    A text with most of the facts is not a refusal, however it begins."""
    content = list_content(text)
    if not content:
        return "empty"
    if is_call(text):
        return "call"
    if _REFUSAL.match("\n".join(content)) and not (receipt.total and receipt.share > 1 / 2):
        return "refusal"
    if finish != "complete":
        return "cut"
    if _THOUGHT_TAG.search(text) or _thinks_aloud(text):
        return "thoughts"
    if _is_unfilled(text, content):
        return "template"
    if is_loop(text):
        return "loop"
    return "cut" if _is_truncated(text) else ""


def list_content(text: str) -> list[str]:
    """Return the lines of a text with content: without headings."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not _HEADING.match(line)]


def is_call(text: str) -> bool:
    """Return whether a text is, or contains, a call of a tool."""
    return bool(_CALL.search(text))


def strip_labels(text: str) -> str:
    """Return the content of a text without the labels of its lines."""
    lines = (line for line in list_content(text) if not _TITLE.fullmatch(line))
    labels = ((line, _LABEL.match(line)) for line in lines)
    rest = (line[label.end() :] if label else line for line, label in labels)
    return "\n".join(_INNER_LABEL.sub("", line) for line in rest)


def begins_an_answer(text: str) -> bool:
    """Return whether a text begins like an answer, and does not announce a summary."""
    first = split_sentences(text[:400])[:2]
    return bool(_ANSWERS.match(text)) and not _ABOUT_ITSELF.search(" ".join(first))


def offers_more(text: str) -> bool:
    """Return whether a text ends with an offer or a wish."""
    return bool(_OFFERS_MORE.search(text[-250:]))


def addresses_reader(text: str) -> bool:
    """Return whether much of a text addresses a person."""
    return len(_YOU.findall(text)) * 40 >= len(_WORD_OR_SIGN.findall(text.casefold())) + 20


def is_mostly_code(text: str) -> bool:
    """Return whether much of a text is a block of code."""
    blocks = text.split("```")[1::2]
    return sum(map(len, blocks)) * 5 >= len(text) * 2 if blocks else False


def reports(text: str) -> bool:
    """Return whether a text reports wishes or actions of somebody."""
    return bool(_REPORTS.search(text))


def is_dialogue(text: str) -> bool:
    """Return whether a text is written as a dialogue."""
    lines = list_content(text)
    said = [found[1].casefold() for line in lines if (found := _SPEAKER.match(line))]
    return len(said) > 2 and len(said) * 2 >= len(lines) and len(set(said)) > 1


def mentions_past(sentence: str) -> bool:
    """Return whether a sentence says that something was true earlier."""
    return bool(_BEFORE.search(sentence))


def _thinks_aloud(text: str) -> bool:
    """Return whether a text deliberates about what to write, instead of writing it."""
    begins = bool(_DELIBERATES_FIRST.match(text))
    doubts = len(_DELIBERATES.findall(text[:_LONGEST]))
    return (begins and (doubts >= 1 or bool(_ABOUT_ITSELF.search(text[:300])))) or doubts >= 3


def _is_unfilled(text: str, content: list[str]) -> bool:
    places, fields = (len(one.findall(text[:_LONGEST])) for one in (_PLACE, _FIELD))
    count = places + (fields if fields > 1 else 0)
    is_void = len(content) > 1 and all(_NOTHING.match(line) for line in content)
    return is_void or (count > 0 and count * 3 >= len(content))


def is_loop(text: str) -> bool:
    """Return whether a text repeats itself: sentences, or words in a row."""
    text = text[:_LONGEST].casefold()
    sentences = [one for one in split_sentences(text) if len(one) > 3]
    repeated = len(sentences) - len(set(sentences))
    if repeated >= _LEAST_LOOPS - 1 and repeated * 2 >= len(sentences):
        return True
    words = _WORD_OR_SIGN.findall(text)
    rows = Counter(zip(*(words[n:] for n in range(_ROW)), strict=False))
    return len(words) > 4 * _ROW * _LEAST_LOOPS / 2 and len(rows) * 2 < len(words)


def _is_truncated(text: str) -> bool:
    """Return whether a text ends in the middle of a sentence, or of a block of code."""
    text = text.rstrip()
    if text.count("```") % 2 or _DANGLES.search(text):
        return True
    *before, last = split_sentences(text)
    if _VERB_LAST.search(last) and not _SUBORDINATE.search(last):
        return True
    ended = sum(bool(_ENDED.search(one)) for one in before)
    is_prose = len(before) >= 2 and ended == len(before) and not _LISTED.match(last)
    return is_prose and not _ENDED.search(last) and len(last) > 8 and not needs_no_period(text)


def needs_no_period(text: str) -> bool:
    """Return whether the last line is a list item, or a few words behind a label, which need no
    full stop."""
    return bool(_FREE_LINE.match(text.rstrip().rsplit("\n", 1)[-1]))


_FREE_LINE = lazy(
    r"\s*(?:[-*+•]|\d{1,3}[.)])\s|[^.!?:：]{1,40}[:：]\s*\S{1,40}(?:\s\S{1,40}){0,3}$"
)
_HEADING = lazy(r"#{1,6}\s|[-=*_]{3,}\s*$|<[^<>]{1,60}>\s*$|[^\n]{0,60}[:：]\**\s*$")
_NOTHING = lazy(
    r"(?:[-*•]\s*)?(?:\*\*)?(?:[\w ]{1,40}[:：]\s*)?(?:\*\*)?\s*"
    r"(?:n/a|none|nothing|null|tbd|-+|…|\.\.\.|keine?s?|nichts|无|無|没有|沒有|暂无)?[.。]?\s*$",
    re.IGNORECASE,
)
_THOUGHT_TAG = lazy(
    r"</?\s*(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|analysis"
    r"|inner_monologue)\s*>"
    r"|◁/?think▷|<\|channel\|>|\[/?THINK\]",
    re.IGNORECASE,
)
_DELIBERATES_FIRST = lazy(
    r"[\s*_\"]*(?:ok(?:ay)?|alright|all right|hmm+|so|well|right|wait|first)\b[,.…]*\s*"
    r"(?:so |then |first,? )?(?:the user|the person|I|let['’]?s|let me|we|this|now|what)\b"
    r"|[\s*_\"]*(?:let me|let['’]s (?:see|think)|I need to|I have to|I should|I must|we need to"
    r"|the user (?:wants|asks|is asking) (?:me|us)|my task is|the task is to)\b"
    r"|[\s*_\"]*(?:also|okay|ok|gut|hm+|na gut|moment)[,.…]*\s*(?:ich|der nutzer|die person|lass"
    r"|wir"
    r"|zuerst|mal)\b|[\s*_\"]*(?:ich (?:soll|muss|sollte)\b|mal (?:sehen|überlegen)|lass mich)"
    r"|\s*(?:好的?|嗯+|首先|那么|那麼)?[，,。…]*\s*(?:我(?:需要|应该|應該|要|得|来|來)|让我|讓我"
    r"|用户(?:要求|让|想让)我)",
    re.IGNORECASE,
)
_DELIBERATES = lazy(
    r"\b(?:wait|hmm+|let me (?:think|see|check|write|start|re-?read)|I should (?:probably |also )?"
    r"(?:mention|include|write|note|keep)|should I|maybe I|I think I|I['’]ll (?:write|start"
    r"|include)"
    r"|let['’]s (?:see|think)|I need to (?:summari[sz]e|write|make sure|include|keep))\b"
    r"|\b(?:hm+|moment|mal (?:überlegen|sehen)|sollte ich|ich sollte|soll ich|vielleicht sollte"
    r"|ich schreibe|ich muss (?:noch|auch)|lass mich)\b"
    r"|嗯|等等|让我(?:想|看|先)|讓我(?:想|看)|我应该|我應該|也许(?:可以|我)|是不是(?:也)?要"
    r"|也要提到|我需要(?:总结|写|先)",
    re.IGNORECASE,
)
_ABOUT_ITSELF = lazy(
    r"summar|recap|notes\b|conversation|zusammenfass|gespräch|notizen|总结|總結|摘要|概括|对话"
    r"|對話",
    re.IGNORECASE,
)
_FIELD = lazy(r"\{\{?\s*[\w ]{2,40}\s*\}\}?")
_PLACE = lazy(
    r"[\[<](?:insert|enter|your|add|describe|list|name|date|user|topic|fill|summary|placeholder"
    r"|einfügen|hier|dein|ihr|datum|beschreib|liste|请|填写|此处|在此|姓名|日期)[^\]>\n]{0,80}[\]>]"
    r"|\b(?:TBD|XXX+|lorem ipsum)\b",
    re.IGNORECASE,
)
_LABEL = lazy(
    r"(?:[-*•]\s*|\d{1,2}[.)]\s*)?(?:\*\*[^*]{1,60}\*\*[:：]?|[^:：.。]{1,40}(?:：|:(?!\d)))\s*"
)
_INNER_LABEL = lazy(r"(?:(?<=[.;!?] )|\*\*)(?:[\w'-]{1,30} ){0,3}[\w'-]{1,30}(?::|\*\*:?)(?=\s)")
_TITLE_WORD = r"(?:[A-Z][\w'-]{1,30}|and|of|the|for|to|&)"
_TITLE = lazy(rf"\W*{_TITLE_WORD}(?: {_TITLE_WORD}){{0,4}}\W*")
"""A line of a few capitalised words, like a title."""
_ANSWERS = lazy(
    r"[\s*_#]*(?:sure|of course|certainly|absolutely|definitely|gladly|happy to|no problem"
    r"|great (?:question|idea|choice)|good (?:question|idea)|you['’]re welcome|thank you for"
    r"|thanks for|here(?:['’]s| is| are)|to do (?:this|that)|you can\b|you should\b|try\b"
    r"|natürlich|gern(?:e)?\b|klar\b|selbstverständlich|sicher\b|gute (?:frage|idee)|hier (?:ist"
    r"|sind)"
    r"|kein problem|du kannst|sie können|das ist eine"
    r"|good news|gute nachrichten?\b"
    r"|当然|當然|好的|好消息|没问题|沒問題|好问题|以下是|下面是|您好|你好|谢谢|您可以|你可以)",
    re.IGNORECASE,
)
_OFFERS_MORE = lazy(
    r"let me know|feel free|would you like|do you (?:want|need)|shall I|hope (?:this|that) helps"
    r"|(?:any|more|other|further) questions|enjoy (?:your|the)|good luck|happy to help"
    r"|have a (?:nice|great|good)"
    r"|sag(?:e|en Sie)?(?: mir)? (?:einfach )?bescheid|melde? dich|möchtest du|möchten Sie|soll ich"
    r"|viel (?:spaß|erfolg|glück)"
    r"|bei fragen|weitere fragen|hoffe,? das hilft|lass es mich wissen"
    r"|告诉我|告訴我|你(?:愿意|想要|要不要|需要)[^。！]{0,30}[吗？]|需要我|如果您?(?:还)?需要|祝您|祝你|希望(?:对您|对你|这)|还有什么|随时",
    re.IGNORECASE,
)
_YOU = lazy(
    r"\b(?:you|your|yours|you['’](?:re|ll|ve)|du|dein\w{0,2}|dir|dich|Ihnen|Ihre?[nmrs]?)\b|[您你]"
)
_REPORTS = lazy(
    r"\b(?:user|person|client|they|asked|wants?|wanted|requested|mentioned|discussed|decided|agreed"
    r"|explained|recommended|planned|plans to|said that|was told|conversation)\b"
    r"|\b(?:nutzer(?:in)?|benutzer|fragte|wollte|bat|möchte|besprochen|entschieden|empfahl|wurden?"
    r"|gespräch|assistent(?:in)?)\b"
    r"|用户|讨论|討論|决定|決定|助手|询问|詢問|提到|要求|对话",
    re.IGNORECASE,
)
_SPEAKER = lazy(
    r"\**(user|human|person|me|you|assistant|ai|bot|nutzer|benutzer|mensch|assistent(?:in)?|ich|du"
    r"|用户|用戶|助手|我|你|客服)\**\s*[:：]",
    re.IGNORECASE,
)
_BEFORE = lazy(
    r"\b(?:not|no longer|instead of|rather than|first|initially|originally|formerly|previously"
    r"|earlier"
    r"|was corrected|corrected from|moved from|changed from|used to|nicht"
    r"|statt(?!\s*[.,;!?]|\s*$)|anstatt|zuerst"
    r"|zunächst|ursprünglich|vorher|früher|korrigiert|verschoben)\b|不是|而不是|原来|原來|原[定为]|之前|本来"
    r"|改为|改為",
    re.IGNORECASE,
)
_WORD_OR_SIGN = lazy(r"[a-z\d\u00df-\u052f]+|[^\W_]")
_ENDED = lazy(r"[.!?…。！？;；:：)\]）】」』”\"'`*|]\s*(?:\(t\d+\)|\[t\d+\])?$")
_LISTED = lazy(r"[-*•–·|#]|\d{1,2}[.)、]|\[[ x]?\]")
_DANGLES = lazy(
    r"(?:[,;(\[{\u201e\u201c«“]|\s[-–—&+/]|[，、；（「『“《])$"
    r"|\s(?:the|a|an|of|to|and|or|with|for|which|is|are|was|were|has|have|his|her|their|its"
    r"|der|die|den|dem|des|einen|einem|und|oder|für|zum|zur|von|vom|im|dass|weil"
    r"|le|la|les|de|du|des|et|ou|los|las|con|para|por|que)$"
    r"|(?:的|和|与|在|把|被|由|并|并且|而且|以及|需要|因为|但是|还要|还需要)$",
    re.IGNORECASE,
)

_VERB_LAST = lazy(r"\s(?:ist|sind|wird)$", re.IGNORECASE)
_SUBORDINATE = lazy(
    r"\b(?:wenn|sobald|dass|weil|bis|bevor|nachdem|falls|ob|da|was|wo|wie|d(?:ie|er|as))\b"
)
"""Words of a German clause with its verb at the end."""

_SORRY = (
    r"I['’]?m (?:very |so |really )?sorry|I am (?:very |so |really )?sorry|Sorry|I apologi[sz]e"
    r"|My apologies|Unfortunately"
    r"|Es tut mir (?:sehr )?leid|Tut mir (?:sehr )?leid|Entschuldigung|Leider"
    r"|Lo siento(?: mucho)?|Lamentablemente|Disculpa|Perdón"
    r"|Je suis (?:vraiment )?désolée?|Désolée?|Malheureusement"
    r"|Mi dispiace|Purtroppo|Desculpe|Sinto muito|Infelizmente|Het spijt me|Helaas"
    r"|Przepraszam|Přepáčte|Omlouvám se|Jag är ledsen|Tyvärr|Beklager|Üzgünüm"
    r"|Извините|Простите|К сожалению|Вибачте|На жаль"
    r"|抱歉|很抱歉|非常抱歉|对不起|對不起|不好意思|申し訳(?:ありません|ございません)|すみません"
    r"|ごめんなさい"
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
_REFUSAL = lazy(
    rf"[\s\"'*#>-]*(?:{_SORRY})[\s,，.、。:;!-]*(?:but |aber |pero |mais |ma |mas |maar |но |，|,)?"
    rf"\s*.{{0,40}}?(?:{_CANNOT})"
    rf"|[\s\"'*#>-]*(?:I (?:can['’]?t|cannot|can not|won['’]?t|am unable to|am not able to)"
    rf" (?:{_VERBS})"
    r"|(?:As|I am|I['’]m) an AI\b|You are an? (?:\w+ ){0,2}assistant\b|Ich bin eine? KI\b"
    r"|我是(?:一个|一個)?(?:人工智能|AI)"
    r"|Ich kann (?:dabei |damit |Ihnen |dir )?nicht (?:helfen|zusammenfassen)"
    r"|No puedo (?:ayudar|resumir|cumplir|asistir)"
    r"|Je ne (?:peux|puis) pas (?:vous |t['’])?(?:aider|résumer)"
    r"|Non posso (?:aiutar|riassumere)|Não posso (?:ajudar|resumir)"
    r"|Я не могу (?:помочь|выполнить|ответить|обсуждать)"
    r"|我(?:无法|不能|無法)(?:协助|帮助|总结|提供|完成|協助|幫助|總結))",
    re.IGNORECASE,
)
_CALL = lazy(
    r"</?(?:antml:)?(?:tool_call|function_calls?|invoke|tool_use|function=|parameter=)"
    r"|<\|[^|<>]{0,40}tool[^|<>]{0,40}\|>"
    r"|<｜tool|\[TOOL_CALLS?\]|\bto=functions\.|\"tool_calls\"\s*:\s*\["
    r"|^\s{0,20}+(?:```(?:json)?\s{0,9}+)?\[?\s{0,9}+\{\s{0,20}+\"(?:name|tool|function)\"\s{0,9}+:\s{0,9}+\"[\w.-]{1,64}\"\s{0,9}+,"
    r"\s{0,20}+\"(?:arguments|parameters|input)\"",
    re.IGNORECASE | re.MULTILINE,
)
