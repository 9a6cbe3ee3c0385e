"""The style sheet: one column, system fonts, light and dark, screen and paper, no external resources."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f23; --soft: #555f69; --rule: #d5dadf; --wash: #f4f6f8;
  --s0: #0072b2; --s1: #b34700; --s2: #00795a; --heat: #56b4e9; --alarm: #b34700; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e9ec; --soft: #a3adb7; --rule: #363d44;
  --wash: #1d2125; --s0: #56b4e9; --s1: #e69f00; --s2: #2cc295; --heat: #0072b2; --alarm: #e69f00; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 47rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p, ul { margin: .5rem 0; max-width: 41rem; }
ul { padding-left: 1.2rem; }
li { margin: .25rem 0; }
a { color: var(--s0); }
section { border-top: 1px solid var(--rule); margin-top: 2.2rem; padding-top: 1.4rem; }
.meta, figcaption, caption, summary, .removed { color: var(--soft); font-size: .9rem; }
.lead p { font-size: 1.08rem; }
nav ul { columns: 2; column-gap: 2rem; list-style: none; padding: 0; font-size: .9rem; max-width: none; }
nav li { break-inside: avoid; margin: 0; padding: .15rem 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1.3rem 0 0; padding: 0; }
.tile { flex: 1 1 9rem; background: var(--wash); border: 1px solid var(--rule); border-radius: .4rem;
  padding: .6rem .85rem .7rem; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.25; font-weight: 600; font-variant-numeric: tabular-nums; }
.tile span { display: block; font-size: .85rem; color: var(--soft); }
.tile.secret { margin: 0; padding: .6rem .85rem .7rem; }
.notice { border: 1px solid var(--rule); border-left: .3rem solid var(--s0); background: var(--wash);
  padding: .6rem .9rem; margin: 1rem 0; }
.notice p, .notice ul { margin: .2rem 0; }
.secret { border: 2px dashed var(--alarm); border-radius: .4rem; padding: .4rem 1rem 1rem; margin: .6rem 0; }
.flag { font-weight: 700; margin: .4rem 0 .8rem; }
.flag small { font-weight: 400; font-size: .9rem; }
.flag::before { content: "\\26a0\\fe0e\\00a0"; }
figure { margin: 1rem 0; display: grid; grid-template-columns: minmax(0, 27.5rem) minmax(9rem, 1fr); gap: 1.4rem;
  align-items: center; }
.plot { width: 100%; max-width: 27.5rem; height: auto; display: block; overflow: visible; }
.plot text { fill: var(--ink); font-size: 13px; }
.plot .tick { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.plot .aside { fill: var(--soft); font-style: italic; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
.plot .figure { font-weight: 600; font-variant-numeric: tabular-nums; }
.plot .grid { stroke: var(--rule); stroke-width: 1; }
.plot .reference { fill: none; stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 5 4; }
.plot .reference.chance { stroke-dasharray: 1 3; }
.plot .whisker { stroke: var(--ink); stroke-width: 1.4; }
.plot .bracket { stroke: var(--ink); stroke-width: 1.2; fill: none; }
.plot .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.plot .line.s0 { stroke: var(--s0); } .plot .line.s1 { stroke: var(--s1); stroke-dasharray: 7 3; }
.plot .line.s2 { stroke: var(--s2); stroke-dasharray: 2 3; }
.plot .dot { stroke: var(--paper); stroke-width: 1; }
.plot .dot.s0 { fill: var(--s0); } .plot .dot.s1 { fill: var(--s1); } .plot .dot.s2 { fill: var(--s2); }
.plot .band { stroke: none; fill-opacity: .18; } .plot .band.s0 { fill: var(--s0); }
.plot .bar { fill: var(--s0); } .plot .share { fill: var(--soft); fill-opacity: .3; }
.plot .cell { fill: var(--heat); } .plot .cell, .plot .frame { stroke: var(--rule); stroke-width: .6; }
.plot .frame { fill: none; stroke: var(--ink); stroke-width: 1.3; }
.plot .cell + .tick, .plot .frame + .tick { fill: var(--ink); }
table { border-collapse: collapse; font-size: .92rem; margin: .6rem 0 1rem; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .28rem 1rem .28rem 0; border-bottom: 1px solid var(--rule);
  font-variant-numeric: tabular-nums; }
th { font-weight: 400; } thead th { font-weight: 600; } thead th { color: var(--soft); overflow-wrap: normal; }
.facts { width: 100%; } .facts th { width: 36%; font-weight: 400; color: var(--soft); }
.wide { overflow-x: auto; } .numbers td { white-space: nowrap; } .numbers th { min-width: 5rem; }
.charges td, .charges th { overflow-wrap: normal; padding-right: .7rem; } .charges bdi { overflow-wrap: break-word; }
.charges td:nth-child(2), .charges:not(.long) td:nth-child(3), .charges.long td:nth-child(5) { white-space: nowrap; }
.charges.long { width: 100%; } .charges.long td:nth-child(3) { width: 55%; }
.charges.long .meta { margin: .1rem 0; font-size: .86rem; }
details { margin: .4rem 0; } summary { cursor: pointer; }
pre { background: var(--wash); border: 1px solid var(--rule); border-radius: .4rem; padding: .7rem .9rem;
  white-space: pre-wrap; font: .88rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
@media (max-width: 640px) { body { padding: 1.2rem .75rem 3rem; } figure { grid-template-columns: minmax(0, 1fr);
  gap: .3rem; } .secret { padding: .3rem .5rem .7rem; } nav ul { columns: 1; } .plot { margin: 0 auto; }
  .plot text { font-size: 14px; } .plot .tick { font-size: 13px; } .facts th { width: 44%; }
  .charges.long, .charges.long tbody, .charges.long caption { display: block; } .charges.long thead { display: none; }
  .charges.long tr { display: grid; grid-template-columns: auto 1fr auto auto; border-bottom: 1px solid var(--rule); }
  .charges.long td, .charges.long tbody th { border: 0; }
  .charges.long td:nth-child(3) { grid-area: 2 / 1 / 3 / -1; width: auto; }
  .charges.long tbody th::before { content: "row "; }
  .charges.long td:nth-child(5) > div:first-child::before { content: "alone: "; } }
@page { margin: 16mm; }
@media print { html { font-size: 10pt; }
  :root { --paper: #fff; --ink: #000; --soft: #444; --rule: #bbb; --wash: #fff; --s0: #0072b2;
  --s1: #b34700; --s2: #00795a; --heat: #56b4e9; --alarm: #000; }
  body { max-width: none; padding: 0; }
  nav { display: none; } details::details-content { content-visibility: visible; block-size: auto; }
  figure, tr, .tile, .notice, .flag { break-inside: avoid; } h2, h3 { break-after: avoid; }
  section { margin-top: 1.2rem; padding-top: .8rem; } }
"""
