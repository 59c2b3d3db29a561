"""Pages in a browser: what they hold themselves works, and nothing else does."""

from browser import faults, needs_browser
from gridveil.foundation.page import standalone, text

HOSTILE = '</script><img src=x onerror="document.title=1"><style>*{display:none}'


@needs_browser
def test_a_page_runs_its_own_script_and_reads_its_own_data(open_page, tmp_path):
    body = '<main><h1>A page</h1><script type="application/json" id="data">[1]</script></main>'
    script = 'document.title = document.getElementById("data").textContent;'
    (tmp_path / "page.html").write_text(standalone("A page", body, script=script), encoding="utf-8")
    page = open_page((tmp_path / "page.html").as_uri())
    assert page.title() == "[1]"
    assert faults(page) == []


@needs_browser
def test_a_policy_refuses_what_is_not_the_pages_own(open_page, tmp_path):
    body = "<main><h1>A page</h1></main><script>document.title = 'not mine'</script>"
    (tmp_path / "page.html").write_text(standalone("A page", body), encoding="utf-8")
    page = open_page((tmp_path / "page.html").as_uri(), expected=("Content Security Policy",))
    assert page.title() == "A page"


@needs_browser
def test_text_of_others_stays_text(open_page, tmp_path):
    body = f'<main><h1 title="{text(HOSTILE)}">{text(HOSTILE)}</h1></main>'
    (tmp_path / "page.html").write_text(standalone(HOSTILE, body), encoding="utf-8")
    page = open_page((tmp_path / "page.html").as_uri())
    assert page.title() == HOSTILE
    assert page.inner_text("h1") == HOSTILE
