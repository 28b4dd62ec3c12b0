"""The shapes of standing instructions in English."""

from __future__ import annotations

from memory.patterns import PatternList
from plugins.instructions.detect_shapes import SaidSentence

# Verbs of what a bot does: with one of them in front, an order is likely to be for it.
_VERBS = (
    "accept|act|add|address|adjust|agree|allow|answer|append|apply|approve|archive|ask|assume|"
    "attach|"
    "avoid|back|base|be|begin|book|bring|buy|call|cancel|capitali[sz]e|change|check|choose|cite|"
    "close|"
    "comment|commit|compare|compose|confirm|consider|contact|convert|copy|correct|count|create|cut|"
    "default|delete|deploy|describe|disclose|discuss|display|double-check|draft|drop|edit|email|"
    "end|"
    "ensure|exclude|execute|explain|export|fetch|file|fill|filter|finish|fix|flag|follow|format|"
    "forward|generate|get|give|go|greet|guess|handle|hide|highlight|ignore|include|indent|inform|"
    "insert|install|interrupt|introduce|invent|keep|label|leave|limit|link|list|log|look|mail|make|"
    "mark|measure|mention|merge|message|modify|move|mute|name|note|notify|offer|omit|open|order|"
    "overwrite|pay|phrase|pick|ping|plan|post|prefer|prefix|present|pretend|print|prioriti[sz]e|"
    "proofread|provide|publish|push|put|quiz|quote|read|recommend|refer|refuse|reject|remind|"
    "remove|rename|"
    "repeat|replace|reply|report|respect|respond|return|reveal|review|rewrite|round|run|save|say|"
    "schedule|search|see|send|separate|set|share|show|sign|skip|sort|speak|spell|start|state|stay|"
    "stick|stop|store|suggest|summari[sz]e|switch|tag|talk|tell|test|text|touch|track|translate|"
    "treat|"
    "truncate|try|tweet|type|update|upload|use|validate|verify|wait|wake|walk|warn|wrap|write"
)
_VERB = rf"(?:{_VERBS})\b"
# Verbs of how a person lives and feels: "never give up" is no order for a bot.
_OF_LIFE = (
    r"(?:say never|give up|forget|lose|believe|dream|feel|know|love|hate|worry|fear|regret|"
    r"hesitate|doubt|"
    r"underestimate|settle|trust|hope|think|wonder|cry|smile|laugh|enjoy|live|be (?:afraid|sorry|"
    r"shy|yourself|so|too)|let (?:go|it|that|them|him|her|you|anyone|anything|the|fear|your)|stop "
    r"(?!apologi|ask)|get (?!my|me)|take|remember|cherish|appreciate|follow|stay|have|"
    r"keep (?:going|"
    r"trying|your|up|on|it up)|look (?:on|forward|at)|listen|learn|mind|surrender|go|try|"
    r"make (?:you|sure you|time)|do (?:your|what|it|that)|be)\b"
)
_NO_VERB = (
    r"(?:been|seen|had|gone|done|known|heard|thought|knew|felt|met|got|came|went|saw|tried|wanted|"
    r"gonna|again|really|quite|too|so|the|an?|i|you|he|she|it|they|we|that|this|these|those|in|on|"
    r"at|"
    r"for|with|to|of|from|good|nice|great|happy|glad|fun|wonderful|my|your|his|her|their|our|was|"
    r"were|"
    r"is|are|has|did|does|here|there|up|down|out|off|over|full|ready|calm|nice|fun|able|can|could|"
    r"would|will|should|might|may|must|not|as|just|more|before|after|"
    r"once|anything|something|nothing|thinking|by|but|or|and|if|when|because|\w+ed|\w*[aeiouy]\w*ing|"
    r"\w{2,}n't|said|told|made|gave|took|found|left|lost|won|fails?|works?|comes|gets|goes|makes)\b"
)
_STATE = (
    r"(?:want|need|know|have|like|think|believe|see|seem|mean|mind|care|understand|miss|stress|"
    r"worry|quit|even|get me|push|feel|agree|deserve|matter|beat|sweat|judge|panic)\b"
)
_PLEASE = r"(?:(?:please|pls|plz|kindly|just|also|now|then|simply)\s+)*"
_NEVER = (
    r"(?:never(?:,? (?:ever|again|and i mean never))*,?|nver|under no circumstances|at no point|"
    r"at no time)"
)
_ALWAYS = r"(?:al+ways(?:,? always)?)"
_DONT = r"(?:don't|dont|do not|donot)"
_FROM_NOW = (
    r"(?:from (?:now|here|this point|today|tonight|this day) (?:on(?:wards?)?(?: out)?|out|"
    r"forward)|going forward|"
    r"moving forward|from here on(?: out)?|from today|from tomorrow|in (?:the )?future|henceforth|"
    r"hereafter|until further notice|"
    r"until i (?:say|tell)\b|for the time being|starting (?:now|today|tomorrow)|"
    r"effective immediately|"
    r"as of (?:today|now)|(?:for|in|during) the (?:rest|remainder) of (?:this|our|the) "
    r"(?:chat|conversation|session)|for all (?:future|further|my|your|our)(?: \w+)?\b|permanently|"
    r"for good\b|"
    r"every time after|(?:in|for) (?:every|each|all) (?:answers?|repl(?:y|ies)|responses?|"
    r"messages?|recipes?|emails?|chats?|conversations?|future\b))"
)
_LASTING = (
    rf"(?:\b(?:{_NEVER}|{_ALWAYS}|ever|any ?more|no longer|at all times|by default|every time|"
    rf"each time|whenever|any ?time|unless i\b|unless told|without (?:my|me|asking|permission|"
    rf"checking|telling)|{_FROM_NOW})\b)"
)
_ANYTHING = r"\b(?:any(?:one|body|thing|where)|every(?:one|body|thing)|nobody|no one|everywhere)\b"
_ONCE = (
    r"\b(?:yet|(?<!from )(?<!as of )(?<!starting )today|(?<!from )tonight|tomorrow|right now|"
    r"this time|for now|this (?:week|weekend|month|morning|"
    r"evening|afternoon|one)|next week|until (?:monday|tuesday|tomorrow|then)|at the moment)\b"
)
_OF_A_PERSON = (
    r"\b(?:yourself|your (?:heart|dreams?|passions?|goals?|journey|life|hopes?|family|kids?|own)|"
    r"yourselves|hopes?|dreams)\b"
)
_STYLE = (
    r"(?:emojis?|smileys|emoticons|bullets?|bullet points?|markdown|small ?talk|disclaimers?|"
    r"summar(?:y|ies)|jokes?|puns?|spoilers?|headings?|headers?|tables?|explanations?|apolog(?:y|"
    r"ies)|"
    r"greetings?|fillers?|filler words|abbreviations|acronyms|jargon|slang|flattery|compliments?|"
    r"praise|pleasantries|exclamation (?:marks?|points?)|em[- ]?dashes|hashtags?|caps|swearing|"
    r"profanity|clich[eé]s?|buzzwords?|intros?|introductions?|outros?|preambles?|"
    r"follow-?up questions|"
    r"suggestions|reminders|warnings|caveats|lectures?|lecturing|moraliz?ing|comments?|"
    r"code comments|"
    r"footnotes|anglicisms|passive voice|sarcasm|sugar-?coating|fluff|yapping|rambling|formatting|"
    r"bold(?: text)?|links?|ads?|advertising|meetings?|qqq+)"
)
_LANGUAGES = (
    r"(?:english|german|chinese|mandarin|french|spanish|italian|polish|turkish|dutch|russian|"
    r"japanese|"
    r"korean|portuguese|arabic|hindi|swedish|danish|norwegian|finnish|greek|ukrainian|czech|latin)"
)
_MARKED = (
    rf"(?:{_LASTING}|\b(?:in general|generally|as a rule|exclusively|everything (?:i|you|we|in|"
    rf"into|as|like)|anything (?:i|you)|"
    rf"(?:every|each|any) \w+(?: that)? (?:i|you)\b|every single|all (?:my|your) \w+|in all|"
    rf"like i'm|for (?:everything|anything)))"
)
_REPLIES = (
    r"(?:answers?|repl(?:y|ies)|responses?|messages?|emails?|mails?|dates|times|numbers|amounts|"
    r"prices|"
    r"reports?|summaries|documents?|code|commits?|commit messages|variables|functions|headlines|"
    r"titles|"
    r"translations|texts?|outputs?|units|measurements|invoices?|recipes?|lists?|files|names|notes)"
)
_SPEAK = r"(?:speak|talk|respond|reply|answer|write|chat|communicate|text)"

_ORDERS = PatternList(
    # never send, always reply, please don't ever call
    rf"{_PLEASE}(?:{_NEVER}|{_ALWAYS})\s+(?:{_PLEASE})(?!{_NO_VERB})(?!{_OF_LIFE}(?!.*\b(?:me|"
    rf"my|us)\b))"
    r"[a-z-]+\b(?! (?:is|was|are|were|has|had|a lie)\b)",
    rf"{_PLEASE}{_NEVER},? (?:may|should|must|can) you\b",
    rf"{_PLEASE}{_DONT},? (?:you )?ever,? (?!{_OF_LIFE}|{_STATE}){_VERB}",
    rf"{_PLEASE}{_DONT},? under (?:any|no) circumstances\b",
    # don't use emojis; don't buy anything without asking; do not share it with anyone
    rf"{_PLEASE}{_DONT} (?:use|add|include|write|insert|put|make|give|send|start|end)\b"
    rf"(?: (?:me|any|so many|too many|so much|with|your \w+ with))* {_STYLE}\b(?!.*{_ONCE})",
    rf"{_PLEASE}{_DONT} (?:call me (?!{_ONCE}|back|when|if|at|on|before|after|later|crazy)|"
    rf"address me|refer to me|assume|apologi[sz]e)\b(?!.*{_ONCE})",
    # stop apologising, no need to explain
    r"(?:please |pls |now )*(?:stop|quit|cease|refrain from|avoid|enough with|no more|"
    r"cut out)\s+(?:the )?(?:always |"
    r"constantly )?(?:apologi[sz]|ask|us|add|say|call|repeat|end|start|send|mention|suggest|"
    r"writ|"
    r"summari[sz]|greet|explain|remind|assum|address|referr|put|prais|flatter|lectur|guess|"
    r"invent|"
    r"mak(?=ing (?:up|jokes?|assumptions|things))|giv(?=ing me)|recommend|offer|translat|"
    r"format|interrupt|quot|post|emoj|shar|swear|recapp|paraphras|swearing|forgett|"
    r"being so)\w*ing?s?\b"
    rf"(?!.*{_ONCE})",
    rf"{_PLEASE}avoid (?:all |any |the |using )*(?:words?|phrases?|expressions?|terms?|"
    rf"{_STYLE})\b",
    rf"{_PLEASE}(?:enough with|cut|drop|skip|leave out|omit|lose|ditch|spare me|less|fewer|"
    rf"no more|no)"
    rf"(?: (?:the|all|your|any|more))* {_STYLE}\b(?!.*{_ONCE})(?!.*(?:\b(?:is|was|are|were|i|"
    rf"we|yet)\b))",
    r"(?:there is |there's )?no need to \w+.*\b(?:every time|each time|always|anymore|"
    r"any more)\b",
    # from now on call me Ann, reply in French from now on
    rf"{_PLEASE}{_FROM_NOW},?\s+{_PLEASE}(?:{_VERB}|you\b(?! are going| will (?:be able|"
    rf"have))|{_DONT}|"
    rf"{_NEVER}|{_ALWAYS}|only\b|no\b|no more\b|let's\b|we(?:'re| are) (?:speak|talk|switch|"
    rf"us)ing\b|we (?:speak|use|talk|write|only)\b|(?:all|every|any|each) (?:my |your |"
    rf"the )?{_REPLIES}\b|"
    rf"(?:my|your) (?:name|answers|replies)\b|when\b|if i\b|i(?:'d like| want| expect|"
    rf" need) you\b|{_LANGUAGES}\b|{_STYLE}\b|in {_LANGUAGES}\b|(?:short|brief|concise)\b)",
    rf"{_PLEASE}(?:{_VERB}|{_DONT}|only|no|we're switching|we (?:speak|use|talk|write)|"
    rf"you (?!are|were|will|'re|have|had)\w+|"
    rf"let's (?:speak|talk|use|keep|call|write|stick|switch|agree)|"
    rf"{_DONT} \w+)\b.*\b{_FROM_NOW}",
    # you must not, you should always, you only push after I approve
    rf"you(?:'re| are) to (?:\w+ )+(?:only|always|never)\b|you(?:'re| are)? (?:must|"
    rf"may(?! always)|shall|can(?! always)|should|will(?! always)|are to|have to|need to|"
    rf"to|ought to|not(?! only)|are not|aren't|never|always)\b(?! (?:have|"
    rf"be able)\b).*(?:not allowed to|"
    rf"must not|may not|(?<!not )(?:never|always|only) (?!{_OF_LIFE}|have\b|{_NO_VERB})\w+|"
    rf"without (?:my|asking)|(?:me|my \w+) "
    r"(?:first\b|before)|to answer|to reply)",
    rf"you (?:must not|mustn't|may never|must never|should never|can never|may not|"
    rf"are not allowed to|aren't "
    rf"allowed to|are not to) (?!have\b)(?!{_OF_LIFE}(?!.*\b(?:me|my)\b))\w+",
    r"you (?:only|never) (?!had|were|are|know|see|get|live|said|told|have|"
    r"seem)\w+\b(?<!ed)\b.*\b(?:after|if|when|unless|until|with|without|before) (?:i|my|me)\b",
    r"you (?:ask|check with|tell|warn|inform)\b.*\b(?:before|first)\b",
    r"you (?:don't|do not|needn't|dont) (?:have to |need to )?\w+.*\b(?:every time|each time|"
    r"always|anymore|any more)\b",
    # I want you to always
    rf"i(?:'d| would)? (?:want|need|like|expect|prefer|require|"
    rf"love)(?: for)? (?:it if )?you (?:to )?"
    rf"(?!know|be happy|to know).*(?:{_LASTING}|\bonly\b)(?! be (?:happy|safe|ok))",
    r"i(?:'d| would) (?:rather|prefer|like|appreciate)(?: it)?(?: if)? you (?:didn't|don't|"
    r"did not|never|always|only|stopped|wouldn't)\b.*",
    rf"i (?:don't|do not|dont) want you to (?=.*(?:{_LASTING}|{_ANYTHING}))",
    rf"i (?:don't|do not|dont|no longer) (?:want|need) (?:any |to (?:see|get|receive|"
    rf"have) )*(?:more )?{_STYLE}\b",
    # whenever I paste code, review it
    rf"(?:whenever|every ?time|each time|any ?time) (?:i|you|we|someone|anyone|"
    rf"there)\b.*?(?:,| then)\s*"
    rf"{_PLEASE}(?:{_DONT} )?{_ALWAYS}?\s*(?!let me know|call me\b|be\b|feel|stay|have|go\b|"
    rf"try|remember|think)(?:{_VERB})",
    rf"(?:when|if|once|as soon as|in case)(?: ever)? (?:i|anyone|someone|anybody|somebody|"
    rf"people)(?: ever)? "
    rf"(?:ask|say|mention|paste|send|write|post|forward|upload|share|type|request|tell|give|"
    rf"use|speak|want|swear|talk|quote|reference|name|start|drop)s?\b.*?(?:,| then|"
    rf"qq)\s*{_PLEASE}(?:(?:{_DONT}|{_NEVER}|"
    rf"{_ALWAYS}) )?(?!let me know|tell me if)(?:{_VERB}|i mean\b|you (?:stop|ask|answer|"
    rf"reply|say|use)\b)",
    rf"(?:when|if|while|before|after|for|at the end of|in)(?: it comes to|"
    rf" ever)? (?:you(?:'re| are)? )?(?:(?:reply|answer|"
    rf"writ|quot|cit|summari[sz]|respond|suggest|translat|send|delet|post|publish|chang|edit|"
    rf"book|bu[yi]|draft|explain|format|unsure|do(?:n't| not) know|say|creat|commit|generat|"
    rf"recommend|cod|schedul|mention|convert|search|runn)\w*\b|(?:every|each|any|all) (?:your |"
    rf"my )?{_REPLIES}\b|(?:every|each) (?:session|chat|task|conversation|day)\b|money\b)"
    rf".*?(?:,| (?=add|list|give))\s*{_PLEASE}(?:(?:{_DONT}|{_NEVER}|"
    rf"{_ALWAYS}) )?(?!let me know)(?:{_VERB}|think)",
    r"each (?:morning|evening|day) (?:at|in|before) .*(?:chat|conversation|session).*",
    r"if (?:you're|you are) (?:not sure|unsure|in doubt|uncertain)\b.*,\s*(?:please )?(?:ask|"
    r"say|tell)",
    # ask me before, show me every draft before you send it
    rf"{_PLEASE}{_ALWAYS}? ?(?:ask|check with|tell|warn|show|consult|confirm (?:it )?with|"
    rf"notify|inform|run (?:it|this|that|them|"
    rf"everything) (?:by|past)|clear (?:it|everything) with|get my|wait for my)\b(?: me\b|"
    rf" (?:ok|okay|approval|permission|"
    rf"confirmation)\b).*\bbefore (?:you\b|\w+ing\b|(?:every|any|each)\b)(?!.*\b(?:leave|go|"
    rf"come|arrive)\b)",
    r"let me (?:approve|see|check|review|confirm|sign off on) (?:every|each|any|"
    r"all)\b.*\bbefore\b",
    # statements about answers
    rf"(?:all|every|each|your|any)(?: (?:of )?(?:your|my|the|"
    rf"future))? {_REPLIES}\b.{{0,60}}?\b(?:must|should|shall|have to|has to|"
    rf"needs? to|to be|ends?|in|never|always)\b(?!.*\b(?:yet|was|were|is|are|i)\b)",
    rf"{_REPLIES}: ?(?:max|at most|no more than|only|always|never|in)\b",
    r"(?:nothing|nobody|no one|noone|none)\b.*\b(?:without (?:my|me|asking)|unless i|before i|"
    r"until i)\b",
    r"(?:nobody|no one|noone|nothing)(?: (?:but|except|besides|other than) \w+.* (?:may|gets?|"
    r"can|should|is "
    r"allowed|sees?)| (?:may|is to|should|must|can|ever|leaves|gets)\b.*\b(?:this|these|my)\b)",
    r"(?:my|the|our|no) [\w ]{2,30}\b(?:must|should|may|can|is to|are to) (?:never|not|"
    r"only)\b.*\b(?:this|these|my|our)\b",
    # what something is called, and what is so by default
    rf"{_PLEASE}(?:(?:you can|you may) )?call me (?:by )?(?!(?:back|when|if)\b|{_ONCE}|back\b|"
    rf"when\b|if\b|at\b|on\b|before\b|after\b|later\b|crazy\b|"
    r"maybe\b|in\b|a \w|an \w|anytime\b|please\b|asap\b|soon\b|again\b|and\b|so\b|to\b|from\b|"
    r"up\b|old|as soon|whenever|every)[\w.' -]{2,30}$",
    rf"{_PLEASE}(?:address|refer to) (?:me|my \w+|us) as\b",
    rf"{_PLEASE}treat (?:all|any|every)\w*\b",
    r"my pronouns are\b",
    rf"{_PLEASE}(?:use|default to|prefer|assume|stick to)\b.*\b(?:by default|(?:in|"
    rf"for) (?:everything|all|every|each|any)\b|with "
    r"me\b|at all times|for (?:indentation|dates|times|units))",
    rf"(?:by default|as a rule|as a general rule|unless (?:i|told|otherwise)[^,]*|"
    rf"at all times|(?:on|before|after|with) every \w+|"
    rf"before (?:you )?\w+ing [^,]*|before you \w+ (?:any|every)[^,]*|"
    rf"at the end of each \w+),?\s+{_PLEASE}(?:{_DONT} )?{_VERB}(?!.*\bmy way\b)",
    rf"{_PLEASE}default to \w+",
    # any order that is said to last, and any prohibition that is not for once
    rf"{_PLEASE}(?:only |just )?(?!{_OF_LIFE}(?!.*\b(?:me|"
    rf"my)\b))(?:{_VERB})(?=.*{_MARKED})(?!.*{_ONCE})",
    rf"{_PLEASE}{_DONT},?(?: you)?(?: ever| dare| just|"
    rf" please)* (?!{_OF_LIFE})(?!{_STATE})(?!{_NO_VERB})[a-z-]+\b(?! (?:that|this|it|these|"
    rf"those|him|her|"
    rf"them|me (?:wrong|started)|you)\b(?!.*{_LASTING}))(?= \w)(?!.*{_ONCE})(?!.*\b(?:i|"
    rf"we)(?:'ll| will)\b)",
    rf"{_PLEASE}only (?!{_NO_VERB}|{_ONCE}|\d|one|two|three|four|five|six|half|if|when|"
    rf"because|then|after|some|few|way|thing)[a-z]+ (?!is|was|are|were)\w+",
    rf"{_PLEASE}{_VERB}.*\bonly (?:through|via|in|with|from|by|to|for|on)\b(?!.*{_ONCE})",
    r"(?:please )?be (?:more|less) \w+(?: (?:with me|please|in general|with \w+))*$",
    r"(?:please )?(?:stick to|treat (?:me|us)|assume (?:i|my|we|that i)|explain (?:things|"
    r"everything|stuff)|get (?:straight |right )?to the point|"
    r"sign (?:all )?my|keep (?:it|everything|things|answers|replies|your \w+) (?!in mind|up|"
    r"going|to)[\w-]+(?: \w+)?$)",
    # rules that are said as facts
    r"(?:anything|everything|every \w+|all \w+|any \w+)\b.*\b(?:needs?|requires?|"
    r"must have) my\b",
    r"no (?!one|body|problem|idea|way|wonder|doubt|matter|need|longer|plans?|news|sign|clue|"
    r"luck|reason|time|regrets|rush|pressure|judg)[\w-]+ "
    r"(?:after|before|without|during|over|under|on|for|in|at|between|with) (?!.*\b(?:i|we|is|"
    r"was|are|were|yet|here|it|you|far|years|ages)\b)",
    r"(?!(?:people|parents|kids|children|men|women|we|they|friends|students|teachers|dogs|"
    r"cats)\b)[a-z]+s (?:should|must|have to) (?:always|never|only|all)\b(?! be (?:loved|"
    r"happy|proud))",
    r"we (?:use|write|say|spell|prefer) \w+(?: \w+){0,2}, (?:not|never) \w+",
    rf"i(?:'d)? (?:want|need|prefer|would prefer|like|would like) (?:all |all your |your |"
    rf"only |shorter |longer |brief |short |concise )+(?:of )?{_REPLIES}\b",
    rf"you(?:'re| are) (?:my|an?|the) .*\b{_FROM_NOW}",
    rf"(?:when|if|while|once|as soon as|in case)\b.*\b(?:something|anything|someone|anyone|"
    rf"somebody|anybody)\b.*(?:,|just|then|always|never) (?:{_PLEASE})(?:{_DONT} )?(?!let me|"
    rf"feel|call me|be\b)(?:{_VERB})",
    r"i(?:'m| am| have| can't| cannot) [^,]{2,40}, (?:so )?please (?:always )?(?:use|write|"
    r"speak|talk|explain|avoid|keep|don't)\b.*",
    rf"{_PLEASE}keep .{{2,40}} to yourself$",
    r"you (?:don't|do not|dont|needn't) (?:have to |need to )?(?:ask|tell|explain|repeat|"
    r"remind|greet|confirm|send|use|add|write|include|answer|reply|apologi[sz]e|thank)\b.*",
    r"if you (?:can't|cannot|can not|don't|do not|aren't|are not|never) .*,? (?:just |then |"
    r"please )*(?:say|tell|ask|leave|skip|admit)\b.*",
    rf"(?:whenever|any ?time|every time|each time) (?!i\b).*(?:,|\b) ?{_PLEASE}(?:add|say|"
    rf"let me know|tell me|ask me|warn me|remind me|mention|include|use|write)\b.*",
    r"let's (?:always |all )?(?:stick (?:to|with)|speak|keep (?:to|it)|call (?:it|him|her|"
    r"them|me))\b.*",
    rf"you(?:'ll| will| shall) (?:never|always|only)(?: again| ever)? (?:{_VERB}).*\b(?:me|"
    rf"my)\b",
    r"do (?:everything|it all|this always) .*",
    r"(?:whenever|every ?time|each time|any ?time)\b.* (?:quiz|remind|tell|ask|show|send|give|"
    r"warn|ping) me(?!.*\b(?:i|it|he|she|they)\b).*",
    r"(?:when|if|once)(?: ever)? i (?!were|was|had|could)\w+ .*(?:, ?(?:then |please |"
    r"just )*(?:suggest|reply|answer|use|say|respond|give|switch|translate|"
    r"ask|add|offer|keep|stop|remind|show|write|refuse)| (?:reply|answer|respond) (?:with|in|"
    r"as|only))\b.*",
    r"you (?:must|have to|need to|should) (?:ask|check|confirm|warn|tell)\b.*\bbefore\b.*",
    r"(?:no more than|at most|max(?:imum)?|up to) [\w-]+ \w+ (?:per|in (?:each|every|your|an?|"
    r"any)|a (?:day|week))\b.*",
    rf"{_FROM_NOW},? .*\b(?:is|are) (?:called|named|known as)\b.*",
    r"i(?:'d like| want| need| would like) (?!to\b)(?:the |an? )?.* in (?:every|each|"
    r"all)(?: my| your)? \w+",
    rf"(?:when|if) (?:a|an|my|the|any|some\w*|there|it) .*(?:, ?{_PLEASE}(?!let me|be\b|"
    rf"call me|go\b|try|look|give it|keep|make)(?:{_VERB})| (?:speak|reply|answer|use) \w+$)",
    rf"i(?:'d like| want| need| prefer|'d prefer) (?!to\b|it\b)"
    rf"(?!.*\bfor all\b).*\b{_FROM_NOW}",
    rf"{_PLEASE}treat (?:this|my|our|it)\b.*\bas\b",
    rf"{_PLEASE}(?:make|keep|start|end|begin) (?:every|each|all)(?: your| my)? \w+",
    rf"{_PLEASE}{_VERB}.* when(?:ever)? you (?:don't|do not|are not|aren't|can't|cannot)\b",
    # how to speak
    rf"{_PLEASE}(?:only )?{_SPEAK}(?: only)?(?: to me| with me)?(?: only|"
    rf" exclusively)?(?: in)? {_LANGUAGES}\b(?: only| please)?"
    r"(?: with me| to me)?$",
    rf"{_PLEASE}(?:only )?{_SPEAK}(?: to me)? (?:only |exclusively |everything |"
    rf"always )+(?:in|with|as|like)\b",
    rf"{_PLEASE}(?:keep|make|write) (?:your|all|all your|the) (?:answers|replies|"
    rf"responses)\b.*",
    rf"{_PLEASE}keep (?:all of )?(?:this|it|that|these|"
    rf"everything)(?: \w+){{0,2}} (?:between us|confidential|private|secret|to yourself)\b",
    rf"{_PLEASE}(?:be|keep it|stay|answer|reply|{_VERB})\b.*\b(?:{_ALWAYS}|at all times|"
    rf"by default|any ?more|every single time)$",
    rf"{_PLEASE}only (?:ever )?(?:use|reply|answer|respond|speak|write|send|suggest|recommend|"
    rf"book|show)\b(?!.*{_ONCE})",
    rf"{_PLEASE}(?:(?:{_DONT}|{_NEVER}) )?(?:{_VERB}|do\b).*\bunless i (?:say|tell|ask|"
    rf"approve|explicitly|have|give|want)\b",
    # rules
    r"(?:(?:new |house |one |golden |my |another |first |second |ground )?rules?(?: (?:number|"
    r"no\.?|#)? ?\w+)?|remember|"
    r"please remember|bear in mind|keep in mind|(?:a )?note for (?:the future|later|"
    r"next time)|note to self|let's agree(?: on this)?):\s*(?:\w\S*\s+){2,}",
    rf"{_PLEASE}(?:remember|be sure|make sure|take care|try|"
    rf"don't forget)(?: you)? to (?:always|never)\b(?! be\b)(?!.*{_OF_A_PERSON})",
    r"you (?:can|may) (?:(?:skip|drop|leave out|omit|spare me)\b|.*, i don't mind$).*",
    rf"(?:next to|in front of|behind|under|above|below) every \w+.*\b{_FROM_NOW}",
    rf"(?:{_PLEASE})(?:make sure|ensure|be sure|see to it|"
    rf"take care)(?: that)? (?:you (?:always|never|only|don't ever)|"
    rf"every|each|all|nothing|nobody|no one|none)\b(?!.*{_ONCE})",
    r"(?:it's|it is) (?:important|essential|crucial|vital) (?:that|to me that) you (?:always|"
    r"never|only)\b",
    r"make it a (?:habit|rule) to\b",
)
_POLITE = PatternList(
    rf"{_PLEASE}(?:can|could|would|will) (?:you|we)(?: mind)?(?: please| pls| kindly| just|"
    rf" maybe)* "
    rf"(?:(?:{_ALWAYS}|{_NEVER}|only|not) (?!{_OF_LIFE}(?!.*\b(?:me|my)\b))\w+|(?:stop|avoid|quit|"
    rf"refrain from|skip) "
    rf"(?:the )?(?:with the |with )?(?:always )?\w+(?:ing\b|$|s\b)|(?:{_VERB}|speak).*{_LASTING}|"
    rf"(?:{_VERB}).*\b{_FROM_NOW})"
)
_REPORT = PatternList(
    r"\b(?:he|she|they|who|people|someone|mom|mum|dad|doctor|boss|teacher|friend|"
    r"\w+) (?:always )?(?:said|says|told|asked|"
    r"wrote|replied|thinks|thought|wants|wanted|mentioned|advised|taught)\b|\b(?:i|we) (?:said|"
    r"told|thought|asked|"
    r"was told|realized|learned|knew|always|never|guess|think|believe|hope|wish|know|had|have|was|"
    r"felt|will)\b|\b(?:which|that) means?\b"
)


_OF_OTHERS = PatternList(_OF_A_PERSON)
_PLAIN_ORDER = PatternList(rf"{_PLEASE}(?:{_VERB}|{_DONT}|{_NEVER}|{_ALWAYS}|{_FROM_NOW})")
_CONDITION = PatternList(r"(?:if|when|whenever|once|in case|as soon as|every time|any ?time)\b")
_OPENS = PatternList(rf"(?:please|pls|plz|{_DONT}|{_FROM_NOW})\b")
_LIKE_A_STATE = PatternList(rf"(?:{_NEVER}|{_ALWAYS})\s+(?!{_VERB})")


def is_english_order(sentence: SaidSentence) -> bool:
    """Return whether a sentence orders something that holds from now on."""
    if sentence.is_question:
        return _POLITE.match(sentence.text)
    if _POLITE.match(sentence.text):
        return True
    for clause in sentence.clauses:
        if clause.before and _REPORT.search(clause.before) and not _CONDITION.match(clause.before):
            return False
        if clause.is_joined and not (
            _PLAIN_ORDER.match(sentence.text) or _OPENS.match(clause.text)
        ):
            continue
        if clause.before and _LIKE_A_STATE.match(clause.text):
            continue
        if _OF_OTHERS.search(clause.text):
            continue
        if _ORDERS.match(clause.text):
            return True
    return False
