"""How the page looks: in light and dark, on a phone, on paper. Colours are told apart by the colour-blind as well."""

STYLE = """
:root{color-scheme:light dark;--ground:#fff;--text:#1b1f24;--soft:#57606a;--rule:#d8dee4;--good:#1a7f37;--bad:#b42318;
--c0:#0060b0;--c1:#c2410c;--c2:#0f766e;--c3:#7c3aed;--c4:#8a6d00;--c5:#9d174d;--c7:#b42318}
@media (prefers-color-scheme:dark){:root{--ground:#0f1318;--text:#e6e9ed;--soft:#9aa4af;--rule:#2b323a;--good:#4cc36b;
--bad:#ff8a7a;--c0:#58b0ff;--c1:#ff9d5c;--c2:#4fd1c5;--c3:#b79cff;--c4:#e3c04a;--c5:#f48fb8;--c7:#ff8a7a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 4rem;background:var(--ground);color:var(--text);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.35rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2.5rem 0 .75rem}
h3{font-size:.95rem;margin:1rem 0 .25rem;color:var(--soft);font-weight:600}
.big{font-size:1.5rem;font-weight:650;margin:.5rem 0}.good{color:var(--good)}.bad{color:var(--bad)}
svg{width:100%;height:auto;display:block}
.grid{stroke:var(--rule);stroke-width:1;fill:none}.tick,.axis{fill:var(--soft);font-size:12px}.end{text-anchor:end}
.middle{text-anchor:middle}.line{fill:none;stroke-width:2;stroke-linejoin:round}.span{stroke-width:6;opacity:.35;fill:none}
.limit{stroke-width:1.5;stroke-dasharray:6 4;fill:none}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}.c5{--c:var(--c5)}.c7{--c:var(--c7)}
.line,.span,.limit{stroke:var(--c)}.dot,.bar{fill:var(--c)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:.25rem 0 0;padding:0 0 0 3.5rem;
font-size:.85rem;color:var(--soft)}
.key{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.4rem;vertical-align:-1px}
.key,.part{background:var(--c)}.stack{display:flex;height:1.75rem;border-radius:4px;overflow:hidden;background:var(--rule)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--rule);vertical-align:top}
th{font-weight:550;color:var(--soft)}thead th,td[data-key]{white-space:nowrap}td{overflow-wrap:normal}
@media (max-width:34rem){body{padding:1rem .75rem 3rem}.tick,.axis{font-size:17px}.big{font-size:1.25rem}
.legend{padding-left:0}}
@media print{body{max-width:none}section{break-inside:avoid}}
"""
