r"""The words and numbers in which judges state ratings, as parts of regular expressions.

Texts are compared in lower case with single spaces. In the lists below, `_` is a space and a word
may hold parts of regular expressions.
"""

from __future__ import annotations

NUMBER_WORDS = {
    word: float(value)
    for value, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
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
HALF = r"(?:½|\s(?:and|&)\s(?:a|one)[ -]half\b)"
NUMBER = (
    rf"(?:(?:(?<![\w)])[-+−])?{_DIGITS}{HALF}?|(?:{'|'.join(NUMBER_WORDS)})(?!\w){HALF}?"
    # 四分
    r"|[一二三四五六七八九十](?=分|星))"
    # 4分, 4点, 4점 are written without a space
    r"(?!(?!です)[^\W分点點점])"
)
_UNITS = any_of(
    "points? stars? marks? Punkten? Sternen? étoiles? puntos? punti pontos? 分 点 點 점"
)
UNIT = rf"(?:[ \t-]?{_UNITS})?"
# 4/5   4 out of 5   4 points out of a possible 10   4 of the 5   4 von 5
TOP = (
    rf"(?:\s{{0,3}}/\s{{0,3}}|{UNIT}\s{{1,3}}(?:(?:out\s{{1,3}})?of|from|on|von|sur|su|sobre|de|из|van|na|z|ze|av|af|di|dari|od|iz|din|من|में\s?से)\s{{1,3}}"
    rf"(?:(?:an?|the)\s)?(?:(?:possible|maximum|total)\s)?(?:of\s)?)(?P<top>{NUMBER})"
)

NOUN = (
    any_of(
        "scor(?:e|ing) rating grade mark verdict result answer value judge?ment assessment"
        " evaluation decision conclusion choice level"
    )
    + "s?"
)
FOREIGN = (
    "(?:"
    + any_of(
        # German, French, Spanish, Portuguese, Italian, Russian
        "(?:gesamt|end)?(?:note|bewertung|punktzahl|wertung|urteil|ergebnis|einstufung)"
        " [ée]valuation r[ée]sultat"
        " puntuaci[óo]n puntaje calificaci[óo]n valoraci[óo]n evaluaci[óo]n nota"
        " pontua[çc][ãa]o avalia[çc][ãa]o classifica[çc][ãa]o"
        " punteggio voto valutazione giudizio"
        " оценка балл рейтинг"
        # Dutch, Swedish, Danish, Norwegian, Polish, Czech, Slovak, Croatian, Romanian, Hungarian,
        # Finnish, Turkish, Indonesian, Vietnamese, Ukrainian, Bulgarian, Greek, Arabic, Persian,
        # Hebrew, Hindi, Bengali, Thai
        " beoordeling cijfer waardering betyg bedömning omdöme karakter vurdering bedømmelse poäng"
        " ocena ocen[ęy] punktacja hodnocení známka skóre hodnotenie ocjena not[ăa] punctaj"
        " értékelés pontszám osztályzat arvosana pisteet arvio puan skor nilai peringkat điểm"
        " đánh_giá оцінка бал оценка βαθμ[όο]ς βαθμολογία αξιολόγηση الدرجة درجة التقييم تقييم"
        " النتيجة امتیاز نمره ציון דירוג रेटिंग स्कोर अंक মূল্যায়ন স্কোর রেটিং คะแนน"
    )
    + rf"|[{CJK}]{{0,12}}"
    + any_of(
        "得分 评分 評分 分数 分數 打分 总分 总评 评级 等级 结果 スコア 評価 点数 評点 得点"
        " 점수 평점 평가 등급"
    )
    + r")(?:\s(?:finale?|totale?|globale?|complessiv[ao]|geral|g[ée]n[ée]rale?|general))?"
)
"""Names of a rating in other languages than English, in which a judge may answer."""
KIND = any_of(
    "an? the my our this its your final overall total assigned resulting numeric(?:al)? revised"
    " updated new"
)
TEXTS = any_of(
    "summary text response output answer reply translation story dialogue conversation essay"
    " passage statement sentence completion continuation generation candidate submission work"
    " piece explanation question paraphrase caption headline headlines? description document"
    " utterance message paragraph (?:blog_)?post prose writing email letter report review article"
    " code solution title"
)
OTHERS = any_of(
    "age star average mean median typical usual common original previous earlier prior former"
    " initial first last default expected required human user reader critic reviewer annotator"
    " reference gold target public official published stated quoted claimed reported"
)
"""Ratings that are not the judge's."""
TEXT = (
    r"(?:(?:the|this|that)(?:\s(?:given|generated|provided|candidate|model|system|ai|assistant)"
    rf"(?:['’]s)?)?\s{TEXTS}(?:['’]s)?|this\sone|it|this|that)"
)
OF_TEXT = (
    rf"\sof\s(?:{TEXT}|(?:the|this)\s(?!{OTHERS}\b|(?:source|second|third|other|next|prompt)\b)"
    r"[a-z-]{3,20}(?:\s(?!of\b)[a-z-]{3,20})?)"
)
"""Behind the name of the asked aspect any noun is the text: `the creativity of this poem`."""
MODAL = any_of(
    "would will can must should shall am are have(?:_to)? (?:like|going|inclined|no_choice_but)_to"
    " do therefore thus hence so only just now also overall personally then finally consequently"
    " accordingly ultimately"
)
POSSIBLY = any_of("would will can must should could may might")
GIVE = any_of(
    "giv(?:e|ing|en) gave rat(?:e|ed|ing) scor(?:e|ed|ing) assign(?:ed|ing)? award(?:ed|ing)?"
    " grad(?:e|ed|ing) assess(?:ed)? evaluat(?:e|ed) judged? mark(?:ed)? say choose pick select put"
    " place call consider settl(?:e|ing)(?:_on)? estimate land conclude"
    " (?:stay|stick|keep)(?:_(?:with|at|to))? (?:arrive|finish|end_up)_at"
)
SETS = any_of(
    "settl(?:e|ed|ing) land(?:ed|ing)? stick(?:ing)? stay(?:ing)? go(?:ing|nna)? went"
    " opt(?:ed|ing)? come end(?:ing|ed)? put(?:ting)? plac(?:e|ed|ing) rat(?:e|ed|ing)"
    " scor(?:e|ed|ing) giv(?:e|ing|en) gave"
    " assign(?:ed|ing)? award(?:ed|ing)? grad(?:e|ed|ing) mark(?:ed|ing)?"
    " judg(?:e|ed|ing) call(?:ed|ing)? say(?:ing)? think deem(?:ed)? peg believe feel consider"
    " pick(?:ed|ing)? cho(?:ose|sen?) select(?:ed)? set leave leaving stand rest vot(?:e|ing)"
    " estimate assess(?:ed)? evaluat(?:e|ed) conclud(?:e|ed) arriv(?:e|ed) keep(?:ing)? rank(?:ed)?"
)
"""Verbs by which a judge sets a level."""
ONLY_MENTIONED = any_of(
    # negated, compared, bounded
    r"not never no cannot \w+n['’]t hardly barely neither nor without than between below above over"
    " beyond under least most almost nearly up_to short less more as_(?:low|high)_as"
    # hypothetical, wished, or weighed before
    " if unless were had could might may should ought perhaps maybe possibly potentially would_have"
    r" considered considering thought wonder\w* hesitat\w* torn tempted debat\w* argu\w+ lean\w*"
    r" initially (?:at_)?first earlier originally previously was about_to reserve[ds]? refus\w+"
    r" doubt want\w* wish\w* hop(?:e|ed|ing) love need\w* expect\w* usually often always"
    " normally sometimes"
    # said by somebody, or of something else
    " says said claims stat(?:e|es|ed) mentions? asks? asked t(?:ell|old) you he she they who"
    " authors? writers? readers? users? critics? reviewers? annotators? prompt instructions perfect"
    f" ideal other source second third half {OTHERS}"
)
"""Words of a clause that does not assert its number."""
CHANGE = any_of("lower rais reduc increas revis chang adjust") + "(?:ed|e|ing)?"
GET = (
    r"(?:(?:(?:is|be|being)\s)?"
    rf"(?:{MODAL}\s)?(?:given|rated|scored|graded|assigned|awarded|judged|assessed)|"
    + any_of(
        "receiv(?:es?|ing) earn(?:s|ing)? deserv(?:es?|ing) get(?:s|ting)? scor(?:es?|ing)"
        " merit(?:s|ing)? warrant(?:s|ing)? achiev(?:es?|ing) rates obtain(?:s|ing)?"
    )
    + ")"
)
LEAD_TO = any_of(
    "resulting leading giving earning making yielding indicating suggesting justifying warranting"
    " landing with for hence thus therefore so"
)
# this results in a score of 4, which earns it a 4
LEADS_TO = any_of(
    "results?_in (?:leads?|corresponds?|amounts?)_to gives? earns? makes? yields? warrants?"
    " justif(?:y|ies) merits? is_worth"
)
# this meets the criteria for a score of 4, the response falls into level 4
FITS = (
    r"(?:aligns?|match(?:es)?|meets?|fits?|fulfil(?:l|ls)?|satisf(?:y|ies)|corresponds?|falls?|belongs?)"
    r"(?:\s(?:well|best|closely|most\sclosely|clearly|fully))?(?:\s(?:with|to|into|in|under))?"
    r"(?:\s(?:all\s(?:of\s)?)?(?:the\s)?(?:characteristics|criteri(?:a|on)|requirements?|descriptions?"
    r"|definition|standards?|expectations|category|rubric)(?:\s(?:outlined|described|given|defined|set(?:\sout)?)"
    r"(?:\s(?:in|by)\s(?:the\s)?(?:rubric|scale|criteria))?)?\s(?:of|for))?"
)
BE = any_of(
    "is be would_be should_be (?:remains|stays)(?:_at)? comes_(?:out_)?(?:to|at) equals ['’]s"
)
_GROUND = any_of(
    "this that these above everything"
    " (?:given_|provided_|above_)?(?:text|criteri(?:a|on)|rubric|context|source|definition)"
)
_RULE = any_of("criteri(?:on|a) rubric definition standard scale guidelines? description")
# in conclusion / based on that / overall: what may stand before any of the phrases
SO = any_of(
    "and so thus hence therefore then but overall ultimately finally accordingly consequently"
    " altogether all_in_all all_things_considered on_(?:balance|the_whole|reflection)"
    " (?:for|to)_me with_(?:this|that|all_that)_in_mind"
    " (?:which|that)(?:_is|['’]s)_why to_(?:sum_up|conclude|summari[sz]e) in_the_end"
    " as_(?:a_result|such|it_stands|is|written)"
    " for_(?:this|these|that)_reasons? after_(?:\\w+_)?(?:thought|consideration|reflection)"
    f" (?:under|by|per|on|according_to)_(?:this|that|the)_{_RULE}"
    " in_(?:conclusion|summary|total|short|sum|general|my_(?:opinion|view|judge?ment))"
    " (?:based|given|considering|taking)(?:_on)?_(?:all_)?(?:(?:the|your|this)_)?"
    f"{_GROUND}(?:_into_(?:account|consideration))?"
)
SIGN = r"[:：=|→⇒>–—-]"
# a solid   an overall   a near-perfect: one word of any kind beside a noun, of a few without it
MANNER = r"(?:an?|the|my)(?:\s" + any_of(
    "solid strong clear full perfect high low good fair moderate decent weak firm generous"
    " respectable flat straight maximum minimum top final overall total"
)
MANNER += ")?"
# what may follow a rating and go on: never a noun, which the number would count
GOES_ON = any_of(
    "because as since due given but which while although though based considering indicating"
    " reflecting meaning showing suggesting where so however overall here and with mainly primarily"
    " (?:i_|i['’]d_)(?:think|guess|suppose|believe|say) imh?o"
    " (?:from|for)_me in_my_(?:opinion|view) rather_than instead_of is_my"
    " for_(?:the_following|these|several|two|three)"
    # German, French, Spanish, Portuguese, Italian, Dutch
    " bewerten geben für weil denn aber und en pour car parce mais et à para porque pero por voor"
    " omdat perché"
    " (?:is|seems|feels|looks|appears|sounds|would_be)_(?:most_|entirely_|about_)?"
    "(?:appropriate|right|apt|warranted|justified|fair|fitting|deserved|suitable|reasonable)"
)
# words behind a number that is no count: not the noun that would be counted
NO_NOUN = any_of(
    "is are was were be been would could should may might will can for or and at in on by to with"
    " as than but not if because since so though overall instead rather here now then again too"
    " out from due given while that which it i we you the an? this stars? marks?"
    r" (?<=\d\s)points? seems? feels? fits looks sounds makes remains stands better best actually"
    " maybe perhaps vs? versus minus plus"
)

_GIVING_ELSEWHERE = any_of(
    # German, French, Spanish, Portuguese, Italian, Russian, Dutch
    "ich_(?:gebe|vergebe|würde|bewerte) (?:gebe|vergebe|bewerte)_ich"
    " je_(?:lui_)?(?:donne|mets|donnerais|mettrais|dirais) j['’](?:attribue|attribuerais)"
    " (?:yo_)?le_(?:doy|daría|pongo|otorgo|asigno) doy otorgo asigno"
    " (?:eu_)?(?:dou|daria|atribuo) (?:gli_)?(?:do|darei|assegno)"
    " (?:(?:der|die|dieser|diese|le|la|ce|cette|el|este|esta|il|questo|o|a|de|deze)_)?"
    "(?:(?:text|antwort|zusammenfassung|texte|réponse|texto|resumen|respuesta|testo|risposta|resumo"
    "|resposta|tekst|antwoord|samenvatting)_)?(?:erhält|bekommt|verdient|obtient|mérite|reçoit|recibe"
    "|merece|obtiene|merita|ottiene|riceve|recebe|krijgt)"
    " (?:я_)?(?:ставлю|даю|бы_поставил) ik_(?:geef|beoordeel)"
)
_THEREFORE_ELSEWHERE = any_of(
    "daher deshalb insgesamt also donc ainsi por_eso por_ello por_tanto portanto quindi"
)
# a rating that is denied, of a condition, of somebody else, or an end of the scale, or a count
OTHERWISE = (
    r"(?:.*[\W_])?"
    + any_of(
        "kein(?:e[nrs]?)? nicht nie(?:mals)? ne pas jamais no nunca não non mai geen niet nooit не"
        " никогда auteur autor[ei]? lecteurs? lector(?:es)? leitores lettori leser nutzer"
        " bas_de_page pie editor redaktion medi[ao] moyenne mittlere durchschnitt\\w* promedio"
        " m[aá]xim\\w+ massim\\w+ minim\\w+ максимальн[а-я]+ средн[а-я]+"
        " читател[а-я]+ utilisateurs? usuarios? r[ée]f[ée]rence referencia"
    )
    + r"\b|.*"
    + any_of(
        "不(?:会|能|可|应|该|给|打|想|够|足|到|值|配|要|得|敢|愿|是|为) 没有 没法 无法 难以 别给"
        " 如果 若 假如 要是 除非 最多 最高 最低 至多 至少 超过 低于 满分 平均 参考"
        " (?<!其)他 她 用户 读者 作者 别人 有人"
        " もし 満点 最高 最低 最大 上限 平均 読者 作者 著者 筆者 ユーザー 彼"
        " 誤り 間違い ミス エラー 問題 点は 課題 事実 理由 主張 項目 事項 違い 箇所 条件"
    )
)
# die Bewertung ist, ich gebe dem Text eine, je donne une note de, le doy un, 我给这个摘要打
FOREIGN_LEAD = (
    rf"(?!{OTHERWISE})(?:(?:(?:die|meine|das|mein|mijn|min|mitt|moja|moje|la|ma|le|mi|a|o|minha|il|el|моя|итоговая)\s)?{FOREIGN}"
    r"(?:\s(?:für|auf|pour|de|du|des|della?|da|do|para|per|que|за)\s[^\W\d]\D{0,40}?)?"
    r"\s?(?:[:：=]|(?:ist|lautet|beträgt|wäre|est|es|é|è|is|是|为|為|は|은|는)"
    r"(?:\s(?:von|de|di))?[:：]?)?"
    rf"|(?:{_THEREFORE_ELSEWHERE}\s?,?\s)?(?:{_THEREFORE_ELSEWHERE}\s)?{_GIVING_ELSEWHERE}"
    r"(?:\s[^\W\d]\D{0,50}?)?"
    # この文章の明瞭さは
    rf"|[{CJK}]{{2,24}}は\s*|[{CJK}，,]{{0,24}}(?:给|打|评|評|给出|评为|给予|应得|得)[{CJK}]{{0,12}})"
    r"(?:\s(?:eine|mit|une|un|uma|um|una|een))?\s?"
    # ich gebe ihm recht in 3 Punkten
    r"(?<!\sin)(?<!\szu)(?<!\saus)(?<!\snach)(?<!\sen)(?<!\sem)(?<!\sdans)"
)
