"""Says the same in other words: faithful candidates that are not copied."""

from __future__ import annotations

import random
import re

_PAIRS = (
    "said=stated|said=noted|told=informed|announced=declared|big=large|small=little|start=begin|started=began"
    "|help=assist|helped=assisted|buy=purchase|bought=purchased|show=demonstrate|shows=demonstrates"
    "|showed=demonstrated|use=employ|about=regarding|around=approximately|because=since|but=however|also=too"
    "|many=numerous|several=a number of|people=persons|children=kids|man=person|car=vehicle"
    "|house=home"
    "|job=work|company=firm|firm=business|money=funds|city=town|country=nation|government=administration"
    "|police=officers|doctor=physician|teacher=instructor|killed=slain|died=passed away"
    "|injured=hurt"
    "|attack=assault|fight=battle|angry=furious|happy=glad|sad=unhappy|important=significant|major=main"
    "|new=recent|old=former|first=initial|last=final|near=close to|quickly=rapidly|fast=quick"
    "|often=frequently"
    "|usually=normally|sometimes=occasionally|always=constantly|began=started|ended=finished|end=finish"
    "|increase=rise|increased=grew|decrease=drop|decreased=fell|get=obtain|got=received|gave=provided"
    "|give=provide|gives=provides|made=created|make=create|makes=creates|need=require|needs=requires"
    "|needed=required|want=wish|wanted=wished|think=believe|thought=believed|thinks=believes|know=understand"
    "|found=discovered|find=discover|finds=discovers|look=appear|looked=appeared|looks=appears|seem=appear"
    "|seems=appears|keep=retain|allow=permit|allows=permits|allowed=permitted|ask=request|asked=requested"
    "|try=attempt|tried=attempted|plan=intend|plans=intends|hope=expect|hopes=expects|live=reside"
    "|lives=resides|lived=resided|visit=see|visited=saw|leave=depart|left=departed|arrive=come|arrived=came"
    "|return=come back|returned=came back|choose=select|chose=selected|chosen=selected"
    "|build=construct"
    "|built=constructed|change=alter|changed=altered|problem=issue|problems=issues|answer=reply"
    "|answered=replied|idea=concept|ideas=concepts|part=portion|area=region|areas=regions|place=location"
    "|places=locations|different=various|whole=entire|total=full|enough=sufficient|hard=difficult|easy=simple"
    "|true=correct|wrong=incorrect|good=fine|great=excellent|bad=poor|beautiful=lovely|strange=odd|film=movie"
    "|movie=film|photo=picture|book=volume|story=tale|student=pupil|students=pupils|woman=lady|group=team"
    "|meeting=gathering|law=rule|rules=regulations|state=say|report=account|reported=said|claimed=said"
    "|explained=said|added=said|hurt=harm|save=rescue|saved=rescued|join=enter|joined=entered|lead=head"
    "|led=headed|win=triumph|won=triumphed|goal=aim|goals=aims|result=outcome|results=outcomes"
    "|chance=opportunity|reason=cause|way=manner|form=shape|kind=type|kinds=types|more than=over"
    "|less than=under|at least=no fewer than|such as=like|in order to=to|due to=because of|as"
    " well as=and"
    "|a lot of=much|able to=capable of|set up=establish|carry out=perform|find out=learn|deal"
    " with=handle"
    "|look for=seek|in addition=moreover|for example=for instance"
)
_WORDS: dict[str, list[str]] = {}
for _pair in _PAIRS.split("|"):
    _plain, _, _other = _pair.partition("=")
    _WORDS.setdefault(_plain, []).append(_other)
_KNOWN = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True)) + r")\b"
)
_DIGITS = dict(
    zip("2345678", ("two", "three", "four", "five", "six", "seven", "eight"), strict=True)
)
_DIGIT = re.compile(r"(?<![\d.,$-])\b[2-8]\b(?![\d.,%-])")
_OPENING = re.compile(
    r"^(?:However|Also|In addition|But|And|So|For example|In fact|Meanwhile|Finally|Then"
    r"|Moreover|Indeed|Of course"
    r"|As a result|Therefore|Thus|Still|Now|Today|Yesterday|Recently|In general|In this case), ?"
)
_TRAILING = re.compile(
    r"(.{40,}?), (?:which|who|where|and|but|while|as|with|including|according to|such as)\b.*", re.S
)
_SAID = re.compile(
    r"^(.{20,}?),? ((?:[A-Z][\w.'-]+ ?){1,4}) (?:said|says|stated|noted|added|explained)\.$"
)
_ASIDE = re.compile(r", (?!and\b|or\b|but\b)[^,;:.]{8,70},(?= [a-z])")
_ADVERB = re.compile(
    r" (?!only|early|family|likely|unlikely|daily|apply|reply|supply|italy|july|hardly|barely"
    r"|rarely|nearly|fly|rely|ally|assembly|friendly|elderly|monthly|weekly|yearly|ugly|holy|silly)"
    r"[a-z]{2,}ly\b(?= [a-z])"
)
_BRACKETS = re.compile(r" ?[(\[][^)\]]*[)\]]")
_SHORT = (
    ("do not", "don't"),
    ("did not", "didn't"),
    ("is not", "isn't"),
    ("it is", "it's"),
    ("cannot", "can't"),
)


def shorten(sentence: str, rng: random.Random) -> str:
    """Leave out what a summary would: brackets, asides, adverbs, an opening, a trailing clause."""
    short = _BRACKETS.sub("", sentence)
    if rng.random() < 0.4:
        short = _ASIDE.sub("", short)
    if rng.random() < 0.4:
        short = _ADVERB.sub("", short)
    if rng.random() < 0.6:
        short = _OPENING.sub("", short)
    if rng.random() < 0.4 and (found := _TRAILING.match(short)) is not None:
        short = found[1] + "."
    return short if len(short.split()) >= 4 else sentence


def reword(sentence: str, rng: random.Random, share: float = 0.6) -> str:
    """Put synonyms, number words and contractions in, turn reported speech round.

    Args:
        sentence: What to say otherwise.
        rng: Source of chance.
        share: How many of the places that could be reworded are.
    """
    new = sentence
    if rng.random() < 0.5 and (found := _SAID.match(new)) is not None:
        new = f"According to {found[2].strip()}, {found[1][0].lower() + found[1][1:]}."
    new = _KNOWN.sub(
        lambda found: rng.choice(_WORDS[found[0]]) if rng.random() < share else found[0], new
    )
    new = _DIGIT.sub(lambda found: _DIGITS[found[0]] if rng.random() < share else found[0], new)
    for long, short in _SHORT:
        if rng.random() < share / 2:
            new = new.replace(long, short) if long in new else new.replace(short, long)
    return new


def join(first: str, second: str, rng: random.Random) -> str:
    """Make one sentence of two."""
    tail = (
        second
        if re.match(r"(?:I\b|[A-Z][a-z]*[A-Z0-9]|[A-Z][a-z]+ [A-Z])", second)
        else second[0].lower() + second[1:]
    )
    return f"{first.rstrip('.!?')}{rng.choice([', and', ' and', ', while', ';'])} {tail}"
