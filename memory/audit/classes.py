"""Words of a class, of which a thing has one: days of the week, months, parts of the day. Each has
a key that its forms in all languages share. Pure."""

from __future__ import annotations

from memory.text.names import MONTH_OF

_DAYS = """
monday mondays mon montag montags 周一 星期一 礼拜一
tuesday tuesdays tue tues dienstag dienstags 周二 星期二 礼拜二
wednesday wednesdays wed mittwoch mittwochs 周三 星期三 礼拜三
thursday thursdays thu thur thurs donnerstag donnerstags 周四 星期四 礼拜四
friday fridays fri freitag freitags 周五 星期五 礼拜五
saturday saturdays sat samstag samstags sonnabend 周六 星期六 礼拜六
sunday sundays sun sonntag sonntags 周日 星期日 星期天 周天 礼拜天
weekend weekends wochenende wochenenden 周末
weekday weekdays werktag werktags wochentags 工作日
"""
_PARTS = """
morning mornings morgens vormittag vormittags früh 早上 早晨 上午 清晨
noon midday mittag mittags 中午
afternoon afternoons nachmittag nachmittags 下午
evening evenings abend abends 晚上 傍晚
night nights nacht nachts 夜里 半夜
"""
_KIN = """
father dad daddy vater papa papas vaters 父亲 爸爸 爸 我爸
mother mum mom mummy mutter mama mamas 母亲 妈妈 妈 我妈
brother bruder bruders 兄弟
sister schwester 姐妹
husband mann ehemann 丈夫 老公 先生
wife ehefrau 妻子 老婆 太太
son sohn sohnes 儿子
daughter tochter 女儿
"""
_OF_PEOPLE = "mr mrs ms dr prof herr herrn frau fräulein sir madam"
TITLES = frozenset(_OF_PEOPLE.split())
"""Words before a name."""


def _read(table: str, sign: str) -> dict[str, str]:
    lines = enumerate(table.strip().splitlines(), 1)
    return {word: f"{sign}{number}" for number, line in lines for word in line.split()}


_ABBREVIATED = "mon tue wed thu fri sat sun may"
_SHORT = frozenset(_ABBREVIATED.split())
_ALL = (
    _read(_DAYS, "d:")
    | _read(_PARTS, "t:")
    | _read(_KIN, "k:")
    | {name: f"m:{number}" for name, number in MONTH_OF.items() if len(name) > 2}
)
WIDE_SIGNS = {word: key for word, key in _ALL.items() if not word[0].islower()}
"""The keys of Chinese words."""
CLASSES = frozenset(("d:", "t:", "m:", "k:"))


def class_of(folded: str, word: str) -> str:
    """Return the key of a word, given in lower case and as it is; "" if it is of no class. Short
    ones need their capital: "sat", "may"."""
    key = _ALL.get(folded, "")
    return "" if key and folded in _SHORT and word.islower() else key
