"""Shell of a self-contained page: style, script, and a policy that lets nothing else load or run."""

from __future__ import annotations

import base64
import hashlib
from html import escape

STYLE = """
:root{color-scheme:light dark;--bg:#fbfbfa;--panel:#fff;--ink:#1d1f23;--soft:#636971;--line:#dfe1e4;--accent:#2a62c9;
--bar:#4f7fd9;--bar2:#c9cfd8;--good:#1d7f4e;--bad:#b3341f;--exact:#bfe5cd;--normal:#c8dcfa;--fuzzy:#fbe1a6;--on:#7a3fd0}
@media(prefers-color-scheme:dark){:root{--bg:#15171a;--panel:#1d2024;--ink:#e8eaed;--soft:#9aa1ab;--line:#33383f;
--accent:#86aef7;--bar:#6b97ec;--bar2:#454b55;--good:#5fc98f;--bad:#f0826b;--exact:#1f5537;--normal:#24457d;
--fuzzy:#664d10;--on:#c19bff}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"Noto Sans CJK SC","PingFang SC","Microsoft YaHei",sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:24px;margin:0 0 2px}h2{font-size:18px;margin:36px 0 10px}h3{font-size:14px;margin:0 0 8px;font-weight:600}
p{margin:4px 0}.soft,figcaption,th{color:var(--soft)}.bad{color:var(--bad)}.good{color:var(--good)}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"Noto Sans Mono CJK SC",monospace}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:12px;margin:18px 0}
.tile,.panel,details.doc{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:12px 14px}
.tile b{display:block;font-size:24px;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.25}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:14px}
svg{display:block;width:100%;height:auto;overflow:visible}svg text{fill:var(--soft);font-size:12px}
svg text.ink{fill:var(--ink)}svg .bar{fill:var(--bar)}svg .bar2{fill:var(--bar2)}svg .grid-line{stroke:var(--line)}
svg .curve{fill:none;stroke:var(--accent);stroke-width:2}svg .area{fill:var(--accent);opacity:.12}
svg .dot{fill:var(--accent)}svg .ideal{stroke:var(--soft);stroke-dasharray:4 4}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:4px 10px 4px 0;vertical-align:top}
td{border-top:1px solid var(--line);overflow-wrap:anywhere}
td.num,th.num{text-align:right;font-variant-numeric:tabular-nums}
details.doc{margin:10px 0}summary{cursor:pointer;font-weight:600}summary .soft{font-weight:400}
.pair{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:16px;margin-top:10px}
@media(max-width:760px){.pair{grid-template-columns:minmax(0,1fr)}}
.text,.value,.raw{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;max-height:460px;overflow:auto;padding:10px;
border:1px solid var(--line);border-radius:6px;background:var(--bg)}
mark{color:inherit;border-radius:3px;cursor:pointer}mark.exact,.key.exact{background:var(--exact)}
mark.normalised,.key.normalised{background:var(--normal)}mark.fuzzy,.key.fuzzy{background:var(--fuzzy)}
button.leaf{all:unset;cursor:pointer;border-radius:3px;padding:0 2px}
button.leaf:focus-visible{outline:2px solid var(--on)}
button.leaf.exact{background:var(--exact)}button.leaf.normalised{background:var(--normal)}
button.leaf.fuzzy{background:var(--fuzzy)}mark.on,button.leaf.on{outline:2px solid var(--on);outline-offset:1px}
span.none{border-bottom:2px dotted var(--bad)}
.conf{color:var(--soft);font-size:12px}.conf.low{color:var(--bad)}
.key{border-radius:3px;padding:0 6px;margin-right:10px}.key.none{border-bottom:2px dotted var(--bad)}
"""

SCRIPT = """
(function(){
function select(doc,id,scroll){
 doc.querySelectorAll('.on').forEach(function(e){e.classList.remove('on')});
 doc.querySelectorAll('button.leaf').forEach(function(e){e.setAttribute('aria-pressed',String(e.dataset.v===id))});
 var found=[].filter.call(doc.querySelectorAll('mark'),function(m){return m.dataset.s.split(' ').indexOf(id)>=0});
 found.forEach(function(m){m.classList.add('on')});
 var leaf=doc.querySelector('button.leaf[data-v="'+id+'"]');
 if(leaf)leaf.classList.add('on');
 var box=doc.querySelector('.text');
 if(scroll==='text'&&found[0])box.scrollTop+=found[0].getBoundingClientRect().top-box.getBoundingClientRect().top-80;
 if(scroll==='value'&&leaf){var v=doc.querySelector('.value');
  v.scrollTop+=leaf.getBoundingClientRect().top-v.getBoundingClientRect().top-80}
}
document.addEventListener('click',function(e){
 var leaf=e.target.closest('button.leaf'),mark=e.target.closest('mark');
 if(leaf)select(leaf.closest('.doc'),leaf.dataset.v,'text');
 else if(mark)select(mark.closest('.doc'),mark.dataset.s.split(' ').pop(),'value');
});
})();
"""


def page(title: str, body: str) -> str:
    """A whole HTML page; ``body`` is HTML. Only the page's own style and script run, and nothing is fetched."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main>\n{body}\n</main><script>{SCRIPT}</script></body></html>\n"
    )


def table(head: list[str], rows: list[list[str]], *, numeric_from: int = 1) -> str:
    """A table of texts; columns from ``numeric_from`` on are set as numbers."""

    def cells(row: list[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=num' if index >= numeric_from else ''}>{escape(cell)}</{tag}>"
            for index, cell in enumerate(row)
        )

    lines = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>{lines}</tbody></table>"


def panel(title: str, content: str, note: str = "") -> str:
    """A titled figure; ``content`` is HTML."""
    caption = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    return f'<figure class="panel" style="margin:0"><h3>{escape(title)}</h3>{content}{caption}</figure>'
