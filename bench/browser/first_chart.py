"""How soon a report shows its first chart in headless Chromium, and how large it is.

    /usr/bin/python3 bench/browser/first_chart.py results/fashion-mnist-quick/report.html
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "browser"))
from browser import Browser  # noqa: E402

# The first paint has all of the page that there is by then; the chart must be in it.
PAINTED = """
return new Promise((done) => new PerformanceObserver((list) => {
  const paint = list.getEntriesByName("first-contentful-paint")[0];
  if (!paint) return;
  const box = document.querySelector("figure.chart svg").getBoundingClientRect();
  done([paint.startTime, performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart,
        box.width > 100 && box.height > 100]);
}).observe({type: "paint", buffered: true}));
"""

path = sys.argv[1]
print(f"{path}: {os.path.getsize(path) / 1e3:.0f} kB")
with Browser() as browser:
    browser.size(1200, 900)
    for attempt in range(5):
        browser.open("/dev/null")  # away from the page
        browser.open(path)
        paint, parsed, there = browser.run(PAINTED)
        assert there, "the first chart has no size"
        print(f"all charts parsed after {parsed:.0f} ms, painted after {max(paint, parsed):.0f} ms")
