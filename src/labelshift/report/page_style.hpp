#pragma once

// How pages look, and the one script they have; for page.cpp only.

namespace labelshift {

inline constexpr const char* kPageStyle = R"css(
:root {
  --paper: #ffffff; --ink: #1d2733; --quiet: #55606d; --rule: #dde2e8; --soft: #f4f6f9; --link: #005a9c;
  --good: #1b7f4d; --doubtful: #8a5a00; --bad: #b3261e; --neutral: #3d5a80;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #161b21; --ink: #e8ecf1; --quiet: #a3adb9; --rule: #323b46; --soft: #1e252d; --link: #7cc0f5;
    --good: #4cc38a; --doubtful: #f0b429; --bad: #ff8a80; --neutral: #8fb8e8;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .35rem; letter-spacing: -.01em; }
h2 {
  font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .9rem; padding-top: 1.1rem; border-top: 1px solid var(--rule);
  scroll-margin-top: .5rem;
}
header + h2 { margin-top: 1.2rem; }
p, ul, dl, pre, .table, .charts, details { margin: 0 0 1.1rem; }
p, li { max-width: 46rem; }
.lead { color: var(--quiet); }
.note { color: var(--quiet); font-size: .875rem; margin: -.5rem 0 .8rem; }
ul { padding-left: 1.25rem; }
li { margin: .3rem 0; }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.25rem; font-size: .925rem; margin: 0 0 1.3rem; }
nav a { text-decoration: none; padding: .2rem 0; }
nav a:hover { text-decoration: underline; }
.banner {
  display: flex; gap: .85rem; align-items: flex-start; max-width: none; margin: 0 0 1.4rem; padding: .95rem 1.1rem;
  background: var(--soft); border-left: 5px solid var(--tone); border-radius: 4px; font-size: 1.1rem; line-height: 1.45;
}
.banner .sign {
  flex: none; width: 1.55rem; height: 1.55rem; border-radius: 50%; background: var(--tone); color: var(--paper);
  font-weight: 700; text-align: center; line-height: 1.55rem; font-size: 1rem;
}
.good { --tone: var(--good); } .doubtful { --tone: var(--doubtful); }
.bad { --tone: var(--bad); } .neutral { --tone: var(--neutral); }
.table { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0 0 .4rem; font-size: .95rem; }
th, td { padding: .38rem .8rem; text-align: left; vertical-align: baseline; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; color: var(--quiet); vertical-align: bottom; }
th:first-child, td:first-child { padding-left: .1rem; }
td:first-child { max-width: 20rem; overflow-wrap: anywhere; min-width: 6rem; }
td.n, th.n { text-align: right; }
td.n { white-space: nowrap; }
tbody tr:hover { background: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1.6rem 2rem; }
.charts.alone { grid-template-columns: minmax(0, 40rem); }
.chart { margin: 0; min-width: 0; }
.chart svg { display: block; width: 100%; height: auto; max-width: 40rem; }
.chart .background { fill: none; }
.chart .row:hover .hit { fill: var(--soft); }
.chart svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
figcaption { font-size: .925rem; line-height: 1.45; color: var(--quiet); margin-bottom: .2rem; }
figcaption strong { color: var(--ink); }
.data { font-size: .825rem; margin: .1rem 0 0; }
dl > div { display: grid; grid-template-columns: 11rem minmax(0, 1fr); gap: 0 1rem; padding: .38rem 0; border-bottom: 1px solid var(--rule); }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
pre {
  background: var(--soft); padding: .8rem 1rem; border-radius: 4px; overflow-x: auto; max-width: 100%;
  font: .825rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
details { border: 1px solid var(--rule); border-radius: 4px; padding: 0 1rem; }
summary { cursor: pointer; padding: .6rem 0; font-weight: 600; }
details[open] { padding-bottom: .4rem; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--rule); color: var(--quiet); font-size: .85rem; }
#tip {
  position: fixed; z-index: 1; max-width: min(22rem, 90vw); padding: .4rem .65rem; border-radius: 4px;
  background: var(--ink); color: var(--paper); font-size: .85rem; line-height: 1.4; pointer-events: none;
}
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media (max-width: 34rem) {
  main { padding: 1.25rem 1rem 2rem; }
  h1 { font-size: 1.45rem; }
  h2 { font-size: 1.2rem; margin-top: 2.2rem; }
  .banner { font-size: 1rem; padding: .8rem .9rem; }
  dl > div { grid-template-columns: 1fr; }
  td:first-child { max-width: 9rem; }
  .chart { margin: 0 -.5rem; }
  figcaption, .data { margin-left: .5rem; margin-right: .5rem; }
}
@media print {
  @page { margin: 1.6cm; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  nav, .data, #tip { display: none; }
  h2 { break-after: avoid; margin-top: 1.6rem; }
  .chart, .banner, tr, dl > div { break-inside: avoid; }
  .charts { grid-template-columns: 1fr 1fr; }
  .charts.alone { grid-template-columns: minmax(0, 13cm); }
  .table { overflow: visible; }
  table, .note, figcaption { font-size: 8.5pt; }
  table { max-width: 100%; }
  th, td, td.n { padding: .2rem .4rem; white-space: normal; }
  td:not(.n) { overflow-wrap: anywhere; min-width: 4.6rem; }
  pre { white-space: pre-wrap; }
  .banner { border: 1px solid var(--rule); border-left: 5px solid var(--tone); -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
)css";

/// Shows the tooltip of a mark at once, also where there is no pointer that hovers, and opens what is folded for print.
inline constexpr const char* kPageScript = R"js(
"use strict";
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);
for (const title of document.querySelectorAll(".chart g > title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.parentNode.setAttribute("aria-label", title.textContent);
  title.remove();
}
const show = (event) => {
  const mark = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const gap = 14, box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + gap, document.documentElement.clientWidth - box.width - 4);
  const below = event.clientY + gap + box.height < window.innerHeight;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = (below ? event.clientY + gap : event.clientY - gap - box.height) + "px";
};
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("scroll", () => { tip.hidden = true; }, {passive: true});
window.addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
)js";

/// Of kPageScript, as a Content-Security-Policy has it; a test computes it.
inline constexpr const char* kPageScriptHash = "sha256-buN5FH5Ym3hj63pQyfZgK9DiERPXdkoDq8y6KQK9Y9Q=";

}  // namespace labelshift
