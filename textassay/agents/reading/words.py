r"""The words and numbers in which judges state ratings, as parts of regular expressions.

In the lists `_` is a space, and a word may be a regular expression. The patterns that use a list
put the limits of words around it.
"""

from __future__ import annotations

from textassay.lazy import lazy_pattern

NUMBER_WORDS = {
    word: float(value)
    for value, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
NUMBERS_ELSEWHERE = {
    word: value
    for words in (
        "eins zwei drei vier fünf sechs sieben acht neun zehn",
        "un deux trois quatre cinq six sept huit neuf dix",
        "uno dos tres cuatro cinco seis siete ocho nueve diez",
        "uno due tre quattro cinque sei sette otto nove dieci",
        "um dois três quatro cinco seis sete oito nove dez",
        "een twee drie vier vijf zes zeven acht negen tien",
        "jeden dwa trzy cztery pięć sześć siedem osiem dziewięć",
        "один два три четыре пять шесть семь восемь девять десять",
        "bir iki üç dört beş altı yedi sekiz dokuz",
        "ett två tre fyra fem sex sju åtta nio tio",
        "一 二 三 四 五 六 七 八 九",
        "jedynkę dwójkę trójkę czwórkę piątkę szóstkę siódemkę ósemkę dziewiątkę",
        "единицу двойку тройку четвёрку пятёрку шестёрку семёрку восьмёрку девятку",
        "واحد اثنان ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة",
        "एक दो तीन चार पांच छह सात आठ नौ दस",
    )
    for value, word in enumerate(words.split(), start=1)
}
"""In German, French, Spanish, Italian, Portuguese, Dutch, Polish, Russian, Turkish, Swedish,
Chinese, Arabic and Hindi, from one on, for `null` is no number."""
CHINESE_NUMBERS = {word: float(value) for value, word in enumerate("〇一二三四五六七八九十")}
CJK = r"\u3040-\ud7a3"
"""Characters of Chinese, Japanese and Korean, which put no space between words and numbers."""
LETTER = rf"(?-i:[^\W{CJK}])"
"""A character of words that have spaces around them. Without (?i), under which each of the ranges'
30,000 characters is folded."""


def any_of(words: str) -> str:
    """Return the pattern of any of several words or phrases."""
    return f"(?:{'|'.join(words.split())})".replace("_", r"\s")


_DIGITS = r"\d{1,4}(?:\.\d{1,20}|,\d{1,2})?(?![.,]?\d)"
HALF = r"(?:½|\s(?:and|&)\s(?:(?:a|one)[ -])?half\b)"
NUMBER = (
    rf"(?:(?:(?<![\w)])[-+−])?{_DIGITS}{HALF}?|(?:{'|'.join(NUMBER_WORDS)})(?!\w){HALF}?"
    # 四分
    r"|[一二三四五六七八九十](?=分|星|点を[つ付与]))"
    # 4分, 4点, 4점 are written without a space
    r"(?!(?!です|になり|とし|を[付つ与]|が妥)[^\W分点點점])"
)
_UNITS = any_of(
    "points? stars? marks? Punkten? Sternen? étoiles? puntos? punti pontos? балл(?:а|ов)?"
    " punkt(?:y|ów)? अंक"
    " 分 点 點 점"
)
UNIT = rf"(?:[ \t]?{_UNITS}|-stars?)?"
# 4/5   4 out of 5   4 points out of a possible 10   4 of the 5   4 von 5
TOP = (
    rf"(?:\s{{0,3}}/\s{{0,3}}|{UNIT}\s{{1,9}}(?:(?:out\s{{1,3}})?of|from|on|over|von|sur|su|sobre|de|из|van|na|z|ze|av|af|di|dari|od|iz|din|من)\s{{1,3}}"
    rf"(?:(?:an?|the|de)\s)?(?:(?:possible|max(?:imum|\.)?|total)\s)?(?:of\s)?)(?P<top>{NUMBER})(?![\s-]{{0,2}}to[\s-])"
)

NOUN = (
    any_of(
        "(?:the)?score rating grade mark verdict result answer value judge?ment assessment"
        " evaluation decision conclusion choice level label"
    )
    + "s?"
)
"""Names of a rating, before a sign: `Result: 4`."""
RATING = any_of(
    "(?:the)?score rating grade marks? verdict judge?ment assessment evaluation estimate pick level"
)
"""Nouns that speak of a rating by themselves: `a grade of 4`."""
FOREIGN = (
    "(?:"
    + any_of(
        # German, French, Spanish, Portuguese, Italian, Russian
        "(?:gesamt|end)?(?:note(?<!footnote)|bewertung|punktzahl|wertung|urteil|ergebnis|einstufung|einschätzung)"
        " gesamteindruck insgesamt"
        " [ée]valuation r[ée]sultat"
        " puntuaci[óo]n puntaje calificaci[óo]n valoraci[óo]n evaluaci[óo]n nota"
        " pontua[çc][ãa]o avalia[çc][ãa]o classifica[çc][ãa]o"
        " punteggio voto valutazione giudizio"
        " оценка балл рейтинг итог"
        # Dutch, Swedish, Danish, Norwegian, Polish, Czech, Slovak, Croatian, Romanian, Hungarian,
        # Finnish, Turkish, Indonesian, Vietnamese, Ukrainian, Bulgarian, Greek, Arabic, Persian,
        # Hebrew, Hindi, Bengali, Thai
        " beoordeling cijfer waardering betyg bedömning omdöme karakter vurdering bedømmelse poäng"
        " scor ocena ocen[ęy] punktacja hodnocení známka skóre hodnotenie ocjena not[ăa] punctaj"
        " értékelés pontszám osztályzat arvosana pisteet arvio puan skor nilai peringkat điểm"
        " đánh_giá оцінка бал оценка βαθμ[όο]ς βαθμολογία αξιολόγηση الدرجة درجة التقييم تقييم"
        # as a label, for they also name the judged text
        " (?:antwort|réponse|respuesta|risposta|resposta|antwoord|odpowiedź|odpověď|ответ|cevap"
        "|svar|الإجابة|उत्तर)(?=\\s?[:：])"
        " (?:eind)?oordeel değerlendirme sonuç"
        " النتيجة امتیاز نمره ציון דירוג रेटिंग स्कोर अंक মূল্যায়ন স্কোর রেটিং คะแนน"
    )
    + rf"|(?-i:[{CJK}]){{0,12}}"
    + any_of(
        "得分 评分 評分 分数 分數 打分 总分 总评 评级 等级 结果 スコア 評価 点数 評点 得点"
        " 점수 평점 평가 등급 총점 (?:回答|答案|답변)(?=\\s?[:：])"
    )
    + r")(?:\s(?:finale?|totale?|globale?|complessiv[ao]|geral|g[ée]n[ée]rale?|general))?"
)
"""Names of a rating in other languages than English, in which a judge may answer."""
REASONS = (
    r"(?i:rationale?|reason(?:ing|s)?|explanation|justification|analysis|comments?|feedback"
    r"|evidence|notes?)\s?[:：=]"
)
"""Names of an explanation, before a colon."""
TEXTS = any_of(
    "summary text response output answer reply translation story dialogue conversation essay"
    " passage statement sentence completion continuation generation candidate submission work"
    " piece explanation question paraphrase caption headlines? description document"
    " utterance message paragraph (?:blog_)?post prose writing email letter report review article"
    " code solution title"
)
"""Names of the judged text."""
MATERIAL = lazy_pattern(
    rf"(?:[\w'’]+[ -]){{0,2}}(?!explanation)(?:{TEXTS}|"
    + any_of(
        "source context query prompt instruction input claim premise hypothesis problem prediction"
        " dialog transcript topic target doc excerpt example sample turn student user customer"
        " human bot assistant speaker task [aq]"
    )
    + ")"
)
"""Names of what a prompt gives to be rated."""
OTHERS = lazy_pattern(
    r"\b"
    + any_of(
        r"average(?!\s?\Z) age customer guest visitor human mean median"
        " the_average an_average on_average typical usual common original previous prior"
        " former initial"
        " last default prelim expected required possible draft pre-final preliminary reference"
        " gold target public official published stated quoted claimed reported"
        rf" (?:an?|the)_separate(?=\s?\Z|\s(?:\w+\s)?{RATING}) your_(?:rating|score|grade|mark)_of"
        " you_(?:showed|sent|gave)_(?:me|us)_(?:before|earlier|first|last)"
        " you_(?:mentioned|gave(?!_me)|said|suggested|proposed|wrote|described|called)"
        # `the other one, which I gave a 4`, but not: the other one is missing, which makes
        f" example_{TEXTS}"
        f" (?:first|second|earlier|other|last)_(?:one|version|draft|attempt|{TEXTS})"
        r"(?=(?:\s(?:you|i|we)\s\w+(?:\sme)?)?\s+(?:\w+\s)?which\b|(?!.*\bwhich\b))"
        " (?:article|source|document|passage|original(?:_\\w+)?|prompt|question)_itself"
    )
    # but not: the age and job of him, the original events are
    + r"\b(?!\s+and\b"
    + rf"|\s(?!(?:{NOUN}|this|was|is|its|gives|gets)\b)[a-z]+s\s(?!it\b|this\b|the\b|an?\b))"
)
"""Ratings that are not the judge's."""
NOT_ASSERTED = lazy_pattern(
    r"\b"
    + any_of(
        # negated, compared, bounded
        r"not never cannot hardly barely nothing fails neither nor"
        " than between below above over beyond under at_(?:the_)?(?:very_)?(?:least|most) almost"
        " nearly"
        " exceeds (?:demands?|requires)\\b.*\\bfor\\san?(?=\\W*\\Z|\\s\\w+\\sof\\W*\\Z)"
        rf" (?<!is\s)(?<!\bi\s)an?\s{TEXTS}\swith(?=\san?\b)"
        " up_to(?<!adds_up_to) too_\\w+_for_an?(?=\\W*\\Z)"
        r" instead_of lacks\s[^,]*\sof\san?(?=\W*\Z) miss(?:es|ed)?\san?(?=\W*\Z) understand accept"
        " short_of close_to as_(?:low|high)_as"
        rf" apart_from(?=(?:\s(?:the|an?|{RATING}))*\s?\Z)"
        r" anchors?(?=(?:\s(?:for|of|at|is))?(?:\s(?:the|an?))?\s?\Z)"
        # hypothetical, wished, or weighed before
        r" were"
        r" had(?!\sto\s(?:\w+\s)?(?:choose|commit|pick|give|put|say|name|settle|rate|guess)\b)"
        r" could"
        r" might(?:(?<!\bi\smight)|(?!\s(?:go|say|settle|put|suggest|offer|propose|venture)\b))"
        r" may ought"
        r" perhaps maybe possibly potentially"
        r" (?:would|should|must)_have(?!\sto\b)"
        r" considered(?<!things\sconsidered) considering consider_an?(?=\W*\Z) imagin\w*"
        r" thinking_(?:of|about)"
        r" thought wonder\w* hesitat\w* torn tempted"
        r" reluctant\sto otherwise compared bordering verging debat\w*"
        r" argu(?:able|ably|e[ds]?|ing)"
        r" start\w* begin\w* from\s\w+ing"
        r" without(?!\s(?:any\s|much\s|an?\s)?(?:doubt|hesita|question|reserv))"
        r" prevent\w* preclud\w* depriv\w* costs? den(?:y|ies|ied)"
        r" initially first(?!\s?[:,]) earlier originally previously was about_to reserve[ds]?"
        r" doubt(?<!no\sdoubt)(?<!any\sdoubt)(?<!without\sdoubt)(?<!little\sdoubt)"
        r" want\w* wish\w* hop(?:e|ed|ing) need\w* expect\w* usually often always typically"
        " normally sometimes rarely seldom such_as"
        # set off: it is unclear whether it is about rain - 3/5
        r" depending_on\b(?!.*\s[-–—(]\s?\Z)"
        r" whether_(?:it|this|that)_(?:is|should)\b(?!.*\s[-–—(]\s?\Z)"
        # said by another person, or about another thing
        " others people some(?:body|one) any(?:body|one) (?:colleague|friend|teacher|editor)s?"
        r" see(?<!\bi\ssee)(?<!\bi['’]d\ssee)(?<!\bwould\ssee) format anything_but from_an? counted"
        r" flesch\S* (?:grade|reading)_level deduct\w* subtract\w* (?:tak|knock|dock)\w*_off"
        " mentions? he she they who"
        " authors? writers? readers? users? critics? reviewers? annotators?"
        " (?:evaluator|grader|rater|judge|assessor|expert)s instructions"
        " (?<!as\\s)an_(?:expert|annotator|editor|evaluator) rul(?:es?|ed|ing)_out"
        " other competing rival source second third"
    )
    + r"\b|['’](?:(?<=\wn['’])t|(?<=\w['’])d\shave(?!\sto\b|\sno\b))\b"
)
"""Words of a clause that does not assert its number: `not a 4`, `perhaps a 4`."""
NO_NOUN = any_of(
    "is are was were be been would could should may might will can for or and at in on by to with"
    " as than but not if because since so though overall instead rather here now then again too"
    r" only(?=\s?[.!,]|\s*\Z) out from due given while that which it i we you the an? this stars?"
    " marks?"
    r" (?<=\d\s)points? seems? feels? appears? fits looks sounds"
    r" makes remains stands better best actually"
    " maybe perhaps vs? versus"
    # German, French, Spanish, Portuguese, Italian, Dutch, Swedish, Polish, Russian
    " für auf en pour à au para por per voor op för za за на w(?!['’]) we v i und et y e weil"
    " veriyorum veririm verdim 드릴\\w* 드립\\w* 줄\\w* 주겠\\w* द"
    " da car parce porque omdat perché denn aber bewerten geben vergeben"
    r" strikes where given although though based considering indicating reflecting meaning showing"
    r" suggesting captures reflects suits bc no possible(?!\s\w)"
    " fair right appropriate justified warranted reasonable with mainly primarily imh?o"
    # further prepositions, adverbs and verbs that follow a rating
    " after before despite until among along either just alone altogether there applies my also"
    r" even still indeed therefore thus really obviously please nothing no under"
    r" without(?=\s(?:\w+\s)?(?:hesita|doubt|reserv|question)) \w+ly(?=\s?[.,;:!)(—-]|\s*\Z)"
)
"""Words behind a number that show it is not a count: a counted noun is never among them."""

NOT_ASSERTED_FOREIGN = lazy_pattern(
    r"[\W_]"
    + any_of(
        r"kein(?:e[nrs]?)? nicht nie(?:mals)? ne pas jamais"
        r" no(?!\s(?:doubt|question|objection|problem|qualm)) nunca não"
        " non mai geen niet nooit не никогда auteur autor[ei]? lecteurs?"
        " lector(?:es)? leitores lettori leser nutzer"
        " bas_de_page pie editor redaktion medi[ao] moyenne mittlere durchschnitt\\w* promedio"
        " m[aá]xim(?!um)\\w+ massim\\w+ minim(?!um)\\w+ максимальн[а-я]+ средн[а-я]+"
        " читател[а-я]+ utilisateurs? usuarios? r[ée]f[ée]rence referencia"
    )
    + r"\b"
)
NOT_ASSERTED_CJK = lazy_pattern(
    any_of(
        "不(?:会|能|可|应|该|给|打|想|够|足|到|值|配|要|得|敢|愿|是|为) 没有 没法 无法 难以 别给"
        " 如果 若 假如 要是 除非 最多 (?<![给出打予了])最[高低] 至多 至少 超过 低于 满分 平均 参考"
        " (?<!其)他 她 用户 读者 作者 别人 有人"
        " もし 満点(?!の) 最大 上限 平均 読者 作者 著者 筆者 ユーザー 彼"
        " 誤り 間違い ミス エラー 問題 点は 課題 事実 理由 主張 項目 事項 違い 箇所 条件"
    )
)
"""Clauses in other languages whose number is denied, supposed, another person's, the end of a
scale, or a count."""

JUDGES = (
    # a small `i` is a word of other languages
    r"(?<!\w)(?:(?:I|i(?=['’]|\s(?:would|rate|give|gave|think|say|guess|assign|score|find|believe|see"
    r"|settle|land|judge|put|go|am|have|will|must|do|can)\b))(?!\w)"
    r"|(?i:(?:we|let['’]?s|let\sme|my|mine|me|ich|je|yo|eu|io|ik|я|tôi|मैं|jag|jeg)(?!\w)"
    r"|j['’]|ставлю|даю|doy|otorgo|pondría|diría|daría|pongo|direi|darei|metterei|daria|diria|dou|geef|bence|मेरे|أعطيه?ا?|przyznaję|daję|veriyorum|hodnotím|oceniam|puanım|vergebe|gebe|bewerte))"
    r"|我|私|저는|나는|드릴|드립|줄게|주겠|打|给|評価|とします|を(?:つけ|付け|与え)"
)
"""Judges who speak of themselves."""
GIVING = any_of(
    "rat(?:e[ds]?|ing) scor(?:e[ds]?|ing) grade[ds]? giv(?:e[sn]?|ing) gave assign(?:s|ed|ing)?"
    " award(?:s|ed|ing)? receiv(?:es?|ed|ing) gets? got earn(?:s|ed|ing)? deserv(?:es?|ing)"
    " merit(?:s|ing)? warrant(?:s|ing)? justif(?:y|ies) judged? land(?:s|ing)? puts? brings?"
    " places? leaves? calls?_for"
)
"""Verbs of giving and getting a rating."""
FITTING = any_of(
    r"right fair\w* apt appropriate justified warranted reasonable deserved fitting suitable"
    r" sensible accurate realistic most_defensible unavoidable inevitable justifiable"
    r" correct(?=\s(?:rating|score|grade|mark|note|choice))"
    r" (?<!worst\s)(?:choice|fit|match|option|description|compromise|justice)"
)
"""Words that say of a rating that it is the right one: `a 4 seems fair`."""
LOOK = (
    r"(?:(?:an?|my)\s)?(?:(?:re)?reflection|balance|re-?reading|second|third|closer?|further|careful"
    r"|reconsideration|inspection)"
)
"""What a judge sees something on, behind `on`: `on a closer look`."""
REPORTING = any_of(
    r"says(?<!gut\ssays)(?<!instinct\ssays) said states claims tells asks calls(?!\sfor) describes"
    " writes cites quotes prints contains begins ends number_of"
)
"""Verbs of a text that says something, which is not the judge's rating: `it says: 4`."""
COUNTED = lazy_pattern(
    r"\b"
    + any_of(
        r"facts points(?!(?:\s(?:awarded|given|earned))?\s?:) claims sentences?"
        " questions items criteria details statements errors"
        " answers references requirements arguments events keywords sources citations topics steps?"
        " words?"
        " mistakes? issues? times years? confiden(?:t|ce) flesch grade_level seed temperature"
        " version supported aged? total_of footnote season turns? count"
    )
    + r"\b"
)
"""Words before a number that counts or measures something: `errors found: 4`."""
QUALITY = any_of(
    r"(?!balance|sentence|audience|difference|fairness|quality)[a-z]++(?:(?<=[a-z]{3}[ae]nc[ey])|(?<=[a-z]{3}ness)|(?<=[a-z]{3}esty)|(?<=[a-z]{3}(?:ity|acy)))"
    " style grammar spelling tone structure"
)
"""Names of qualities, which are other aspects if they are not the asked one: `coherence`."""
NO_OTHER_THING = lazy_pattern(
    "(?:"
    + any_of(
        r"me us now all everything this that these those it reasons? most such balance which"
        r" not both"
        r" whether how \w+ing whole entire overall full final given above same \w*scale top high\w*"
        r" low\w* max\w*"
        r" mid\w*"
        r" one your note provided candidate generated model system assistant dimension"
        r" criterion aspect"
        r" (?:\w+_)?side number what basis grounds"
    )
    + rf"|{RATING}|{TEXTS})s?"
)
"""Words in the place of a rated thing that name none but the asked text: `I give the whole a 4`."""
