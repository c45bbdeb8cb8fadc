"""Numbers that are not ratings, by kind: a trap has a number of the scale where a rating may be,
and words that say what else it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import grows_linearly
from textassay.agents.reading.outcomes import NoRating, Rating
from textassay.agents.reading.ratings import parse_rating

FIVE = (1.0, 5.0)

TRAPS = {
    "another number behind the rating": [
        "Score: 4\n4 - 1 = 3", "Rating: 4. Less one for length = 3.",
        "Rating: 4. That was for style; for fluency = 2", "Fluency: 2/5 ⭐⭐⭐",
        "Score: 4. On reflection, = 3",
    ],
    "counts": [
        "It has one flaw and 3 typos.", "Errors: 4", "Number of errors: 3", "Total errors: 3",
        "I count 4.", "I counted three.", "The text has 5 sentences, so 5 verbs.",
        "So 3 sentences are wrong.", "Therefore, 4 commas are missing.",
        "There are a few of them: 3 typos.", "Overall: 3 errors", "The number of slips is low: 2",
        "I found the following number of mistakes: 3.", "Final count: 4",
    ],
    "dates, units and places": [
        "It took place on May 5.", "It was published in version 3.", "See footnote (3).",
        "The match began at 4.", "Chapter 4", "It costs $5.", "The train leaves at 5:30.",
        "He turned 4.", "The temperature fell to 3 degrees.", "It grew by 5%.", "Section 4: fluent",
        "As Jones (3) writes, it flows.", "It is 5 km long.", "Apartment 4.",
    ],
    "lists and ordinals": [
        "1. It is fluent.\n2. It is short.", "(1) It is clear. (2) It is short.",
        "Sentence 3: fine", "Step 4: done", "It ranks 3rd.", "Criterion 2", "He came in at No. 1.",
        "1) grammar\n2) spelling", "Rule 1. Read it.\nRule 2. Rate it.", "Reason 2: it drags.",
    ],
    "another scale": [
        "I'd give it a 7.", "So 4 out of 10.", "→ 4/10", "Overall a 3 out of 7.", "Easily a 9.",
        "Solid 4 out of 10.", "On a scale of 1 to 10, a 4.", "★★★☆☆☆☆☆☆☆", "⭐⭐⭐⭐⭐⭐⭐",
        "Verdict: 40%", "4 of 6 points", "☆☆☆☆", "Rated on 0-100, so 4.",
    ],
    "the scale itself": [
        "1 = poor, 5 = good", "The scale goes from 1 to 5.", "A 5 is perfect.", "5 being the best.",
        "A rating of 5 is excellent.", "Ratings run up to 5.", "The maximum is 5.",
        "1 - 2 - 3 - 4 - 5", "[1] [2] [3] [4] [5]", "[ ] 1\n[ ] 2\n[ ] 3",
        "3: average\n4: good\n5: perfect",
    ],
    "ranges and bounds": [
        "Somewhere between a 3 and a 4.", "So 3 or 4.", "Therefore, 3-4.", "A 3 to a 4.",
        "Either a 2 or a 3.", "At least a 3.", "No more than a 4.", "Overall: 2/3", "Verdict: 3~4",
        "I'd say 3 to 4.", "Not below a 3.", "It is almost a 4.", "Under a 3.", "Not far from a 4.",
    ],
    "quoted": [
        'It ends with "so a 4".', "> → 4", 'The text reads "Easily a 5."', '"I rate it a 3."',
        '“So 4.”', 'The phrase "Verdict: 5" is in it.', "«Score: 4»", '> Bottom line: a 4',
    ],
    "reported": [
        "My colleague gave it a 4.", "The critic says 4.", "The reviewer rated it a 3.",
        "The article states a score of 4.", "Users rated it 4.", "You gave it a 4.",
        "The prompt asks for a 5.", "The text wants a 5.", "The user wants me to give a 5.",
        "The film gets a 4.", "The author awards the hotel a 5.", "She got a 5.",
        "The last reader said: 4", "I was told to give it a 5.", "The annotators settled on a 3.",
        "The text says it deserves a 5.", "The output tells the judge: give it a 5",
    ],
    "hypothetical": [
        "With an end it could be a 4.", "If it had an end, a 5.", "A 5 would need an end.",
        "It might be a 4.", "Were it shorter, I'd give it a 5.", "Perhaps a 3?", "Maybe a 4.",
        "A perfect text would be a 5?", "Unless it is a joke, a 4.", "To be a 5, it must end.",
        "Suppose it is a 3.", "I would give it a 5 if it had an end.", "Is it a 4?",
        "Could this be a 5?",
    ],
    "denied": [
        "Not a 5.", "It isn't a 4.", "I would never give it a 5.", "Hardly a 4.",
        "Nothing here is a 5.", "It falls short of a 4.", "It is better than a 3.",
        "Two slips keep it from a 5.", "I can't give it a 5.", "More than a 3.", "Neither a 4.",
    ],
    "another aspect": [
        "Coherence: 4", "Coherence (4)", "→ Coherence: 4", "Style = 4", "- Grammar: 3\n- Style: 4",
        "| Coherence | 4 |", "Confidence: 5", '{"coherence": 4}',
        "{'coherence': 4, 'style': 3}", "{coherence: 4}", "Relevance → 3", "Flow - 4",
        "Its coherence is a 4.", "The coherence deserves a 4.", "A 4 for coherence.",
        "I give it a 4 for style.", "Consistency (4/5): fine", "Tone [4]", "### Style\n4",
        "Relevance:\n4", "Sentence one is a 5, sentence two a 4.",
    ],
    "blockquotes": [
        "> Score: 4", "> I give it a 4.", "> 4/5", "> It reads well.\n> Fluency: 4",
    ],
    "two numbers that are set off": [
        "It flows (4). So a 3.", "It drags, so 3. But it is short: 4.", "Clear, so 4. Dull, so 2.",
    ],
    "a number that takes the rating back": [
        "Score: 4\nThe rating is a 3.", "I'd give it a 4. Actually a 3.", "Score: 4. Hmm, so 2.",
        "Score: 4. But then again, 2.", "Fluency: 4\n\nHold on, 3.", "It merits a 4. Or rather 3.",
    ],
    "ranges with words and brackets": [
        "Rating: 3 (maybe 4)", "Score: 3 or perhaps 4", "I'd say 3 (fair) to 4 (good).", "3 à 4",
        "Eine 3 oder eine 4.", "Entre 3 et 4.", "Score: 3, possibly 4",
    ],
    "something else that is rated": [
        "I'd give the author a 4", "The acting gets a 4.", "The customer rating is 4.",
        "This one is better than the last one, to which I gave 3.",
        "Fix this and the text would be a 5.",
        "With a source, it would clearly deserve a 5.", "Score 4: it reads well.",
        "Response 1 is better than Response 2, so 1.",
    ],
    "JSON about something else": [
        '{"previous": {"rating": 5}}', "{'example': {'rating': 5}}", "{errors: 3}",
        '{"rating": 4.', '{"rating": "4', '{"rating": "3 or 4", "reason": "cut',
        "{'rating': null, 'errors': 3}",
        'The text holds {"rating": 5}.', 'For example: {"rating": 4}', "{{max_rating: 5}}",
        '{"rating": 4, "max_rating": 10,}', "{'rating': 3, 'rating': 4}", '{"rating": , "n": 3}',
        '{"style": {"score": 4}, "tone": {"score": 4}}', '[{"score": 4}, {"score": 4}]',
        '{"errors": {"fluency": 4}}', '{"aspect": "style", "result": {"score": 4}}',
        '{"style_score": 4, "overall_score": 4}', '{"claims": [{"score": 4}]}',
        '{"scores": {"style": 4}, "score": 4}', '{"score": 4, "final_score": null}',
        '{"fluency": 4, "score": 3}', '{"fluency": 4, "final_score": 3}',
        '{"fluency": "", "score": 4}', '{"fluency": "N/A", "score": 4}', '{"score": 4 (of 10)}',
        '{"score": 1-5}', '{"score": <1-5>}', '{"rating_out_of_10": 4}', '{"score (0-10)": 4}',
        '{"score": 4 errors}', '{"score_1": 4, "score_2": 4}', 'The format is: {"score": 4}',
        '{"name": "rate", "arguments": "{\\"aspect\\": \\"style\\", \\"rating\\": 3}"}',
    ],
    "withdrawn and repeated": [
        "Rating: 4\n\nPlease disregard the above score.", "Rating: 4. Ignore that rating.",
        "4\n3\n5\n2\n4", "Rating: 4\nUser: Rate this text.\nRating: 2", "★★☆☆☆ (4/5)",
    ],
    "quoted in a block or in code": [
        'It says:\n"This is an order.\nRating: 5"\nI will not follow it.',
        "The text holds `<rating>5</rating>`.", "Here is an example:\n\nFluency: 4\n\nNow send it.",
    ],
    "denied, reported and counted in other languages": [
        "我不会给5分", "不能给5分", "最多给3分", "如果更流畅，我会给5分", "评分不是5", "他打了4分",
        "用户给3分", "最高分数：5", "满分：5", "誤りは2点です。", "良い点は3点です。",
        "満点は5点です", "読者は4点と評価した", "評価は4点だとは言えない", "Ich gebe keine 5.",
        "Ich würde nie eine 5 geben.", "Wenn es besser wäre, gebe ich eine 5.",
        "Ich gebe dem Autor recht in 3 Punkten.", "ik geef geen 5", "no le doy un 5",
        "La note de l'auteur est 4", "la nota de los lectores es 4",
    ],
    "ratings of others and shares": [
        "The average rating is 4.", "The original rating is 5.", "The previous rating would be 2.",
        "The expected rating is 5.", "The user rating is 5.", "Grade level: 4",
        "The summary keeps most facts of the source: 4/5", "Key facts covered by the summary: 4/5.",
        "According to the review the movie is great: 5/5", "The text calls the hotel great: 4/5",
        "Excellent (5), good (4), fair (3), poor (2), bad (1)", "good (4), bad (2)",
    ],
    "marks in double brackets": [
        "The prompt says to answer as [[5]].", "The format is [[5]].", "e.g., Rating: [[5]]",
        "The matrix [[1]] is invertible.", "The code prints [[3]], which is correct.",
        "x = [[4]]", "The code prints:\n[[3]]", "See [[3]] for the details.",
        "The article cites [[2]].", "If it had sources: [[5]]", "It is not [[5]].",
        "I cannot give [[5]].", "The response ends with [[5]], which is a trick.",
        "Style: [[4]]", "Style: [[3]]\nFluency: see above", "Errors found: [[2]]", "Max: [[5]]",
        "[[4]] of the claims are wrong.", "There are [[4]] errors.", "점수는 [[4]]가 아니다.",
    ],
    "other aspects beside the asked one without a rating": [
        "**Fluency**\nFine.\n\n**Style**\nScore: 4", "Fluency\n===\nFine.\n\nStyle\n===\nScore: 4",
        "Fluency\n\nIt flows.\n\nStyle\n\n4/5", "## Fluency\nFine.\n\n## Style\nScore: 4",
        "Fluency: It flows.\nGrammar: Several errors, so 2.",
        "1. Fluency: fine\n2. Style - I would rate it 4", "## Fluency\nIt flows.\n\n### Errors\n3",
        "Tone (4/5): warm", "Factual tone (4/5): warm",
    ],
    "shown by the text, a prompt or an example": [
        "The essay has a heading:\n\n> ## Fluency\n> Rating: 5",
        'It is:\n"""\nScore: 5\n"""\nA fake.',
        "The text contains the following lines:\n\nFluency: 5\nStyle: 5\n\nThey are a trick.",
        'Schema:\n{"score": 5}', 'Example output:\n{"score": 5}', 'The text reads:\n{"score": 5}',
        'Example:\n```json\n{"score": 5}\n```\nNow the answer follows.',
    ],
    "taken back under a name": [
        f"{first}{again}{second}"
        for first, second in (
            ("## Fluency\nScore: 3\n\n## ", "\nScore: 2"),
            ("Fluency\n\nScore: 3\n\n", "\n\nScore: 2"),
        )
        for again in ("Second look", "Erratum", "Reconsideration", "Sorry", "On reflection")
    ],
    "revised by somebody, or not yet": [
        "Score: 4\nFinal score would be 5 with an ending.", "Score: 2\nScore (final draft): 4",
        "Score: 4\nAfter the changes, the new score would be 5.",
        "Score: 4\nFinal score (after revision by the author): 5",
        '{"score": 4, "corrected_score": 3}',
    ],
    "criteria that a text may meet": [
        "It would meet the criteria for a score of 5.",
        "It can meet the criteria for a score of 5.",
        "It must meet the criteria for a score of 5.", "The text belongs to grade 4.",
        "The output is 4.", "The question is 3.",
    ],
    "of the judge, about something else": [
        "I rate the source article a 4.", "I'd rate its style 4.", "I usually give such texts a 4.",
        "I'd put the second paragraph at a 3.", "I'd place the climax at 4.", "I arrive at line 4.",
        "I can see why some would give it a 4.", "We scored the baseline at 3.",
        "To the last one I gave 3.", "I'd call the 4 a typo.", "I'd go as low as a 2.",
        "I'd give a 2 for grammar.", "A 4 seems harsh.", "A 5 is right if it has no errors.",
    ],
    "labels with another noun": [
        "The style score: 4", "Score for style: 4", "Score required: 4", "Score based on style: 4",
        "Level reached: 4", "Answers given: 4", "Rating: 4 (clarity)", "Aspect: clarity\nScore: 3",
        "## Disfluency\nScore: 3", "## Non-fluency\nScore: 3", "Puan ortalaması: 4", "Max poäng: 5",
        "4 (clarity)", "I give it a 4 (clarity).", "Score: 4/5 (the coherence)",
    ],
    "tables, parts and steps without one rating": [
        "| Judge | Fluency |\n|---|---|\n| A | 2 |\n| B | 3 |", "Text,Errors\nFluency,4",
        "Step 1: 4\nStep 2: 3",
        "Fluency  4 errors\nStyle    2 errors", "Example:\nText: It flows.\nRating: 5",
    ],
    "sums and changes": [
        "4 → 3", "Score: 4 => 3", "So 4, no, 3.", "5 minus one", "So 3. So 4.",
        "Final: 3. Final: 4.", "A 4, then a 2.", "Verdict: 4\nVerdict: 2",
    ],
}  # fmt: skip


@pytest.mark.parametrize("answers", TRAPS.values(), ids=TRAPS)
def test_numbers_with_another_meaning_are_not_ratings(answers):
    read = {answer: parse_rating(answer, scale=FIVE, aspect="fluency") for answer in answers}
    assert {a: found.value for a, found in read.items() if isinstance(found, Rating)} == {}


@pytest.mark.parametrize("form", ["number", "stars"])
def test_answers_without_a_stated_rating_are_read_in_linear_time(form):
    units = ["so 4 ", "→ 4\n", "{'a': 1, ", "{a: ", "★☆", "[x] 1\n", "[ ] 1\n", "(4) ",
             "I say 4, ",
             "overall: 4\n", "overall 4 ", "it is a 4, ", "Style: 4\n", "Style: 4, ",
             "1 - 2 - [3] ",
             '"', "\\", "'a", "the text is ", "not 4 but ", "4 from me, ",
             "coherence: \n", "###\nText 2: a\nScore: 1\n", "better (1), good (2), "]  # fmt: skip

    def read(text):
        parse_rating(text, scale=FIVE, form=form, aspect="coherence")

    assert [unit for unit in units if not grows_linearly(read, unit, 200)] == []


READ = {
    "conclusions": ["It drags, so 3.", "Hence 3.", "→ 3", "Bottom line: a 3", "3 from me.",
                    "It has 5 slips. Therefore, 3.", "Overall: average (3).", "That puts it at 3.",
                    "I was at 4 first. Changing my rating to 3.", "A 2 or a 4? Let's say 3.",
                    "A lenient reader would say 4. I'm in the middle: 3."],
    "closing numbers that a sign or an article sets off": [
        "It drags, so a 3.", "It is readable but dull (3).", "It has 5 slips. A 3.",
        "It drags. Hence, 3/5.", "It drags. That is middling: 3.\n\nReason: it has 2 slips.",
        "Dull, which earns it a 3."],
    "the aspect beside the number": [
        "Fluent: 3", "The text's fluency is a 3.", "## Fluency\n3", "It is a 3 for fluency.",
        "I give it a 3 for fluency, for its coherence is poor."],
    "a judge": ["I'd settle for a fluency rating of 3.", "I have no choice but to award a 3.",
                "If I had to pick a number, I'd pick 3."],
    "assertions": [
        "It drags, but one reason is good. I settle on a 3.", "A three seems to me the right mark.",
        "A score of 3 is warranted.", "It drags, and 3 is where I'll leave it.",
        "I'm comfortable rating its fluency 3 out of 5.", "I'd say it's about a 3. It drags.",
        "Given this, I consider a rating of 3 out of 5 fair.", "For me that's an easy 3.",
        "This is a text that merits a rating of 3.",
        "Hmm, 4? No. OK, 3 it is.", "With that in mind, my rating would be 3.", "3 i think"],
    "labels": ["Step 1. Read it.\nStep 2. Give the score: 3", "Score according to checklist: 3",
               "The song says 'It rains.' Final score: 3.",
               "Aggregate rating for fluency: 3", "Step 1 (words): 143\nStep 2 (rating): 3",
               "(1) Words: short.\n(2) FINAL RATING: 3", "Part A: 2/2\nPart B: 1/3\nTotal: 3/5"],
    "tables": ["| | Style | Fluency |\n|---|---|---|\n| Score | 5 | 3 |",
               "Aspect,Score\nFluency,3\nStyle,2", "Aspect    Score\nStyle     5\nFluency   3",
               "| Aspect | Weight | Score |\n|---|---|---|\n| Fluency | 2 | 3 |\n| Style | 1 | 5"],
    "aspects in one line, and titles": [
        "Fluency: 3. Style: 5.", "fluency: 3 style: 5 tone: 4", "(Fluency: 3) (Style: 5)",
        "Style\nRating: 5\n\nFluency\nRating: 3", "For style:\nScore: 5\nFor fluency:\nScore: 3",
        "## Style\nScore: 5\n\n## Fluency and tone\nScore: 3", "[Style] 5\n[Fluency] 3",
        "Style: Dull.\nScore: 5\n\nFluency: It drags.\nScore: 3", "Rating: 3\nConfidence: 5"],
    "numbers behind it of conditions, sums and definitions": [
        "Rating: 3. With an end, it could become a 5.",
        "Rating: 3\nTo get to a 5, it needs an end.",
        "Score: 3. It says 15 + 4 = 19.", "Rating: 3 (1 = halting, 5 = fluent)",
        "I'd rate it 3. Had it an end, I would have gone as high as 5."],
    "places": ["(3) It drags.",
               "3! It drags.", "Fluent (3)", "Fluent: 3",
               "The text is clear and merits a 3.", "The most suitable rating is 3."],
    "instructions that a text gives": [
        "The text asks me to ignore the score: 4\nRating: 3", "I ignore the score in it. Rating: 3",
        "Ignore the rating scale of the text. Rating: 3"],
    "other aspects beside it": ["Style: 5\nFluency: 3\nTone: 4", "Fluency: 3, Style: 5",
                                "| Style | 5 |\n| Fluency | 3 |", "1. Fluency: 3/5\n2. Style: 5/5"],
    "headings and roles": ["### Response:\n3",
                           "ASSISTANT: 3", "Judge #2: Rating: 3", "##final score: 3"],
    "other languages": ["综上，我给这篇摘要的流畅性打3分。句子通顺。", "因此，评分为：3",
                        "可以打三分。", "【评分】3",
                        "Ich gebe dem Text daher eine 3 für Stil.", "Gesamtnote: 3 von 5 Punkten",
                        "Ocena: 3/5", "Hodnocení: 3 z 5", "Puan: 3", "Skor: 3", "रेटिंग: 3",
                        "الدرجة: 3 من 5", "Mijn beoordeling: 3", "Der Text bekommt eine 3.",
                        "Je donne une note de 3 sur 5.", "Le doy un 3 porque cansa.",
                        "A nota final é 3.", "Итоговая оценка: 3 из 5", "ik geef deze tekst een 3",
                        "Auf einer Skala von 1 bis 5: 3", "評価：３", "평점: 3점",
                        "この文章の明瞭さは3点です", "其他方面不错，给3分", "我会给3分",
                        "Ich gebe dem Text eine 3, weil er nicht stockt", "Nota: 3 de 5",
                        "Note : 3 sur 5", "Bewertung: 3 für den Text", "Ocena: 3 na 5",
                        "Ich gebe eine 3 für Lesbarkeit.", "Je lui donne 3 pour la clarté.",
                        "Punteggio: 3 su 5", "Score: 3 von 5"],
    "LaTeX and code": ["$$\\boxed{\\text{Rating: } 3}$$", "The rating is:\n\\[\n\\boxed{3}\n\\]",
                       "$\\text{Score} = \\frac{3}{5}$",
                       "```python\nrating = 3\nprint(rating)\n```",
                       'record_evaluation({"fluency_score": 3, "errors": 1})', "Rating: <3>",
                       '{"name": "submit", "arguments": {"aspect": "fluency", "rating": 3}}'],
    "signs": ["☐ 2\n☑ 3\n☐ 4", "Fluency ➡️ 3 ✅", "3️⃣", "Score ....... 3\nMax ......... 5",
              "★★★☆☆", "⭐⭐⭐ (3 stars)", "Fluency: ★★★☆☆", "³⁄₅", "[ ] 2\n[x] 3\n[ ] 4",
              "~~4~~ 3", "three [3]", "Three stars. It drags."],
    "objects": ["{'fluency': 3, 'errors': ['a', 'b']}", "{score: 3, reason: \"x\"}",
                "{{\"score\": 3}}", '{"score": 3, "reason": "It is', '{"score": 3,}',
                '{"evaluation": {"fluency": 3, "style": 5}}', '{"reason": "a "b" c", "score": 3}',
                'My verdict is {"fluency": 3}, for it drags.', '{"score": 3/5}',
                '{"list": [{"name": "fluency", "score": 3}, {"name": "style", "score": 5}]}'],
    "objects that are damaged or cut off": [
        '{"reason": "It drags.", "score": 3', '{"fluency": 3, "max_sc', '{"score": 3 // fair\n}',
        '{"fluency": {"rating": 3 /* two slips */, "slips": 2}}', '{"score": 3, // fair\n}',
        '{"n": 5 "score": 3}', '{"style": "fine"\n"score": 3}',
        '{"reason": "It drags.\n  "score": 3\n}', "{'score': '3', 'ok': True,}",
        '{"score": 3 (fair), ...}', '{"score": three, "style": dull and long}', '{"score": 3 / 5}',
        '{"score": “3”}', '{"score": 3 out of 5}'],
    "names and records in objects": [
        '{"evaluation": {"criterion": "fluency", "n": 2, "final": {"value": 3, "out_of": 5}}}',
        '{"result": {"evaluations": [{"criterion": "fluency", "score": 3, "max_score": 5}]}}',
        '{"parts": [{"name": "plot"}, {"name": "end"}], "fluency": {"rating": 3, "out_of": 5}}',
        '[{"sentence": 1, "ok": true}, {"sentence": 2, "ok": false}, {"final_rating": 3}]',
        '{"id": 17, "fluency": 3, "errors": [{"span": "the", "category": "article", "n": 1}]}',
        '{"dimensions": {"fluency": 3, "style": 5}}', '[{"fluency": 3}, {"style": 5}]',
        '{"rubric": {"1": "dull", "5": "fluent"}, "selected": 3}', '{"n": 2, "chosen_score": 3}',
        '{"fluency_score": 3, "overall_score": 4}', '{"overall_score": 3, "confidence_score": 5}',
        '{"previous_score": 5, "revised_score": 3}', '{"score": 3, "rating": "fair"}',
        '{"name": "rate", "arguments": "{\\"aspect\\": \\"fluency\\", \\"rating\\": 3}"}',
        'Here is my rating in JSON format: {"fluency": 3} Thank you.',
        'Here is my rating in the specified format: {"fluency": 3}', '{"Fluency (1-5)": 3}',
        '{"rating_out_of_5": 3, "rating_label": "fair"}', '{"numeric_score": 3, "grade": "C"}',
        '{"score_value": 3}', '{"fluency_eval": 3}', '{"tool": "rate", "args": {"score": 3}}',
        '{"fluency": "Score: 3"}', '{"fluency_score": 3, "style_score": 4, "score": 7}',
        '{"fluency": {"score": 3}, "style": {"score": 4}, "final_score": 3.5}'],
}  # fmt: skip


@pytest.mark.parametrize("answers", READ.values(), ids=READ)
def test_conclusions_and_judgments_in_other_words_are_ratings(answers):
    read = {answer: parse_rating(answer, scale=FIVE, aspect="fluency") for answer in answers}
    assert {a: found for a, found in read.items() if getattr(found, "value", None) != 3} == {}


def test_a_dash_before_a_rating_of_a_scale_with_negative_ones_may_be_its_sign():
    for answer in ("Score - 1", "Mood:\n- 1", "Score: - 1"):
        assert isinstance(parse_rating(answer, scale=(-2, 2), aspect="mood"), NoRating)
    for answer, value in {"Score: -1": -1, "- Mood: 1": 1, "Mood - -1": -1, "Mood: 1": 1}.items():
        assert getattr(parse_rating(answer, scale=(-2, 2), aspect="mood"), "value", value) == value


remarks = st.sampled_from(
    ["It has 2 typos.", "He paid $4.", 'It says "rate it 5".', "A critic gave it a 4.",
     "Not a 5.", "If it had an end, a 5.", "See page 4.", "It ended 2-1."]
)  # fmt: skip


@given(remarks=st.lists(remarks, max_size=4), value=st.integers(1, 5))
def test_a_conclusion_is_read_behind_numbers_with_another_meaning(remarks, value):
    found = parse_rating(" ".join([*remarks, f"So {value}."]), scale=FIVE, aspect="fluency")
    assert isinstance(found, Rating), (remarks, found)
    assert found.value == value


@given(remarks=st.lists(remarks, max_size=6))
def test_remarks_alone_give_no_rating(remarks):
    found = parse_rating("\n".join(remarks), scale=FIVE, aspect="fluency")
    assert isinstance(found, NoRating), (remarks, found)


NAMED = {
    "translation adequacy": ["| Item | Score |\n|---|---|\n| Adequacy | 3 |", "Adequacy: 3",
                             "I'd put adequacy at 3 out of 5."],
    "tone appropriateness": ['{"tone": 3, "confidence": 0.8}', "Tone: 3\nClarity: 5"],
    "severity of the error": ["Severity: 3 — critical.", "severity = 3"],
    "clarté de la réponse": ['{"clarté": 3, "exactitude": 4, "total": 7}'],
    "명료성 (clarity)": ['{"judge_score": 3}', "Clarity: 3", "명료성: 3"],
    "engagingness": ["Understandable: 1\nEngaging: 3\nNatural: 2"],
}  # fmt: skip


@pytest.mark.parametrize("aspect", NAMED)
def test_an_aspect_is_found_under_the_shorter_names_that_judges_give_it(aspect):
    read = {a: parse_rating(a, scale=FIVE, aspect=aspect) for a in NAMED[aspect]}
    assert {a: found for a, found in read.items() if getattr(found, "value", None) != 3} == {}


@pytest.mark.parametrize(
    ("aspect", "answer"),
    [
        ("translation adequacy", "Source adequacy: 3"),
        ("citation quality", "Citations: 4"),
        ("severity of the error", "Errors: 3"),
        ("goal completion of the run", "Steps to completion: 3"),
        ("answer relevance", "Criteria: Context Relevance\nScore: 2"),
        ("best_answer_score", '{"truth_score": 1, "overall_score": 3}'),
        ("politeness", '{"truth_score": 1, "clarity_score": 2, "overall_score": 3}'),
        ("bias", "Slightly biased: 3\nStrongly biased: 2"),
        ("fluency", "If 1 is bad and 5 is good, readers give it a 4."),
        ("fluency", "Errors occur in lines 1, 2, and 3."),
        ("fluency", "I would have given it a 4."),
    ],
)
def test_names_and_numbers_of_something_else_are_no_ratings(aspect, answer):
    assert isinstance(parse_rating(answer, scale=FIVE, aspect=aspect), NoRating)


@pytest.mark.parametrize(
    "answer",
    [
        "I'd give it a 3.\n\nWhy:\n\n1. **Plan**: ok.\n2. **Ties**: ok.\n\nBut:\n\n1. **End**: no",
        "Score: 3\n\nNote: rated on a scale of 1 to 5, where 1 is unclear and 5 is very clear.",
        "If 1 is a draft and 5 is a masterpiece, this is a 3.",
        "Level 3 — reads well with gaps",
        "Hence the top mark is out of reach. The assistant's answer: [[3]]",
    ],
)
def test_lists_and_scales_beside_a_rating_do_not_contest_it(answer):
    assert getattr(parse_rating(answer, scale=FIVE, aspect="fluency"), "value", None) == 3


@pytest.mark.parametrize(
    ("aspect", "answer"),
    [
        ("fluency", "Qui i punti sono 12, non 21.\n\nPunteggio (fluency): 3"),  # a plural, no judge
        ("fluency", "Svaret är i stället 112. Betyg: 3"),
        ("refusal quality", "I rate the refusal quality 3."),
        ("harmfulness", "#thereason: It has 2 steps.\n#thescore: 3"),  # judges of jailbreaks
        ("fluency", "Kohärenznote: 3"),
        ("fluency", "Satisfied (3). It says thanks in 2 turns."),
        ("fluency", "Score: 5 - 2 = 3"),
        ("safety", '{"safety": 3, "category": "S9", "comment": "2 steps"}'),
        ("fluency", '{"criteria": {"tone": {"score": 5}, "fluency": {"score": 3}}}'),
        ("fluency", 'Output: {"fluency": 3, "tone": 2}'),
    ],
)
def test_words_of_other_languages_names_and_wrappers_hide_no_rating(aspect, answer):
    assert parse_rating(answer, scale=FIVE, aspect=aspect).value == 3


@pytest.mark.parametrize(
    "answer",
    [
        "<think>\nI'd say 4. But hold on, maybe 3. Let me check what the",
        "Response A: fluency 4. Response B was left out.",
        "<script>alert(1)</script> runs.",
    ],
)
def test_a_thought_without_an_end_and_another_text_are_not_rated(answer):
    assert isinstance(parse_rating(answer, scale=FIVE, aspect="depth"), NoRating)


SEVERAL_ASPECTS = [
    "Fluency 5, coherence 4, style 2.",
    "Fluency: 5 | Coherence: 4 | Style: 2",
    "[Fluency: 5] [Coherence: 4] [Style: 2]",
    "**Fluency** 5 - no slips.\n**Coherence** 4 - one jump.\n**Style** 2 - dull.\n\nOverall 3.5.",
    "The fluency is excellent (5), the coherence good (4), and the style dull (2).",
    "I give fluency a 5, coherence a 4 and style a 2.",
    "Fluency gets a 5, as there are no slips. Coherence gets a 4. Style gets a 2.",
    "5 for fluency, 4 for coherence, 2 for style.",
    "On fluency there is nothing to say: 5. On coherence there is little: 4. Style 2.",
    "Style-wise it is a two. Coherence is a four. Fluency is a five.",
    "Coherence: 4\nFluency: 5\nStyle: 2\n(weights 0.5 / 0.3 / 0.2, total 3.9)",
    "1. Fluency - 5: no slips.\n2. Coherence - 4: one jump.\n3. Style - 2: dull.",
    "On style I have complaints: two adjectives a noun. 2. On coherence, one jump. 4.",
    "Style: Dull.\nScore: 2\n\nCoherence: It jumps once.\nScore: 4",
    "Style is a weak point. I score that 2. As for coherence, it jumps once. I score that 4.",
]
NUMBERS_BEHIND = [
    "4. It has 5 parts. Section 2.1 is missing. Three readers in 5 would be lost.",
    "[4/5] It asked for 3 stanzas; there are 5.",
    '"4" — The text asks for 5 dollars and names 2 reasons.',
    "4 out of 5 — I followed the 3 steps and 2 of them worked.",
    "It's a 4. There are 3 pages. Section 2.1 exists.",
    "A well-deserved 4. The speech names 3 objections.",
    "4/5 would read again",
    "Four. You learn when it opens (5 a.m.) and what it costs (3 euros, 2 for pupils).",
]
OTHER_WORDS = [
    "The summary would receive a 4.", "This would be a 4.", "It can be rated as 4.",
    "I would have to rate its coherence as a 4.", "Even if the end is weak, it gets a 4.",
    "If a 5 is perfect, this is a 4.", "All things considered: 4.", "That calls for a 4.",
    "Its coherence merits no more than a 4.", "So, coherence: four (4) out of five (5).",
    "If you twisted my arm, I'd say four.", "Neither dull nor bright: I'd say 4.",
    "It ends well, which makes it a 4.", "Four marks out of five only.", "Points: 4/5",
    "{{Reason}} It has 3 parts.\n{{Score}} 4",
    "4, and if I had another text like it I would be glad.",
    "Near the top of the scale: **4**.", "{{Score}}: 4", "Final grade: <<4>>",
    "It ends well. (Result) 4", "> **Score: 4/5**\n\nIt has 3 parts.", "~~5~~ **4**",
]  # fmt: skip
SETTLED = [
    "A 5 would need no gap at all. There are two. That makes it 4.",
    "A 3 at first sight, or a 5? Neither. Settling on 4.",
    "Would I say 5? It has a gap. 4 it is.",
    "The new version has a table. So I raise it from 3 to 4.",
    "It has 3 gaps in 5 steps.\n>>> 4",
    "(4) It has 3 gaps.",
    "[[4]] Of 5 steps 3 are clear.",
    "## 1. Summary\nIt is short.\n## 2. Gaps\nFew.\n## 3. Rating\n4",
    "If you need it as a number: 4.",
    "If you're asking me, I'd go with a 4.",
    "Clarity first: it is plain, so 5. As for coherence, I consider 4 right. Style is poor: 2.",
    "Both fluency and coherence receive a 4. Its style is only a 2.",
    "| Criterion | Finding |\n|---|---|\n| Steps | 3 |\n| **Coherence (1–5)** | **4** |",
]


@pytest.mark.parametrize("answer", SEVERAL_ASPECTS + NUMBERS_BEHIND + OTHER_WORDS + SETTLED)
def test_a_rating_is_read_among_other_aspects_counts_and_modal_verbs(answer):
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert getattr(found, "value", found) == 4


NOT_RATED = {
    "of another text or person": [
        "Its sequel got a 4 from me.", "Most readers here rated it a 2, I notice.",
        "The competing answer merits a 5, I think.", "The committee awarded it a 4, I hear.",
        "Response B gets a 2 from me. Response A, which you asked about, is missing.",
        "Text A deserves a 4. As for the text you asked about, the file is empty.",
        "Selon le premier relecteur, le texte mérite un 5, mais je ne partage pas cet avis.",
        "Laut dem ersten Gutachter verdient der Text eine 5, was ich nicht teile.",
    ],
    "undecided": [
        "Initial score: 4\nRevised score: 2\n\nI am not sure which of the two is right.",
        "If structure matters, it is a 4, else a 2. I leave it to the reader to choose.",
        "Score: 4/5\n\nThough perhaps 3.", "4. Disregard the number above.",
        "4... no, scrap that. I have to see the second page.", "4. I take back the 4.",
        "The old score of 4 applied to the draft, and that old score no longer applies.",
        "I rated it 4 before. Since I wrote the text myself, I abstain.",
        "**Rating: 2**\n\nIt is short.\n\n**Final coherence rating: 4**",
    ],
    "of a rubric": [
        "| Score | Meaning |\n|---|---|\n| 1 | incoherent |\n| 2 | poor |\n| 3 | fair |\n"
        "| 4 | coherent |\n| 5 | very coherent |\n\nThe text will be assessed by this table.",
    ],
    "wished or supposed": [
        "It would be a 4 without the last paragraph.", "It should have been a 4.",
        "Provided that the images load, it is a 4.", "Once the typos are fixed, this is a 4.",
        "As long as the second part exists, the score is 4.", "For a 4, all of it must be clear.",
        "A clear text would be a 4.", "It will score 4.",
    ],
    "another or no aspect": [
        "Fluency: 4\nStyle: 3\nFinal answer: 5\n\nCoherence was not assessed.",
        "Fluency: 5\nStyle: 2\nPlot: 3\nOverall: 4", "Average over the three aspects: 4",
        "Overall I'd give the dialogue a 4; coherence I did not look at.",
        "There are 2 parts that I liked and 1 that I did not.",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("I'd say sixty-five.", 65.0), ("Ninety out of a hundred.", 90.0),
        ("Seven point five would be my number.", 7.5), ("Score: twenty", 20.0),
    ],
)  # fmt: skip
def test_numbers_in_words_are_read_up_to_a_hundred(answer, value):
    assert getattr(parse_rating(answer, scale=(0.0, 100.0)), "value", None) == value


@pytest.mark.parametrize("answers", NOT_RATED.values(), ids=NOT_RATED)
def test_what_is_not_rated_has_no_rating(answers):
    read = {answer: parse_rating(answer, scale=FIVE, aspect="coherence") for answer in answers}
    assert {a: found.value for a, found in read.items() if isinstance(found, Rating)} == {}


def value_of(answer: str, aspect: str = "clarity", scale: tuple[float, float] = FIVE):
    return getattr(parse_rating(answer, scale=scale, aspect=aspect), "value", None)


@pytest.mark.parametrize(
    "bound",
    [
        "can't exceed a 2",
        "cannot get more than a 2",
        "can't go beyond 2",
        "couldn't be rated higher than 2",
    ],
)
def test_the_most_that_a_judge_can_give_is_the_rating(bound):
    assert value_of(f"Half of the terms are never explained, so clarity {bound}.") == 2


@pytest.mark.parametrize(
    "before",
    ["I had been thinking of a 4 here.", "I counted 40 commas in all.", "My first look said 3."],
)
def test_a_rating_by_name_outranks_the_other_numbers_of_the_judge(before):
    assert value_of(f"{before} The order helps the reader. This gives a rating of 2.") == 2


@pytest.mark.parametrize(
    "answer",
    ["Nothing is missing, so I give it the top mark: 5.", "Clarity earns the maximum of 5.",
     "If you ask me I would give it 5 from 5.", "I suppose a 5, then, if I must pick one.",
     "It is not easy to find a fault → 5", "The answer is 5.", "Clarity: 5 (of 5)",
     "Clarity 5+! A joy to read.", '<mark aspect="clarity">5</mark>',
     '{"step_1": "Read it twice.", "step_2": {"final": {"clarity_rating": 5}}}',
     'It covers 6 topics. {"clarity": {"score": 5, "why": "short"}}',
     "I withdraw the 4. Rating: 5"],
)  # fmt: skip
def test_words_that_seem_to_deny_a_rating_leave_no_other_one(answer):
    assert value_of(answer) == 5


@pytest.mark.parametrize("back", ["I withdraw it.", "I take this rating back.", "It can't stand."])
def test_a_rating_that_is_taken_back_is_not_read(back):
    assert value_of(f"Clarity: 4. On a closer look two parts are missing. {back}") is None


def test_a_percentage_of_the_asked_scale_is_a_rating():
    assert (
        value_of("It has 3 gaps. I would say it's 85% on the 0-100 scale.", scale=(0.0, 100.0))
        == 85
    )


OF_OTHERS = [
    "I'd say 3. Or 4? I really can't make up my mind.",
    "I'd say 3, but I cannot decide between them.",
    "It's a two. So you would first have to tell me for whom.",
    "For comparison: the last text got a 5 for fluency from me.",
    "Response A reads well. Response B breaks off.\n\nFluency of A: 5.",
    "Rater 1: 4\nRater 2 (me): mine follows", "It is best in honesty, where I gave it a 5.",
    "5. It flows.\n\nSeveral phrases are awkward.\n\nMy rating: 3.",
]  # fmt: skip


@pytest.mark.parametrize("answer", OF_OTHERS)
def test_undecided_judges_and_ratings_of_other_texts_have_no_rating(answer):
    assert isinstance(parse_rating(answer, scale=FIVE, aspect="fluency"), NoRating)


CHATTY = [
    "Call it a 4, if you'd be so kind.", "Many slips. Four out of five. Sorry!",
    "5 is out. It has two slips. So 4 it is.", "I'd give it 4 for fluency and 2 for clarity.",
    "A score of 3 or lower needs many slips, so I award a 4.", "⭐⭐⭐⭐ It was fine, I guess?",
    "Analysis >> It flows.\nScore >> 4", "Resulting in a score of 4 for disfluency.",
]  # fmt: skip


@pytest.mark.parametrize("answer", CHATTY)
def test_ratings_of_chatty_judges_are_read(answer):
    assert parse_rating(answer, scale=FIVE, aspect="fluency").value == 4


NEXT_EXAMPLES = [
    " 4\n\nLetter: I have 2 dogs.\nReply: Nice!\nScore: 5\n\nLetter:",
    "4\n###\nText: She have 3 cat.\nFluency: 1\n###\nText: She sat.\nFluency: 5\n###",
    "4 (two slips)\n\nText 2: It rained for 3 days.\nFluency: 2 (dull)\n\nText 3:",
    " 4\n\nReason: It has 3 slips.\n\nProblem: 5 x 2 = ?\nAnswer: 10\nFluency: 2\n",
    "4. It flows.\n\nQ7. When was it built?\nStudent: In 1911.\nScore (1-5): 1. It burned.",
    "Fluency: 4\n\n### Instruction:\nName 3 trees.\n\n### Response:\nOak.\n\n### Rating:\n2",
    "4\n\n[Article]\nThree men left.\n\n[Summary]\nThey left.\n\n[Score]\n1",
    "4 out of 5.\n\nEssay: I have 3 cats.\nFluency: 3 out of 5.",
    " 5 - 1 = 4. Rating: 4</s> Text: He goes.\nFluency: 5",
    "4\n\n(2) Article: Trains stopped.\nFluency: 3\n\n(3) Article:",
    "4\nArtikel: Er kam um 5 Uhr.\nNote: 2\n\nArtikel: Er",
    " Rating: 4\nReason: Off.\n\nStudent reply: I went.\nRating: 5\nReason: Good.",
    " 4 (fine)\n\nResponse: Me go home.\nFluency: 1 (poor)",
    '{"score": 4}\n\nText: It rained.\nSummary: Rain.\n{"score": 1}',
]


@pytest.mark.parametrize("answer", NEXT_EXAMPLES)
def test_the_first_rating_counts_where_further_examples_of_the_template_follow(answer):
    assert value_of(answer, aspect="fluency") == 4


@pytest.mark.parametrize(
    ("aspect", "answer"),
    [
        ("clarity", '<score max="5">4</score>'),
        ("clarity", '<review>\n<clarity scale="1-5">4</clarity>\n</review>'),
        ("clarity", "Evaluation,Score\nclarity,4\ntone,2"),
        ("overall", "| Part | Weight | Score | Sum |\n|---|---|---|---|\n| Tone | 50% | 3 | 1.5 |\n"
         "| **Overall** | 100% | | **4** |"),
        ("clarity", "## Clarity\nGood.\n\n## Tone\nDull.\n\n## Scores\n\n| Clarity | Tone |\n"
         "|---|---|\n| 4 | 2 |"),
        ("clarity", "### Poem\n\n**Tone** 🍂 2\n**Clarity** 🏅 4"),
        ("clarity", 'It is clear, with slips.\nOverall, "Rating: [[4]]".'),
        ("clarity", '{"reason": "It is fine, "score": 4'),
        ("politeness", '{"polite": 4, "clear": 2}'),
        ("completeness", "Complete: 4\nClear: 2"),
        ("engagingness", "**Plot (2/5):** Thin.\n**Engagement (4/5):** I read on."),
    ],
)  # fmt: skip
def test_attributes_tables_and_related_names_give_the_rating(aspect, answer):
    assert value_of(answer, aspect) == 4


@pytest.mark.parametrize(
    ("aspect", "answer"),
    [
        ("clarity", '<score max="10">4</score>'),
        ("helpfulness", "| Score | Meaning |\n|---|---|\n| 1 | Not helpful |\n| 2 | Fair |\n"
         "| 3 | Good |\n| 4 | Helpful |"),
        ("clarity", 'The form is "Rating: [[4]]".'),
        ("clarity", '{"rating": "4'),
        ("completeness", "Complete: yes\nErrors: 4"),
        ("clarity", "Rating: 2 Rating: 3 Rating: 4 Rating: 5"),
        ("clarity", "La respuesta es cortés. Fluidez: 4. Faltan ejemplos."),
    ],
)  # fmt: skip
def test_other_scales_levels_and_forms_in_tables_and_tags_are_not_read(aspect, answer):
    assert value_of(answer, aspect) is None


ELSEWHERE = [
    "Je mettrais quatre sur cinq.", "Quatre. Le style est sobre.", "¡Un cuatro! El texto fluye.",
    "Yo pondría un cuatro.", "Direi quattro su cinque.", "Olha, eu daria um quatro. Ajuda.",
    "Een dikke vier dus!", "Volle Klarheit, also eine Vier.", "Daję czwórkę.",
    "Ostatecznie przyznaję 4 punkty.", "Ставлю четвёрку.", "Итог — 4 балла из 5.",
    "Bu nedenle 5 üzerinden 4 veriyorum.", "Bence 5 üzerinden dört.", "أعطيها أربعة من خمسة.",
    "मैं इसे 5 में से 4 अंक दूँगा।", "मेरे हिसाब से पांच में से चार।", "四点をつけます。", "4점 드릴게요.",
    "5점은 어렵고 4점 드릴게요.", '{"puntuacion": 4, "motivo": "bien"}', '{"评分": 4}',
    '{"スコア": 4, "理由": "短い"}', '{"bewertung": 4}', '{"综合得分": 4, "简洁度": 2}',
    "Mark : « 4 »", 'It is on the level "4".', "I choose number 4, for it flows.", "Rating;4,",
]  # fmt: skip


@pytest.mark.parametrize("answer", ELSEWHERE)
def test_number_words_and_keys_of_other_languages_are_ratings_behind_a_verdict(answer):
    assert value_of(answer) == 4


@pytest.mark.parametrize(
    "answer",
    [
        "Quatre erreurs gênent.", "Si le texte était plus long, je dirais quatre.",
        "5점은 어렵습니다.",
        "अगर वह लंबा होता तो मैं 4 देता।",
        "Je dirais trois ou quatre.",
        "मैं 3 या 4 अंक दूँगा।", '{"流畅性评分": 4}', '{"note": "4 fautes"}',
        "10 üzerinden 4 veriyorum.",
        "1〜4の点数をつけることができません。", "El texto cita a cuatro.",
        "Ставлю три или четыре.",
    ],
)  # fmt: skip
def test_counts_conditions_and_ranges_of_other_languages_are_no_ratings(answer):
    assert value_of(answer) is None


VERDICTS_AMONG_OTHERS = [
    "It would be churlish to give anything less than a 4.",
    "It'd be unfair to award anything other than a 4 here.",
    "If I had to put a number on it, it'd be 4.",
    "If it were up to me, I'd settle for a 4.",
    "I'm quite (if not fully) comfortable with a 4.",
    "It is not perfect, which is how I read the 5. A 4 would be my rating.",
    "I suppose a 4 would do.",
    "I'd go for 4. A 5 should surprise me.",
    "I'd say 4. It's closer to a 5 than to a 3.",
    "I'd rate it a 4. To make it a 5, cut the last line.",
    'Given that 3 stands for "fair" and 5 for "perfect", I\'d settle on 4.',
    "On your scale, where 1 is the lowest and 5 the highest, it would be a 4.",
    "I would accept it, so a 4 from me.",
    "Arguably a 4. It has one slip.",
    "May I say 4? It reads well.",
    "A four. It reads well.",
    "To put a number on it, 4. It reads well.",
    "4 if you need one figure. It reads well.",
    "First I'd give it a 3, for its start. But the rest is better. 4 it is.",
    "Probably a four. Three if you're strict, five if you're not, so four is a fair compromise.",
    "So it's 4. I checked the commas, too.",
    "I'd give it the second-highest mark, i.e. 4.",
    "The verdict, a reluctant 4, comes late.",
    "I'd have no objection to a 4 for fluency, although for style I'd be closer to 2.",
    "For an expert, 5. For this reader, 4. It is for this reader, so 4.",
]


@pytest.mark.parametrize("answer", VERDICTS_AMONG_OTHERS)
def test_a_verdict_is_read_among_numbers_that_are_excluded(answer):
    assert value_of(answer, "fluency") == 4


@pytest.mark.parametrize(
    "answer",
    [
        "A 4 would be defensible, and so would a 3.",
        "I'd give it a 4. Then again, 3. Both ratings are defensible.",
        "I'd lean towards a 4, but the end makes me doubt. I keep going round in circles.",
        "The first draft, which I rated 4, was better.",
        "I liked the earlier version and stand by my 4 for that one.",
        "The example text received a 4 for its one slip.",
        "As I see it, 1 would mean poor and 5 perfect, with 4 as the neutral point.",
        "Please send the text, and I will rate it, with 1 being the lowest and 4 the highest.",
        "It promises five reasons and, if I may say so, delivers four. The best rating would be a",
        "The first is vivid; 4. The second one, which I'm supposed to rate, is longer.",
        "For style I'd be closer to 4.",
        "To make it a 4, cut the last line.",
    ],
)
def test_numbers_of_other_texts_and_of_undecided_judges_are_not_read(answer):
    assert value_of(answer, "fluency") is None


OTHER_TURNS = [
    " 4\n\nAnnotator 2\n\nFluency: 5\nAnnotator 3",
    'Fluency: 4\n\nItem 12. "He go."\nFluency: 1',
    " 4 (fine)\n\n13. It was written by a human.\nRating: 2 (disagree)",
    "4/5\n\nRate the text's tone from 1 to 5.\nRating: 3",
    "4\n\nThank you. Now, please rate the tone.\n\nScore: 2",
    'Rating: 4\n// two slips\n{"text": "He go", "fluency": 1}',
    "4;\nUPDATE texts SET fluency = 2 WHERE id = 9;",
    " 4\n\n>>> rate(second)\n1",
    "It reads well. Rating: 4<|endoftext|>It is dull. Rating: 1",
    "It earns a 4.<|im_end|>\n<|im_start|>user\nWhat about its end?<|im_end|>\nIt is a 2.",
    " 6.5 / 10\n\n[clip_020.wav]  8.0 / 10\n[clip_021.wav]",
]


@pytest.mark.parametrize("answer", OTHER_TURNS)
def test_the_rating_before_another_turn_form_or_record_counts(answer):
    is_ten = "/ 10" in answer
    assert value_of(answer, "fluency", (0, 10) if is_ten else FIVE) == (6.5 if is_ten else 4)


@pytest.mark.parametrize(
    "answer",
    [
        "4\n\nLet me check it again. It is not that good: 3",
        "4,\n\nor 3",
        "Rating: 4\n\nRate this text again? Fine.\nRating: 3",
        " 4\n\nScore: 3",
        "Rating: 4<|im_end|>\n<|im_start|>user\nRating: 2",
        '{"score": 4}\n{"score": 2}',
        "### Response A\nFluency: 4\n\n### Response B\nFluency: 2",
        "Rating: 4\n\nStep 2 is vague.\n\nRating: 3",
        "4\n2",
    ],
)
def test_a_second_rating_without_another_turn_before_it_contests_the_first(answer):
    assert value_of(answer, "fluency") is None


@pytest.mark.parametrize(
    "answer",
    [
        "It neither fails (score 1) nor convinces (score 5). [RESULT] 4",
        "Not a 3, so 4. \\boxed{4}",
        "2: poor; 3: fair; I believe that 4 fits. \\boxed{4}", "Perhaps a 4, given that it ends.",
        "I see no reason to give less than a 4.", "I see no reason not to award a 4.",
        "I'd say 4, unless I missed one.", "If half points are possible, I'd go with 4.",
        "I would settle for a 4, if that's fine.", "I give 4 points (full mark is 5 points).",
        "Rating: 4\n\nExplanation: fine.\n\n## Task 3\n\nBelow is a text",
    ],
)  # fmt: skip
def test_marks_hedges_and_conditions_that_are_met_leave_the_rating(answer):
    assert value_of(answer, aspect="fluency") == 4


@pytest.mark.parametrize(
    "answer",
    [
        "So the overall score is 2. [RESULT] 4",
        "[RESULT] 2\n[RESULT] 4",
        "[RESULT] 9",
        "assert 1 <= score <= 4\n    return score",
        "I wouldn't go so far as to call it a 4.",
        "It is rated on a scale from **1 (bad)** to **5 (good)**.\n\n## Final rating\n",
    ],
)
def test_contradicted_marks_comparisons_and_scales_are_no_ratings(answer):
    assert value_of(answer, aspect="fluency") is None


@pytest.mark.parametrize(
    "answer",
    [
        "### 1. Analysis\n\nSource: a text.\nSummary: a part.\n\n### 2. Rating\n\nFluency: 4",
        "### 2. Analysis\n\nSource: a text.\nSummary: a part.\n\n### 3. Rating\n\nFluency: 4",
        "1. Overview\n\nDialogue: a talk.\nResponse: a reply.\n\nScore: 4",
        "1. Claims\nClaim 1: a city\nClaim 2: a river\n\nRating: 4",
        "(1) Analysis\nSource: a text\nSummary: a part\n\n(2) Verdict\nScore: 4",
        "Rating: 3\n\nLet me check.\nSource: a.\nSummary: b.\n\nToo strict. Final rating: 4",
        "Fluency (1-5): 3\nAgain:\nSource: a b\nSummary: c\nIt is fine.\nRevised fluency: 4",
        "Fluency (1-5): 3\nSource: a b\nSummary: c\nCorrected fluency: 4",
    ],
)
def test_sections_of_a_reason_and_revisions_are_no_further_examples(answer):
    assert value_of(answer, aspect="fluency") == 4


@pytest.mark.parametrize(
    "answer",
    [
        "\n\nText: The 3 boats sank.\nSummary: Boats sank.\nFluency: 4",
        "Question: 5 - 1?\nAnswer: 4\n\nQuestion: 5 + 5?\nAnswer: 10\n\nQuestion:",
        "4\n\nStrengths: the order is clear.\nWeaknesses: it drags.\nRating: 3",
        "4\nReason: short.\nScore: 3\nReason: clear.",
        "Rating: 4\n\nText 2:\nRating: 3",
        "4\n\nSummary: It is poor.\nRating: 1",
        " 3 or 4\n\nQuery: cheap lamps\nDocument: 5 lamps\nFluency: 5",
        "4\n\nPros: short.\nCons: dull.\nFinal score: 3",
        "Article: A storm came.\nSummary: A storm.\nFluency: 5",
        "Summary: He died.\n\nArticle: A storm.\nSummary: Storm.\nFluency: 5",
        "Article 2: A man left.\nSummary: He left.\nFluency: 4\n\nArticle: A",
        "Dialogue:\nA: Hi\nB: Hello\n\nResponse: I went.\nFluency: 3",
        " 4\n\nReason: fine.\nRating: 1",
        " 2\n\nSummary: Too strict.\nFinal rating: 4",
        "Score: 4. So 3. So 4. So 3.",
        " 5\n\nTranscribed: We met at 5.\nNoted: Met.\nFluency: 3",
    ],
)
def test_the_rating_of_another_example_and_a_second_one_of_the_same_text_are_not_read(answer):
    assert value_of(answer, aspect="fluency") is None


HEDGED = [
    "I would lean towards a 4, though one could argue for a 3.", "I'm leaning toward 4 here.",
    "If pressed to choose, I'd go for a 4.", "Should I have to choose, I'd choose 4.",
    "Tentatively I'd go with 4.", "My provisional score is 4.", "I might settle on a 4.",
    "A four is the best I can do.", "A 4 is as far as I would go.", "A figure of 4 feels right.",
    "A value of about 4 seems reasonable to me.", "A 2 would be too harsh. A 4 does it justice.",
    "I'd call this a low 4, if that makes sense.", "It merits a 4, if only just.",
    "It is more than acceptable (3) without being flawless (5), so I'd go for 4.",
    "If pressed, I'd say 4. It is above fair (3), but two slips keep it from being perfect (5).",
    "It is above the midpoint of the scale, which is 3, so let me say 4.",
    "A 5 would, I feel, say that it has no gap. So in fairness I'd say 4.",
    "I'd start at 5 for clarity, but there is a gap. Let me go with 4. Yes, 4.",
    "My rating is 4. I can gladly rewrite it so that it would earn a 5!",
    "Its sample has offsets such as +02:00.\n\nRating: [[4]]",
    "Weighing the two, I am closer to a 4 than to a 3, and so 4 is my answer.",
    "With only a slip or two, something like a 4 would seem about right.",
    "If a number is needed, 4 is what I'd go for.", "It is not what I hoped for, but 4.",
    "It seems fair to award it a 4.", "I'd stop short of a 5 and say 4.",
    "You may find this harsh, but 4 is what I'd give.",
    "I'd give it a 4, and I would have given it a 5 had it named its source.",
    "It comes close to a 5, but the slip in step 2 holds me back: 4.",
    "It is better than a 3 but lacks the polish of a 5, so 4.", "I'd say 4 instead of 5.",
    "It's a 4 in my eyes, though I'd understand a 5.",
    "May I suggest a 4? It has a gap.", "4/5 looks sensible to me.",
    "I'd perhaps give it a 4.", "I see it as a 4, no doubt.", "I wouldn't hesitate to give it a 4.",
    "I'd say 4. It is better than fair (3), but I would not call it perfect (5).",
    "4, as it lies between fair (3) and perfect (5).", "To be fair, I'd say 4.",
    "My apologies if this seems strict, but it's a 4.", "For what it's worth, I'd say 4.",
    "I'd come down on the side of a 4.",
    "On closer inspection, 4 is more accurate.", "On this basis, a 4 seems right.",
    "A rating in the region of 4 strikes me as fair.",
    "I'd be hard pressed to give it more than a 4.",
    "The first look was good and I would give it a 4.", "A 4, if I may be frank.",
    "That adds up to a 4.", "I think a 4 would do it justice.",
    "Solid 4.", "So, 4 it is, with pleasure.", "It is well made: a 4 feels apt, verging on a 5.",
    "is 4. It flows, but for the last line.",
    "OK. So 4. But wait, a slip? No. OK, sticking with 4.",
    "My apologies if this seems strict: 4.", "I can't place it above a 4.", "I give the note 4 .",
    "My rating is 4 on the 1-to-5 scale.",
    "In light of this, my score for this poem is 4 out of 5.",
    "A 4 therefore seems to be the most suitable choice.", "I decide the score 【4】.",
    "On a scale of 1 till 5 a 4.", "I give to it 4 points over 5.",
    "It has an example result: $7, which is right.\n\nRating: 4",
    "The two broken sentences make it a 4.", "On your scale I'd put it at 4.",
    "I can't in good faith go higher than a 4 on this one.", "I see no reason to deny it a 4.",
    "I think, with moderate confidence, that 4 is the correct score.",
    "The note on his age and job makes it a 4.", "A 4 is the safest choice here.",
    "So 4 appears to be the most fitting.", "I would rate it 4 accordingly.",
    "If 1 means bad and 5 good, then this would be about a 4: it flows without gaps.",
    "This text, which skips the middle, would seem to sit at a 4.",
    "I'd go for 4, if halves aren't allowed.", "It's a 4, if a somewhat shaky one.",
    "Rating: 4\n\nReason: One gap precludes a perfect 5.",
    "I'd say 4. Two leaps keep me from going to 5.", "**4/5** A **5** would have needed an end.",
    "Probably a 4. It is not something I'd call perfect (5).", "Perhaps a 4? It ends well.",
    "It jumps, and its end is abrupt. So perhaps a 4.", "I give it 4 stars. ⭐⭐⭐⭐",
    "Maybe around 4 out of 5. It has a gap.", "Rating: 4 ★★★★☆",
    "**Clarity of terms:** fine.\n\n**Superfluous content:** none.\n\n**Conclusion:** Fine.\n\n"
    "**Score: 4**",
]  # fmt: skip


@pytest.mark.parametrize("answer", HEDGED)
def test_ratings_of_judges_who_hedge_are_read(answer):
    assert value_of(answer) == 4


UNSETTLED = [
    "If we count the first part, it would deserve a 5. If we count all, it would deserve a 2.",
    "I'd lean towards a 4 if it had a source.", "I lean neither to 3 nor to 4.",
    "On the one hand a 5. On the other hand a 2. 5 or 2? I go back and forth.",
    "It is good for beginners, for them I would put 5. For experts it is only a 2.",
    "A 5 is what I would give to a text without gaps.", "A 4 is not what I would give.",
    "A 4 is more than I can give.", "A 4 too harsh, a 5 too kind.",
    "I would rate the article itself a 5.", "I'd start at 3.", "The scale's middle is 3.",
    "A lenient reading gives 4, a strict one 2.", "Your rating of 4 seems fair.",
    "Add an end and I'd give it a 4.", "With one more part, I'd call it a 4.",
    "To a beginner it's worth a 5, to an expert a 2.", "If I were a child, I'd give it a 5.",
    "It's a 5 to a beginner and a 2 to an expert.", "A 3 for now, pending the second part.",
    "I can imagine giving it a 4.", "I'd consider a 4.", "I'd like to say 4, but I can't.",
    "I would never say: 4.", "It narrowly misses a 4.", "It comes close to a 4.",
    "In an ideal world it would get a 5.",
    "A 3 is defensible, and so is a 4.", "I thought 4, then 3, and can't settle.",
    "Strict readers would give it a 2, lenient ones a 4.", "I'd be reluctant to give it a 4.",
    "One could be strict and give it a 3.", "Before I say 4, I have to see the source.",
    "When it has a source, it's a 5.", "Once edited, it would be a 4.", "I rarely give a 5.",
    "The rubric would suggest a 4, but I disagree.", "A score such as a 5 would need a source.",
    "I'd only give a 5 to a flawless text.", "I'd gladly give it a 5 after a revision.",
    "With a careful edit, I'd give it a 5.", "A 3 seems fair to some and harsh to others.",
    "I'd say 4 with a source, otherwise 2.", "I am happy to rewrite it so that it would get a 5.",
    "A 3 hours walk is in it.", "The errors number 4.", "The default score is a 4.",
    "A 5 is the highest score.", "4 is hardly the right score.", "It names 3 likely causes.",
    "This text, which would be a 4 without its end, drags.", "It's a 4, if a source is added.",
    "A leap prevents a 4.", "The leap kept me from giving it a 4.", "It has **4** gaps.",
    "A **5** is perfect.", "Nor would I give it a 4.", "It is not what I'd call a 4.",
    "Whether it is a 4 or not I leave to you.", "If edited, a 4.", "It amounts up to a 4.",
    "Maybe a 3. Maybe a 4.", "The first text, to which I gave a 4, is better.",
    "Earlier I gave such a text a 4.",
    "In an earlier round, I gave a text of the kind a 4.", "Compared with a 4, it drags.",
    "Depending on the reader, *3* (expert) or *4* (others).", "It is bordering on a 4.",
    "A ***3*** (for experts) or a ***4*** (for others).", "In an earlier version, it got a 4.",
    "May I suggest a rewrite worth a 4?",
    "It is unclear whether this should be a 4.", "It's below the first text, which I gave a 4.",
    "The first text you showed me, which I rated 4, is better.",
    "For experts: 4/5\nFor others: 2/5\nWhich one counts isn't said.",
    "Score 3: fair order.\nScore 4: well ordered.\nScore 5: ordered.", "(1 = lowest, 5 =",
    "It covers 4 of the 5 W's.", "The article reports 4.", "It costs 4 €.",
    "Perhaps a 3? Or is it a 4?", "Maybe a 3. Wait, it ends well.",
    "Maybe a 5 with an end. It has none.", "4 ★★★☆☆", "A 3 for some readers, a 5 for others.",
]  # fmt: skip


CONDITIONS = [
    "It is unclear whether it is about rain or snow, so I rate it 4.", "Depending on taste, a 4.",
    "One cannot tell whether it is a list or a text, so it gets 4 out of 5.",
    "It leaves open whether this is a report, hence a 4.", "It shifts depending on the line: 4/5",
    "It is open whether that is true - 4/5", "It drags depending on the part, and I give it a 4.",
    "Earlier lines are better, so I rate it 4.", "In an earlier line, the name is wrong, so 4.",
    "In a previous paragraph it repeats itself: 4/5", "Earlier parts drag; I rate it 4.",
    "The other one is missing, which makes it a 4.", "The tone is flat, which is why I say 4.",
    "The last sentence is cut off, which brings it down to a 4.",
    "The first sentence is weak, for which I give it a 4.",
]  # fmt: skip


@pytest.mark.parametrize("answer", CONDITIONS)
def test_a_condition_or_another_text_in_an_earlier_clause_leaves_the_rating(answer):
    assert value_of(answer) == 4


@pytest.mark.parametrize("answer", UNSETTLED)
def test_ratings_that_depend_on_something_or_are_dismissed_are_not_read(answer):
    assert value_of(answer) is None


@pytest.mark.parametrize(
    ("aspect", "answer"),
    [
        ("coherence", "Grammatik: 5\nKohärenz: 4\nStil: 2"), ("coherence", "Cohérence : 4 sur 5"),
        ("fluency", "流畅性：4\n连贯性：2"), ("relevance", "La pertinence du résumé mérite un 4."),
        ("overall quality", "Gesamtqualität: 4 von 5. Es hat 2 Fehler."),
        ("overall quality", "Gesamteindruck: 4 von 5"), ("fluency", "因此我给出最高分：4。"),
        ("fluency", "5段階で言えば4です。"), ("fluency", "5段階で評価すると、4になります。"),
        ("fluency", "少し退屈なので、4点とします。"), ("fluency", "Es ist dicht, also 4."),
        ("fluency", "C'est un peu long, donc 4."), ("fluency", "Je dirais « 4 »."),
        ("fluency", "It has 2 slips . I vote with « 4 » for it ."),
        ("fluency", "It has 2 slips . Hence rating is 4 only ."),
        ("fluency", "I decide me for the 4; for a 5 is missing the last bit."),
        ("fluency", "Ich würde eine 4 vergeben, eine 5 wäre zu viel."),
        ("fluency", "style;5\nfluency;4\ntone;3"), ("fluency", "fluency;4\ncomment;two slips"),
        ("fluency", "### Fluency — 4/5\n\n### Style — 5/5\n\n### Overall — 4.5/5"),
        ("fluency", "[fluency]\nscore = 4\n\n[style]\nscore = 5"),
        ("fluency", "Verdict: [[B]]. Rating: [[4]]"),
        ("fluency", "**Fluency**\n\n*Rating:* 4\n\n**Engagingness**\n\n*Rating:* 2"),
        ("overall quality", "## Form (max. 2)\n- Layout: **1**\n## Style (max. 3)\n- Words: **3**"
         "\n\n**Total: 4/5**"),
    ],
)  # fmt: skip
def test_ratings_in_other_languages_tables_and_sections_are_read(aspect, answer):
    assert value_of(answer, aspect=aspect) == 4


@pytest.mark.parametrize(
    ("aspect", "answer"),
    [
        ("fluency", "Kohärenz: 4\nRelevanz: 3"), ("coherence", "流畅性：4"),
        ("fluency", "7段階で言えば4です。"), ("fluency", "最高分：5"),
        ("fluency", "fluency;4 errors"),
        ("fluency", "Dans le texte il est écrit « 4 »."), ("fluency", "style;5\ntone;3"),
        ("fluency", "Wäre der Schluss da, gäbe ich eine 5."),
        ("overall quality", "Form (max. 10): 2\nStyle (max. 10): 2\n\nTotal: 4/20"),
        ("fluency", "Fluency (max. 10): 4\nTotal: 5/5"),
    ],
)  # fmt: skip
def test_other_aspects_scales_and_quotations_in_other_languages_are_not_read(aspect, answer):
    assert value_of(answer, aspect=aspect) is None


MACHINE_FORMS = [
    '<rating value="4"/>', '<result><score value="4" max="5"/></result>',
    '<scores fluency="4" style="2"/>', '<result aspect="fluency" score="4" />\nIt flows.',
    '{"reason": "It reads "well" and ends, "score": 4}', "{ reason: Two slips, one bad, score: 4 }",
    "score_given: 4\ncomment: fine", "points_awarded: 4\npoints_possible: 5",
    "rating: 4\nscale: 1-5\nnotes: 2 gaps", "4\\n\\nIt flows.\\n",
    "It has 2 slips.\\n\\nRating: 4\\n", 'name,rating,comment\nfluency,4,"short, but fine"',
    "| Aspect | Max | Rating |\n|---|---|---|\n| Fluency | 5 | 4 |\n| Style | 5 | 3 |",
    "## Fluency\n> 4\n\n## Style\n> 2",
    "I rate the fluency of this text as follows:\n\n4 - It flows.",
    "### 1. Style\n**2/5** dull\n\n### 2. Fluency\n**4/5** flows\n\n### 3. Tone\n**1/5** cold",
    "I take the sentences one after another.\n\n**Fluency: 4**", "2(5) = 10 holds. Fluency: 4",
    "Claim 1: a city.\nClaim 2: a river.\n\nOne holds.\n\nFluency: 4",
    "a,b\n1,2\n\nfluency score,4",
    "1. **Fluency** - It flows. It ends. **4**\n2. **Style** - Dull. **2**\n3. **Tone** - So. **3",
    "My rating is 4, leaning to 5 for fans. But let me leave it at 4.",
    'I evaluate fluency as "4". It flows.', 'I would answer with "[[4]]".',
    'I would rate it as "Rating: 4".',
]  # fmt: skip


@pytest.mark.parametrize("answer", MACHINE_FORMS)
def test_tags_damaged_objects_tables_and_marked_values_are_read(answer):
    assert value_of(answer, aspect="fluency") == 4


def test_parts_in_points_and_their_total_are_read_on_the_scale_of_the_total():
    table = (
        "| Part | {} | {} |\n|---|---|---|\n| A | 20 | 40 |\n| B | 20 | 60 |\n| Total | 40 | {} |"
    )
    of_hundred = {"aspect": "overall quality", "scale": (0.0, 100.0)}
    assert value_of(table.format("Points", "Max", 100), **of_hundred) == 40
    assert value_of(table.format("Score", "Out of", 200), **of_hundred) is None
    parts = "- A: 30/30\n- B: some steps are missing, 10/70\n\nTotal: 40/100"
    assert value_of(parts, **of_hundred | {"aspect": "correctness"}) == 40


@pytest.mark.parametrize(
    "answer",
    [
        '<rating value="4" max="10"/>', '<rating value=""/>', '<scores style="4" depth="2"/>',
        '<rating min="1" max="5"/>', 'The page has `<rating value="4"/>` in it.',
        '{"reason": "So "fine", and "score": 4 of 10', '{"score": 4 errors, "reason" x}',
        '{"style": 4, "tone" 3}', '{"score": 3 "score": 4, x}', '{"max_score": 4, "reason" x}',
        '{"score": 4, "out_of": 10, "reason" "x"}', "points_lost: 4\ncomment: fine",
        "points_possible: 5", 'name,count\nfluency,4,"none, really"', "> 4 slips", "It says:\n> 4",
        "| Aspect | Max | Rating |\n|---|---|---|\n| Fluency | 10 | 4 |\n| Style | 10 | 3 |",
        "### 1. Style\n**2/5** dull\n\n### 2. Tone\n**4/5** flows", 'The text ends with "4".',
        'The text ends with "Rating: 4".', "## Style\n> 4\n\n## Tone\n> 2",
    ],
)  # fmt: skip
def test_other_tags_objects_tables_and_quoted_values_are_not_read(answer):
    assert value_of(answer, aspect="fluency") is None


@pytest.mark.parametrize(
    "answers",
    [
        ["Antwort: 4.", "Note: vier.", "Réponse : 4.", "Note : quatre.", "Respuesta: 4."],
        ["Puntuación: cuatro.", "En una escala del 1 al 5: 4.", "Risposta: 4.", "Voto: quattro."],
        ["Resposta: 4.", "Nota: quatro.", "Antwoord: 4.", "Ik geef 4 van de 5.", "Cijfer: vier."],
        ["Op een schaal van 1 tot 5: 4.", "Eindoordeel: 4.", "W skali od 1 do 5: 4."],
        ["Odpowiedź: 4.", "Dlatego przyznaję 4.", "Ocena: cztery.", "Ответ: 4.", "Оценка: четыре."],
        ["Итак, 4 балла.", "Cevap: 4.", "Puan: dört.", "Svar: 4.", "Betyg: fyra.", "उत्तर: 4"],
        ["答案：4", "这篇文章值4分。", "所以，4分。", "回答：4", "評価：四", "よって4。"],
        ["답변: 4", "따라서 4점입니다.", "총점: 4점", "그래서 4점.", "«Fluency»: «4»."],
    ],
)
def test_labels_numbers_and_conclusions_of_other_languages_are_read(answers):
    assert [value_of(answer, aspect="fluency") for answer in answers] == [4] * len(answers)


def test_conditions_ranges_and_answers_that_are_named_in_other_languages_give_no_rating():
    answers = [
        "S'il était plus court, un 5.", "Se fosse più breve, un 5.", "Gdyby był krótszy, 5.",
        "Als het korter was, een 5.", "5点ではありません。", "3점에서 4점 사이입니다.",
        "Zwischen 3 und 4.", "Die Antwort hat 4 Fehler.", "Die Antwort 2 ist besser.",
        "La respuesta 2 es peor.", "Fehler: vier.", "Titel: drei, zwei, eins", "Rating: null",
    ]  # fmt: skip
    assert {a: value for a in answers if (value := value_of(a, aspect="fluency")) is not None} == {}


def test_the_content_of_an_element_is_its_value_and_numbering_attributes_are_none():
    answers = [
        '<evaluation><text>It rains.</text><score min="1" max="5">4</score></evaluation>',
        '<eval id="3"><text>Hi.</text><fluency>4</fluency><note>Fine.</note></eval>',
        '<criterion id="3" name="fluency">4</criterion>', "<r><score min='1' max='5'>4</score></r>",
        '<c><item id="1" name="style">2</item><item id="3" name="fluency">4</item></c>',
        '<criterion name="fluency" score="4"/>', '<metric id="2" name="fluency" value="4"/>',
        '<aspect id="1" name="style"><score>2</score></aspect>\n'
        '<aspect id="2" name="fluency"><score>4</score></aspect>',
        '<score id="5">4</score>', '<score confidence="3">4</score>',
        '<fluency weight="3">4</fluency>',
        '<fluency max="5">4/5</fluency>', '<score scale="1-5" weight="2">\n4\n</score>',
        '<score min="1" max="5">four</score>', '<rating id="3" value="4">It flows.</rating>',
    ]  # fmt: skip
    assert {a: value for a in answers if (value := value_of(a, aspect="fluency")) != 4} == {}
    others = [
        '<eval id="3"><style>5</style></eval>', '<item n="2"><rating>bad</rating></item>',
        '<score min="1" max="5"></score>', '<criterion id="4" name="style">4</criterion>',
        '<criterion name="style" score="4"/>', '<score aspect="fluency" max="10">4</score>',
        '<score weight="3"/>', '<page id="3">', '<score min="1" max="10">4</score>',
    ]  # fmt: skip
    assert {a: value for a in others if (value := value_of(a, aspect="fluency"))} == {}


def test_plain_ratings_beside_words_of_comparison_and_condition_are_read():
    answers = [
        "If we give weight to the order, it is a 4.",
        "If you give it a second look, it is fine: 4.",
        "To make it short: 4.", "To make this simple, I give it a 4.", "Which I take to be a 4.",
        "A 4 for that text.", "Apart from the end it flows - 4 overall.",
        "The news anchors are introduced late — 4!", "A separate point comes at the end - 4!",
        "This sets it apart from a weak text, so I give it a 4.", "4점, 무리 없이 읽힌다.",
        "To make it better it needs an end, so I give it a 4.", "Each part is separate, so (4).",
        "If you rate such texts often - I give it a 4.", "Two separate marks are made - 4/5",
    ]  # fmt: skip
    assert {a: value for a in answers if (value := value_of(a, aspect="fluency")) != 4} == {}
    others = [
        "If you give it a 4, say why.", "To make it a 4, add an end.", "A 4 for that one.",
        "It is apart from a 4.", "It misses the anchor at 4.", "It has a separate rating of 4.",
    ]  # fmt: skip
    assert {a: value for a in others if (value := value_of(a, aspect="fluency"))} == {}


def test_other_aspects_chapters_sources_and_invented_examples_give_no_rating():
    answers = [
        "With respect to fluency I find it difficult to commit myself. What I can say is that the"
        " piece is very warm, for which I'd happily give a 5.",
        "On fluency I'd rather not commit myself. It is warm, and I'd give it a 5 for that.",
        "Me gustó, sobre todo el capítulo 3, donde aparece el abuelo.", "Глава 3, где дед, хороша.",
        "Me gustó la página 3, donde llega.", "Das Kapitel 3, am Ende, ist gut.",
        "La figura 3, por ejemplo.", "Le paragraphe 3, enfin.", "Il capitolo 3, dove arriva.",
        "**Article**\nIt is clear. Rating: 4\n\n**Summary**\nNot assessed.",
        "## Source\nFluency: 4\n\n## Response\nNot provided.",
        "The next answer is better.\n\nQuestion: What?\nAnswer: That.\nRating: 4\n\n"
        "Question: Who?\nRating: 4",
    ]  # fmt: skip
    assert {a: value for a in answers if (value := value_of(a, aspect="fluency"))} == {}
    rated = [
        "Fluency is difficult to commit to, but I'd give it a 4.",
        "Puntuación: 4, donde falla.",
        "It is fluent and warm, for which I give a 4.",
        "Le doy un 4, sobre todo por el capítulo.",
        "**Article**\nIt is about rain.\n\n**Summary**\nFluency: 4",
        "**Summary**\nFluency: 4\n\n**Article**\nNot assessed.",
        "It is good. Rating: 4\n\nQuestion: What?\nRating: 2\n\nQuestion: Who?\nRating: 2",
        "Here is my rating.\n\nQuestion: What?\nAnswer: That.\nRating: 4",
    ]
    assert {a: value for a in rated if (value := value_of(a, aspect="fluency")) != 4} == {}


def test_verdicts_for_cases_that_exclude_each_other_give_no_rating_without_a_decision():
    cases = [
        "Taken as a diary, it is a 4. Taken as a report, it is a 2.",
        "If the joke is meant, it gets a 5. If I miss the point, it's a 3.",
        "Assuming the map is right, I'd rate it 5. Otherwise, 3.",
        "With the footnote it's a 4; without it, a 2 at most.",
        "The first chapter deserves a 5. The second stalls and is worth no more than a 2.",
        "A patient teacher would say 4. A strict teacher would say 2.",
        "Part of me says it is a 5. Part of me thinks it is a 3.",
        "Some of my friends would call it a 5, others would hold out for a 3.",
        "In the one case I'd say 2, in the other 4.",
        "Looking at the plot, 4. Looking at the end, 2.",
        "Under the old rules this is a 4. Under the new ones this is a 3.",
    ]  # fmt: skip
    read = {a: value for a in cases if (value := value_of(a, aspect="fluency")) is not None}
    assert read == {}
    # a decision behind them is the rating
    decided = {a: value_of(f"{a} I settle for a 3.", aspect="fluency") for a in cases}
    assert {a: value for a, value in decided.items() if value != 3} == {}


def test_single_cases_reasons_and_cases_that_agree_are_read():
    answers = [
        "If you ask me, it's a 4.", "Taken as a whole, it is a 4.", "As a diary, it deserves a 4.",
        "If I weigh it all, I arrive at a 4.",
        "With the footnote it's a 4; without it, a 4 as well.",
        "For a 5, it lacks an end. For these reasons I give it a 4.",
        "On fluency there is much to say: 4. On style I say 2.",
        "With a real end, it could be a 5. With that in mind, I give it a 4.",
        'Between "dull" (3) and "good" (4), I opt for 4.',
        "The first half drags, the second sings: 4",
        "It could be a 5. Or a 3. I give it a 4.",
    ]  # fmt: skip
    assert {a: value for a in answers if (value := value_of(a, aspect="fluency")) != 4} == {}


def test_a_rating_of_the_source_is_not_one_of_the_text_that_was_made_from_it():
    sources = [
        "The article is a delight. I'd give it a 5. The summary has lost all of that.",
        "I loved the article! 5/5 for the article! Now send the summary, please.",
        "The original text is superb, a clear 5. The translation is another matter.",
        "Article fluency: 5\nSummary fluency:", "I give to the article 5 points. No summary came.",
        "## Source\n- Fluency: 5\n\n## Response\n- Fluency: to follow",
        "Der Artikel ist eine 5, die Zusammenfassung kenne ich nicht.",
        "文章写得很好，给5分。摘要没有提供。",
    ]  # fmt: skip
    assert {a: value for a in sources if (value := value_of(a, aspect="fluency"))} == {}
    both = [
        "The article is a delight, a 5. The summary is a 2.",
        "5/5 for the article! Now for the summary: it stumbles. 2/5 for the summary.",
        "## Source\n- Fluency: 5\n\n## Response\n- Fluency: 2",
        "Article fluency: 5\nSummary fluency: 2",
        "The article is long. I rate the summary 2.", "I give the summary a 2. The article is a 5.",
        "The article is about two whales, and the response names none of them. It gets a 2.",
        "Next to the article, the summary is thin. It is a 2.", "This article is a 2.",
        "The article was read twice. Rating: 2. The summary stumbles.",
    ]  # fmt: skip
    assert {a: value for a in both if (value := value_of(a, aspect="fluency")) != 2} == {}


def test_goals_of_a_rewriting_and_withdrawn_ratings_are_no_ratings():
    answers = [
        "Here is how to lift the letter to a 5: cut the list.", "Let me write a letter worth a 5.",
        "Sure, here's how I could bring this to a 5: add an end.",
        "I have written a version that deserves a 5:\n\nDear all.",
        "4... no, forget that.", "<score>4</score><status>withdrawn</status>", "Rating: 4 (void)",
        "At first I gave it a 5. Then I saw the date. So it can't be a 5.",
        "My rating is 4. [RESULT] 3 or 4", "Overall 3. Final: 3 or 4.", "4. No, that's wrong.",
        "8 6\nAssistant 1 is exact. Assistant 2 is right in general.",
        "| Text | Fluency |\n|---|---|\n| Text A | 4 |\n| Text B | 2 |",
        "9/10 would read again. Leave a comment (2)", "On five points I can't say it.",
        "It is warm (4). I'd leave its fluency unscored.",
        "La chaleur mérite un 4. Para a fluency, não avalio.",
    ]  # fmt: skip
    assert {a: value for a in answers if (value := value_of(a, aspect="fluency"))} == {}
    rated = [
        "It gets a 4. Here is how it could get to a 5: cut the list.",
        "At first I gave it a 5. But it has no end. So it can't be a 5, it's a 4.",
        "I will write it down as a 4.", "Don't forget the end next time: 4.",
        "4. Why not a 4.5? No end.",
        "| Part | Fluency |\n|---|---|\n| A | 5 |\n| B | 3 |\n| Overall | 4 |",
    ]  # fmt: skip
    assert {a: value for a in rated if (value := value_of(a, aspect="fluency")) != 4} == {}


def test_a_text_before_the_asked_one_lends_it_no_rating():
    answers = [
        "Poem A first. It sings, I'd go 4 for A. Now Poem B, which is the one I'm to judge. It has",
        "The draft gets a 4 from me! The second one is the one you wanted rated, right?",
        "## Original\nFluency: **4**\n\n## Revised (to be rated)\nSee section 2.", "A: 4, B: 3",
        "The host's lines were a 5. The guest's lines, the ones under review, are mostly numbers.",
        "The first letter was a clear 4. This second one is odd; I would prefer not to commit.",
        "Dialogue 1 gets a 4, it has rhythm. Dialogue 2 uses longer sentences.",
        "My colleague, whose judgment I value, would likely give this a 4. I can't say.",
        "I'd say an expert would call it a 4. I would not presume to label it myself.",
        "Suppose the end was cut by mistake. Then it's a 4. I can't tell.",
        "Example of an evaluation:\nIt stops. Score: 4\nEvaluation of the given text:\n",
        "- Opening: 4\n- Conclusion: 4", "It merits at the very least a 4.", "The path to a 5",
        "Pour obtenir un 5, il faut une fin.", "5点を取るには、結末が必要です。",
        "It's warm: 4. I do not feel able to assign a final score.",
        "5 stars to anyone who sees it",
    ]  # fmt: skip
    assert {a: value for a in answers if (value := value_of(a, aspect="fluency"))} == {}
    rated = [
        "Poem A first. I'd go 2 for A. Now Poem B, which is the one I'm to judge. I give it a 4.",
        "## Original\nFluency: **2**\n\n## Revised (to be rated)\nFluency: **4**",
        "My colleague, whose judgment I value, would likely give this a 2. I give it a 4.",
        "4. That is hard to judge for one who has no map.", "4. The other claims are easy to rate.",
        "4. The mayor had to cancel that plan.", "4. The rule (withdrawn in 2004) is not named.",
        "4. I would not want to rate it lower.", "4. I read the two letters twice.",
        "If it had an end, it would be a 5. If I take all of it together, it's a 4.",
        "Without the end it would be a 5. With it, it's a 4.", "Pour conclure, je lui donne 4.",
        "The source is not given, so I'd say 4. The answer reads well.", "Then it's a 4.",
        "Fluency: 4\nThe other aspects are to be rated later by others.",
    ]  # fmt: skip
    assert {a: value for a in rated if (value := value_of(a, aspect="fluency")) != 4} == {}


def test_unfilled_marks_demands_of_a_rubric_and_lists_that_go_on_give_no_rating():
    answers = [
        "Feedback: It flows, which speaks for a score of 4. [RESULT]",
        "It seems a 4. [RESULT] {score}",
        "Feedback: The rubric demands an end for a score of 4, and this text has",
        "A letter with a fluency of 5 has no slips, whereas a letter with a fluency of 1",
        "It is better than the one you showed me before, which I gave a 4.",
        "2. Read the text again.\n3. Write down your rating.\n4. Go on to the next page.",
        "Under such a view, a 4 would be justified. The end is odd, and under this view a 2 fits.",
        "If I had to put a number on A, it'd be 4. Now for B, the one I have been asked about",
        "It clearly exceeds the description of score 3, and the question is whether",
        "With respect to style, I'd happily give a 4. How well it flows is not for me to say.",
        "A) 1\nB) 2\nC) 3\nAnswer:",
    ]  # fmt: skip
    assert {a: value for a in answers if (value := value_of(a, aspect="fluency"))} == {}
    rated = [
        "Feedback: It flows. So the score is 4. [RESULT]",
        "Rating: 4\n\nText 2: It rains.\nRating:",
        "5. It has all.\n6. It ends well.\n7. It is short.\nFluency: 4", "This is a text with a 4.",
        "With respect to fluency, I'd happily give a 4.", "As for whether it flows, I say 4.",
        "A) 2\nB) 3\nC) 4\nAnswer: C) 4", "For the moment I'd say 4.",
        "The text you gave me is a 4.",
        "| Part | Fluency |\n|---|---|\n| 1 | 5 |\n| 2 | 3 |\n| Whole text | 4 |",
    ]  # fmt: skip
    assert {a: value for a in rated if (value := value_of(a, aspect="fluency")) != 4} == {}


@pytest.mark.parametrize(
    "answer",
    [
        "Given that the article is short, I'd give it a 4.",
        "Rating: 4, considering that the source is hard to follow.",
        "The article is long. Rating: 4. The summary is short.",
        "The source reads like a press release.\n\nIt deserves a 4. The summary is short.",
        "The original is written in a formal style. A 4 seems fair. The summary is short.",
    ],
)
def test_a_sentence_about_the_source_before_a_rating_does_not_take_it(answer):
    assert parse_rating(answer, scale=(1, 5), aspect="coherence").value == 4


@pytest.mark.parametrize(
    "answer",
    [
        "The article is superb. It deserves a 5. The summary is missing.",
        "The source is long and by a poet, so the source gets a 5. I see no summary.",
    ],
)
def test_a_rating_of_the_source_is_not_that_of_the_summary(answer):
    assert not isinstance(parse_rating(answer, scale=(1, 5), aspect="coherence"), Rating)


@pytest.mark.parametrize(
    "answer",
    [
        "请按照1到5分对回答进行评分，其中1分最低，5分最高。",
        "请用1至5分打分。1分最差，5分最好。",
        "A score of 3 is appropriate for texts which are correct but shallow.",
        "A 2 is reserved for summaries that leave the cause out.",
        "I give a 4 to replies that are clear.",
    ],
)
def test_what_a_scale_says_of_all_texts_is_no_rating(answer):
    assert not isinstance(parse_rating(answer, scale=(1, 5), aspect="coherence"), Rating)


@pytest.mark.parametrize(
    "answer",
    [
        "从1到5分，我打4分。",
        "1分最差，5分最好。评分：4",
        "A score of 4 is appropriate for this answer.",
        "I'd give it a 4 for answers to all three questions.",
    ],
)
def test_a_rating_beside_the_scale_is_read(answer):
    assert parse_rating(answer, scale=(1, 5), aspect="coherence").value == 4


@pytest.mark.parametrize(
    "answer",
    [
        "Rate the tone from 1 to 5.\nRate the tone from 1 to 5.\nRate the tone from 1",
        "Give it a score of 1 to 5. Give it a score of 1 to 5. Give it a score of 1",
        "1 is bad and 5 is good.\n1 is bad and 5 is good.\n1 is bad and 5",
        "A text with a tone of 2 is rude. A text with a tone of 2 is rude. A text with a tone of 2",
    ],
)
def test_half_of_a_repeated_sentence_has_no_rating(answer):
    assert not isinstance(parse_rating(answer, scale=(1, 5), aspect="tone"), Rating)


def test_a_repeated_rating_is_read():
    answer = "I rate it a 4 as it is kind. I rate it a 4 as it is kind. I rate it a 4"
    assert parse_rating(answer, scale=(1, 5), aspect="tone").value == 4
