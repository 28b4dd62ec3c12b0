"""Matters of orders that have no end, in English."""

from __future__ import annotations

from memory.patterns import PatternList

_PLEASE = r"(?:(?:please|pls|plz|kindly|just|also|simply|could you|can you|would you|will you) )*"
_TONGUE = (
    r"(?:(?:plain|simple|british|american|formal|easy|swiss|high) )?(?:english|german|french|"
    r"spanish|italian|dutch|portuguese|polish|turkish|russian|ukrainian|chinese|mandarin|cantonese|"
    r"japanese|korean|arabic|hebrew|persian|farsi|thai|vietnamese|romanian|bulgarian|croatian|"
    r"serbian|catalan|swedish|danish|norwegian|finnish|czech|greek|hungarian|hindi|latin|"
    r"esperanto)"
)
_UNITS = (
    r"(?:metric|imperial|celsius|fahrenheit|kelvin|kilomet(?:er|re)s|km|miles|met(?:er|re)s|"
    r"kilos|kilograms|grams|pounds|euros?|eur|usd|dollars|francs|chf|yen|sterling|"
    r"(?:24|12)[- ]?(?:h|hours?|hr)\b|military time|utc|cet|gmt|iso(?: dates?| format)?|"
    r"dd[./-]mm\S*|yyyy\S*|day[- ]month\S*|am/pm)"
)
_OUTPUT = (
    r"(?:answers|replies|responses|messages|e-?mails|mails|letters|posts|tweets|notes|texts|code|"
    r"(?:code )?(?:samples|snippets|examples|comments)|recipes|meal plans?|summaries|recaps|lists|"
    r"translations|prices|costs|amounts|dates|times|temperatures|distances|measurements|weights|"
    r"numbers|drafts|explanations|suggestions|recommendations|reports|variable names|commit "
    r"messages|headlines|titles|file ?names|paragraphs|sentences)"
)
_STYLE = (
    r"(?:emojis?|smileys|emoticons|bullets?|bullet (?:points?|lists?)|markdown|headings?|tables?|"
    r"lists?|small ?talk|chit-?chat|disclaimers?|caveats|apologies|jokes|puns|text|words|detail|"
    r"typos|formalities|repetition|questions back|warnings?|notices|sarcasm|irony|"
    r"jargon|buzzwords|slang|swearing|swear words|exclamation (?:marks?|points?)|em[- ]dashes|"
    r"hashtags|abbreviations|acronyms|spoilers|filler(?: words)?|fluff|padding|waffle|flattery|"
    r"compliments|pep talks?|lectur(?:es?|ing)|preach\w*|moralizing|intros?|introductions?|"
    r"preambles?|recaps?|follow-up questions|pleasantries|walls? of text|long (?:answers|texts|"
    r"replies|messages|explanations)|bold(?: text)?|all caps|caps|footnotes|links|sources|"
    r"references|citations|examples|nicknames|pet names|sir|ma'am)"
)
_MANNER = (
    r"(?:brief|short|concise|quick|blunt|direct|honest|frank|straight|gentle|kind|patient|strict|"
    r"tough|hard|formal|informal|casual|polite|friendly|serious|funny|critical|clear|precise|"
    r"specific|thorough|detailed|simple|neutral|objective|real|nice|chill|cheerful)"
)
_QUIET = (
    r"(?:(?:\d+(?:[:.]\d\d)? ?(?:am|pm|h)?|noon|midnight|work|school|dinner|lunch|breakfast|"
    r"bedtime|meetings?|hours|the "
    r"(?:night|weekend|day|week)|weekends?|week ?days|week ?nights|holidays?|vacation|\w+days|"
    r"night|mornings?|evenings?)\b.*)"
)
_WITH = r"(?:in|for|as|with|without|under|below|using|only|max(?:imum)?|at most|no longer than)"
_NO_FACT = (
    r"(?!.*\b(?:is|are|was|were|has|have|had|do|does|did|went|got|will|would|can|could|i|we|he|"
    r"she|they|it)\b)"
)
_OFF_LIMITS = (
    r"(?:banned|forbidden|off[- ]limits|taboo|a no-?go|not allowed|confidential|not to be "
    r"(?:shared|touched|mentioned|changed|used)|none of (?:their|his|her|anyone's|anybody's) "
    r"business|nobody(?:'s| else's) business|between (?:us|you and me)|just between us)"
)

MATTERS = PatternList(
    # languages: answer me in French, my mails in British English
    rf"{_PLEASE}(?:speak|talk|answer|reply|respond|write|text|chat|message|communicate|stick|"
    rf"switch|continue|explain)(?: (?:to|with|me|us|back|everything|only|just|all|always|your|my|"
    rf"{_OUTPUT}|things))* (?:in |to )?{_TONGUE}(?: (?:please|pls|plz|only|with me|to me|back|"
    rf"from|instead|now|on|too|not \w+))*,?(?: please| pls| not \w+| rather than \w+)*$"
    r"(?<!speak english)(?<!to english)",
    rf"{_PLEASE}in {_TONGUE}(?: only)?,?(?: please| pls)?$",
    rf"{_TONGUE}(?: only)?,? (?:please|pls|only)$",
    # units and forms: use metric, give prices in euros, prices in euros please
    rf"{_PLEASE}(?:use|stick (?:to|with)|go with|prefer|default to|set) (?:the |only "
    rf")?{_UNITS}\b.*",
    rf"{_PLEASE}(?:give|show|list|write|state|quote|display|express|tell)(?: me| us)?(?: all| any|"
    rf" your| my)* {_OUTPUT}\b.* (?:in|as) .*",
    rf"{_PLEASE}(?:write|sign|start|begin|end|finish|close|format|draft|keep|phrase|name)(?: all)? "
    rf"(?:my|your|our) {_OUTPUT}(?: off)? (?:{_WITH}|by|like|to)\b.*",
    rf"{_PLEASE}{_OUTPUT}(?:,)?(?: please| always)? {_WITH}\b{_NO_FACT}(?: [^\s,]+){{1,7}}"
    r",?(?: please| pls)?$",
    rf"{_PLEASE}(?:keep|make|leave)(?: all)?(?: of)?(?: your| the| my| these)? (?:{_OUTPUT}|it|"
    rf"things) "
    rf"(?:{_MANNER}|plain|down|free of|to (?:the point|a|one|two|three|\d+)|under|below|sfw|clean|"
    r"light)\b.*",
    # manner: be brief with me, talk to me like a friend, explain it as if I were five
    rf"{_PLEASE}(?:be|stay|get|act)(?: more| less| a bit| a little| really| very| totally| always| "
    rf"completely| brutally)* {_MANNER}(?:er)?(?:(?: and|,| but)(?: \w+)? {_MANNER})*"
    r"(?: (?:with|to|towards) (?:me|us)| in your \w+)\b.*",
    rf"{_PLEASE}(?:talk|speak|write|explain|respond|reply|answer|treat|address)\b(?: \w+){{0,3}} "
    r"(?:like|as if|as though|as to) (?:a\b|an\b|i(?:'m| am|'d| was| were)\b|you(?:'re| are| "
    r"were)?\b"
    r"|we\b|my\b|to a\b).*",
    rf"{_PLEASE}(?:cite|name|give|show|list|include|add|provide|quote|mention|link|state)"
    r"(?: me)?(?: your| all| the| any)* (?:sources?|references|citations|evidence|reasoning|working"
    r"|work|steps|calculations?)\b(?! (?:of|for) (?:this|that|the)\b).*",
    rf"{_PLEASE}(?:no|skip|drop|cut|ditch|lose|without|minus|omit|spare me|save|enough|avoid|less|"
    rf"fewer|stop(?: with)?|quit)(?: with| the| any| your| more| all| of| that| those| these)* "
    rf"{_STYLE}\b(?!.*\b(?:yet|was|were|did|had|for (?:me|us) (?:today|yet))\b).*",
    # what is said of, and what is not: don't bring up my ex, let's not talk about politics
    r"(?:please )?(?:don't|do not|dont|never|stop|let's not|no more|quit)"
    r"(?: ever| please)? (?:bring(?:ing)? up|mention(?:ing)?|talk(?:ing)? about|ask(?:ing)?(?: "
    r"me)? "
    r"about|jok(?:e|ing) about|discuss(?:ing)?|remind(?:ing)? me (?:of|about)|get(?:ting)? into|"
    r"speak(?:ing)? about)\b(?! (?:it|this|that|him|her|them|how|what)\b(?! again| anymore| any "
    r"more)).*",
    r"(?:please )?(?:don't|do not|dont) (?!(?:you|ya|worry|forget|be|get|feel|let|give|know|think|"
    r"want|"
    r"like|have|need|even|miss|mind|care|believe|see|understand|hesitate|beat|sweat|stress|panic|"
    r"cry|"
    r"quit|stop|lose|take it|go\b|do\b|push (?:yourself|it|too))\b)[a-z]+ (?:to|on|with|for|me|my|"
    r"us|"
    r"our|clients?|customers?|people|anyone|anybody|any|in|during|at|from|into|over|the|a|as|than|"
    r"more|so|too|\w+s)\b(?!.*\b(?:today|tonight|tomorrow|yet|this (?:one|time|week)|i'll|we'll|i "
    r"will)"
    r"\b).*",
    r"(?:you(?:'re| are) not (?:allowed|supposed|permitted) to|you (?:may|must|shall) not|you "
    r"mustn't|you"
    r" can't just|you have no permission to) (?!be\b|feel\b|have\b)\w+.*",
    # how many, and what comes first
    rf"{_PLEASE}(?:only |just |always |max(?:imum)? |at most |no more than |up to |never more than "
    rf")*"
    r"(?:one|two|three|four|five|a few|a couple of|\d) (?:\w+ ){0,2}?\w+ (?:at a time|at once|per "
    r"(?:answer|message|reply|response|turn|day|week|topic|mail|e-?mail))\b.*",
    rf"{_PLEASE}(?:give|tell|show|start|begin|put|lead|write|state)(?: me)?(?: with)? (?:the |a |"
    rf"your )?"
    r"(?:\w+ )?(?:version|answer|summary|conclusion|result|recap|bottom line|tl;?dr|point|verdict)"
    r" first\b.*",
    rf"{_PLEASE}(?:round|format|convert|express|measure|spell|explain|answer|translate|label|"
    rf"number|"
    r"write|abbreviate|capitali[sz]e|annotate) (?:everything|all (?:\w+ )?\w+s|numbers|names|"
    r"dates) "
    r"(?:to|in|as|into|with|out|like|for)\b.*",
    rf"{_PLEASE}(?:reply|answer|respond|write|speak|talk|use|continue|stick)\b.* (?:in|to|the) "
    rf"(?:the|my|"
    r"whatever|whichever|our|same) (?:same )?language\b.*",
    rf"{_PLEASE}(?:{_UNITS}|{_TONGUE}|{_STYLE}|{_OUTPUT})(?: (?:format|units?|system|only|"
    rf"notation))*"
    r",? (?:please|pls|thanks|thank you)$",
    # what is asked first
    rf"{_PLEASE}(?:always )?(?:ask|check|confirm|wait|get (?:my|the)|warn|tell|show|hold|clear|run|"
    r"double-check|verify)\b(?! (?:if|whether|the weather|out|him|her|them)\b).* (?:before|prior "
    r"to|until)"
    r" (?:you\b|i\b|my\b|any\b|every\b|each\b|\w+ing\b)(?!.*\b(?:leave|arrive|come|sleep|bed|"
    r"tonight|tomorrow)\b).*",
    rf"{_PLEASE}(?:tell|ask|warn|say|let|admit|flag|stop|be honest)\b.* (?:when|if|whenever) "
    rf"(?:you(?:'re|"
    r" are)(?: not| un)| ?you (?:don't|do not|can't|aren't)|something(?:'s| is) (?:unclear|"
    r"missing)|"
    r"anything(?:'s| is) (?:unclear|missing)|in doubt)\b.*",
    # what has no end since it is of no single thing: use British spelling, point out my typos
    rf"{_PLEASE}(?:always |only |never )?(?:use|type|spell|phrase|word|capitali[sz]e|correct|"
    rf"critici[sz]e|"
    r"point out|flag|fix|highlight|challenge|question|respect|follow|mirror|match|mimic|avoid|"
    r"prefer|"
    r"include|mention|add|append|quote|number|indent|abbreviate)(?: out| in)?(?: all| any| every)?"
    r"(?! (?:a|an|the|this|that|these|those|it|him|her|them|one|some|\d+|two|three|our)\b)"
    r"(?: my| your)?(?: [a-z][\w'-]+){1,5}(?<!instead)(?<!again)$(?<!for me)",
    rf"{_PLEASE}(?:say|put|give|tell|write|explain|answer|talk|speak|reply|respond|chat|type|react|"
    rf"argue)"
    r"(?: me| to me| with me| it| things| everything| that)*(?: to me)?(?: straight(?: up| out)?| "
    r"less| "
    r"plainly| bluntly| slowly| clearly| simply| briefly| honestly| directly| more \w+ly| less "
    r"\w+ly|"
    r" in lower ?case| in upper ?case| in plain (?:words|text)| without \w+(?: \w+)?| as it is)$",
    rf"{_PLEASE}(?:don't|do not|dont|never) (?:guess|lie|invent|improvise|speculate|assume|"
    rf"interrupt|nag|"
    r"preach|moralize|exaggerate|ramble|waffle|repeat yourself|apologi[sz]e|swear|curse|"
    r"hallucinate|"
    r"make (?:stuff|things|facts|anything) up|beat around the bush|sugar-?coat|hold back)\b.*",
    rf"{_PLEASE}(?:(?:a |an )?(?:bit |little |lot |touch |tad )?(?:less|more|fewer|not so|not too) "
    rf"[\w-]+"
    r"(?: [\w-]+)?),? (?:please|pls)$",
    rf"{_PLEASE}(?:go (?:easy|light) on|hold|mind|watch) (?:the|your) [\w-]+s?$",
    rf"{_PLEASE}(?:push back|argue|disagree|contradict me|correct me|stop me|object|speak up|call "
    rf"me out|"
    r"tell me off)\b.* (?:when|if|whenever) i\b.*",
    r"(?:(?:just |only |never )?(?:more than |longer than )?(?:one|two|three|four|five|six|a few|"
    r"\d+|a) "
    r"(?:short |long )?(?:sentences?|lines?|words?|paragraphs?|bullet points?|points?|tweets?|"
    r"pages?|"
    r"examples?)),? (?:tops|max|maximum|at most|no more|is enough|are enough|will do|suffice|"
    r"please)\b.*",
    rf"(?!.*\b(?:the|this|that)\b){_NO_FACT}(?:[\w'-]+ ){{1,4}}?[\w'-]+,? (?:always|never|without "
    rf"exception|every time|"
    rf"for me "
    r"ever|at all times)(?: please| (?:when|if|on|with|in|after|for) .*)?$",
    rf"{_PLEASE}(?:{_STYLE}|{_UNITS}|{_OUTPUT}|{_TONGUE}),? please,? (?:not|no|and|with|instead) "
    rf".*",
    rf"{_PLEASE}(?:show|write|list|state|put|give)(?: me)? (?:the )?(?:{_OUTPUT}|answers?|result) "
    rf"(?:with|"
    r"without|including|excluding|before|after|in the (?:first|last))\b.*",
    r"(?:no|nothing|never any|without) [\w-]+(?: [\w-]+){0,3}, (?:i'm|i am|i have|i can't|we're|we "
    r"are|my"
    r" \w+ (?:is|are))\b.*",
    rf"(?:after|before|past|from|until|between|during|on|at) {_QUIET}(?:,|\b) ?(?:please )?(?:no|"
    rf"nothing|"
    r"only|stay|keep|be|don't|not|leave|just)\b.*",
    r"(?:please )?(?:leave|keep|don't touch|turn|stay|let)\b.* (?:at night|on (?:weekends|\w+days)|"
    r"in the "
    r"(?:mornings?|evenings?)|overnight|during \w+)$",
    r"(?:we|i|all of us) (?:use|write|spell|count|measure|say|speak|work with|keep to|go by) .* "
    r"(?:here|"
    r"around here|in this (?:house|chat|family|office)|at home|for me)$",
    r"(?:weeks?|days?|months?|my (?:day|week|year)s?) (?:start|begin|end)s? .*",
    r"(?:everything|all|nothing|anything|\w+ decisions|decisions)\b.* (?:is|are|stays?) (?:mine|my "
    r"call|"
    r"up to me|my decision|my business)\b.*|i (?:sign off|approve|decide|review|have the last word|"
    r"get the "
    r"(?:last|final) (?:word|say))(?: on| about)? (?:everything|all|any|each|every|what)\b.*",
    r"(?:i|we) (?:keep|eat|follow|observe|am on|'m on)\b[^,;]{2,40}[,;] (?:so |and "
    r")?(?:[\w ]{0,20})?(?:must|"
    r"should|have to|has to|need to|needs to|no|only)\b.*",
    rf"{_PLEASE}keep (?:my|our|this|that|what)\b.* (?:to yourself|secret|private|confidential|"
    rf"quiet)\b.*",
    r"(?:my [\w-]+(?: is| isn't| are)|i'm not|i don't speak|i'm still) [^,;]{2,50}[,;] (?:so |"
    r"please )*(?:use|"
    r"speak|write|talk|keep|explain|go|avoid|don't|no)\b(?! (?:a|an|the|this)\b).*",
    r"(?:please )?(?:drop|skip|forget|lose|leave out) the (?:mr|mrs|ms|sir|ma'am|doctor|dr|title|"
    r"titles|"
    r"formalit\w+|surname|last name)\b.*|(?:first|last|full) names? (?:is fine|only|will do|please|"
    r"basis)\b.*",
    rf"{_PLEASE}(?:could|can|would|will) you (?:always )?(?:speak|write|talk|reply|answer|"
    rf"respond)\b.* in "
    rf"{_TONGUE}\b.*",
    rf"{_PLEASE}(?:answer|reply|respond|explain|write|speak|talk|summari[sz]e|put)(?: to| "
    rf"with)?(?: me| it|"
    r" things| everything| back| always| your answers?)* (?:in|with|using|under|within) (?:just |"
    r"only |at "
    r"most |no more than |less than |max(?:imum)? |up to |simple |short |plain |easy |full |"
    r"complete )*(?:one|"
    r"two|three|four|five|a few|a single|single|\d+|short|simple|plain|easy|full|complete) "
    r"?(?:short |simple "
    r"|single )?(?:sentences?|words?|lines?|paragraphs?|bullet points|points|steps)\b.*",
    rf"{_PLEASE}keep (?:everything|it all|them|all of it|your \w+|all (?:your )?{_OUTPUT})(?: "
    rf"\w+)? {_MANNER}"
    r"\b.*",
    rf"{_PLEASE}(?:send|write|post|sign|publish|promise|say|answer|accept|book|order|buy)\b.* "
    rf"(?:in|under|on|"
    r"with) my (?:name|behalf|account|card)\b(?<!\bin my name is).*",
    r"you(?:'ll| will| do| always)? need (?:my|to (?:ask|have|get|wait)) .*\b(?:before|to|for|"
    r"first|unless)\b"
    r".*|you need my (?:ok|okay|approval|permission|consent|yes)\b.*",
    r"i(?:'d)? (?:want|need|would like|like|expect|prefer) you to (?:speak|write|talk|answer|"
    r"reply|respond|"
    r"address|call|treat|explain|use|keep|avoid|stop|ask|check|be)\b(?! (?:a|an|the|this|that|him|"
    r"her|them|it)"
    r"\b).*",
    rf"{_PLEASE}(?:proofread|check|translate|correct|review|summari[sz]e|archive|file|log|save) "
    r"(?:everything|all|anything|whatever) (?:that )?i\b.*",
    r"(?:please )?(?:short|brief|simple|plain|complete|full|clear|long|easy|formal|polite) "
    r"(?:sentences|words|"
    r"paragraphs|language|english|terms|variable names|names|titles|lines|steps),? (?:please|pls|"
    r"only)$",
    r"(?:please )?(?:put|leave|add|insert|write|use|place|start|end)\b.* (?:between|before|after|"
    r"around|under|"
    r"above|behind|at the (?:start|end|top|bottom) of) (?:every |each |all |the |your "
    r")?(?:numbers?|units?|"
    r"names?|headings?|titles?|lists?|sentences?|paragraphs?|answers?|messages?|mails?|sections?|"
    r"quotes?|"
    r"dates?|commas?|words?)\b.*(?<!file)$",
    r"i (?:want|need|have|expect|would like|'d like|insist) to (?:see|read|approve|check|hear|know|"
    r"review|"
    r"confirm|sign)(?: off)?(?: on)? (?:every|each|all|any)\b.*",
    r"(?:please )?(?:tell me|say|give me) (?:the truth|it|your honest|what you really)\b.* (?:even|"
    r"also|no matter)"
    r"\b.*|(?:please )?(?:warn|alert|stop|remind|tell) me (?:when|if|before) i(?:'m| am| want| try|"
    r" start|"
    r" spend| forget| go| use| say| get)\b.*",
    # likes: I prefer metric units, I want sources with every claim
    rf"i(?:'d| would)?(?: really| also| always| generally| usually| strongly)* (?:prefer|hate|"
    rf"dislike|can't stand|don't (?:like|want|need|care for)|do not (?:like|want|need)|detest)"
    rf"(?: to (?:see|read|get|have|hear))?(?: it when you)?(?: your| the| any| these| those| all| "
    rf"more| too many| so many| getting| reading| \w+ly)*(?: (?:short|brief|long|concise|detailed|"
    rf"plain|simple|direct|honest|clear))* (?:{_STYLE}|{_UNITS}|{_OUTPUT}|{_TONGUE})\b.*",
    rf"i(?:'d| would)?(?: really| much)? (?:like|love|want|need|prefer|enjoy) (?:your |my |all |"
    rf"the )?"
    rf"{_MANNER}(?:er)? (?:and {_MANNER} )?{_OUTPUT}\b.*",
    rf"i(?:'d| would)?(?: like| want| need| expect| appreciate) (?:\w+ ){{0,2}}?(?:{_STYLE}|"
    rf"{_OUTPUT}|proof|a source|a link)(?: \w+){{0,2}} (?:with|in|for|on|after|behind|under|to) "
    r"(?:every|each|all|any|your)\b.*",
    r"i(?:'d| would) (?:rather|prefer|appreciate it)(?: if)? you (?:not|didn't|don't|never|stop|"
    r"wouldn't|avoid|would stop|were|kept|just|used|called|spoke|wrote|answered)\b.*",
    # names: my name's Priya, not Pria
    r"(?:my name(?:'s| is)|i'm called|the name(?:'s| is)|it's|i'm|i am) [\w'-]{2,20}(?: "
    r"[\w'-]{2,20})?"
    r",? (?:not|and not) [\w'-]{2,20}[,;.]? (?:please|so|remember|spell|get|write|use|call)\b.*",
    r"(?:my name(?:'s| is)|i'm called|the name(?:'s| is)) [\w'-]{2,20},? (?:not|and not|never) "
    r"[\w'-]{2,20}$",
    r"(?:everyone|everybody|people|all|my \w+)(?: \w+)? calls? me [\w' .-]{2,30}(?:,| so| and|;) "
    r".*",
    r"(?:to|for) you,? i(?:'m| am) [\w' .-]{2,30}$|i(?:'m| am) (?:dr|mr|mrs|ms|"
    r"prof|miss|professor|doctor|captain)\b[\w' .-]{1,30} (?:to|for) you$",
    r"i (?:go by|prefer to be called|like to be called|want to be called|prefer being called) "
    r"[\w' -]{2,30}$",
    rf"{_PLEASE}(?:address|refer to|call|greet|name) (?:me|us) (?:as|by|with|miss|mr|mrs|ms|dr|"
    r"doctor|captain|boss)\b.*",
    rf"{_PLEASE}(?:spell|write|pronounce) my (?:last |first )?name\b.*",
    # what is kept, from whom, and where it is quiet
    rf"(?:(?:what(?:ever)?|anything|everything|all)(?: that)? (?:i|we)\b.*|(?:this|that|these|my|"
    rf"our"
    rf"|the (?:word|topic|name|subject|production|prod|main|master|live|shared|old|folder|file|"
    rf"term)"
    rf")\b.*) (?:is|are|stays?|remains?|to remain) (?:strictly |absolutely |completely |just )?"
    rf"(?:{_OFF_LIMITS}|private$|secret$)\b.*",
    rf"{_PLEASE}(?:keep|leave) (?:your )?(?:hands|paws|fingers) off\b.*|{_PLEASE}hands off\b.*",
    rf"{_PLEASE}(?:leave|let) (?:my|our|the)(?: [\w/.-]+){{1,4}} (?:alone|as (?:it is|they are|is)|"
    r"untouched|be|in peace)$",
    rf"{_PLEASE}(?:stay|keep) (?:out of|away from|off|clear of) (?:my|our|the)(?: "
    rf"[\w/.-]+){{1,3}}$",
    rf"(?:nothing(?! \w+ed\b)|no(?: more)? [\w-]+|zero [\w-]+)(?: [\w-]+){{0,4}} (?:after|before|"
    rf"on|during|"
    rf"between|past|until|over|at) {_QUIET}",
    rf"{_PLEASE}(?:wake|disturb|bother|ping|notify|interrupt|call|text|message|contact|alert|"
    rf"remind|"
    r"write to|reach)(?: to)? (?:me|us)(?: up)?(?: again)? only (?:if|when|for|in|about|between|"
    r"after|on|by)\b.*",
    rf"{_PLEASE}(?:let me know|tell me|warn me|ping me|alert me|notify me|message me|text me|"
    rf"remind "
    rf"me|inform me|shout|flag it)(?: about it)? (?:whenever|every time|each time|any ?time|if "
    rf"ever)"
    r"\b(?! (?:you|u|ya)\b).*",
    rf"{_PLEASE}(?:send|post|share|publish|book|buy|order|delete|change|sign|pay|forward|move|spend"
    rf"|cancel|touch|do|say|promise|tell|commit|merge) (?:nothing|no [\w-]+)\b.*\b(?:without|"
    rf"unless|"
    r"until|before|to)\b.*",
    # what I am, and what follows for you
    r"(?:i|i'm|i've|i am|i have|i can't|i cannot|my|we|we're|our)\b[^?]{2,90}?(?:[,;.–-]| and| so)+"
    r" ?(?:so |and |please |pls |always |just )*(?:keep (?:that|this|it) in mind|bear (?:that|this|"
    r"it)"
    r" in mind|remember (?:that|this|it)\b|take (?:that|this|it) into (?:account|consideration)|"
    r"consider (?:that|this)|factor (?:that|this|it) in|plan (?:with|around|for) (?:that|this|it)|"
    r"work with (?:that|this)|note (?:that|this)(?: down)?$|adjust\b|adapt\b|leave (?:it|them|that|"
    r"those) out\b|skip (?:it|them|those)\b|no [\w-]+ (?:with|in|containing|that|please)\b|don't "
    r"(?:suggest|recommend|offer|give me|include|propose|use|serve)|nothing (?:with|containing)\b)"
    r".*",
    r"(?:i'm|i am|we're|we are|i use|i have|i've|i can't|i don't|i live|my \w+ (?:is|are)) "
    r"[^,;?]{2,60}"
    r"[,;–-] (?:so |please |and |therefore )*(?:avoid|don't|never|no|skip|keep|speak|talk|use|"
    r"explain "
    r"(?:\w+ )?\w+s|define|describe|stick to|go easy|spell|leave out|choose|pick|prefer|write)\b"
    r"(?! (?:a|an|the|this|me|it|about)\b).*",
    r"(?:from|as of|starting) (?:today|now|tomorrow|this week|next week)(?: on)?,? (?:we|we're|i'm|"
    r"you|you're|my|our|all|no|only|please)\b.*\b(?:plan|budget|diet|rule|only|max|limit|per)\b.*",
    r"(?:assume|presume|take it|count on it|treat it as given)(?: that)? (?:i|i'm|i've|we|we're|my|"
    r"our)\b.*",
)
REPORTS = PatternList(
    r"(?:(?:^|.* )(?:he|she|they|who|mom|mum|dad|boss|teacher|friend|doctor|people|everyone|"
    r"someone)(?:'s)? (?:\w+ )?(?:said|says|told|asked|asks|wrote|wants|wanted|calls|called|"
    r"thinks|hates|likes|prefers)\b)"
)
