"""Spellings and plurals under which one word may occur as two tags, in seven European languages.

Endings that form plurals in one language are words of their own in another (plan and plane, gold and golden), so those
of a language are tried only if the tags are in that language, which a few letters and common words show.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from positively.tables.names import normalized

_IGNORED = str.maketrans("", "", " -_./'’")
_SPELLED_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "æ": "ae", "œ": "oe", "ø": "oe", "å": "aa"})
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ı": "i"})

# British → American.
_AMERICAN = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=\w\w)our(?=$|s$|ed$|ing$|ful|hood|ite|less)", "or"),
        (r"(?<=[tb])re(?=s?$)", "er"),
        (r"is(?=(e|ed|er|ing|ation)s?$)", "iz"),
        (r"ll(?=(ed|er|ing)s?$)", "l"),
        (r"(?<=\w\w)ogue(?=s?$)", "og"),
        (r"grey", "gray"),
        (r"jewellery", "jewelry"),
        (r"aeroplane", "airplane"),
        (r"^tyre(?=s?$)", "tire"),
        (r"moustache", "mustache"),
        (r"doughnut", "donut"),
        (r"yoghurt", "yogurt"),
        (r"pyjama", "pajama"),
        (r"plough", "plow"),
    )
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LANGUAGES: dict[str, tuple[str, frozenset[str]]] = {
    "German": (
        "äöüß",
        _words(
            "auto bahnhof baum berg bild blume brot brücke frau garten gebäude haus himmel hund kind kirche katze "
            "mann mensch messer nacht person pferd schiff schnee stadt stein stuhl strasse straße teller "
            "tisch tier turm vogel wald wasser wiese wolke zug"
        ),
    ),
    "French": (
        "éèêëàçœîôû",
        _words(
            "arbre assiette avion bateau chaise chat cheval chien ciel eau enfant famille femme fleur gens homme "
            "livre maison mer montagne neige nuage nuit oiseau plage pont route rue table ville voiture velo"
        ),
    ),
    "Spanish": (
        "ñáéíóú",
        _words(
            "agua arbol barco caballo calle camino casa cielo ciudad coche flor gato gente hombre iglesia libro mesa "
            "montana mujer nieve nino noche nube pajaro perro persona playa puente rio silla"
        ),
    ),
    "Italian": (
        "àèìòù",
        _words(
            "acqua albero auto bambino barca cane casa cavallo chiesa cielo citta donna fiore gatto gente libro mare "
            "montagna neve notte nuvola persona ponte sedia spiaggia strada tavolo uccello uomo vino"
        ),
    ),
    "Dutch": (
        "ĳ",
        _words(
            "auto berg bloem boek brug fiets hond huis kat kerk lucht mensen nacht paard persoon "
            "sneeuw stad stoel straat tafel trein vogel vrouw wolk zee"
        ),
    ),
    "Portuguese": (
        "ãõçâêô",
        _words(
            "agua arvore barco cachorro cadeira cao carro casa cavalo ceu cidade crianca flor gato gente homem igreja "
            "livro mar mesa montanha mulher neve noite nuvem passaro pessoa ponte praia rua"
        ),
    ),
}
# Languages share letters and words, so one needs this many tags, and this share of them.
_FEWEST, _SHARE = 2, 0.03

# Ending of the singular (a regular expression that ends at $) → ending of the plural, applied to accent-free words.
_PLURALS: dict[str, list[tuple[str, str]]] = {
    "English": [
        ("(.{3})$", r"\1s"),
        ("(.{2}(?:s|x|z|ch|sh|o))$", r"\1es"),
        ("([^aeiou])y$", r"\1ies"),
        ("(.{2}[^f])fe?$", r"\1ves"),
        ("man$", "men"),
        ("^person$", "people"),
        ("child$", "children"),
        ("foot$", "feet"),
        ("tooth$", "teeth"),
        ("^goose$", "geese"),
        ("^mouse$", "mice"),
    ],
    "German": [
        ("(.{4})$", r"\1e"),
        ("(.{2}e[lr]?)$", r"\1n"),
        ("(.{3})$", r"\1en"),
        ("in$", "innen"),
        ("nis$", "nisse"),
        # Only nouns with this plural, alone or at the end of others: most others become another word (Fisch, Fischer).
        (
            "(bad|band|bild|blatt|brett|buch|dach|dorf|ei|fass|feld|gesicht|glas|gras|haus|horn|huhn|kalb|kind|kleid|"
            "kraut|lamm|land|licht|lied|loch|mann|nest|rad|rand|rind|schild|schloss|tal|tuch|volk|wald|wort)$",
            r"\1er",
        ),
    ],
    "French": [("al$", "aux"), ("(eau|eu|ou)$", r"\1x")],
    "Spanish": [("(.{2}[^aeiou])$", r"\1es"), ("z$", "ces")],
    "Italian": [
        ("(.{3})o$", r"\1i"),
        ("(.{3})a$", r"\1e"),
        ("(.{3})e$", r"\1i"),
        ("(.{2})ca$", r"\1che"),
        ("(.{2})ga$", r"\1ghe"),
    ],
    "Dutch": [
        ("(.{3})$", r"\1en"),
        ("([aeiou])([bdfgklmnprst])$", r"\1\2\2en"),
        ("(a|e|o|u)\\1([bdgklmnprt])$", r"\1\2en"),
        ("(.{2})f$", r"\1ven"),
        ("(.{2})s$", r"\1zen"),
    ],
    "Portuguese": [("ao$", "oes"), ("m$", "ns"), ("([aou])l$", r"\1is"), ("(.{2}[rsz])$", r"\1es")],
}
_COMPILED = {
    name: [(re.compile(singular), plural) for singular, plural in endings] for name, endings in _PLURALS.items()
}


def squashed(name: str) -> str:
    """A name in lower case, without the marks between its letters.

    >>> squashed("Hot-Dog")
    'hotdog'
    """
    return normalized(name).translate(_IGNORED) or normalized(name)


def folded(name: str) -> str:
    """A squashed name without accents.

    >>> folded("Stühle"), folded("Straße")
    ('stuhle', 'strasse')
    """
    letters = unicodedata.normalize("NFKD", squashed(name).translate(_LETTERS))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def spellings(name: str) -> set[str]:
    """Keys of a name: two names that share one are the same word in two spellings.

    >>> spellings("Kuehlschrank") & spellings("Kühlschrank"), spellings("colour") & spellings("color")
    ({'kuehlschrank'}, {'color'})
    """
    keys = {folded(name), folded(squashed(name).translate(_SPELLED_OUT))}
    american = folded(name)
    for pattern, replacement in _AMERICAN:
        american = pattern.sub(replacement, american)
    return {*keys, american}


def languages(names: Iterable[str]) -> list[str]:
    """Languages that tags are in, English in any case.

    >>> languages(["Stuhl", "Tisch", "bokeh"]), languages(["chair", "table"])
    (['English', 'German'], ['English'])
    """
    words = [normalized(name) for name in names]
    found = ["English"]
    for language, (letters, common) in _LANGUAGES.items():
        own = {folded(word) for word in common}
        count = sum(any(letter in word for letter in letters) or folded(word) in own for word in words)
        if count >= max(_FEWEST, _SHARE * len(words)):
            found.append(language)
    return found


def plurals(key: str, spoken: Sequence[str]) -> Iterator[str]:
    """Plurals that a folded word may have in some languages.

    >>> sorted(plurals("person", ["English", "German"]))
    ['people', 'persone', 'personen', 'persons']
    """
    yield from {
        pattern.sub(plural, key)
        for language in spoken
        for pattern, plural in _COMPILED[language]
        if pattern.search(key)
    }
