"""The words by which a person corrects, in English, German and Chinese."""

from __future__ import annotations

import re

from memory.context.wording import cue
from memory.patterns import lazy

_MOVED_BY = (
    r"(?:extended|moved|changed|pushed|shifted|postponed|switched|bumped|delayed|rescheduled|"
    r"raised|"
    r"lowered|cut|increased|reduced|brought forward|put back)"
)
_SLIPS = (
    r"hold on|as of (?:now|today|this \w+)|is the (?:right|correct) \w+|swapped|transposed|mixe?d? "
    r"(?:those|"
    r"them|these|that|it|the two) up|misspoke|my bad|whoops|whoopsie|i messed up|got that mixed up|"
    r"change of plans?|new plan|"
    r"outdated|out of date|no longer (?:valid|current|true|correct|right|in use|works?)|"
    r"(?:just|recently) changed|let's say|"
    r"(?:got|have|has|there's) a new (?:number|address|e-?mail|phone|password|code|room|date|time)|"
    rf"(?:they|we|he|she|it|has been|have been)(?: just| have| has|'ve)? {_MOVED_BY} (?:\w+ "
    rf"){{0,4}}?to|"
    rf"(?:got|gets|was|were|is|been) {_MOVED_BY}(?: back| up| out)? to|"
    r"zahlendreher|verwechsl?e|(?:ist|wäre) (?:richtig|korrekt|der richtige|die richtige|das "
    r"richtige)|"
    r"(?:ab|seit) (?:heute|gestern|diese[rm] \w+)|streich das|vertan|verschrieben|verhört|"
    r"verrechnet|habe? mich versprochen|mein fehler|"
    r"planänderung|neuer plan|(?:stimmt|gilt|geht|funktioniert) nicht mehr|veraltet|"
    r"(?:gerade|eben|neulich|inzwischen) geändert|sagen wir|"
    r"neue (?:nummer|adresse|mail|mailadresse|e-mail|handynummer)|neuer (?:raum|termin|code)|"
    r"neues (?:passwort|datum)|(?:wurde|ist|wird|haben|hat|"
    r"habe)\b.{0,60}?\bauf\b.{0,60}?\b(?:geändert|verlängert|vorgezogen|"
    r"gelegt|erhöht|gesenkt|gekürzt|angehoben)|was verwechselt|durcheinander ?gebracht"
)
_SLIPS_IN_CHINESE = (
    "等下|唉|记混|写反|弄反|才对|才是|口误|笔误|搞错|哎呀|推到|延到|延期到|延后到|延长到|挪到|换到|调到|改地方|换地方|换号码|换了号码|换邮箱|"
    "换了邮箱|不用了|作废|计划有变|有变动|涨到|降到"
)
SIGN = cue(
    """
    t not instead rather meant mean make actually sorry no nope wait oops typo mistyped misread
    mistake correct correction wrong mixed forget better change changed move moved postpone
    postponed reschedule rescheduled shift shifted should now update scratch after said let nicht
    sondern statt anstatt stattdessen meine meinte nein nee moment halt ups quatsch doch eigentlich
    jetzt nun lieber draus daraus korrektur korrigier korrigiere tippfehler vertippt verlesen geirrt
    falsch falsche falscher falsches falschen richtig fehler müsste sollte verlegt verleg gewechselt
    sagte gemeint verwechselt vergiss misspoke bad whoops whoopsie messed plan plans outdated date
    longer just recently new extended pushed switched bumped delayed raised lowered cut increased
    reduced brought put streich vertan verschrieben verhört verrechnet versprochen planänderung
    stimmt gilt geht funktioniert veraltet gerade eben neulich inzwischen sagen neue neuer neues
    geändert verlängert vorgezogen gelegt erhöht gesenkt gekürzt angehoben verschoben
    durcheinander durcheinandergebracht erst
    hold as swapped transposed mix mixes mixed zahlendreher verwechsle verwechse richtig
    korrekt wäre richtige ab seit
    """,
    "ntschuldig änder Änder erschieb erschob ERSCH ÄNDER NTSCH 不 改 更 错 其实 我是说 意思 应该 "
    "抱歉 现在 换成 推迟 提前 等等 正确 还是 指的是 弄混 "
    "搞混 挪 调 口误 笔误 等下 唉 记混 反 才 "
    "哎呀 推到 延 换 不用了 作废 变 涨到 降到 要",
    lazy(
        r"n't\b|\b(?:not|instead|rather|meant?|mean|make|actually|sorry|no|nope|wait|oops|typo|"
        r"mistyped|misread|mistake|correct"
        r"|correction|wrong|mixed|forget|better|changed?|moved?|postponed?|rescheduled?|shifted|"
        r"should|now|update|scratch|after all|said|let's"
        r"|nicht|sondern|statt|anstatt|stattdessen|meine|meinte|nein|nee|moment|halt|ups|quatsch|"
        r"doch|eigentlich|jetzt|nun|lieber|draus|daraus"
        r"|korrektur|korrigiere?|tippfehler|vertippt|verlesen|geirrt|falsche?[rsn]?|richtig|fehler|"
        r"entschuldig\w*|müsste|sollte|änder\w*|verschieb\w*|verschoben|verlegt?|gewechselt|sagte|"
        r"gemeint|verwechselt|vergiss|geändert)\b"
        rf"|\b(?:{_SLIPS}|erst)(?!\w)|{_SLIPS_IN_CHINESE}|要.{{1,6}}才"
        r"|不|改|更|错|其实|我是说|意思|应该|抱歉|现在|换成|推迟|提前|等等|正确|还是|指的是|弄混|"
        r"搞混|挪|调",
        re.IGNORECASE,
    ),
)
_MAY_PAIR = (
    *("not", "n't", "nicht", "forget", "vergiss", "instead", "rather", "place", "stat", "anst"),
    *("said", "wrote", "told", "sagte", "schrieb", "gesagt", "不", "说"),
)


def may_name_both(sentence: str) -> bool:
    """Return whether a sentence has a word without which it does not name an old value beside a new
    one."""
    folded = sentence.casefold()
    return any(map(folded.__contains__, _MAY_PAIR)) or MOVED.search(sentence) is not None


SENTENCE = lazy(
    r"[^.!?。！？\n;；]*(?:\.(?!\s|$)[^.!?。！？\n;；]*|(?<=\d)\.(?=\s+\w)[^.!?。！？\n;；]*|"
    r"(?<=\bDr)\.[^.!?。！？\n;；]*|(?<=\bMr)\.[^.!?。！？\n;；]*|"
    r"(?<=\d)\.(?=,)[^.!?。！？\n;；]*)*[.!?。！？]*"
)
QUOTED = lazy(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|«[^»\n]{1,300}»|『[^』\n]{1,300}』|\"[^\"\n]{1,300}\"|"
    r"“[^”\n]{1,300}”|„[^“”\n]{1,300}[“”]|「[^」\n]{1,300}」|"
    r"`[^`\n]{1,300}`|^>[^\n]*$",
    re.MULTILINE | re.DOTALL,
)
NO_CORRECTION = lazy(
    r"\bnot (?:only|just|even|more than|less than|at all|yet)\b|\bnicht (?:nur|mehr als|weniger|"
    r"bevor)\b|\bat least\b|\bmindestens\b"
    r"|不仅|不只|不光|至少",
    re.IGNORECASE,
)
_SMALL = (
    r"(?:\s*(?:in|on|at|for|to|by|the|a|an|until|till|about|mr|mrs|ms|dr|its|it's|am|im|um|der|den|"
    r"die|das|dem|nach|unter|bis|für|auf|bei|an|zum|herr|herrn|frau|linie|gleis|platform|room|port|"
    r"在|去|到|叫|住|住在|给|用|号|是)\b\.?)*\s*"
)
NEW_THEN_OLD = lazy(
    rf"[^.!?;\n]{{0,32}}?[,–—-]?\s*(?:and |und |，|,)?\s*(?:\bnot|\binstead of|\brather than|"
    rf"\bin place of|\bnicht(?: mehr)?|\bstatt|\banstatt|\banstelle von){_SMALL}$"
    r"|[^。！？；]{0,10}?[，,]?\s*(?:而不是|不再?是|不叫|不在|不去|不住在|不用|不要)\s*$",
    re.IGNORECASE,
)
DENIED = lazy(
    rf"(?:\bnot|n't(?: \w+)?|\bnicht(?: \w+)?|\b(?:forget|vergiss)\b.{{0,30}}|"
    rf"不再?是|不叫|不住在?|不在|不去){_SMALL}$",
    re.IGNORECASE,
)
OLD_THEN_NEW = lazy(
    rf"[^.!?;\n]{{0,24}}?\s*[,–—-]\s*(?:(?:but|it's|it is|rather|sondern|es ist|he|she|they|we|"
    rf"it|er|sie|\w+) ?(?:\w+ ){{0,3}}?)?{_SMALL}$"
    rf"|\s*(?:but|sondern)\s+(?:\w+ ){{0,3}}?{_SMALL}$|[^。！？；]{{0,6}}?[，,]\s*(?:而是|是|而|"
    rf"住在?|叫|在|去)?\s*$",
    re.IGNORECASE,
)
MOVED = lazy(
    r"\b(?:chang|mov|postpon|shift|reschedul|switch|updat|verschieb|verschob|verleg|änder|"
    r"gewechselt|wechsel|umgebucht)\w*"
    r"|改|推迟|提前|换|调整|更正",
    re.IGNORECASE,
)
FROM = lazy(
    rf"(?:\bfrom|\bvom|\bvon|\bchange|\bmove|\bändere|\bändre|从|把){_SMALL}$", re.IGNORECASE
)
TO = lazy(
    rf"(?:\s*[^\W\d]{{1,12}})?\s*(?:\bto|\binto|\bauf|\bin|改到|改为|改成|推迟到|提前到|换成|"
    rf"更正为|到|为){_SMALL}$",
    re.IGNORECASE,
)
SAID = lazy(
    r"\b(?:i said|i wrote|i told you|ich sagte|ich schrieb|ich habe gesagt)\s(?:\w+\s){0,2}$|"
    r"我(?:刚才)?说(?:的是|了|是)$",
    re.IGNORECASE,
)
BUT = lazy(r".{0,16}(?:\bbut\b|\baber\b|其实|但是|，)", re.IGNORECASE)
STRONG = lazy(
    r"\b(?:i meant?|correction|please correct|make (?:it|that|them)|scratch that|typo|"
    r"(?:i )?mistyped|misread|i was wrong|i made a mistake|my mistake|"
    r"mixed (?:it|that|this|them|\w+) up|(?:got|was|is|been) wrong|wrong[,:. ]|wrong (?:\w+)|"
    r"oops|should (?:be|read)|update:|ich mein(?:t)?e|gemeint (?:war|ist)|korrektur|korrigiere?|"
    r"tippfehler|vertippt|verlesen|verwechselt|geirrt|falsche?\w*|richtig ist|mein fehler|ups|"
    r"quatsch|stattdessen|müsste|draus|daraus|mach lieber)(?!\w)"
    r"|\b(?:got|was|were|is|been|has) (?:moved|changed|postponed|rescheduled|shifted|"
    r"pushed) to\b|\b(?:wurde|ist|wird)\b.{0,80}?\bauf\b.{0,80}?\b(?:verschoben|verlegt|geändert)\b"
    r"|^\W*(?:please |can you |let's |bitte )?(?:change|move|shift|postpone|reschedule|update|"
    r"set|ändere|ändre|verschiebe?|verlege?|leg)\b.{0,160}\b(?:to|auf)\b"
    r"|更正|纠正|我是说|指的是|意思是|改成|改为|改到|改用|换成|改一下|应该是|"
    r"[说记打输搞看写弄]错|[弄搞]混|错了|正确的是|推迟到|提前到|[挪调]到"
    rf"|\b(?:{_SLIPS})(?!\w)|{_SLIPS_IN_CHINESE}|要.{{1,6}}才",
    re.IGNORECASE,
)
WEAK = lazy(
    r"^\s*(?:no|nope|sorry|wait|actually|nein|nee|sorry|moment|halt|entschuldig\w*|eigentlich|"
    r"hmm better|oops|ups)\b|\b(?:actually|sorry|now|after all|let's make|update|instead|"
    r"eigentlich|doch|jetzt|nun|lieber|entschuldig\w*|"
    r"erst|just changed)\b|^\s*不[，,对是]|其实|现在是|抱歉|"
    r"不好意思|等等|更新|改|还是",
    re.IGNORECASE,
)
MEANT = lazy(
    r"\b(?:i meant?|ich mein(?:t)?e|gemeint (?:war|ist)|correction|korrektur)\b", re.IGNORECASE
)
INSTEAD = lazy(r"\b(?:instead of|rather than|in place of|statt|anstatt)\b", re.IGNORECASE)
CJK_NEW_OLD = lazy(
    r"^.*(?:叫|是|住在|在|去|到了?|给|姓|用|名为|称为)([\u4e00-\u9fff]{1,8})[，,]\s*(?:而)?不(?:"
    r"是|叫|在|去|姓|住在?|给|用)([\u4e00-\u9fff]{1,8})[。！]?\s*(?:[，,].{0,12})?$"
)
CJK_OLD_NEW = lazy(
    r"不(?:是|叫|在|去|姓|住在?|给|用)([\u4e00-\u9fff]{1,8}?)了?[，,]\s*(?:而|现在|已经|改|换)*(?:是|叫|"
    r"在|去|姓|住在?|给|用|成)([\u4e00-\u9fff]{1,8}?)(?:了|吧)?[。！]?\s*$"
)
CJK_FRAME = lazy(
    r"^(?:不对|不是|错了|[说记打搞写弄]错了?|更正一?下?|哎呀|抱歉|不好意思|等等)[，,。！\s]*(?:应该)?((?:我|我家|"
    r"我们|他|她|它|公司|学校|我[\u4e00-\u9fff]{1,3})(?:住在|叫|姓|在|是|来自))([\u4e00-\u9fff]{1,8}?)[。！]?$"
)
"""A name that takes the place of another one that was said in the same words."""
CUES = lazy(
    r"\b(?:no|nope|sorry|wait|actually|nein|nee|moment|halt|entschuldig\w*|eigentlich|now|"
    r"jetzt)\b|不对|抱歉|不好意思|等等|其实|现在",
    re.IGNORECASE,
)
STRONG_WORDS = lazy(
    rf"\b(?:{_SLIPS})(?!\w)|{_SLIPS_IN_CHINESE}|"
    r"\b(?:use|nimm|code|update|instead|correction|please|correct|make (?:it|that|them)|scratch "
    r"that|typo|"
    r"mistyped|misread|i was wrong|(?:i made a|my) mistake|mix(?:ed)? up|wrong|oops|hmm|better|"
    r"should be|after all|let's|make|change|move|set|tippfehler|vertippt|verlesen|geirrt|mich|hab|"
    r"falsche?\w*|richtig|fehler|ups|quatsch|stattdessen|müsste|sein|draus|daraus|mach|lieber|"
    r"doch|nun|korrektur|korrigiere?|bitte|lass uns|update)\b|更正|纠正|我是说|指的是|意思是|"
    r"改[成为到用]|换成|改一下|应该是|[我]?[说记打输搞看写弄给]错了?|正确的是|推迟到|提前到|"
    r"[挪调]到|更新|还是|[吧了把个]",
    re.IGNORECASE,
)
