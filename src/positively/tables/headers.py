"""Column names and split names that are recognised, in English, German, French, Spanish, Italian, Dutch, Portuguese.

Names are compared without case, accents, and the difference between blanks, hyphens and underscores.
"""

import unicodedata

IMAGE = (
    *("image", "images", "img", "file", "filename", "file_name", "filepath", "file_path", "path", "photo", "picture"),
    *("image_path", "img_path", "image_name", "img_name", "imagename", "image_file", "image_id", "imageid", "img_id"),
    *("photos", "pictures", "sourcefile", "source_file", "photo_path", "photo_name"),
    *(
        "datei",
        "dateiname",
        "dateipfad",
        "bild",
        "bilder",
        "bilddatei",
        "bildname",
        "bildpfad",
        "foto",
        "fotos",
        "pfad",
    ),
    *("fichier", "fichiers", "nom_de_fichier", "nom_du_fichier", "nom_fichier", "chemin", "cliche"),
    *("archivo", "fichero", "nombre_de_archivo", "nombre_del_archivo", "nombre_archivo", "imagen", "imagenes", "ruta"),
    *("immagine", "immagini", "nome_file", "nome_del_file", "nomefile", "percorso"),
    *("bestand", "bestandsnaam", "afbeelding", "afbeeldingen", "pad", "bestandspad"),
    *("arquivo", "ficheiro", "nome_do_arquivo", "nome_do_ficheiro", "imagem", "imagens", "caminho"),
)
"""Columns that hold images, in the order of preference where a table has several; the same below."""

TAG = (
    *("tag", "label", "class", "category", "keyword", "label_name", "labelname", "class_name", "tag_name"),
    *("schlagwort", "stichwort", "klasse", "kategorie", "etikett", "begriff"),
    *("etiquette", "mot_cle", "motcle", "classe", "categorie", "libelle"),
    *("etiqueta", "palabra_clave", "clase", "categoria"),
    *("etichetta", "parola_chiave"),
    *("trefwoord", "sleutelwoord"),
    *("palavra_chave", "marcador", "rotulo"),
)
"""Columns that hold a tag; where images are repeated, they probably hold one in each cell."""

TAGS = (
    *("tags", "labels", "classes", "categories", "keywords", "subject", "subjects"),
    *("schlagworte", "schlagworter", "schlagwoerter", "stichworte", "stichworter", "stichwoerter", "klassen"),
    *("kategorien", "etiketten", "begriffe"),
    *("etiquettes", "mots_cles", "motscles", "libelles"),
    *("etiquetas", "palabras_clave", "clases", "categorias"),
    *("etichette", "parole_chiave", "classi", "categorie"),
    *("trefwoorden", "sleutelwoorden", "categorieen"),
    *("palavras_chave", "marcadores", "rotulos"),
)
"""Columns that hold several tags in a cell."""

ABSENT = (
    *("absent", "absences", "negative", "negatives", "not", "negative_labels", "negative_tags", "absent_tags"),
    *("absent_labels", "verified_absent"),
    *("abwesend", "nicht_vorhanden", "negativ", "kein", "keine"),
    *("absents", "absente", "absentes", "negatif", "negatifs"),
    *("ausente", "ausentes", "negativo", "negativos"),
    *("assente", "assenti", "negativi"),
    *("afwezig", "negatief"),
)
"""Columns that list tags verified to be absent."""

REVIEWED = "reviewed"
"""The column of tags that were decided because of their score, which ``review`` and ``missing`` write."""

SPLIT = (
    *("split", "set", "subset", "part", "fold"),
    *("teil", "teilmenge", "aufteilung"),
    *("partie", "ensemble", "jeu", "partition"),
    *("conjunto", "parte", "particion", "division"),
    *("insieme", "divisione", "suddivisione"),
    *("deel", "verdeling"),
    *("divisao", "particao"),
)
"""Columns that say train, val or test."""

STATE = (
    *("state", "value", "present", "presence", "confidence"),
    *("zustand", "status", "wert", "vorhanden"),
    *("etat", "valeur", "presente", "estado", "valor", "stato", "valore", "toestand", "waarde", "aanwezig"),
)
"""Columns that say of one tag whether it is there."""

MISSING = "missing"
"""The column that ``positively missing`` adds to a table. It is not read as tags."""

_SPLITS = {
    "train": ("train", "training", "entrainement", "apprentissage", "entrenamiento", "addestramento", "treino"),
    "val": ("val", "valid", "validation", "validierung", "validacion", "validazione", "convalida", "validatie"),
    "test": ("test", "testing", "prueba", "pruebas", "teste"),
}
_SPLIT_OF = {word: name for name, words in _SPLITS.items() for word in words}
_SPLIT_OF |= {"treinamento": "train", "validacao": "val"}


def header_word(name: str) -> str:
    """A column name as the lists above write it; a group such as ``XMP:`` in front of it is left out.

    >>> header_word("Mots-clés"), header_word("XMP:Subject"), header_word(" File  Name ")
    ('mots_cles', 'subject', 'file_name')
    """
    parts = unicodedata.normalize("NFKD", name.rpartition(":")[2].casefold())
    letters = "".join(letter for letter in parts if not unicodedata.combining(letter))
    return "_".join(letters.replace("-", " ").replace("_", " ").split())


def split_name(value: str) -> str | None:
    """The split that a cell names, as train, val or test; None if it names none.

    >>> split_name("Training"), split_name("Validación"), split_name("night")
    ('train', 'val', None)
    """
    return _SPLIT_OF.get(header_word(value))
