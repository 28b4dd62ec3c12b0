"""The shapes of standing instructions in German."""

from __future__ import annotations

from memory.patterns import PatternList
from plugins.instructions.detect_shapes import SaidSentence

# Stems of verbs of what a bot does: imperatives ("schick", "schicke"), and infinitives behind them.
_STEMS = (
    "akzeptier|aktualisier|änder|antwort|arbeit|achte|begründ|beacht|beantwort|begrüß|behalt|"
    "behandel|"
    "behandle|benenn|benutz|bericht|bestätig|bestell|bezeichn|biet|bitt|bleib|blockier|buch|"
    "deploy|dolmetsch|druck|"
    "duz|empfehl|empfiehl|entfern|entschuldig|erfind|erinner|erklär|erstell|erwähn|erzähl|fass|"
    "formatier|"
    "formulier|frag|füg|führ|geb|gib|gendere?|gewöhn|grüß|halt|häng|hör|informier|installier|kauf|"
    "klär|kommentier|"
    "kontaktier|konzentrier|korrigier|kürz|lass|lehn|leit|les|lies|lieferst?|list|lösch|lüg|mach|"
    "markier|meid|meld|merk|mess|"
    "miss|nenn|nimm|nehm|notier|nutz|ordn|plan|poste?|präsentier|prüf|push|rat|rate|rechn|red|"
    "reserv|reservier|"
    "richt|ruf|rund|sag|schalt|schau|schick|schlag|schlaf|schreib|schütz|send|setz|siez|sortier|"
    "sparst?|spar|speicher|sperr|"
    "spiel|sprech|sprich|stell|streich|such|teil|test|trag|trenn|trenne|tu|übernimm|übernehm|"
    "überprüf|"
    "übersetz|unterlass|unterstell|unterbrich|unterschreib|verbessere?|verfass|verlass|veröffentlich|verrat|"
    "verrate|verschick|verschieb|"
    "verschone?|versuch|verwend|verzicht|vermeid|wähl|warn|wart|weck|weiger|wiederhol|zeig|zieh|"
    "zitier|zähl|formulier|"
    "protokollier|dokumentier|priorisier|berücksicht|berücksichtig|ignorier|verzeichn|ergänz|"
    "runde|hinterfrag|kennzeichn|vergiss|"
    "bezieh|sei|sorg|denk|liefer|tipp|schließ|öffn|starte?|stopp|beend|beginn|fang|hänge|leg|pack|"
    "besprich|orientier|unterstütz|übertrag|archivier|filter|filtere|konvertier|wandel|wandle"
)
_DO = rf"(?:{_STEMS})(?:e|le)?\b"
_TO_DO = rf"(?:\w{{0,8}}?(?:zu)?(?:{_STEMS})(?:e?n|eln|ern)\b)"
_YOU_DO = (
    rf"(?:{_STEMS})(?:e?st|elst|erst|t)\b|(?:hältst|fragst|gibst|liest|nimmst|sprichst|empfiehlst|"
    rf"bist|lässt|darfst|musst|sollst|rätst|fasst|vermeidest)"
)
# Verbs of how a person lives and feels: "gib nie auf" is no order for a bot.
_OF_LIFE = (
    r"(?:sag (?:nie|niemals) nie|gib (?:nie|niemals|nicht|bloß)\w* auf|gib nicht|vergiss|"
    r"verlier\w*|glaub\w*|hoff\w*|träum\w*|fürcht\w*|zweifle?|lieb\w*|"
    r"genieß\w*|leb\w*|schlaf|träum|mach dir|sorg dich|pass auf|hab\b|bleib (?:immer|stets|doch|"
    r"bitte)? ?(?:du selbst|gesund|"
    r"wie|so|stark|ruhig)|sei (?!.*\b(?:mir|mich)\b)|denk (?:immer )?(?:an|daran,? dass du|"
    r"positiv)|stell dir vor|hör (?:nie|niemals|"
    r"nicht) auf|lass (?:dich|dir|los|nie|es|das$)|komm)"
)
_PLEASE = r"(?:(?:bitte|bidde|doch|einfach|mal|auch|also|dann|gerne?|nochmal)\s+)*"
_FROM_NOW = (
    r"(?:ab (?:jetzt|sofort|heute|nun|hier|morgen|dieser stelle|diesem punkt)|von (?:nun|jetzt|"
    r"heute|hier) an|in (?:der )?zukunft|künftig|zukünftig|"
    r"fortan|fürderhin|bis auf weiteres|vorerst|für die zukunft|für immer|ein für alle ?mal|"
    r"dauerhaft|für den rest (?:des|der|unseres|unserer) "
    r"(?:chats|gesprächs|unterhaltung|sitzung)|solange ich nichts anderes sage)"
)
_NEVER = (
    r"(?:nie(?:mals)?(?: wieder| mehr)?|nimals|nimmer|unter (?:gar )?keinen umständen|"
    r"auf (?:gar )?keinen fall|keinesfalls|nirgends|nirgendwo)"
)
_ALWAYS = (
    r"(?:im+er|imer|stets|jedes ?mal|jederzeit|grundsätzlich|generell|prinzipiell|ausnahmslos|"
    r"standardmäßig|ausschließlich|allzeit|durchgehend)"
)
_LASTING = (
    rf"(?:\b(?:{_FROM_NOW}|{_NEVER}|{_ALWAYS}|nur noch|nicht (?:immer|jedes ?mal|ständig|dauernd|"
    rf"mehr)|ständig|dauernd|jemals)\b)"
)
_CONSENT = (
    r"(?:\b(?:ohne,? (?:mein|meine|mich|dass ich|rücksprache|nachzufragen|zu fragen|erlaubnis|"
    r"zustimmung|ok)|"
    r"außer (?:wenn )?ich|ausser (?:wenn )?ich|es sei denn,? ich|solange ich nicht|bis ich|"
    r"bevor ich (?:nicht|es|das|sie|zu)|"
    r"wenn ich (?:es |das |sie |ihn |dem )?(?:nicht )?(?:freig|erlaub|zustimm|ja sag|ok|genehmig|"
    r"freigegeben|bestätig))\w*)"
)
_ONCE = (
    r"\b(?:heute abend|heute|morgen(?! in)|gerade|diesmal|jetzt(?! an)|gleich|nachher|diese woche|"
    r"am (?:montag|dienstag|mittwoch|donnerstag|freitag)|"
    r"nächste woche|noch nicht|im moment|gestern|in diese[mr] \w+)\b"
)
_STYLE = (
    r"(?:\w*emojis?|smileys?|emoticons|aufzählungs\w+|stichpunkte?|markdown|small ?talk|hinweise?|"
    r"zusammenfassung\w*|"
    r"witze?|scherze?|wortspiele?|spoiler|überschriften|tabellen?|erklärungen|entschuldigung\w*|"
    r"begrüßung\w*|"
    r"floskeln?|füllwörter|abkürzungen|fachbegriffe|fachjargon|jargon|schmeichelei\w*|"
    r"komplimente?|lob|ausrufezeichen|"
    r"gedankenstriche?|hashtags?|anglizismen|fremdwörter\w*|vorschläge|erinnerungen|warnungen|"
    r"belehrungen|"
    r"einleitung\w*|vorrede|rückfragen|kommentare|fußnoten|passiv|ironie|sarkasmus|gendern|"
    r"gender\w+|werbung|termine|"
    r"höflichkeits\w+|metaphern|schachtelsätze|englisch\w*|qqq+)"
)
_LANGUAGES = (
    r"(?:deutsch|englisch|französisch|spanisch|italienisch|polnisch|türkisch|russisch|chinesisch|"
    r"niederländisch|"
    r"portugiesisch|arabisch|japanisch|ukrainisch|schwedisch|dänisch|hochdeutsch|schwäbisch|"
    r"bairisch|plattdeutsch|schweizerdeutsch)"
)
_REPLIES = (
    r"(?:antwort(?:en)?|nachricht(?:en)?|mails?|e-mails?|datumsangaben|zeitangaben|uhrzeiten|"
    r"zahlen|beträge|preise|berichte?|"
    r"zusammenfassung(?:en)?|dokumente?|code|commits?|commit-nachrichten|variablen|funktionen|"
    r"titel|überschriften|"
    r"übersetzung(?:en)?|texte?|ausgaben?|einheiten|rechnungen|rezepte?n?|listen?|dateien|daten|"
    r"fragen?|aufgaben?|sitzung|"
    r"gespräch|buchung|zahlung|commit|änderung(?:en)?|vorschläge?|quellen)"
)
_NOBODY = r"\b(?:niemand\w*|keine[mnr]? (?:anderen|menschen|dritten)|nichts|jemand\w*|irgend\w+)\b"
_START = rf"(?:(?:{_LASTING}|bitte|nur|erst|zuerst),?\s+)*"

_ORDERS = PatternList(
    # schick nie, antworte immer, nenn mich nicht mehr
    rf"{_PLEASE}(?!{_OF_LIFE})(?:{_DO})(?!,)(?! (?:ich|er|sie|es|wir|du)\b).*(?:{_LASTING}|"
    rf"{_CONSENT})(?!.*\b(?:verkehr|frieden)\b)",
    rf"{_PLEASE}(?:{_LASTING}),? {_PLEASE}(?!{_OF_LIFE})(?:{_DO})(?!,)(?! (?:ich|er|sie|es|"
    rf"wir|man|das|die|der)\b)",
    # frag mich, bevor; zeig mir jeden Beitrag, bevor du
    rf"{_PLEASE}(?:{_LASTING} )?(?:frag|zeig|sag|informier|warn|lass|hol|klär|warte|"
    rf"bestätige?|erkundige?)(?:e)?\b.*\b(?:bevor (?:du|etwas|irgend)|vor "
    r"(?:jede[mnr]|allen|dem (?:löschen|senden|buchen|verschicken|absenden)))(?! (?:gehst|"
    r"kommst|losfährst|fährst|gehen)\b)",
    # gib nichts weiter, fass X nicht an: nobody and nothing
    rf"{_PLEASE}(?!{_OF_LIFE})(?:{_DO}).*{_NOBODY}.*\b(?:weiter|ohne|außer|vor|davon|verraten|"
    rf"preis|heraus)\b(?!.*{_ONCE})",
    rf"{_PLEASE}(?:verrat|erzähl|sag)e? (?:\w+ ){{0,4}}?(?:niemand\w*|keinem)\b",
    rf"{_PLEASE}(?:{_DO})(?: \w+){{0,6}} (?:vertraulich|geheim|für dich)\b",
    # keine Emojis, verwende keine Aufzählungspunkte, verzichte auf, vermeide
    rf"{_PLEASE}(?:benutz|verwend|nutz|schreib|setz|mach|füg|nimm|gib|schick|spar dir|"
    rf"lass)(?:e)? (?:(?:mir|bitte|dabei|deine|die|auch|in \w+) )*"
    rf"(?:keine?n?|nicht (?:so )?(?:viele?|immer)|weniger|die|deine) {_STYLE}\b(?!.*{_ONCE})",
    rf"{_PLEASE}(?:vermeide?|verzichte?|meide?)\b(?: bitte)? (?:auf |"
    rf"bitte )?(?:\w+ ){{0,2}}(?:{_STYLE}|wörter|wort|begriffe?|ausdrücke|formulierungen)\b",
    rf"{_PLEASE}(?:keine?n?|nicht so viele?|weniger|schluss mit|genug (?:mit|von)|nie wieder|"
    rf"bloß keine)(?: (?:den|der|diesen|mehr|bitte))* {_STYLE}\b"
    rf"(?!.*(?:\b(?:ist|sind|war|waren|habe?|hat|gab|gibt|bekommen|da|ich|wir)\b|{_ONCE}))",
    r"(?:bitte )?keine?n? [\w-]+(?: \w+){0,3}? mehr(?: bitte| danke|,? bitte|"
    r",? danke)?$(?<!problem mehr)",
    rf"{_PLEASE}(?:hör|hoer)e? (?:bitte |endlich )*auf,? (?:\w+ ){{0,3}}?(?:(?:immer|ständig|"
    rf"dauernd|jedes mal|ewig) .*|\w*zu ?(?:{_STEMS})\w*$|mit (?:den|dem|der) {_STYLE})",
    # ab jetzt nennst du mich, du antwortest künftig
    rf"{_START}{_FROM_NOW},? (?:(?:{_YOU_DO}) du\b|wird (?:\w+ ){{0,5}}(?:ge\w+t|\w+iert)$|"
    rf"(?:sollen|müssen|dürfen) (?:alle|die|deine)|(?:nur|kein\w*|bitte|immer|nie|nicht|"
    rf"alles?)\b)",
    rf"{_START}{_FROM_NOW},? (?!(?:ich|er|sie|es|wir|man|das|die|der|den|dem|ein|eine|wird|"
    rf"werde|werden|will|ist|sind|bin|hat|habe|haben|gibt|"
    rf"geht|fährt|kann|können|möchte|wollen|soll)\b)(?:\w+ ){{0,8}}?(?:{_TO_DO})$",
    rf"{_START}{_FROM_NOW},? (?:auf |nur |nur noch |bitte )*{_LANGUAGES}\b",
    rf"du (?!bist (?!ab)|hast|warst|siehst|kommst|gehst|wirst|weißt|"
    rf"kannst ja)(?:{_YOU_DO})\b(?:.* )?(?:{_FROM_NOW}|ausschließlich|nur noch|nie wieder|"
    rf"niemals wieder|"
    r"nur,? wenn ich|nur mit mein|erst,? wenn ich)\b",
    r"du (?:fragst|zeigst|sagst|informierst|pushst|machst|schickst|löschst|veröffentlichst|"
    r"buchst|postest|kaufst|sendest|bestellst)\b.*\b(?:bevor du|nur\b.*wenn ich|"
    r"erst,? (?:wenn|nachdem) ich|ohne (?:mich|meine))",
    # du darfst nie, du musst mich erst fragen
    rf"(?:\w+ )?(?:du )?(?:darfst|sollst|musst|solltest|sollest) (?:du )?(?!.*(?:gehabt|haben|"
    rf"gewesen)$)(?:.*\b)?(?:{_LASTING}|{_CONSENT}|mich (?:erst|vorher|zuerst)|"
    rf"erst fragen)(?!.*\bglaub)",
    rf"(?:{_LASTING}|\w+ \w+) darfst du\b.*(?:{_TO_DO}|\w+en)$",
    rf"du darfst (?:\w+ ){{0,5}}?(?:nicht|kein\w*)\b.*{_TO_DO}",
    r"du (?:brauchst|musst) (?:\w+ ){0,5}?nicht (?:jedes mal|immer|mehr|ständig)\b.*",
    r"du brauchst (?:\w+ ){0,3}?nicht (?:jedes mal|immer|mehr)",
    # ich möchte, dass du künftig
    rf"dass du (?:mir|mich) .*{_NEVER}\b.*",
    rf"(?:\w+ ){{1,2}}(?:wird|werden|geht) (?:\w+ ){{0,3}}(?:nichts|niemand|kein\w*|"
    rf"nie)\b.*{_CONSENT}",
    rf"{_PLEASE}(?!{_OF_LIFE})(?:{_DO})(?: \w+){{0,2}} jedes mal,? wenn (?:du|ich)\b",
    rf"(?:{_YOU_DO}) du bitte (?:{_LASTING})",
    # infinitives: bitte immer nachfragen, nie wieder X verwenden
    rf"{_PLEASE}(?:\w+ ){{0,3}}?(?:{_ALWAYS}|{_NEVER}|nur|"
    rf"nicht mehr)\b(?! noch\b)(?!.*\b(?:ich|er|sie|wir|ist|sind|war|hat|habe|haben|du|man|"
    rf"wollen|soll|sollen|muss|müssen|kann|können|"
    rf"könnte|darf|werde|wird|würde|gewesen|möchte|"
    rf"wollte)\b).*?(?:{_TO_DO})(?: bitte)?(?:,? (?:bevor|wenn|falls|ohne)\b.*|,? (?:dann|"
    rf"bitte)\b.*)?$",
    rf"(?:{_ALWAYS}, wirklich )?{_ALWAYS} (?:erst )?(?:{_TO_DO})\b",
    rf"(?:bitte )?(?:{_NEVER}|{_ALWAYS}) (?:auf {_LANGUAGES}|im? \w+|erst|zuerst|vorher|"
    rf"alle?)\b(?!.*\b(?:ich|er|sie|wir|ist|sind|war|hat|habe|haben|noch|du|man|wollte)\b).*",
    rf"bitte {_NEVER}\b(?!.*\b(?:ich|ist|wird)\b).*",
    rf".*\bbitte (?:weglassen|vermeiden|unterlassen|nicht mehr)\b.*(?:{_ALWAYS}|{_FROM_NOW}|"
    rf"mehr)?$",
    rf"{_PLEASE}(?:verwende|nutze?|nur) \w+ (?:zum|für (?:alle?s?|jede[nsr]?|"
    rf"einrückungen))\b.*",
    # any order that is said to last, and any prohibition that is not for once
    rf"{_PLEASE}(?!{_OF_LIFE})(?:{_DO})(?!,)(?! (?:ich|er|wir|du)\b)(?=.*(?:{_LASTING}|"
    rf"{_CONSENT}|\b(?:alles,? was|allem,? was|alles so|alles (?:in|auf|als|mit|wie)|nur|"
    rf"wie einen? \w+|nur über|ausschließlich|"
    rf"bei mir|generell|jede[nrsm]? \w+,? de[nr])\b))(?! mal\b)(?! nur (?:so|kurz|"
    rf"mal)\b)(?!.*{_ONCE})(?!.*\bnicht zu (?:viel|sehr)\b)",
    rf"{_PLEASE}(?!{_OF_LIFE})(?!frag nicht$|mach nicht$)(?:{_DO}|öffne|stör|weck|komm|trink|"
    rf"iss)(?!,)(?! (?:ich|er|wir|du|dir|dich|das|"
    rf"es)\b)(?: (?!so\b)[\w-]+){{0,5}}? (?:nichts?|keine[nmr]?|keine|kein|nie)\b"
    rf"(?: (?!so\b|mehr$|sorgen|gedanken|angst|eile|stress|zu\b|auf$)\w+)+(?!.*{_ONCE})",
    r"wenn du .{1,40}, (?:dann )?(?:sag|schreib|antworte)e? (?:bitte |nur |einfach )+\w+$",
    r"wage? es nicht\b.*",
    rf"(?:{_DO}) (?:dich )?(?:bitte )?(?:bei|an) (?:den |die )?(?:fakten|tatsachen|regeln|"
    rf"format|stil|vorgaben)\b.*",
    r"geh(?:e)? (?:bitte )?(?:immer )?davon aus,? dass (?:ich|wir|mein)\b.*",
    r"komm(?:e)? (?:bitte )?(?:ab jetzt |künftig |immer )?(?:gleich |direkt |"
    r"sofort )?(?:zum punkt|zur sache)",
    r"komm mir (?:bitte )?(?:nie|nicht) (?:wieder|mehr) .*",
    r"finger weg von\w*|finger weg vo[nm] .*",
    r"(?:bitte )?keine [\w-]+ (?:nach|vor|ohne|während|über|unter|zwischen|an|am|"
    r"für) (?!\w*(?:mich|uns|ihn|sie)\b)[\w ]+$",
    r"alles (?:über|unter|ab|was|mit) .*\b(?:freigeben|genehmigen|absegnen|bestätigen|fragen|"
    r"vorlegen|freigabe|zustimmung)\b.*",
    r"(?:\w+ ){1,3}kannst du (?:weglassen|dir sparen|auslassen|überspringen)",
    rf"(?:mein\w*|alle|die|jede\w*|unsere) [\w-]+ (?:{_YOU_DO}) du (?:bitte )?(?:{_LASTING})",
    r"du (?:sollst|darfst) (?!doch\b)(?:\w+ ){0,4}?(?:keine?n?|nicht|nie) (?:\w+ ){0,4}?\w+en$",
    rf"du bist (?:{_FROM_NOW}) .*",
    rf"(?:{_STYLE}|\w+) kannst du weglassen",
    r"hör(?:e)? (?:bitte )?auf,? .*\b(?:deine\w*|meine\w*|jede\w*|immer|mich)\b.* zu \w+",
    r"(?:für|bei|vor|nach|in|mit)? ?(?:[\w-]+ ){1,4}(?:musst|"
    r"brauchst) du (?:\w+ ){0,4}?nicht (?:jedes ?mal|immer|ständig|mehr|extra)\b.*",
    rf"bevor du (?:etwas|irgendwas|irgendetwas|was|jemals|mir|eine?n?) .*, (?:{_DO})",
    r"du (?:musst|sollst) (?:\w+ ){0,3}?(?:jede[rmsn]?|alle[nrm]?|immer|stets)\b.*",
    rf"(?:mein\w*|unser\w*|der|die|das) [\w-]+ (?:heißt|heißen|ist|"
    rf"sind) {_FROM_NOW}\b.*(?:bei uns|für uns|qqq)",
    rf"(?:bleiben|machen|sprechen|nehmen|verwenden|nutzen|reden|schreiben) wir .*{_FROM_NOW}",
    rf"(?:immer|jedes ?mal),? wenn .* (?:{_DO}) (?:mich|mir|es|sie|ihn|das)\b.*",
    rf"(?:wenn|falls|sobald) ich .*,? (?:dann |bitte )*(?:schlag|sag|antworte|frag|gib|"
    rf"verwende|nutze?|schreib|übersetze?|erinnere?|zeig)e?\b(?! (?:ich|"
    rf"bescheid))(?!.*{_ONCE}).*",
    rf"{_FROM_NOW} (?:heißt|heißen|gilt|gelten)\b.*",
    rf"(?:{_NEVER}|höchstens|maximal|max) (?:mehr als )?\w+ \w+ (?:pro|je|in jede[rm])\b.*",
    rf"{_PLEASE}(?!{_OF_LIFE})(?:{_DO}) (?:mich|uns|mir) (?:\w+ ){{0,2}}?(?:nicht|nie),? "
    rf"(?:wenn|während|solange|bevor|bei|vor|nach)\b(?!.*{_ONCE})",
    rf"{_PLEASE}(?:{_DO})\b.*,? wenn du .*\b(?:nicht|nichts|unsicher|kein\w*)\b",
    r"(?:bitte )?(?:sprich|rede|schreib) mit mir (?:bitte )?(?:wie|als|so|immer|nur)\b.*",
    # nouns: Zusammenfassungen immer in drei Sätzen; alle Antworten müssen
    rf"(?:alle |jede[rs]? |deine |meine |sämtliche )*(?:{_REPLIES}|\w+(?:ungen|angaben|"
    rf"nachrichten|formate)) (?:bitte |ab jetzt )*(?:{_ALWAYS}|{_NEVER}|maximal|höchstens|nur|"
    rf"ausschließlich)\b(?!.*\b(?:ich|wir|ist|sind|war)\b)",
    rf"(?:alle|jede[rs]?|deine|sämtliche) (?:\w+ )?{_REPLIES} (?:bitte|muss|müssen|soll|"
    rf"sollen|sollten|hat|haben .*zu|darf|dürfen|in|auf|als)\b(?!.*\bich\b)",
    rf"{_REPLIES}: ?(?:maximal|max|höchstens|immer|nie|nur|auf)\b",
    rf"(?:am ende|zu beginn|am anfang|nach|vor|zu|bei|an|mit|in|"
    rf"unter) jede[rmns]? (?:\w+ )?{_REPLIES}\b.*\b(?:bitte|{_TO_DO})",
    rf"{_PLEASE}(?:{_DO}).*\b(?:am ende|zu beginn|am anfang|nach|vor|zu|bei|an|mit|unter|"
    rf"in) (?:jede[rmns]?|allen|alle) (?:künftigen )?{_REPLIES}\b",
    rf"{_PLEASE}(?:{_DO}).*\b(?:auf alles|in allen|für alle (?:künftigen|weiteren|meine|"
    rf"deine)|in allem)\b",
    rf"(?:{_REPLIES}) gehen an .*\bnie an\b",
    # wenn ich X, dann Y
    rf"(?:immer,? wenn|jedes ?mal,? wenn|wenn|falls|sobald|sofern)(?: ich| jemand|"
    rf" einer)(?: \w+)? ?(?:(?:.*\b)?(?:sage?|erwähne?|einfüge?|schreibe?|schicke?|nenne?|"
    rf"frage?|fragt|poste|teile?|"
    r"bitte|möchte|will|spreche|sende|hochlade|tippe|anhänge|zitiere|meine|sagt|mitteile|"
    r"einstelle|reinkopiere|kopiere))\w*\b.*?,\s*(?:dann )?(?:bitte )?"
    rf"(?:(?:{_DO})|(?:{_YOU_DO}) du|meine? ich (?:immer|damit|stets)|hörst du|(?:{_LASTING}))",
    rf"(?:wenn|falls|sobald|bevor|während|solange)(?: du|(?: etwas|"
    rf" irgendwas) an) .*(?:antwort|schreib|zitier|übersetz|empfiehl|vorschläg|schickst|"
    rf"sendest|löschst|buchst|kaufst|bestellst|veröffentlich|"
    r"verschick|erstell|änder|unsicher|nicht weißt|nicht sicher|formulier|codest|programmier|"
    r"zusammenfass|kunden|rechnest|erwähn|nennst|postest)\w*.*?,\s*(?:dann )?(?:bitte )?"
    rf"(?:(?:{_DO})|(?:{_YOU_DO}) du|zeigst du|dann|{_LASTING})",
    r"(?:sofern|solange|falls|wenn) ich nichts anderes (?:sage|schreibe|will)\b.*",
    rf"beim? (?:\w+ )?(?:schreiben|antworten|übersetzen|zitieren|löschen|{_REPLIES}|geld|"
    rf"preisen|code|rezepten|mails)\b.*\b(?:{_LASTING}|kein\w*|bitte)\b(?!.*\bich\b)",
    # nobody may
    r"(?:niemand|keiner|keine|nichts)\b.*(?:\bdarf\b|\bbekommt\b|\bsieht\b|\bverlässt\b|"
    r"\bgeht (?:raus|an)\b).*(?:\b(?:diese[nrs]?|meine?|unsere?n?|ohne)\b|$)(?<!auto)",
    r"(?:mein\w*|die|der|das) [\w ]{2,30}\b(?:darf|dürfen|sollen?) .*\b(?:diese[nrs]?|"
    r"meine?n?)\b.*\b(?:nie|niemals|nicht|unter keinen umständen)\b",
    # names
    rf"{_PLEASE}nenne? mich (?!{_ONCE}|verrückt|altmodisch|wenn)(?:bitte )?(?:nicht )?\w+",
    rf"{_PLEASE}(?:sprich|rede?) (?:mich|uns) (?:bitte )?(?:mit|als)\b.*\ban\b|"
    rf"{_PLEASE}rede mich .* an",
    rf"{_PLEASE}(?:duz|siez)e? mich\b",
    # how to speak
    rf"{_PLEASE}(?:antworte?|sprich|rede?|schreib)e?(?: bitte)?(?: mit)?(?: mir|"
    rf" uns)?(?: bitte)?(?: nur| nur noch)?(?: auf| in)? {_LANGUAGES}(?: mit mir)?$",
    rf"{_PLEASE}(?:sprich|rede?|antworte?) (?:bitte )?nur (?:noch )?(?:auf |in |mit )?\w+",
    rf"{_PLEASE}antworte? (?:mir )?(?:bitte )?auf alles\b",
    rf"{_PLEASE}fasse? dich (?:bitte )?(?:immer|grundsätzlich|stets|künftig|kurz)\b",
    # rules
    r"(?:(?:neue |eine |erste |meine |goldene |wichtige )?regeln?(?: nummer \w+| \d+)?|"
    r"merke? dir(?: bitte)?|bitte merken|beachte|bitte beachten|"
    r"denk dran|grundregeln?|notiere? dir|für die zukunft):\s*\S+",
    rf"{_PLEASE}(?:denke? (?:immer |stets )?dr?an|achte? (?:immer |bitte |"
    rf"stets )?darauf),? .*\b(?:{_LASTING})\b.*",
    rf"{_PLEASE}denke? (?:immer|stets|jedes mal) daran,? .*\bzu\w*(?:{_STEMS})?\w*",
    rf"{_PLEASE}(?:sorge?|stelle?|achte?|pass)(?: \w+)? (?:dafür|sicher|darauf|"
    rf"auf),? dass (?:jede\w*|alle\w*|nichts|niemand|nie|kein\w*|du (?:nie|immer)|"
    rf"dein \w+ (?:immer|nie)|deine \w+ (?:immer|nie))",
    rf"{_PLEASE}gewöhne? dir (?:bitte )?an\b",
    r"(?:immer erst|erst) \w+en, dann \w+en$",
    r"beim nächsten mal und\b.*(?:immer|jedes mal)",
    r"weck mich (?:werktags|jeden|immer)\b.*",
    rf"(?:schluss|genug) mit (?:den|dem|der) {_STYLE}",
)
_WISHES = PatternList(
    rf"ich (?:möchte|will|hätte gern|bevorzuge|mag) (?:nur |lieber )?(?:alle |kürzere |"
    rf"längere |kurze |deine )+{_REPLIES}\b.*",
    r"ich (?:will|möchte|hätte gern) (?:in|bei|zu|vor|nach) jede[rmn]? .*",
    rf"mir sind (?:kürzere|kurze|knappe|längere|ausführliche) {_REPLIES} lieber",
    # what begins with a subject: ich möchte, dass du künftig; das bleibt unter uns
    rf"(?:wir|lass uns) (?:\w+ ){{0,2}}?{_FROM_NOW}(?: nur noch)? (?:auf )?{_LANGUAGES}",
    rf"(?:ich (?:möchte|will|wünsche mir|erwarte|bitte dich|hätte gern|verlange|"
    rf"bestehe darauf)|mir (?:wäre|ist) (?:es )?(?:lieber|wichtig|recht)|"
    rf"es ist (?:mir )?wichtig)"
    rf"(?: \w+){{0,2}},? (?:dass|wenn) du (?!glücklich|gesund|"
    rf"immer glücklich)(?:.*(?:{_LASTING}|{_CONSENT}|{_NOBODY}|vor jede[rmn]|bevor du)|"
    rf"mich (?:duzt|siezt))",
    rf"ich (?:möchte|will|brauche|mag) (?:\w+ )?keine?n? {_STYLE}\b(?:.*\bmehr\b)?",
    rf".*\b(?:wird|werden|geht)\b.*\b(?:nichts|kein\w*|nie)\b.*{_CONSENT}",
    r"das bleibt (?:alles )?unter uns",
    rf"(?:es|bei \w+) wird (?:{_LASTING}) (?:nicht )?(?:ge\w+t|\w+)$",
    r"(?:ich heiße|mein name ist) .*\bnenn mich\b",
)
_POLITE = PatternList(
    rf"{_PLEASE}(?:kannst|könntest|könnten|würdest|magst) (?:du|sie)(?: bitte| mal| vielleicht|"
    rf" einfach| mir| mich)*"
    rf"(?! dir vorstell)(?: .*)?(?:\b(?:{_ALWAYS}|{_FROM_NOW}|nie wieder|nicht mehr|nur noch|"
    rf"nicht immer|nicht jedes mal)\b(?!.*\b(?:wohnen|leben)\b).*(?:{_TO_DO}|\w+en)$"
    rf"| aufhören,? .*(?:\bzu\b|zu\w+en$)|.* mit (?:den|dem|der|diesen) \w+ aufhören$)"
)
_REPORT = PatternList(
    r"\b(?:sagt|sagte|meint|meinte|schreibt|schrieb|rief|gesagt|gebeten|erzählt|heißt es|steht|"
    r"lautet|laut|versprochen|"
    r"beigebracht|will|wollte|findet|glaubt)\b|\bich (?:finde|weiß|hoffe|glaube|denke|wünschte|"
    r"habe|hatte|war|bin mir)\b"
)
_SELF = PatternList(rf"(?:{_LASTING},? )?(?:ich|er|sie|es|wir|man|wer|was|das|mir)\b")

_CONDITION = PatternList(r"(?:immer |jedes mal,? )?(?:wenn|falls|sobald|sofern|bevor)\b")


def is_german_order(sentence: SaidSentence) -> bool:
    """Return whether a sentence orders something that holds from now on."""
    if sentence.is_question:
        return _POLITE.match(sentence.text)
    if _POLITE.match(sentence.text):
        return True
    for clause in sentence.clauses:
        if clause.before and _REPORT.search(clause.before) and not _CONDITION.match(clause.before):
            return False
        orders = _WISHES if _SELF.match(clause.text) else _ORDERS
        if orders.match(clause.text):
            return True
    return False
