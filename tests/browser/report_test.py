"""Reports in a real browser: every chart with its marks, nothing in the console, no request, phone, print, both schemes.

    report_test.py LABELSHIFT EXAMPLES [PICTURES]     PICTURES is a folder for screenshots, to be looked at
"""

import csv
import functools
import io
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

from browser import Browser

LABELSHIFT, EXAMPLES = (os.path.abspath(path) for path in sys.argv[1:3])
PICTURES = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None

EVIL = "<script>window.pwned = 1</script>"
QUOTES = "a\"b'c&amp;</title></svg><img src=x onerror='window.pwned = 1'>"
LONG = "a class with a name that is much too long for the edge of any chart, number "

# Five nodes; a sixth of them has nothing of some classes, so that something warns.
EXPERIMENT = """
name = "five"
title = "Five nodes <script>window.pwned = 1</script>"
claim = "Weights help where nodes differ."
seeds = {seeds}
[data]
set = "{examples}/small-fashion-mnist"
partition = "dirichlet"
nodes = 5
alpha = 1.0
[model]
net = "logistic"
[training]
rounds = 20
[ratio]
net = "logistic"
epochs = 2
[run]
evaluate-every = 5
[[compare]]
name = "IW-ERM <b>{evil}</b>"
paper = 0.7
training.algorithm = "iw-erm"
ratio.method = "mlls"
[[compare]]
name = "true ratios, and a name that goes on and on so that no chart has room for it at its left edge"
training.algorithm = "iw-erm"
ratio.method = "true"
[[compare]]
name = "FedAvg"
training.algorithm = "fedavg"
"""

# What a page is asked: each chart with its marks, what they were drawn from, and what its texts look like.
CHARTS = """
return [...document.querySelectorAll("figure.chart")].map((figure) => {
  const svg = figure.querySelector("svg"), box = svg.getBoundingClientRect(), link = figure.querySelector("a[download]");
  const texts = [...svg.querySelectorAll("text")];
  return {
    title: figure.querySelector("strong").textContent,
    width: box.width, height: box.height,
    shown: figure.closest("details:not([open])") === null,
    marks: svg.querySelectorAll(".marker").length,
    tips: svg.querySelectorAll("[data-tip]").length,
    href: link.getAttribute("href"), file: link.getAttribute("download"),
    names: texts.filter((one) => one.classList.contains("name") || one.classList.contains("legend")).map((one) => one.textContent),
    x_label: [...svg.querySelectorAll(".x-label")].map((one) => one.textContent),
    smallest: Math.min(...texts.map((one) => parseFloat(one.getAttribute("font-size")) * box.width / svg.viewBox.baseVal.width)),
    outside: texts.filter((one) => {
      const at = one.getBoundingClientRect();
      return at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1;
    }).map((one) => one.textContent),
  };
});
"""

# Contrast of every text and mark against what is behind it, as WCAG computes it.
CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const light = (colour) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  const part = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
};
const paper = light(getComputedStyle(document.body).backgroundColor);
const ratio = (colour) => { const l = light(colour); return (Math.max(l, paper) + 0.05) / (Math.min(l, paper) + 0.05); };
const worst = (select, colour) => {
  let least = {ratio: 99};
  for (const one of document.querySelectorAll(select)) {
    const found = colour(getComputedStyle(one), one);
    if (found && ratio(found) < least.ratio) least = {ratio: ratio(found), what: one.outerHTML.slice(0, 120), colour: found};
  }
  return least;
};
return {
  paper,
  text: worst("svg text", (style) => style.fill),
  prose: worst("h1, h2, p, li, td, th, dt, dd, summary, a, figcaption", (style) => style.color),
  mark: worst("svg .marker", (style, one) => style.fill === getComputedStyle(document.body).backgroundColor ? style.stroke : style.fill),
};
"""


def made(folder, *arguments):
    """Runs labelshift in a folder."""
    subprocess.run([LABELSHIFT, *arguments], cwd=folder, check=True, timeout=200, stdout=subprocess.PIPE)


def data_of(chart):
    """The rows behind a chart, out of its link."""
    head, text = chart["href"].split(",", 1)
    assert head == "data:text/csv;charset=utf-8", head
    return list(csv.reader(io.StringIO(urllib.parse.unquote(text, errors="strict"))))


def on_each_page(check):
    """A test that looks at every report, each in its turn."""

    @functools.wraps(check)
    def test(self):
        for page in self.pages:
            with self.subTest(page=page):
                self.browser.size(1200, 900)
                self.browser.media()
                self.show(page)
                check(self, page)

    return test


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="labelshift-report-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        data = EXAMPLES + "/fashion-mnist/"
        with open(data + "classes.txt") as names:
            classes = names.read().splitlines()
        with open(data + "source_labels.csv") as labels, open(cls.folder + "/labels.csv", "w") as out:
            out.writelines(f"{classes.index(label)}\n" for label in labels.read().splitlines() if label in classes)
        with open(cls.folder + "/classes.txt", "w") as out:
            out.write("\n".join([EVIL, QUOTES, LONG + "one", LONG + "two", *classes[4:]]) + "\n")
        made(cls.folder, "estimate", "--source-probs", data + "source_probs.npy", "--source-labels", "labels.csv", "--target-probs", data + "target_probs.npy", "--classes", "classes.txt",
             "--report", "estimate.html", "--output", "estimate.json")
        for name, seeds in (("one", "[0]"), ("three", "[0, 1, 2]")):
            with open(f"{cls.folder}/{name}.toml", "w") as out:
                out.write(EXPERIMENT.format(seeds=seeds, examples=EXAMPLES, evil="&"))
            made(cls.folder, "run", name + ".toml", "--output", name)
        made(cls.folder, "report", "one/five", "three/five", "--output", "both.html")
        made(cls.folder, "reproduce", "figure-5", "--trials", "2", "--alphas", "2", "--sizes", "3", "--predictors", "1",
             "--epochs", "1", "--output", "study")
        runs = sorted(os.listdir(cls.folder + "/one/five"))
        single = [name for name in runs if name.startswith("iw-erm")][0]
        cls.pages = {"estimate": "estimate.html", "run": "one/five/report.html", "seeds": "three/five/report.html",
                     "single": f"one/five/{single}/report.html", "several": "both.html", "study": "study/figure-5/report.html"}
        cls.browser = Browser().__enter__()
        cls.addClassCleanup(cls.browser.__exit__)

    def show(self, page):
        self.browser.open(os.path.join(self.folder, self.pages[page]))

    def picture(self, name, whole=True):
        if PICTURES:
            os.makedirs(PICTURES, exist_ok=True)
            self.browser.screenshot(f"{PICTURES}/{name}.png", whole)

    @on_each_page
    def test_every_chart_is_there_with_as_many_marks_as_its_data_have_values(self, page):
        least = {"estimate": 2, "run": 8, "seeds": 8, "single": 8, "several": 8, "study": 3}
        self.picture(page)
        charts = self.browser.run(CHARTS)
        self.assertGreaterEqual(len(charts), least[page])
        for chart in charts:
            with self.subTest(chart=chart["title"]):
                rows = data_of(chart)
                values = [row for row in rows[1:] if row[2 if len(row) == 5 else 3]]
                self.assertGreater(len(values), 0)
                self.assertEqual(chart["marks"], len(values))
                self.assertGreater(chart["tips"], 0)  # the script ran
                self.assertEqual(len(chart["x_label"]), 1)
                self.assertTrue(chart["file"].endswith(".csv"))
                if chart["shown"]:
                    self.assertGreater(chart["width"], 200)
                    self.assertGreater(chart["height"], 100)
                    self.assertEqual(chart["outside"], [])

    @on_each_page
    def test_nothing_is_said_in_the_console_and_nothing_leaves_the_page(self, page):
        self.browser.console(), self.browser.requests()  # of pages before
        self.show(page)
        self.browser.run("window.scrollTo(0, document.body.scrollHeight)")
        self.assertEqual(self.browser.console(), [])
        addresses = [one for one in self.browser.requests() if not one.startswith("data:")]
        self.assertEqual(addresses, ["file://" + os.path.join(self.folder, self.pages[page])])

    def test_names_from_users_are_text_wherever_they_stand(self):
        self.show("estimate")
        for name in (EVIL, QUOTES, LONG + "one"):
            self.assertIn(name, self.browser.run("return document.body.textContent"))
        rows = data_of(self.browser.run(CHARTS)[0])
        self.assertLessEqual({EVIL, QUOTES}, {row[0] for row in rows})
        tips = "return [...document.querySelectorAll('[data-tip]')].map((one) => one.dataset.tip).join()"
        self.assertIn(EVIL, self.browser.run(tips))

    @on_each_page
    def test_no_name_becomes_a_script_or_a_picture(self, page):
        found = self.browser.run("return [typeof window.pwned, document.scripts.length, document.images.length]")
        self.assertEqual(found, ["undefined", 1, 0])

    def test_a_page_runs_no_script_but_its_own(self):
        self.show("estimate")
        self.browser.console()
        self.browser.run("const one = document.createElement('script'); one.textContent = 'window.pwned = 1'; "
                         "document.body.append(one)")
        self.assertEqual(self.browser.run("return typeof window.pwned"), "undefined")
        self.assertIn("Content Security Policy", "".join(self.browser.console()))

    @on_each_page
    def test_long_names_are_never_cut_to_the_same_text(self, page):
        for chart in self.browser.run(CHARTS):
            self.assertEqual(len(chart["names"]), len(set(chart["names"])), chart["title"])

    def test_a_mark_says_its_values_under_the_pointer(self):
        self.show("run")
        shown = self.browser.run("""
            const row = document.querySelector(".chart .row"), box = row.getBoundingClientRect();
            row.querySelector(".marker").dispatchEvent(new PointerEvent("pointermove",
              {bubbles: true, clientX: box.left + 5, clientY: box.top + 5}));
            const tip = document.querySelector("#tip");
            return [tip.hidden, tip.textContent];""")
        self.assertFalse(shown[0])
        self.assertRegex(shown[1], r"IW-ERM.*average 0\.\d+ \(0\.\d+ to 0\.\d+\), worst node 0\.\d+")
        self.picture("tooltip", whole=False)

    @on_each_page
    def test_a_phone_shows_all_of_it_without_scrolling_sideways(self, page):
        self.browser.size(390, 844, phone=True)
        self.show(page)
        self.picture(page + "-phone")
        self.assertLessEqual(self.browser.run("return document.scrollingElement.scrollWidth"), 390)
        for chart in self.browser.run(CHARTS):
            if chart["shown"]:
                self.assertGreaterEqual(chart["smallest"], 8.0, chart["title"])  # pixels of CSS; print goes as low
                self.assertLessEqual(chart["width"], 390)

    @on_each_page
    def test_both_colour_schemes_can_be_read(self, page):
        for scheme, dark in (("light", False), ("dark", True)):
            self.browser.media(scheme=scheme)
            if dark:
                self.picture(page + "-dark")
            contrast = self.browser.run(CONTRAST)
            self.assertEqual(contrast["paper"] < 0.2, dark)
            # WCAG 2.1, AA: 4.5 for text, 3 for large text and for graphics. The palette's sky blue and orange are lighter
            # than that on white; shapes, whiskers and labels tell them apart.
            self.assertGreaterEqual(contrast["text"]["ratio"], 4.5, contrast["text"])
            self.assertGreaterEqual(contrast["prose"]["ratio"], 4.5, contrast["prose"])
            self.assertGreaterEqual(contrast["mark"]["ratio"], 2.2, contrast["mark"])

    @on_each_page
    def test_print_has_all_of_it_on_white_and_nothing_is_cut_off(self, page):
        self.browser.media("print", "dark")
        self.browser.size(680, 960)  # A4 within its margins
        self.assertEqual(self.browser.run("return getComputedStyle(document.querySelector('nav')).display"), "none")
        self.assertLessEqual(self.browser.run("return document.scrollingElement.scrollWidth"), 680)
        self.assertGreater(self.browser.run(CONTRAST)["paper"], 0.9)
        self.browser.media()
        path = os.path.join(PICTURES or self.folder, page + ".pdf")
        self.browser.pdf(path)
        text = subprocess.run(["pdftotext", "-layout", path, "-"], check=True, timeout=60, stdout=subprocess.PIPE)
        words = "".join(text.stdout.decode().split())  # lines are broken elsewhere
        said = self.browser.run("return [...document.querySelectorAll('h2, summary, footer')].map((one) => one.textContent)")
        # What is folded on a screen is open on paper.
        said += self.browser.run("return [...document.querySelectorAll('details pre')].map((one) => one.textContent.split(/\\s+/).slice(-5).join(''))")
        for one in said:
            self.assertIn("".join(one.split()), words)

    def test_a_report_is_small(self):
        for page, path in self.pages.items():
            with self.subTest(page=page):
                self.assertLess(os.path.getsize(os.path.join(self.folder, path)), 1_000_000)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
