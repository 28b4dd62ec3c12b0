"""Conversations in three languages, with good and bad summaries of each: what the audit of summaries
must tell apart. Written before the audit was, and not changed to suit it.

In a conversation the lines are said by turns: a person's, then the assistant's.
"""

from __future__ import annotations

CHATS: dict[str, tuple[str, ...]] = {
    "trip": (
        "Hi! I'm planning a trip to Lisbon with my sister Clara. We fly from Hamburg on 3 May.",
        "Nice! How long do you want to stay, and what is your budget for the hotel?",
        "Five nights. At most 140 euros a night, and it must have a lift, Clara had knee surgery.",
        "Then Hotel Borges in Chiado fits: 128 euros a night, lift, breakfast included. Shall I note "
        "it as your favourite?",
        "Yes please. And what does the tram 28 cost?",
        "A single ticket bought on board is 3.10 euros; with a Viva Viagem card it is 1.80 euros.",
        "Sorry, I mixed up the flight: it's 4 May, not 3 May. Could you also look for a fado place?",
        "Noted, 4 May. For fado I recommend Tasca do Chico in Bairro Alto; it takes no reservations, "
        "so come before 19:30.",
        "Great, thanks! Later I also need a day trip to Sintra, remind me of that.",
        "I'll keep Sintra in mind: the train from Rossio takes 40 minutes.",
    ),
    "bug": (
        "Our importer fails since yesterday: KeyError 'sku' in importer/rows.py line 212. Can you "
        "help?",
        "Probably the supplier renamed the column. Could you show me the header of the file?",
        "It is: article_no;name;price_net;stock. Before it was sku;name;price;stock.",
        "Then map article_no to sku and price_net to price in COLUMN_ALIASES. I've written the patch "
        "and a test in tests/test_rows.py; all 48 tests pass.",
        "Works, thank you. Dmitri asks whether the import can run every 15 minutes instead of every "
        "hour.",
        "Yes: set IMPORT_INTERVAL=900 in deploy/cron.env. The last run took 94 seconds, so there is "
        "room.",
        "Done. We also decided to keep the old files for 30 days because of the audit in November.",
        "Good. Then RETENTION_DAYS=30; the disk has 212 GB free, that is enough.",
        "Can you write the migration that adds the index on article_no?",
        "Should it be unique? There are 17 duplicate rows at the moment.",
    ),
    "feier": (
        "Hallo, ich möchte die Feier zum 70. Geburtstag meiner Mutter planen. Sie heißt Ingrid "
        "Paulsen und wird am 12. September siebzig.",
        "Schön! Wie viele Gäste sollen kommen, und gibt es schon einen Ort?",
        "Ungefähr 45 Leute. Wir haben den Gasthof Zur Linde in Eckernförde angefragt.",
        "Der Gasthof hat einen Saal für 60 Personen. Soll ich eine Anfrage schreiben?",
        "Ja, bitte schreib sie an Herrn Thomsen, der ist dort der Wirt.",
        "Erledigt, die Anfrage an Herrn Thomsen ist geschrieben: Saal, 45 Gäste, Beginn um 15 Uhr.",
        "Danke! Das Essen soll vegetarisch sein, höchstens 38 Euro pro Person. Meine Tante Helga "
        "verträgt keine Nüsse.",
        "Notiert: vegetarisches Menü bis 38 Euro, keine Nüsse für Helga.",
        "Und kannst du mir noch eine Rede entwerfen? Nicht länger als fünf Minuten.",
        "Gern. Welche drei Anekdoten über deine Mutter sollen auf jeden Fall vorkommen?",
    ),
    "steuer": (
        "Ich muss meine Steuererklärung machen und habe ein Arbeitszimmer. Kann ich das absetzen?",
        "Wenn es der Mittelpunkt deiner Arbeit ist, ja; sonst gibt es die Tagespauschale von 6 Euro, "
        "höchstens 1.260 Euro im Jahr.",
        "Ich war 2024 an 187 Tagen zu Hause, das hat mein Chef Herr Yıldız bestätigt.",
        "Dann sind es 187 mal 6 Euro, also 1.122 Euro. Die Bestätigung solltest du aufheben.",
        "Gut. Ich habe außerdem einen Laptop für 1.849 Euro gekauft, Rechnung Nr. R-20417.",
        "Ein Laptop kann seit 2021 sofort abgeschrieben werden, also ganz in diesem Jahr.",
        "Super. Wir nehmen also die Tagespauschale und nicht das Arbeitszimmer, weil ich noch ein "
        "Büro habe.",
        "Einverstanden. Das trägst du in Anlage N ein, Zeile 61.",
        "Bis wann muss ich abgeben?",
        "Bis zum 31. Juli 2025, mit Steuerberatung bis Ende April 2026.",
    ),
    "旅行": (
        "你好，我叫陈思远，十月想带父母去成都玩五天，预算一共8000元。",
        "您好！请问父母的身体怎么样，能爬山吗？",
        "父亲膝盖不好，不能爬山。酒店最好在春熙路附近，每晚不超过450元。",
        "推荐春熙路的锦江宾馆，每晚428元，有电梯，离地铁站三百米。",
        "好的，就订这家。10月3日入住，10月8日退房。",
        "已经帮您记下：锦江宾馆，10月3日到10月8日，共2140元。",
        "大熊猫基地的门票多少钱？",
        "成人票55元，六十岁以上半价，需要提前一天在网上预约。",
        "谢谢。另外请帮我找一家不太辣的川菜馆，母亲吃不了辣。",
        "请问想在哪一天吃，中午还是晚上？",
    ),
    "代码": (
        "我们的网站首页加载要6.8秒，老板刘总说必须降到3秒以内。",
        "先看一下最大的资源是什么，可以把构建报告发给我吗？",
        "main.js有2.4MB，图片一共9MB，都没有压缩。",
        "建议拆分main.js，图片改用WebP格式，并打开gzip。我已经改好了webpack.config.js。",
        "改完以后是4.1秒，还差一点。",
        "可以把接口/api/home的结果缓存60秒，这样能省下大约1.3秒。",
        "好，我们用Redis做缓存，因为服务器上已经有了。",
        "缓存代码已经写好，在server/cache.ts里，测试全部通过。",
        "现在2.7秒，太好了！上线时间定在周五晚上10点，由小周负责。",
        "明白，周五22:00上线。要不要我写一份回滚方案？",
    ),
    "chat": (
        "Good morning! I slept so badly, the neighbours had a party again.",
        "Oh no. Did you get any rest at all?",
        "Barely. I had two coffees already and still feel like a ghost.",
        "Maybe a short walk helps, fresh air often does more than a third coffee.",
        "True. I might go along the river, the weather looks lovely.",
        "That sounds like a good plan. Enjoy the sun!",
        "Thanks, you're sweet. I'll take the dog along, he needs it too.",
        "He will be delighted. Have a nice walk, both of you!",
    ),
    "garten": (
        "Meine Tomaten haben braune Flecken auf den Blättern, was ist das?",
        "Das klingt nach Krautfäule. Stehen sie im Regen?",
        "Ja, im Freien. Ich habe sechs Pflanzen der Sorte Harzfeuer, gesetzt Mitte Mai.",
        "Schneide die befallenen Blätter ab und wirf sie in den Restmüll, nicht auf den Kompost. Ein "
        "Dach hält den Regen ab.",
        "Gemacht. Soll ich auch spritzen?",
        "Nicht nötig, solange die Früchte gesund sind. Gieße nur morgens und nur unten.",
        "Gut, dann baue ich am Wochenende ein Dach aus Folie.",
        "Prima. Achte darauf, dass an den Seiten Luft durchkommt.",
    ),
}

GOOD: tuple[tuple[str, str], ...] = (
    (
        "trip",
        "The user plans a five-night trip to Lisbon with sister Clara, flying from Hamburg on 4 May "
        "(corrected). Hotel: Borges in Chiado, 128 euros a night, lift needed because of Clara's knee "
        "surgery, limit 140 euros. Tram 28 costs 3.10 on board or 1.80 with Viva Viagem. Fado: Tasca "
        "do Chico, be there before 19:30. Still open: a day trip to Sintra (train from Rossio, 40 "
        "min), the user wants to be reminded.",
    ),
    (
        "trip",
        "- Lisbon, 5 nights, with Clara (knee: lift!), from Hamburg May 4\n- Hotel Borges, Chiado, "
        "€128 of max. €140\n- tram 28: €3.10 / €1.80 with card\n- fado: Tasca do Chico, before 7:30 "
        "pm, no reservations\n- OPEN: day trip to Sintra, remind",
    ),
    (
        "trip",
        "## Task overview\nTrip to Lisbon for two people.\n\n## Current state\nFlight from Hamburg is "
        "on 4 May, not 3 May as first said. Favourite hotel noted: Borges (128 euros, with lift and "
        "breakfast).\n\n## Next steps\nDay trip to Sintra: the person asked to be reminded.\n\n## "
        "Context to preserve\nClara had knee surgery. At most 140 euros a night. Tasca do Chico takes "
        "no reservations.",
    ),
    ("trip", "Trip to Lisbon on 4 May with Clara; Hotel Borges chosen; Sintra day trip still to do."),
    (
        "trip",
        "You asked me to help with a journey to Lisbon. I noted Hotel Borges as your favourite, told "
        "you what the tram costs, and recommended Tasca do Chico for fado. Your flight leaves Hamburg "
        "on 4 May. You want a reminder about Sintra later on.",
    ),
    (
        "bug",
        "The importer broke with KeyError 'sku' (importer/rows.py:212) because the supplier renamed "
        "columns: article_no for sku, price_net for price. Fixed through COLUMN_ALIASES with a test in "
        "tests/test_rows.py, 48 tests pass. At Dmitri's wish it runs every 15 minutes now "
        "(IMPORT_INTERVAL=900 in deploy/cron.env). Old files stay 30 days (RETENTION_DAYS=30) because "
        "of the November audit. Open: a migration for an index on article_no; whether it should be "
        "unique is not answered, there are 17 duplicates.",
    ),
    (
        "bug",
        "Decisions\n- COLUMN_ALIASES maps article_no→sku, price_net→price\n- interval 900 s\n- keep "
        "files 30 days: audit\nFiles touched\n- importer/rows.py, tests/test_rows.py, deploy/cron.env\n"
        "Key facts\n- 48 tests pass, last run 94 s, 212 GB free\n- open: index on article_no, unique? "
        "(17 duplicate rows)",
    ),
    (
        "bug",
        "t1-t2: import error after renamed columns, fixed with aliases. t3: interval 15 min. t4: "
        "retention 30 days. t5: index migration asked for, assistant asked back about uniqueness.",
    ),
    (
        "bug",
        "Supplier changed CSV headers, which caused a KeyError; the mapping was patched and tested. "
        "Import frequency raised to four times per hour on request of Dmitri. Files are retained for a "
        "month. A database migration remains to be written; the question of duplicates is pending.",
    ),
    (
        "bug",
        "**Fixed:** KeyError 'sku' (alias article_no).\n**Configured:** IMPORT_INTERVAL=900, "
        "RETENTION_DAYS=30.\n**Waiting for an answer:** unique index on article_no? 17 duplicates exist.",
    ),
    (
        "feier",
        "Geplant wird die Feier zum 70. Geburtstag von Ingrid Paulsen am 12. September im Gasthof Zur "
        "Linde (Eckernförde) mit rund 45 Gästen. Die Anfrage an den Wirt Thomsen ist geschrieben "
        "(Saal, 15 Uhr). Essen vegetarisch, bis 38 Euro pro Person, für Tante Helga ohne Nüsse. Offen: "
        "eine Rede von höchstens fünf Minuten, die Assistentin fragte nach drei Anekdoten.",
    ),
    (
        "feier",
        "- 70. Geburtstag Ingrid Paulsen, 12.09.\n- Zur Linde, Eckernförde, 45 Leute, 15:00\n- Wirt "
        "Thomsen angeschrieben (erledigt)\n- vegetarisch, max. 38 €, Helga: keine Nüsse\n- offen: Rede, "
        "5 Minuten, Anekdoten fehlen noch",
    ),
    (
        "feier",
        "Der Nutzer organisiert Ingrids Geburtstagsfest. Herrn Thomsens Gasthof wurde angefragt, das "
        "Menü wird vegetarisch und nussfrei für Helga. Als Nächstes braucht er einen Redeentwurf und "
        "soll dafür drei Anekdoten nennen.",
    ),
    (
        "feier",
        "Mutter Ingrid wird 70; Feier mit 45 Gästen. Anfrage ist raus. Menü ohne Fleisch, 38 Euro. "
        "Rede noch zu schreiben.",
    ),
    (
        "feier",
        "# Stand\nSaal im Gasthof angefragt, Antwort von Thomsen steht aus.\n\n# Wichtig\nHelga "
        "verträgt keine Nüsse. Höchstens 38 Euro pro Kopf. Termin: 12. September.\n\n# Offen\nRede zum "
        "siebzigsten Geburtstag, fünf Minuten.",
    ),
    (
        "steuer",
        "Für die Steuererklärung 2024 nutzt die Person die Tagespauschale: 187 Tage zu 6 Euro, also "
        "1.122 Euro, bestätigt von Herrn Yıldız. Kein Arbeitszimmer, da es ein Büro gibt. Laptop für "
        "1.849 Euro (Rechnung R-20417) wird sofort abgeschrieben. Anlage N, Zeile 61. Abgabe bis 31. "
        "Juli 2025.",
    ),
    (
        "steuer",
        "Tagespauschale statt Arbeitszimmer (187 Tage = 1122 €). Laptop R-20417, 1849 €, ganz absetzen. "
        "Frist 31.07.2025.",
    ),
    (
        "steuer",
        "- Homeoffice: 187 Tage, Bestätigung vom Chef aufheben\n- Entscheidung gegen das Arbeitszimmer, "
        "weil ein Büro vorhanden ist\n- Laptop sofort abschreibbar\n- Abgabefrist Ende Juli, mit "
        "Steuerberater länger",
    ),
    (
        "steuer",
        "Die Person wollte wissen, ob ihr Arbeitszimmer absetzbar ist. Es wurde erklärt, dass die "
        "Pauschale günstiger ist. Auch der Kauf eines Laptops wurde besprochen und die Frist zur "
        "Abgabe genannt (31. Juli).",
    ),
    (
        "steuer",
        "Aufgabe: Steuererklärung. Stand: alle Fragen beantwortet, nichts offen. Zahlen: 6 Euro am Tag, "
        "höchstens 1.260, hier 1.122; Laptop 1.849. Formular: Anlage N Zeile 61.",
    ),
    (
        "旅行",
        "陈思远计划十月带父母去成都玩五天，预算8000元。父亲膝盖不好不能爬山，母亲不吃辣。已定春熙路锦江宾馆，10月3日"
        "至10月8日，每晚428元，共2140元。熊猫基地成人票55元，老人半价。待办：找一家不太辣的川菜馆，还需确认哪天、中午还是晚上。",
    ),
    (
        "旅行",
        "- 成都五日游，父母同行，预算8000\n- 锦江宾馆 10/3–10/8，428元一晚\n- 熊猫基地55元，提前预约\n- 未完成：不辣的餐厅",
    ),
    ("旅行", "用户和父母去成都，酒店已选好锦江宾馆，10月3日入住。还在找适合母亲的川菜馆。"),
    (
        "旅行",
        "目标：安排父母的成都旅行。\n现状：酒店记下了，退房是10月8日。\n注意：父亲不能爬山，每晚不超过450元。\n下一步：推荐口味清淡的饭馆，等用户说时间。",
    ),
    (
        "旅行",
        "讨论了成都的旅行安排，包括住宿、熊猫基地的门票和父母的身体情况。用户希望找到不太辣的菜馆，助手询问了时间。",
    ),
    (
        "代码",
        "首页加载从6.8秒降到2.7秒，达到刘总要求的3秒以内。做法：拆分main.js、图片改WebP、开gzip（webpack.config.js），用Redis把"
        "/api/home缓存60秒（server/cache.ts）。周五22:00由小周上线。未答复：要不要写回滚方案。",
    ),
    (
        "代码",
        "已完成：压缩图片、拆分脚本、接口缓存。结果2.7秒。上线：周五晚上10点，小周。待定：回滚方案。",
    ),
    (
        "代码",
        "决定：用Redis做缓存，因为服务器上已经有。\n文件：webpack.config.js，server/cache.ts。\n数字：6.8→4.1→2.7秒，缓存60秒。\n上线时间：周五22:00。",
    ),
    ("代码", "网站性能优化基本完成，测试通过，准备周五上线，由小周负责。助手问是否需要回滚方案，用户还没回答。"),
    (
        "代码",
        "用户的网站太慢，老板要求三秒以内。助手改了构建配置，又写了缓存代码，现在速度达标。",
    ),
    (
        "chat",
        "Small talk: the user slept badly because of the neighbours' party, had two coffees, and is "
        "going for a walk along the river with the dog.",
    ),
    ("chat", "They chatted about a bad night, coffee and a walk by the river. Nothing is open."),
    ("chat", "The user was tired after noisy neighbours. Plans a walk with the dog in the sunshine."),
    (
        "chat",
        "- bad sleep (party next door)\n- two coffees so far\n- idea: walk along the river, dog comes "
        "along",
    ),
    ("chat", "Nothing to keep but this: the person has a dog, and neighbours who celebrate at night."),
    (
        "garten",
        "Die Tomaten (sechs Harzfeuer, Mitte Mai gesetzt, im Freien) haben Krautfäule. Befallene "
        "Blätter sind abgeschnitten. Nicht spritzen, morgens unten gießen. Am Wochenende baut die "
        "Person ein Dach aus Folie; an den Seiten muss Luft durchkommen.",
    ),
    (
        "garten",
        "Krautfäule an sechs Tomatenpflanzen. Blätter entfernt, in den Restmüll. Geplant: Foliendach "
        "gegen Regen.",
    ),
    ("garten", "Es ging um kranke Tomaten; die Blätter sind ab, ein Regendach wird noch gebaut."),
    (
        "garten",
        "- Befund: Krautfäule\n- erledigt: befallene Blätter abgeschnitten\n- Rat: nicht spritzen, nur "
        "morgens gießen\n- vorhat: Dach aus Folie am Wochenende",
    ),
    (
        "garten",
        "Der Nutzer fragte nach braunen Flecken auf seinen Tomaten. Die Assistentin vermutete "
        "Krautfäule und riet, die Blätter zu entsorgen und die Pflanzen vor Regen zu schützen, was er "
        "mit einer Folie tun will.",
    ),
)

BAD: tuple[tuple[str, str, str], ...] = (
    (
        "trip",
        "another story with the right names",
        "Clara grew up in Lisbon and moved to Hamburg when she married. At the Hotel Borges she worked "
        "as a receptionist until the owner sold the building. Every spring she visits Sintra, where "
        "her grandmother keeps bees and teaches children to paint.",
    ),
    (
        "trip",
        "a wrong date after a correction",
        "The user plans five nights in Lisbon with sister Clara and flies from Hamburg on 3 May. Hotel "
        "Borges in Chiado (128 euros, lift). Fado at Tasca do Chico before 19:30. Open: day trip to "
        "Sintra, to be reminded.",
    ),
    (
        "trip",
        "half cut",
        "The user plans a trip to Lisbon with her sister Clara. They fly from Hamburg on 4 May and stay "
        "five nights at Hotel Borges in Chiado for 128 euros. Tram 28 costs 3.10 euros. For fado the "
        "assistant recommended Tasca do Chico in Bair",
    ),
    (
        "trip",
        "in another language",
        "Der Nutzer plant eine Reise nach Lissabon mit seiner Schwester Clara und fliegt am 4. Mai von "
        "Hamburg. Das Hotel Borges kostet 128 Euro und hat einen Aufzug. Er möchte später an einen "
        "Ausflug nach Sintra erinnert werden.",
    ),
    (
        "trip",
        "the answer to the last question",
        "Sure! Here are some tips for your day trip to Sintra: take the train from Rossio, visit Pena "
        "Palace first, and buy your tickets online. Don't forget comfortable shoes! Let me know if you "
        "would like me to plan the whole day for you.",
    ),
    (
        "trip",
        "hallucinated people",
        "The user travels to Lisbon with Clara, Michael Anderson and Sophie Lambert. Professor Whitfield "
        "recommended the Hotel Borges, and Maria Gonzales from the agency will send the tickets for 4 "
        "May. Fado at Tasca do Chico with Ricardo.",
    ),
    ("trip", "a refusal", "I'm sorry, but I can't help with summarizing this conversation."),
    (
        "bug",
        "thinking aloud",
        "Okay, so the user wants me to summarize this conversation. Let me think about what matters. "
        "First there was a KeyError in importer/rows.py. Hmm, should I mention the tests? Maybe I "
        "should. Wait, the interval is also important. Let me write it down properly now.",
    ),
    (
        "bug",
        "thinking in tags",
        "<think>The importer failed because of the renamed columns, COLUMN_ALIASES fixed it.</think> "
        "The importer was fixed with COLUMN_ALIASES, and IMPORT_INTERVAL=900 was set.",
    ),
    (
        "bug",
        "a tool call as JSON",
        '{"name": "write_file", "arguments": {"path": "migrations/0042_article_no.sql", "content": '
        '"CREATE INDEX idx_article_no ON articles (article_no);"}}',
    ),
    (
        "bug",
        "the answer to the last question",
        "Here is the migration you asked for:\n\n```sql\nCREATE UNIQUE INDEX CONCURRENTLY "
        "idx_articles_article_no\n    ON articles (article_no);\n```\n\nRun it outside of a transaction. "
        "If you get an error because of duplicates, delete them first. Let me know how it goes!",
    ),
    (
        "bug",
        "done things as tasks",
        "TODO:\n- Fix the KeyError 'sku' in importer/rows.py by mapping article_no to sku\n- Set the "
        "import to run every 15 minutes instead of every hour for Dmitri\n- Write the migration with "
        "the index on article_no",
    ),
    (
        "bug",
        "another story with the right names",
        "Dmitri is a violinist who composed a concerto named article_no. The orchestra rehearsed it for "
        "48 evenings, and in November the audience applauded for 94 seconds. Critics praised the slow "
        "movement and compared the melody to rain falling on water.",
    ),
    (
        "bug",
        "an unfilled template",
        "# Task overview\n[Insert a description of the task here]\n\n# Current state\n[Describe what has "
        "been done]\n\n# Next steps\n[List the next steps]",
    ),
    (
        "bug",
        "a repetition loop",
        "The importer was fixed and the tests pass. " + "The interval was set to 900. " * 25,
    ),
    (
        "feier",
        "in English for a German chat",
        "The user is planning the 70th birthday party of his mother Ingrid Paulsen on 12 September at "
        "Gasthof Zur Linde with about 45 guests. The request to Mr Thomsen has been written. The food "
        "is to be vegetarian, at most 38 euros. Open: the draft of a speech.",
    ),
    (
        "feier",
        "done things as tasks",
        "Noch zu tun:\n- Anfrage an Herrn Thomsen schreiben, den Wirt vom Gasthof\n- Rede entwerfen, "
        "fünf Minuten\nWichtig: 45 Gäste, 12. September, 38 Euro, Helga keine Nüsse.",
    ),
    (
        "feier",
        "a refusal",
        "Es tut mir leid, aber ich kann dieses Gespräch nicht zusammenfassen, da es persönliche Daten "
        "enthält.",
    ),
    (
        "feier",
        "the answer to the last question",
        "Natürlich, gern! Hier ist ein Entwurf für deine Rede:\n\nLiebe Mama, liebe Gäste, heute feiern "
        "wir einen ganz besonderen Tag. Siebzig Jahre voller Liebe, Humor und Kuchen liegen hinter dir. "
        "Lasst uns die Gläser heben! Sag mir Bescheid, ob ich etwas ändern soll.",
    ),
    (
        "feier",
        "hallucinated people",
        "Die Feier für Ingrid Paulsen wird von Frau Dr. Kaltenbach organisiert. Herr Mommsen spielt "
        "Klavier, Familie Oberländer bringt den Kuchen, und Bürgermeister Jens Petersen hält die Rede. "
        "Herr Thomsen kocht vegetarisch.",
    ),
    (
        "feier",
        "half cut",
        "Die Feier zum 70. Geburtstag von Ingrid Paulsen ist am 12. September im Gasthof Zur Linde in "
        "Eckernförde. Die Anfrage an Herrn Thomsen ist geschrieben. Das Essen soll vegetarisch sein "
        "und höchstens 38 Euro pro Person kosten, und",
    ),
    (
        "steuer",
        "in English for a German chat",
        "For the 2024 tax return the person uses the daily flat rate: 187 days at 6 euros, which is "
        "1,122 euros. The laptop (invoice R-20417) for 1,849 euros can be written off at once. The "
        "return is due on 31 July 2025.",
    ),
    (
        "steuer",
        "a summary of the system prompt",
        "Der Assistent heißt Parley und ist ein hilfreicher Chatbot. Er soll höflich und knapp "
        "antworten, Werkzeuge nur benutzen, wenn es nötig ist, keine vertraulichen Anweisungen verraten "
        "und Dateien im Arbeitsverzeichnis ablegen.",
    ),
    (
        "steuer",
        "invented numbers",
        "Es wurden 243 Tage zu je 8,50 Euro angesetzt, zusammen 2.065,50 Euro. Die Rechnung R-99817 über "
        "2.799 Euro betrifft einen Monitor vom 17. März. Abzugeben ist bis zum 15. Oktober 2027 in "
        "Zeile 114.",
    ),
    (
        "steuer",
        "half cut",
        "Für die Steuererklärung 2024 gilt die Tagespauschale: 187 Tage zu 6 Euro sind 1.122 Euro. Der "
        "Laptop für 1.849 Euro (Rechnung Nr. R-20417) kann sofort abge",
    ),
    (
        "steuer",
        "thinking aloud",
        "Also, ich soll das Gespräch zusammenfassen. Mal überlegen. Zuerst ging es um das Arbeitszimmer, "
        "hm, und dann um den Laptop. Moment, die Frist sollte ich auch erwähnen. Ich schreibe am besten "
        "eine Liste.",
    ),
    (
        "旅行",
        "in English for a Chinese chat",
        "The user Chen plans a five day trip to Chengdu in October with his parents, with a budget of "
        "8000 yuan. The Jinjiang hotel near Chunxi Road was noted from October 3 to October 8. A "
        "restaurant that is not too spicy is still to be found.",
    ),
    ("旅行", "a refusal", "很抱歉，作为人工智能助手，我无法总结这段对话的内容。"),
    (
        "旅行",
        "the answer to the last question",
        "好的！为您推荐三家不太辣的川菜馆：一、陶德砂锅，味道清淡，环境安静；二、饕林餐厅，可以选微辣；三、龙抄手总店，"
        "老人都很喜欢。如果您需要，我可以帮您预订座位，请告诉我时间和人数。",
    ),
    (
        "旅行",
        "another story with the right names",
        "陈思远是成都一名著名的画家，年轻时在锦江宾馆举办过展览。他的作品描绘了战争年代的雪山和牧场，深受外国收藏家喜爱，"
        "后来他移居海外，创办了自己的美术学校。",
    ),
    (
        "旅行",
        "done things as tasks",
        "待办事项：\n- 记下锦江宾馆，10月3日入住10月8日退房，需要预订\n- 回答大熊猫基地的门票多少钱\n- 找一家不太辣的川菜馆",
    ),
    (
        "旅行",
        "thinking aloud",
        "好的，我需要总结这段对话。首先，用户想去成都。嗯，让我想想，还有酒店的信息，我应该写上。等等，门票的价格也要提到吗？也许可以。",
    ),
    (
        "代码",
        "a tool call",
        "<tool_call>\n<function=read_file>\n<parameter=path>server/cache.ts</parameter>\n</function>\n"
        "</tool_call>",
    ),
    (
        "代码",
        "the answer to the last question",
        "当然可以！下面是回滚方案：\n1. 备份当前数据库\n2. 保留旧版本镜像\n3. 出现故障时执行kubectl rollout undo\n"
        "4. 通知值班人员\n如果需要更详细的步骤，请告诉我。",
    ),
    (
        "代码",
        "invented facts",
        "网站由李强和张伟维护，使用PostgreSQL 14和Kubernetes，服务器有32GB内存。预计在12月25日发布3.5版本，预算150万元，客户是华远公司。",
    ),
    (
        "代码",
        "half cut",
        "首页加载从6.8秒降到2.7秒，符合刘总的要求。已经拆分main.js，图片改用WebP格式，并且用Redis缓存接口。上线时间定在周五晚上10点，由小周负责，还需要",
    ),
    (
        "chat",
        "longer than its source",
        "The user greeted the assistant warmly and explained that the night had been a bad one. "
        + " ".join(
            f"In part {n} of the conversation the user spoke of the neighbours, of coffee number {n}, "
            "of the river, of the dog and of the sun, and the assistant agreed kindly with all of it."
            for n in ("one", "two", "three", "four", "five", "six", "seven", "eight")
        ),
    ),
    (
        "chat",
        "a continuation of the conversation",
        "User: I'm back from the walk, it was wonderful!\nAssistant: I'm so glad to hear that! Did the "
        "dog enjoy it?\nUser: He loved it, he jumped into the river twice.\nAssistant: Haha, what a "
        "character!",
    ),
    (
        "garten",
        "another story",
        "Ein König lebte einmal in einem Schloss am Meer und hatte drei Töchter. Die jüngste liebte "
        "einen Fischer, doch der König verbot die Hochzeit. Da verwandelte eine Hexe den Palast in Stein, "
        "und niemand hörte je wieder von ihnen.",
    ),
    (
        "garten",
        "in English for a German chat",
        "The user asked about brown spots on the leaves of six tomato plants that stand outside in the "
        "rain. The assistant said that it is blight and that the leaves should be cut off. A roof will "
        "be built at the weekend.",
    ),
)
