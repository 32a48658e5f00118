"""Build the documentation: ``python doc/build.py`` builds the site, runs its examples, and checks doctests and links.

``--quick`` executes no example of the gallery. ``--serve`` shows the site at http://localhost:8000 afterwards.
``--clean`` removes earlier builds first. ``--pictures`` copies the pictures of the gallery to `doc/images`.
``--intersphinx`` links to the pages of NumPy, SciPy and scikit-learn (needs the network).
"""

import argparse
import functools
import http.server
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

DOC = Path(__file__).resolve().parent
SITE = DOC / "_build" / "html"
WIDEST = 1400  # pixels; wider pictures are scaled down, which suits pages of about 1,000 pixels
MADE = ("_build", "auto_examples", "generated")
PICTURE = "sphx_glr_plot_{}_001_2_00x.png"  # the first picture of an example, in high resolution


class Page(HTMLParser):
    """The links of a page, and the targets in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def dead_links(site):
    """Return (page, link) for each dead link within a built site, and the number of links checked."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    # Templates of the theme are not pages. Pages of source code link back to names that are exported elsewhere.
    skipped = {"_static", "_modules"}
    pages = {path: page for path, page in pages.items() if not skipped & set(path.relative_to(site).parts)}
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


def store_pictures():
    """Copy the pictures of the gallery to `doc/images`, without white edges and at most `WIDEST` pixels wide."""
    from PIL import Image, ImageChops

    drawn = {path.name: path for path in (DOC / "auto_examples").rglob("*.png")}
    for stored in sorted((DOC / "images").glob("*.png")):
        name = PICTURE.format(stored.stem)
        if name not in drawn:
            continue
        picture = Image.open(drawn[name]).convert("RGB")
        box = ImageChops.difference(picture, Image.new("RGB", picture.size, "white")).getbbox()
        left, top, right, bottom = box
        inside = max(left - 8, 0), max(top - 8, 0), min(right + 8, picture.width), min(bottom + 8, picture.height)
        picture = picture.crop(inside)
        if picture.width > WIDEST:
            height = round(picture.height * WIDEST / picture.width)
            picture = picture.resize((WIDEST, height), Image.Resampling.LANCZOS)
        # 256 colours suffice for plots, and take a third of the bytes.
        picture.quantize(256, dither=Image.Dither.NONE).save(stored, optimize=True)
        print(f"stored {stored.relative_to(DOC.parent)}, {picture.width} x {picture.height}")


def run(*command):
    """Run a module from the root of the repository; exit if it fails."""
    print("+", " ".join(command), flush=True)
    done = subprocess.run([sys.executable, "-m", *command], cwd=DOC.parent, env={**os.environ, "PYTHONPATH": "."})
    if done.returncode:
        sys.exit(done.returncode)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="execute no example of the gallery")
    parser.add_argument("--clean", action="store_true", help="remove earlier builds first")
    parser.add_argument("--serve", action="store_true", help="show the site at http://localhost:8000 afterwards")
    parser.add_argument("--no-tests", action="store_true", help="leave out the doctests of the pages")
    parser.add_argument("--intersphinx", action="store_true", help="link to other projects' pages (needs the network)")
    parser.add_argument("--pictures", action="store_true", help="only copy the pictures of the gallery to doc/images")
    options = parser.parse_args()
    if options.pictures:
        store_pictures()
        return
    if options.clean:
        for folder in MADE:
            shutil.rmtree(DOC / folder, ignore_errors=True)
    if options.intersphinx:
        os.environ["SPHINX_INTERSPHINX"] = "1"
    quick = ["-D", "plot_gallery=0"] if options.quick else []
    run("sphinx", "-W", "--keep-going", "-q", "-b", "html", *quick, "doc", str(SITE))
    dead, tried = dead_links(SITE)
    for page, link in dead:
        print(f"dead link in {page}: {link}")
    print(f"{tried} links within the site, {len(dead)} dead")
    if dead:
        sys.exit(1)
    if not options.no_tests:
        pages = [str(path) for path in sorted(DOC.rglob("*.rst")) if not set(path.parts) & {*MADE, "_templates"}]
        run("pytest", "-q", "--doctest-glob=*.rst", *pages)
    print(f"The site: {SITE / 'index.html'}", flush=True)
    if options.serve:
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=SITE)
        http.server.ThreadingHTTPServer(("localhost", 8000), handler).serve_forever()


if __name__ == "__main__":
    main()
