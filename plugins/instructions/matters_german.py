"""Matters of orders that have no end, in German."""

from __future__ import annotations

from memory.patterns import PatternList

_BITTE = r"(?:(?:bitte|doch|einfach|mal|auch|dann|gerne?|immer|stets|generell|grundsätzlich) )*"
_SPRACHE = (
    r"(?:(?:einfach|leicht)(?:em|er)? )?(?:deutsch|englisch|französisch|spanisch|italienisch|"
    r"polnisch|türkisch|russisch|ukrainisch|chinesisch|niederländisch|holländisch|portugiesisch|"
    r"arabisch|hebräisch|persisch|rumänisch|kroatisch|serbisch|bulgarisch|vietnamesisch|finnisch|"
    r"japanisch|koreanisch|schwedisch|dänisch|norwegisch|tschechisch|griechisch|"
    r"ungarisch|latein|hochdeutsch|schwäbisch|bairisch|bayrisch|platt(?:deutsch)?|"
    r"schweizerdeutsch|kölsch|berlinerisch|leichter sprache|einfacher sprache)"
)
_EINHEIT = (
    r"(?:kilometern?|km|metern?|zentimetern?|meilen|celsius|fahrenheit|euro|franken|chf|dollar|"
    r"(?:24|12)[- ]?(?:h|stunden)[\w-]*|metrisch\w*|gramm|kilo(?:gramm)?|litern?|pfund|"
    r"iso[- ]?\w*|tt\.mm\S*|mez|utc|arabischen ziffern|ziffern)"
)
_AUSGABE = (
    r"(?:antworten|nachrichten|e-?mails|mails|briefe|texte|beiträge|posts|rezepte|code\w*|"
    r"(?:code-?)?beispiele|kommentare|preise|beträge|kosten|uhrzeiten|zeiten|zeitangaben|"
    r"datumsangaben|termine|temperaturen|entfernungen|maße|maßangaben|mengen|zahlen|"
    r"einheiten|gewichte|listen|zusammenfassungen|übersetzungen|erklärungen|vorschläge|"
    r"empfehlungen|erinnerungen|berichte|entwürfe|überschriften|titel|dateinamen|variablennamen|"
    r"commit-?nachrichten|sätze|absätze)"
)
_STIL = (
    r"(?:\w*emojis?|smileys?|emoticons|aufzählung\w*|stichpunkte?|spiegelstriche|listen|tabellen|"
    r"markdown|fettschrift|überschriften|small ?talk|floskeln|phrasen|füllwörter|füllsätze|"
    r"witze|scherze|wortspiele|ironie|sarkasmus|spoiler|fachbegriffe|fachwörter|"
    r"fachchinesisch|jargon|anglizismen|fremdwörter|abkürzungen|ausrufezeichen|gedankenstriche|"
    r"hashtags|schmeicheleien|komplimente|lob\w*|entschuldigungen|belehrungen|moralpredigten|"
    r"warnhinweise|hinweise|disclaimer|einleitung\w*|vorrede|zusammenfassungen|rückfragen|"
    r"gegenfragen|romane|text|worte|details|wiederholungen|formalitäten|warnungen|vorträge\\w*|"
    r"textwände|lange\w* (?:antworten|texte|erklärungen|nachrichten)|"
    r"erklärungen|kommentare|beispiele|links|quellen\w*|belege|spitznamen|kosenamen|gendern|"
    r"gendersternchen|sternchen|blabla|drumherum|geschwafel|gelaber|das sie|das du|siezen|duzen)"
)
_ART = (
    r"(?:kurz|knapp|kürzer|knapper|bündig|ehrlich|direkt|offen|locker|lockerer|förmlich\w*|"
    r"höflich\w*|einfach|verständlich|sachlich|nett|freundlich\w*|geduldig\w*|streng\w*|"
    r"ausführlich\w*|detailliert\w*|formell\w*|informell|entspannt|genau\w*|präzise\w*|kritisch\w*|"
    r"konkret\w*|neutral|ernst|lustig\w*|schonungslos)"
)
_KEIN_SATZ = (
    r"(?!.*\b(?:ist|sind|war|waren|hat|habe|haben|hatte|hatten|wird|werden|wurde|wurden|gibt|gab|"
    r"ging|geht|ich|wir|er|kostet|kosten \d|kommt|kann|können|will)\b)"
)
_RUHE = (
    r"(?:\d{1,2}(?:[:.]\d\d)? ?uhr|feierabend|mitternacht|dem (?:essen|schlafen|frühstück)|der "
    r"(?:arbeit|schule|nacht|mittagspause)|wochenende[ns]?|feiertagen|sonntags?|samstags?|montags?|"
    r"dienstags?|mittwochs?|donnerstags?|freitags?|abends?|morgens|nachts|urlaub|ferien|\w+zeit)"
)

MATTERS = PatternList(
    # languages and units
    rf"{_BITTE}(?:antwort|schreib|red|sprich|sprech|rede|chatt?|erklär|bleib|wechsle?|übersetz)"
    rf"(?:e|en sie|en|et)?(?: (?:mir|uns|mit mir|mit uns|bitte|nur|alles|zurück|wieder|weiter|"
    rf"einfach|doch|immer|bei|mal|deine|meine|lieber|{_AUSGABE}))* (?:auf|in|im|bei|zu) {_SPRACHE}"
    rf"(?:,? (?:bitte|zurück|mit mir|weiter|und nicht \w+(?: \w+)?|nicht \w+(?: \w+)?|statt \w+"
    rf"(?: \w+)?))*$",
    rf"{_BITTE}(?:(?:auf|in) )?{_SPRACHE},? bitte$",
    rf"(?:{_BITTE})(?:lass uns|wir|können wir|wollen wir)(?: \w+){{0,2}} (?:auf )?{_SPRACHE} "
    rf"(?:reden"
    r"|sprechen|schreiben|bleiben)$",
    rf"{_BITTE}(?:rechn|gib|nenn|zeig|schreib|nutz|verwend|benutz|nimm|nehm|halt|rund|mess|miss|"
    rf"sag)(?:e|en sie)?(?: (?:mir|bitte|alles|alle|nur|die|deine|meine|immer|lieber|das|{_AUSGABE}"
    rf"))*(?: in| im| auf| mit| an)? (?:{_EINHEIT})\b(?!.*\d.*\d)(?:,? (?:an|statt|bitte|um|nicht|"
    rf"und)\b.*|[ -]?\w*)?$",
    rf"{_BITTE}(?:alle |die |meine |deine |sämtliche )?{_AUSGABE}(?: bitte| immer| nur| stets)*"
    rf" (?:in|im|auf|für|mit|ohne|als|unter|maximal|höchstens|nur|nach)\b{_KEIN_SATZ}"
    r"(?: [^\s,]+){1,6},?(?: bitte)?$",
    rf"{_BITTE}(?:meine|deine|alle|unsere) {_AUSGABE} (?:enden|beginnen|fangen|werden|sollen|"
    r"schließen|unterschreib\w*|unterzeichn\w*|gehen|haben|heißen|schreib\w*|kommen|bleiben)\b"
    r"(?! (?:nicht )?(?:an|gut|schlecht)\b)(?!.*\b(?:immer noch|noch nicht|gestern)\b).*",
    rf"{_BITTE}(?:verwend|nutz|benutz|schreib|nimm|sprich|wähl)(?:e|en sie)?(?: bitte| mit mir| "
    rf"mir|"
    rf" nur| in| immer| eine?n?)* (?:\w+(?:e|en|er|em) ){{1,2}}(?:sprache|sätzen?|wörtern?|worten?|"
    r"ausdrucksweise|ton|tonfall|stil|schreibweise|rechtschreibung|anrede|begriffen?|variablennamen"
    r")\b.*",
    # manner
    rf"{_BITTE}(?:sei|seien sie|bleib|werd|antwort|schreib|erklär|formulier|red|sprich)e?"
    rf"(?: (?:zu mir|mit mir|mir|bitte|immer|etwas|ein bisschen|ruhig|mal|möglichst|ganz|lieber|"
    rf"bei|deinen|antworten|alles|weniger|mehr|so|doch|dabei))* {_ART}(?:(?: und|,) {_ART})*"
    rf"(?: (?:zu mir|mit mir|bei deinen \w+|in deinen \w+|bitte|wie möglich|und \w+))*"
    r"(?:, .*)?$(?<!sei ehrlich)",
    rf"{_BITTE}(?:fass|halt|drück)e? dich(?: bitte| möglichst| immer| doch| etwas| mal)*"
    r" (?:kurz|kürzer|knapp|knapper|klar|einfach|verständlich|zurück)\b.*",
    rf"{_BITTE}(?:red|sprich|schreib|erklär|behandel|behandle|antwort)e?(?: mit| zu| mir| mich| "
    rf"uns|"
    r" bitte| alles| das| es| so| immer)*,? (?:wie (?:ein\w*|mit|zu|für|für'n|'n|man|du|mein\w*)\b|"
    r"als (?:wär\w*|ob|würd\w*|sei|hätt\w*)\b|so,? (?:dass|als|wie)\b).*",
    rf"{_BITTE}(?:beleg|nenn|gib|zeig|füg|schreib|liefer|häng|verlink)(?:e|en sie)?(?: (?:mir|"
    rf"bitte|"
    r"immer|auch|deine|die|alle|jede|zu|bei|aussagen|behauptungen|jeder|allem|mit|angaben))*"
    r" (?:quellen?\w*|belege?n?|nachweise?|rechenweg|lösungsweg|herleitung)\b(?!.*\b(?:für "
    r"(?:diese|"
    r"das|den))\b).*",
    rf"{_BITTE}(?:keine?n?|ohne|weniger|bloß keine|nicht so viele?|schluss mit|genug|weg mit)(?: "
    rf"(?:"
    rf"den|dem|der|die|das|diese[nm]?|mehr|bitte|so|viele?|lange\w*|irgendwelche))*"
    rf" {_STIL}(?:,? (?:bitte|mehr|in \w+ \w+|bei \w+ \w+|und \w+|oder \w+|danke))*$",
    rf"{_BITTE}(?:lass|spar|erspar|streich)(?:e|en sie)?(?: dir| mir| bitte| doch| mal| künftig)*"
    r" (?:das|die|den|deine|solche|diese)(?: [\w-]+){1,3}(?: weg| sein| bleiben)?$"
    r"(?<!das sein)(?<!die tür)",
    # what is said of, and what is not
    r"(?:über|von) [\w -]{2,40} (?:reden|sprechen|diskutieren|schreiben|schweigen) wir (?:hier |"
    r"bitte )*"
    r"(?:nicht|nie|kein\w*)\b.*",
    r"(?:lass|lassen sie|lasst) uns (?:bitte |lieber )*(?:nicht|nie) (?:über|von)\b.*",
    r"(?:bitte )?(?:benutz|verwend|nutz|erwähn|nenn|zeig|schreib|schick|push|post|teil|lösch|änder|"
    r"verschieb|antwort|erinner|schmeichel|stör|weck|ruf|frag|unterbrich|korrigier|überschreib|"
    r"bearbeit|"
    r"kommentier|lad|kauf|bestell|buch|gib|red|sprich|erzähl|nimm|setz|mach|belehr|dräng|nerv|"
    r"zitier|"
    r"halt|fang|komm|veröffentlich|speicher|kopier|verlink|übersetz|bewert|fass|rühr)e?"
    r"(?! (?:ich|er|sie|wir|es|das|dir|dich|euch)\b)(?:(?:,? [\w'-]+){1,8}? (?:nicht|nie|niemandem|"
    r"keinem|niemanden|keine?n?)\b|(?: nicht) (?:auf|an|in|mit|bei|über|von|ohne|nach|für|vor|mehr|"
    r"einfach|von dir aus) \w+)(?!.*\b(?:heute|morgen|jetzt|gerade|sorgen|gedanken|angst|so viel|"
    r"zu viel|zu sehr|vergessen)\b).*",
    r"du darfst (?:\w+ ){0,4}?(?:nicht|keine?n?|nie)\b.*",
    # how many, and what comes first
    r"(?:bitte )?(?:immer |nur |höchstens |maximal |max\.? |nie mehr als )+(?:ein\w*|zwei|drei|"
    r"vier|fünf|\d)"
    r" (?:\w+ ){0,2}?(?:auf einmal|gleichzeitig|pro \w+|am stück|zur zeit|am tag)\b.*",
    r"(?:bitte )?(?:immer )?(?:erst|zuerst|zunächst)(?: immer)?,? (?:die |das |eine? |den )?[\w-]+"
    r"(?: [\w-]+)?,? (?:dann|danach|und dann) (?:erst )?(?:die |das |der |den |eine? )?[\w-]+$",
    rf"{_BITTE}(?:rund|formatier|schreib|erklär|übersetz|beantwort|kürz|nummerier)e?(?: mir| "
    rf"bitte)? "
    r"(?:alles|alle \w+|sämtliche \w+|zahlen|namen) (?:auf|in|im|als|mit|wie|aus|nach)\b.*",
    rf"{_BITTE}(?:antwort|schreib|red|sprich)e?\b.* (?:in|auf) (?:der|derselben|meiner|der "
    rf"gleichen) "
    r"sprache\b.*",
    rf"{_BITTE}(?:nur |bloß |lieber )*(?:{_EINHEIT}|{_SPRACHE}|{_AUSGABE}|datum|uhrzeit|preis|"
    rf"währung|"
    rf"temperatur)(?: bitte| nur| immer)* (?:als|in|im|auf|ohne|mit|bitte)\b{_KEIN_SATZ}(?: "
    rf"[^\s,]+){{0,5}}"
    r",?(?: bitte)?$",
    rf"{_BITTE}(?:komm|komme) (?:bitte |doch |immer |gleich |schneller |direkt )*(?:auf den punkt|"
    rf"zum "
    r"punkt|zur sache)\b.*",
    # what is asked first
    r"(?:bitte )?(?:frag|wart|zeig|hol|sag|prüf|bestätig|klär|gib|lass|stopp|halt)e?\b.*,? "
    r"(?:bevor|ehe|bis) "
    r"(?:du|ich|irgend\w*|etwas|was)\b(?!.*\b(?:gehst|kommst|losfährst|da bin|zurück bin|"
    r"schläfst)\b).*",
    r"(?:bitte )?(?:hol|brauch|wart)\w*(?: dir| auf| du)* (?:mein\w*) (?:ok\w*|go|zustimmung|"
    r"freigabe|"
    r"erlaubnis|bestätigung|einverständnis)\b.*",
    r"(?:bitte )?(?:sag|schreib|gib|frag|warn)(?:e)?\b.*,? (?:wenn|falls) (?:du|dir|etwas|was)\b.* "
    r"(?:nicht|"
    r"unklar|unsicher|fehlt|kein\w*)\b.*",
    rf"{_BITTE}(?:weck|stör|ruf|schreib|melde?|kontaktier|erinner|benachrichtig)e?(?: dich| bei)? "
    rf"(?:mich|mir)"
    r"(?: an)? nur\b.*",
    r"(?:bitte )?(?:halt|lass)e? (?:bitte )?(?:mein\w*|die|den|das|unser\w*)(?: [\w'-]+){1,4} "
    r"(?:aus (?:allem|"
    r"den|der|dem|deinen)|außen vor|raus|heraus|da raus)\b.*",
    # what has no end since it is of no single thing
    r"(?:bitte )?(?:korrigier|kritisier|verbesser|markier|kennzeichn|hinterfrag|beacht|respektier|"
    r"vermeid|"
    r"benutz|verwend|nutz|nimm|erwähn|zitier|ergänz|zähl|nummerier|befolg|übernimm|schreib|"
    r"formulier|"
    r"betone?)e?(?: mir| bitte| immer| nur| auch| alle)*(?! (?:das|den|die|diese\w*|ein\w*|es|ihn|"
    r"sie|mal|"
    r"dem|der|mir|an|zwei|drei|\d+)\b)(?: meine[nr]?| deine[nr]?)? [\w-]+(?:e|en|er|s|ung|ß|n|us)\b"
    r"(?: [\w-]+){0,3}$",
    r"(?:bitte )?(?:weis|mach)e? mich (?:bitte |immer |ruhig )*auf \w+ (?:hin|aufmerksam)$",
    r"(?:bitte )?(?:nutz|verwend|benutz|nimm|schreib)e?(?: bitte| immer| nur)* (?:das|die|den|nach "
    r"der|in der)"
    r" (?:generische\w*|metrische\w*|alte\w*|neue\w*|schweizer|österreichische\w*|britische\w*|"
    r"amerikanische\w*|lateinische\w*|du-form|sie-form|ich-form|gegenwart|präsens|präteritum|"
    r"passiv)\b.*",
    r"(?:bitte )?(?:erfind|rat|lüg|spekulier|übertreib|halluzinier|schwafel|quatsch|laber|mutmaß|"
    r"behaupt|"
    r"unterbrich|wiederhol|belehr|beschönig)e?(?: mir| dich| dir)* (?:nicht\w*|nie|keine?n?|bitte "
    r"nicht\w*)"
    r"\b(?: so viel| herum| rum| \w+){0,3}$|(?:bitte )?denk dir (?:nichts|nie was) aus$",
    r"(?:bitte )?(?:sei|werd)e? (?:bitte |etwas |ein bisschen |doch |mal )*(?:weniger|mehr|nicht "
    r"so|nicht zu)"
    r" \w+(?: und \w+)?(?: bitte)?$",
    r"(?:bitte )?(?:etwas|ein bisschen|ein wenig|deutlich|viel)? ?(?:weniger|mehr|nicht so|kürzer|"
    r"knapper|"
    r"sachlicher|lockerer|freundlicher|förmlicher|einfacher|langsamer|leiser|konkreter|direkter|"
    r"ruhiger|"
    r"ernster)(?: \w+)?,? bitte$|bitte (?:etwas|ein bisschen|ein wenig|deutlich|viel) \w+er(?: "
    r"\w+)?$",
    r"(?:bitte )?sag(?:'s|e? es|e? mir)? (?:immer |mir )?(?:geradeheraus|direkt|offen|ehrlich|"
    r"klipp und klar|"
    r"lieber\b.*|ruhig\b.*)",
    r"(?:bitte )?(?:widersprich|korrigier|unterbrich|stopp|verbesser|hinterfrag)e? (?:mir|"
    r"mich)\b.*,? "
    r"(?:wenn|falls|sobald) ich\b.*",
    r"(?:bitte )?(?:frag|prüf|überleg|check|verifizier|vergewisser)e? (?:dich )?(?:lieber |immer |"
    r"bitte )*"
    r"(?:nach|fakten|alles|erst|quellen|angaben|lieber)\b.*",
    r"(?:nur |nie |maximal |höchstens )?(?:länger als |mehr als )?(?:ein\w*|zwei|drei|vier|fünf|"
    r"sechs|\d+) "
    r"(?:kurze |ganze )?(?:sätze?|satz|zeilen?|wörter|worte|absätze?|punkte|stichworte|"
    r"beispiele?),? "
    r"(?:maximal|höchstens|mehr nicht|reichen|reicht|genügen|genügt|bitte)\b.*|nie (?:länger|mehr|"
    r"weniger) "
    r"als .*",
    r"(?:bitte )?(?:alles|alle \w+)(?: bitte)? (?:\w+ ){0,3}?(?:schreiben|angeben|formatieren|"
    r"runden|"
    r"nummerieren|kürzen|übersetzen|erklären|begründen|belegen)(?: bitte)?$",
    rf"(?:{_AUSGABE}|listen|links|quellen|emojis) (?:bitte )?(?:nur|erst),? (?:wenn|falls|raus|"
    rf"nach|mit)\b.*",
    rf"(?:{_AUSGABE}|mails) (?:inklusive|inkl\.?|einschließlich|exklusive|zuzüglich|samt)\b.*",
    r"(?:keine?n?|nichts|nie|ohne) (?!(?:sorge|ahnung|zeit|lust|angst|panik|chance|problem|frage|"
    r"eile|stress|witz|scherz)\b)[\w-]+(?: [\w-]+){0,3}, (?:ich bin|ich habe|ich hab|ich "
    r"vertrag\w*|wir "
    r"sind|mein\w* \w+ ist)\b.*|nichts [\w]+es (?:für|bei|an|in) (?:mich|mir|uns)\b.*",
    rf"(?!.*\bist (?:nichts|kein))(?:nach|vor|ab|am|während|beim|im|bis|zwischen)(?: der| dem| "
    rf"den)? (?:\w+ )?{_RUHE}\b.* "
    rf"(?:nur|ruhe|"
    r"still|nichts|kein\w*)\b(?!.*\b(?:ist nichts|war|hatte|hatten|hat|haben)\b).*|(?:ab|nach|vor) "
    r"\w+ "
    r"uhr\b.*\b(?:ruhe|"
    r"nur|kein\w*|nichts|still)\b.*|während (?:der|des|dem) \w+ (?:bitte )?(?:nur|nichts|"
    r"kein\w*)\b.*",
    r"(?:bitte )?(?:schreib|ruf|weck|stör|erinner|kontaktier|benachrichtig|lass)e? (?:mir|mich)? "
    r"?(?:bitte )?"
    r"(?:sonntags|samstags|montags|freitags|nachts|abends|morgens|am wochenende|im urlaub)\b.*",
    r"(?:bei (?:mir|uns)|wir|hier) (?:fängt|beginnt|endet|zählt|zählen|rechnen|schreiben|sagen|"
    r"benutzen|"
    r"verwenden|duzen|siezen|gilt)\b.*",
    r"(?:mein\w*|unser\w*|dies\w*) [\w-]+ (?:behältst|behalten sie|darf|dürfen|soll|sollen) (?:du "
    r")?(?:bitte )?"
    r"(?:für dich|für sich|keiner|niemand|nie jemand|kein\w* \w+)\b.*",
    r"ich (?:geb|gebe|nehme|prüfe|entscheide|unterschreibe|sehe)\b.* (?:frei|ab|selbst|alles|"
    r"durch)\b,? (?:bevor|"
    r"ehe)\b.*|(?:über|bei) [\w ]{2,25} (?:entscheide|bestimme) (?:nur |allein |immer )*ich\b.*",
    r"(?:ich|wir|meine? \w+) [^,;?]{2,50}[,;] (?:also |drum |deshalb )?(?:\w+ ){0,3}(?:müssen|muss|"
    r"sollen|soll|"
    r"bitte|verwenden|nehmen|kein|keine|einfache\w*)\b(?!.*\b(?:ich|wir|er|sie|gehen|fahren|zum|"
    r"zur)\b).*",
    r"ich (?:werde|will|möchte|würde)(?: lieber| gern\w*| bitte| nicht)* (?:gesiezt|geduzt|mit \w+ "
    r"angesprochen|"
    r"\w+ genannt)(?: werden)?$|(?:du darfst|sie dürfen|man darf) (?:gerne? |ruhig )?[\w'-]{2,20} "
    r"zu mir sagen$",
    r"(?:bitte )?(?:antwort|schreib|erklär|sprich|red|fass|formulier)e?(?: bitte| mir| es| alles| "
    r"immer| nur|"
    r" doch| zusammen| deine \w+)* (?:in|mit|unter) (?:nur |höchstens |maximal |ganz |einem |"
    r"kurzen |einfachen |"
    r"vollständigen |wenigen |\w+ ){0,2}(?:sätzen|satz|worten|wörtern|zeilen|absatz|absätzen|"
    r"stichpunkten|"
    r"schritten)\b.*",
    rf"(?:bitte )?(?:halt|mach|lass|fass)e? (?:bitte )?(?:alles|es immer|deine \w+|die \w+|alle "
    rf"\w+)(?: \w+)? "
    rf"{_ART}\b.*",
    rf"(?:bitte )?(?:nur |immer |lieber )*(?:{_EINHEIT}|{_SPRACHE}|{_STIL}|{_AUSGABE}) (?:bitte "
    rf")?(?:verwenden|"
    r"benutzen|nutzen|nehmen|schreiben|sprechen|vermeiden|weglassen|angeben)(?: bitte)?$",
    r"du (?:brauchst|benötigst|musst) (?:immer )?(?:mein\w*|mich) (?:ok\w*|zustimmung|erlaubnis|"
    r"freigabe|ja|"
    r"einverständnis|fragen|vorher\w*|erst)\b.*",
    r"(?:bitte )?(?:kontaktier|stör|benachrichtig|beschreib|begrüß|bewert|kritisier|lob|"
    r"veröffentlich|filter|"
    r"ruf|weck|schreib)e? (?:mein\w*|unser\w*|mich|uns|kunden|leute)(?: [\w'-]+){0,4} (?:nicht|nie|"
    r"niemals)\b"
    r"(?! (?:vergessen|heute)\b).*",
    r"ich (?:möchte|will|wünsche mir|erwarte|hätte gern\w*|bitte dich|würde mir wünschen)(?: "
    r"\w+)?,? dass du "
    r"(?:mir |mich |mit mir |bei |in |auf )(?!.*\b(?:heute|morgen|gleich|jetzt|das hier|"
    r"diese\w*)\b).*"
    r"(?:schreibst|antwortest|sprichst|redest|nennst|ansprichst|duzt|siezt|erklärst|fragst|"
    r"behandelst)\b.*",
    r"(?:bitte )?(?:lies|prüf|übersetz|korrigier|speicher|archivier|fass)e? (?:bitte )?(?:alles|"
    r"alle \w+)\b.*,? "
    r"(?:was|die|das) ich\b.*",
    r"(?:bitte )?(?:kurze|knappe|einfache|klare|ganze|vollständige|lange|höfliche|deutsche|"
    r"englische) (?:sätze|"
    r"wörter|worte|absätze|sprache|begriffe|namen|titel|zeilen|antworten|schritte)(?: bitte)?$",
    r"(?:bitte )?(?:setz|schreib|mach|lass|füg|stell|nimm|benutz|häng)e?\b.* (?:zwischen|vor|nach|"
    r"hinter|unter|"
    r"über|um|am (?:anfang|ende)|zu beginn) (?:jede\w* |alle\w* |de\w+ )?(?:zahl\w*|einheit\w*|"
    r"namen?|"
    r"überschrift\w*|titeln?|listen?|sätze\w*|satz|absatz|absätze\w*|antwort\w*|nachricht\w*|"
    r"mails?|zitate?\w*|"
    r"datum|wort|wörter\w*|komma\w*)\b.*",
    r"ich (?:will|möchte|muss|würde gern\w*) (?:jede\w*|alle\w*)\b.* (?:sehen|lesen|prüfen|"
    r"freigeben|hören|"
    r"genehmigen|absegnen)\b.*",
    r"(?:bitte )?(?:sag|gib)e? (?:mir )?(?:immer )?(?:die wahrheit|deine ehrliche \w+)\b.*|"
    r"(?:bitte )?(?:warn|"
    r"alarmier|stopp|erinner|brems)e? mich,? (?:wenn|bevor|falls|sobald) ich\b.*",
    r"(?:bitte )?(?:misch|vermisch|kürz|verwechsel|änder|übersetz|beend|verwend|wiederhol|beginn|"
    r"fang)e? "
    r"(?:das wort|die wörter|den begriff|die sprachen?|namen|meine \w+|deine \w+|q+)\b.* ?(?:nicht|"
    r"nie)\b.*",
    # likes
    rf"ich (?:mag|will|möchte|brauche|hasse|bevorzuge|wünsche mir|kann|lese)(?: \w+){{0,2}}?"
    rf" (?:keine?n?|lieber|nicht so viele|kurze|knappe|kürzere|ausführliche|klare|direkte|ehrliche)"
    rf"(?: \w+){{0,2}}? (?:{_STIL}|{_AUSGABE}|{_EINHEIT})\b(?: \w+){{0,3}}$",
    rf"ich (?:mag|will|möchte|hätte gern\w*|brauche|bevorzuge)(?: lieber| nur| am liebsten)? "
    rf"(?:{_ART})"
    rf"(?:e|en|er|ere|eren)? (?:{_AUSGABE})\b.*",
    rf"ich (?:hasse|bevorzuge) (?:{_STIL}|{_AUSGABE}|{_SPRACHE})\b.*",
    # names, you and thou
    r"(?:ich heiße|ich bin|mein name ist|ich bin der|ich bin die) [\w'-]{2,20},? (?:und )?nicht "
    r"[\w'-]{2,20}$",
    r"(?:alle|alle leute|meine \w+|die meisten|jeder) (?:nennen|nennt|sagen|sagt)(?: zu)? (?:mich|"
    r"mir) "
    r"[\w' .-]{2,30},? .*",
    r"für (?:dich|sie) (?:bin ich|heiße ich)\b.*|sag(?:en sie)? (?:bitte |ruhig |einfach "
    r")*[\w'-]{2,20} zu mir$",
    r"(?:du kannst|sie können|ihr könnt|du darfst|sie dürfen)(?: bitte| gerne?| ruhig| einfach| "
    r"auch)* (?:mich|uns)(?: bitte| gerne?| ruhig| einfach| auch)* (?:[\w'-]{2,20} )?(?:nennen|"
    r"duzen|siezen)\b.*",
    r"(?:du kannst|kannst|sag|sagen sie)(?: du| bitte| ruhig| gerne?| einfach)* (?:[\w'-]{2,20} "
    r")?zu"
    r" mir(?: sagen)?(?: [\w'-]{2,20})?$",
    r"(?:bitte )?(?:duz|siez)(?:e|en sie)?(?: mich| uns)(?: bitte| ruhig)?\b.*|(?:lass|lassen sie) "
    r"uns "
    r"(?:bitte |doch )?(?:beim|per) (?:du|sie)\b.*|(?:wir (?:sind|bleiben) )(?:beim|per) (?:du|"
    r"sie)\b.*",
    rf"{_BITTE}(?:nennen sie|nennt|sprechen sie|sprich|red\w*) (?:mich|uns)\b(?! (?:verrückt|nicht "
    r"darauf)\b).*",
    # what is kept, from whom, and where it is quiet
    r"(?:was|alles,? was|das|dies|mein\w*|unser\w*|die sache|dieses thema)\b.* (?:bleibt|bleiben|"
    r"ist|sind) (?:bitte |alles |absolut |streng |nur |strikt )*(?:unter uns|zwischen uns|"
    r"zwischen dir und mir|vertraulich|geheim|tabu|verboten|gestrichen|privatsache|privat|"
    r"unantastbar|"
    r"nur für dich)\b.*",
    r"(?:was|das|mein\w*|unser\w*|es)\b.* geht (?:niemande?n?|keinen?|nur mich|andere nichts|nur "
    r"uns)"
    r"\b.*",
    rf"{_BITTE}(?:lass|lassen sie)(?: bitte)? (?:mein\w*|die|den|das|unser\w*)(?: [\w/.-]+){{1,4}}"
    r" (?:in ruhe|in frieden|unangetastet|unverändert|so|wie (?:er|sie|es) (?:ist|sind))$",
    rf"{_BITTE}(?:finger|pfoten|hände) weg vo[nm]\b.*",
    rf"(?:nach|vor|ab|am|an|zwischen|während|beim|im|in|bis)?(?: den| dem| der)? "
    rf"?{_RUHE}\b(?!.*\b(?:ist|sind|war|waren|wurde|hatte|haben|hat)\b)(?: "
    rf"[\w.:]+)"
    rf"{{0,3}}? (?:bitte |gilt |will ich |möchte ich |gibt es )*(?:keine?n?|nichts|nie|ruhe|"
    rf"funkstille|nicht (?:stören|anrufen|schreiben|melden|erinnern|wecken))\b(?!.*\b(?:war|hatte|"
    rf"hat|haben|zeit|lust|termin frei)\b).*",
    r"(?:auf (?:gar )?keinen fall|unter (?:gar )?keinen umständen|niemals|nie|keinesfalls)"
    r" \w+st du\b.*",
    r"(?:bitte )?ohne (?:mein\w*|rücksprache|rückfrage|freigabe|absprache|zu fragen|nachzufragen|"
    r"zustimmung|ausdrückliche\w*)\b.*\b(?:wird|werden|geht|passiert|kein\w*|nichts|niemand|nicht|"
    r"darf|darfst)\b.*",
    rf"{_BITTE}(?:frag|kläre?|stimm|hol|sag|rück)e?(?: mich| mir| es| das| dir| bitte| dich)*"
    r" (?:vorher|erst|zuerst|immer erst|vorab)\b.*",
    r"(?:bitte )?(?:vorher|erst|vorab|zuerst)(?: immer| bei mir| mich| mit mir)* (?:nachfragen|"
    r"fragen|"
    r"rückfragen|abklären|absprechen|bescheid (?:sagen|geben))\b.*",
    r"(?:bitte )?(?:sag|gib|schreib|meld|warn|informier|alarmier|benachrichtig)(?:e|en sie)?"
    r"(?: mir| mich| dich| bitte| bescheid| sofort| gleich| bei mir)*,? (?:sobald|immer,? wenn|"
    r"jedes mal,? wenn|wann immer|falls) (?!du\b|ihr\b|er\b|wir\b)(?!.*\b(?:angekommen|da ist|"
    r"fertig "
    r"bist)\b).*",
    # what I am, and what follows for you
    r"(?:ich|mein\w*|wir|unser\w*|bei (?:mir|uns))\b[^?]{2,90}?(?:[,;.–-]| und| also)+ ?(?:bitte |"
    r"also "
    r"|und |immer |deshalb |daher )*(?:denke? (?:bitte )?(?:da|dr?an|daran|dabei)|denk da|dran "
    r"denken|daran denken|berücksichtig\w*|merke? (?:dir )?(?:das|es)|merk's dir|beachte?|bitte "
    r"beachten|nimm(?: bitte)? (?:darauf )?rücksicht|plane? (?:das|damit|so)|richte dich|"
    r"stell dich darauf|lass (?:das|es|sie|die|ihn)\b.* weg|(?:schlag|empfiehl|gib|zeig|such|"
    r"bestell|koch)e? (?:mir |uns )?(?:also |bitte |da |daher |deshalb )*(?:nichts|keine?n?|nur)|"
    r"(?:also )?(?:nichts|keine?) (?:mit|aus|was)\b).*",
    r"(?:ich bin|ich habe|ich hab|ich nutze|ich benutze|ich kann|ich vertrage?|wir sind|wir haben|"
    r"mein\w* "
    r"\w+ (?:ist|sind)) [^,;?]{2,60}[,;–-] (?:also |bitte |daher |deshalb |drum )*(?:vermeide?|"
    r"kein\w*|nichts|"
    r"erklär\w*|sprich|red\w*|nutz\w*|verwend\w*|benutz\w*|schreib\w*|lass\w*|meid\w*|nimm|wähl\w*|"
    r"schlag\w*)"
    r"\b(?! (?:mir )?(?:eine?n?|das|mal)\b).*",
    r"(?:ab (?:heute|jetzt|sofort|morgen|nun|montag)|künftig|in zukunft)\b.*\b(?:wir|du|mein\w*|"
    r"gibt|"
    r"gilt|kein\w*|nur)\b.*\b(?:nur|höchstens|maximal|budget|pro|plan|keine?|woche|regel)\b.*",
)
ASKS = PatternList(
    rf"(?:kannst|könntest|würdest|magst|können|könnten|würden) (?:du|sie)\b.* {_SPRACHE} (?:mit "
    rf"(?:mir|uns)|zu mir)"
    r" (?:sprechen|reden|schreiben)$",
    rf"(?:kannst|könntest|würdest|magst|können|könnten|würden) (?:du|sie)\b.* (?:(?:auf|in) "
    rf"{_SPRACHE}"
    r" (?:antworten|schreiben|reden|sprechen|erklären|chatten)|(?:mich|uns) (?:bitte |ab jetzt |"
    r"einfach )*(?:[\w'-]{2,20} nennen|duzen|siezen)|(?:kürzer|knapper|einfacher|langsamer) "
    r"(?:fassen|antworten|schreiben|erklären)|(?:weglassen|bleiben lassen|sein lassen|sparen))$",
)
REPORTS = PatternList(
    r".*\b(?:sagt|sagte|meint|meinte|hat gesagt|schrieb|schreibt|wollte|will|findet)\b,? "
    r"(?:er|sie|man|dass|ich soll)|(?:er|sie|man|jemand|mama|papa|mein chef|meine \w+) (?:sagt|"
    r"sagte|meint|meinte|hat gesagt|schrieb|wollte)\b"
)
