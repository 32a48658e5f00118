"""Checks of the built site: dead links, pictures that occur twice on a page, and the first results of searches."""

import hashlib
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SEARCH = Path(__file__).parent / "_search.js"

# Each query of a practitioner, and the page that has to come first.
FIRST_PAGES = {
    "active learning": "jobs/label_first",
    "address parsing": "jobs/tag_tokens",
    "alignment": "generated/sklearn_sparsemap.structures.Alignment",
    "attention": "layers",
    "calibration": "jobs/serve_and_review",
    "chunking": "jobs/tag_tokens",
    "class weights": "guide/learning",
    "classification report": "jobs/tag_tokens",
    "classification_report": "jobs/tag_tokens",
    "conformal": "guide/conformal",
    "constraints": "guide/factor_graphs",
    "CRF": "jobs/tag_tokens",
    "custom loss": "guide/losses",
    "dependency parsing": "tutorials/parsing",
    "deploy": "jobs/serve_and_review",
    "discrete choice": "jobs/choose_one",
    "doccano": "jobs/serve_and_review",
    "docker": "other_tools",
    "dtw": "coming_from",
    "early stopping": "guide/learning",
    "feature selection": "guide/feature_groups",
    "gpu": "layers",
    "group lasso": "guide/feature_groups",
    "hierarchical classification": "guide/label_sets",
    "hierarchy": "guide/label_sets",
    "imbalanced": "guide/learning",
    "knapsack": "guide/decisions",
    "memory": "guide/large_data",
    "missing labels": "guide/details",
    "mlflow": "other_tools",
    "multi label": "guide/label_sets",
    "multilabel": "guide/label_sets",
    "named entity recognition": "tutorials/named_entities",
    "NER": "tutorials/named_entities",
    "online learning": "guide/streams",
    "onnx": "other_tools",
    "optuna": "other_tools",
    "pickle": "guide/pipelines",
    "predict then optimize": "guide/decisions",
    "prediction sets": "jobs/sets_around_a_tagger",
    "random forest": "guide/score_models",
    "rerank": "jobs/choose_one",
    "rota": "jobs/shifts",
    "save model": "guide/pipelines",
    "schedule": "jobs/shifts",
    "sensors": "jobs/choose_sensors",
    "shap": "other_tools",
    "spacy": "jobs/serve_and_review",
    "speed": "troubleshooting",
    "streaming": "guide/streams",
    "text classification": "jobs/tag_texts",
    "thread safety": "production",
    "uncertainty": "jobs/sets_around_a_tagger",
    "windows": "jobs/recordings",
    "xgboost": "other_tools",
}


class Page(HTMLParser):
    """The links of a page, the pictures among them, and the targets in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.pictures, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
                if tag == "img" and name == "src":
                    self.pictures.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def read_site(site):
    """Return the pages of a built site by their paths."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    # Templates of the theme are not pages. Pages of source code link back to names that are exported elsewhere.
    skipped = {"_static", "_modules"}
    return {path: page for path, page in pages.items() if not skipped & set(path.relative_to(site).parts)}


def dead_links(site):
    """Return (page, link) for each dead link within a built site, and the number of links checked."""
    pages = read_site(site)
    dead, tried = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            tried += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = target.is_file() or (target / "index.html").is_file()
            anchored = not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors
            # The empty fragment is the top of the page; scripts create the targets of "pst-" fragments.
            if not (found and (anchored or parts.fragment.startswith("pst-"))):
                dead.append((path.relative_to(site).as_posix(), link))
    return dead, tried


def repeated_pictures(site):
    """Return (page, pictures) for each picture that a page shows twice, and the number of pictures compared.

    Pictures are equal if their files are, whatever their names. Thumbnails do not count, because examples without a
    picture share one.
    """
    repeated, tried = [], 0
    for path, page in read_site(site).items():
        same = {}
        for picture in page.pictures:
            file = (path.parent / unquote(urlsplit(picture).path)).resolve()
            if not urlsplit(picture).scheme and file.is_file() and not file.stem.endswith("_thumb"):
                same.setdefault(hashlib.sha256(file.read_bytes()).digest(), []).append(picture)
                tried += 1
        name = path.relative_to(site).as_posix()
        repeated += [(name, pictures) for pictures in same.values() if len(pictures) > 1]
    return repeated, tried


def search(site, queries):
    """Return the results of the site's search for each query: lists of page names, best first."""
    node = shutil.which("node")
    if node is None:
        raise FileNotFoundError("the check of the search runs the site's JavaScript, and needs node (Node.js) on PATH")
    done = subprocess.run(
        [node, str(SEARCH), str(site)], input=json.dumps(list(queries)), capture_output=True, text=True, check=True
    )
    return dict(zip(queries, json.loads(done.stdout), strict=True))


def misled_searches(site, first_pages=None):
    """Return (query, expected page, results) for each query whose first result is another page."""
    first_pages = FIRST_PAGES if first_pages is None else first_pages
    found = search(site, first_pages)
    return [(query, page, found[query][:3]) for query, page in first_pages.items() if found[query][:1] != [page]]
