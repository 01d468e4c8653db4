"""The review page in a real browser: what a person does, and what may go wrong meanwhile."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import webbrowser
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from positively.labels import LabelTable
from positively.review.guard import RUN
from positively.review.query import MIXED
from positively.review.serving import in_browser
from reviewing import served, truth_of, words, write_tags

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright ([dev])")


@pytest.fixture
def source(tmp_path, place, tables):
    return write_tags(tmp_path, place, tables[0])


@pytest.fixture
def review(source, place):
    with served(source, place) as opened:
        yield opened


@pytest.fixture
def visit(browser):
    """Opens a page; at the end, nothing may have left the machine and nothing may have failed."""
    contexts, asked, failed = [], [], []

    def visit(address, context=None, script="", **options):
        if context is None:
            context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
            contexts.append(context)
        page = context.new_page()
        page.add_init_script(script)
        page.set_default_timeout(60_000)  # a busy machine is no mistake
        page.on("request", lambda request: asked.append((request.url, address)))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.on("console", lambda message: failed.append(message.text) if "Content Security" in message.text else None)
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert asked and not failed
    origins = {(re.match(r"\w+://[^/]+", url)[0], re.match(r"\w+://[^/]+", address)[0]) for url, address in asked}
    assert all(origin == own for origin, own in origins), origins


def rows(page, kind=""):
    """Numbers of the photos on the page, in order."""
    sources = page.locator(f".tiles > li{kind} img").evaluate_all("all => all.map(one => one.getAttribute('src'))")
    return [int(re.search(r"/thumbnail/(\d+)", source)[1]) for source in sources]


def until(check):
    """Wait for what another thread does."""
    for _ in range(3000):
        if check():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen in a minute")


def decided(opened):
    """What was decided so far, by row."""
    row_of = opened.session.row_of
    return {(row_of[image], tag): state for (image, tag), state in opened.session.tally.states().items()}


def test_reviewing_by_keyboard_undo_and_reload(review, visit):
    page = visit(f"{review.guard.address}#grid/red")
    assert "token" not in page.url and page.title() == "red · positively"
    shown = rows(page)
    assert len(shown) >= 12 and not decided(review)  # nothing counts by itself
    for key in ("a", "a", "r"):
        page.keyboard.press(key)
    until(lambda: len(decided(review)) == 3)
    assert decided(review) == {(shown[0], "red"): 1, (shown[1], "red"): 1, (shown[2], "red"): -1}
    assert rows(page) == shown  # nothing moved under the hand
    assert rows(page, ".accepted") == shown[:2] and rows(page, ".rejected") == [shown[2]]
    page.keyboard.press("u")
    until(lambda: page.evaluate("document.getElementById('toast').textContent.startsWith('Undone: red')"))
    until(lambda: page.evaluate("!document.querySelector('.rejected')"))
    until(lambda: len(decided(review)) == 2)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert not set(shown[:2]) & set(rows(page)) and shown[2] in rows(page)
    assert page.locator("#subtitle").text_content().count("2 gained") == 1
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    until(lambda: not decided(review))
    page.keyboard.press("u")
    until(lambda: page.evaluate("document.getElementById('toast').textContent.endsWith('undo.')"))


def test_many_at_once_and_the_rest_of_the_page(review, visit):
    page = visit(f"{review.guard.address}#grid/red")
    shown = rows(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert rows(page, ".selected") == shown[1:4]
    page.keyboard.press("r")
    until(lambda: len(decided(review)) == 3)
    boxes = page.locator(".tiles > li").evaluate_all("all => all.map(one => one.getBoundingClientRect().toJSON())")
    middle = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]
    page.mouse.move(*middle[4])
    page.mouse.down()
    page.mouse.move(*middle[5], steps=3)
    page.mouse.move(*middle[6], steps=3)
    page.mouse.up()
    assert rows(page, ".selected") == shown[4:7]
    page.locator("#bar button.yes").click()
    until(lambda: len(decided(review)) == 6)
    page.mouse.click(*middle[8])
    page.keyboard.down("Shift")
    page.mouse.click(*middle[10])
    page.keyboard.up("Shift")
    assert rows(page, ".selected") == shown[8:11]
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+A")
    until(lambda: len(decided(review)) == len(shown))
    assert rows(page, ".rejected") == shown[1:4] and len(rows(page, ".accepted")) == len(shown) - 3
    page.keyboard.press("Enter")
    until(lambda: page.evaluate("!document.querySelector('.accepted')"))
    assert not set(rows(page)) & set(shown)
    page.keyboard.press("PageUp")
    page.wait_for_selector(".accepted")
    assert rows(page) == shown
    page.keyboard.press("u")  # the whole sweep at once
    until(lambda: len(decided(review)) == 6)


def test_zoom_tags_search_and_keys(review, visit):
    page = visit(f"{review.guard.address}#grid/red")
    shown = rows(page)
    page.keyboard.press("z")
    page.wait_for_selector("#zoom[open] img")
    assert f"/photo/{shown[0]}?" in page.locator("#zoom img").get_attribute("src")
    page.keyboard.press("a")
    until(lambda: decided(review) == {(shown[0], "red"): 1})
    until(lambda: page.evaluate(f"document.querySelector('#zoom img').src.includes('/photo/{shown[1]}?')"))
    page.keyboard.press("Escape")
    page.wait_for_selector("#zoom:not([open])", state="attached")
    title = page.locator("#title")
    page.keyboard.press("]")
    playwright.expect(title).not_to_have_text("red")
    page.keyboard.press("[")
    playwright.expect(title).to_have_text("red")
    page.keyboard.press("/")
    page.keyboard.type("yel")
    assert page.locator("#tags li").count() == 1
    page.keyboard.press("Enter")
    playwright.expect(title).to_have_text("yellow")
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")


def test_one_photo_with_its_tags(review, visit):
    page = visit(f"{review.guard.address}#photo")
    first = int(page.url.rpartition("/")[2])
    names = page.locator(".candidates .name").all_text_contents()
    page.keyboard.press("1")
    page.keyboard.press("Shift+Digit2")
    until(lambda: decided(review) == {(first, names[0]): 1, (first, names[1]): -1})
    page.keyboard.press("ArrowRight")
    until(lambda: page.evaluate(f"!location.hash.endsWith('/{first}')"))
    page.keyboard.press("ArrowLeft")
    until(lambda: page.evaluate(f"location.hash.endsWith('/{first}')"))
    assert names[0] in page.locator(".chip.accepted").text_content()
    page.keyboard.press("Shift+R")  # none of the rest
    until(lambda: len([pair for pair in decided(review) if pair[0] == first]) == len(names))


def test_questions_one_at_a_time(review, visit):
    page = visit(f"{review.guard.address}#check")
    page.get_by_role("button", name="Random check").click()
    page.wait_for_selector(".check:has(.segment:nth-child(2)[aria-pressed=true]) figure")
    asked = []
    for key in ("y", "n", "s"):
        asked.append((int(re.search(r"\d+", page.locator("figure").get_attribute("data-row"))[0]), key))
        count = len(decided(review))
        page.keyboard.press(key)
        until(lambda count=count: len(decided(review)) == count + 1)
    states = list(decided(review).items())
    assert [(row, state) for (row, _), state in states] == [(asked[0][0], 1), (asked[1][0], -1), (asked[2][0], 0)]
    assert [action.way for action in review.store.actions()] == ["audit", "audit", "skip"]
    page.get_by_role("button", name="Most useful").click()
    page.wait_for_selector(".check:has(.segment:nth-child(3)[aria-pressed=true]) figure")
    page.keyboard.press("n")
    until(lambda: review.store.actions()[-1].way == "teaching")


def test_a_new_tag_from_three_photos(review, visit, tables):
    is_red = truth_of(tables[0], review, "red")
    page = visit(f"{review.guard.address}#create")
    page.get_by_label("Name of the tag").fill("crimson")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#toast.shown")).to_contain_text("photos")
    picked = [row for row in rows(page) if is_red[row]][:3]
    for row in picked:
        page.locator(f".tiles img[src^='/thumbnail/{row}?']").click()
    page.get_by_label("Name of the tag").fill("crimson")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#title")).to_have_text("crimson")
    assert sorted(row for row, _ in decided(review)) == sorted(picked)
    page.wait_for_selector("body[data-view=grid] .quick", state="attached")
    assert page.locator(".likely").count() == 0  # an order, and no numbers yet
    assert is_red[rows(page)[:10]].mean() > 1.5 * is_red.mean()
    assert page.locator("#tags a[aria-current]").text_content().startswith("crimson")


def test_a_second_tab_sees_the_answers_of_the_first(review, visit):
    first = visit(f"{review.guard.address}#grid/red")
    second = visit(f"{review.guard.address}#grid/red", context=first.context)
    shown = rows(second)
    first.keyboard.press("a")
    second.wait_for_selector(".accepted")
    assert rows(second) == shown and rows(second, ".accepted") == [shown[0]]
    second.bring_to_front()
    second.keyboard.press("u")
    first.bring_to_front()
    until(lambda: first.evaluate("!document.querySelector('.accepted')"))
    assert not decided(review)


@contextmanager
def command(source, place, environment):
    """The command line, serving, in a process of its own; gives the process and the address."""
    arguments = [sys.executable, "-u", "-m", "positively", "review", source, *words(place), "--no-open"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        told = [process.stdout.readline()]
        while told[-1] and not told[-1].startswith("Review at"):
            told.append(process.stdout.readline())
        yield process, told[-1].split()[-1]
    finally:
        process.kill()
        process.wait()


def test_killed_in_the_middle_nothing_is_lost(source, place, environment, visit):
    with command(source, place, environment) as (process, address):
        page = visit(f"{address}#grid/red")
        shown = rows(page)
        for key in ("a", "r"):
            with page.expect_response("**/api/answer") as answered:
                page.keyboard.press(key)
            answered.value.finished()  # its head alone is not yet an answer
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.keyboard.press("a")  # nobody is there: it must not look as if it had been stored
        until(lambda: page.evaluate("document.getElementById('toast').textContent.includes('not running')"))
        until(lambda: rows(page, ".accepted") == [shown[0]])
        assert rows(page, ".rejected") == [shown[1]]
    with served(source, place, port=int(address.split(":")[2].partition("/")[0])) as review:
        assert decided(review) == {(shown[0], "red"): 1, (shown[1], "red"): -1}
        new = visit(f"{review.guard.address}#grid/red", context=page.context)
        assert not set(shown[:2]) & set(rows(new)) and shown[2] in rows(new)
        # The old tab, at the same address, has seen it, and goes on.
        page.wait_for_selector(f"html[data-run='{review.guard.run}']", state="attached")
        page.wait_for_selector("body[data-ready]")
        assert rows(page) == rows(new)
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        page.keyboard.press("a")
        new.wait_for_selector(".accepted")
        new.keyboard.press("u")
        until(lambda: page.evaluate("!document.querySelector('.accepted')"))
        assert len(decided(review)) == 2
        page.wait_for_timeout(2500)
        assert len([url for url in requests if "/api/" in url]) < 15  # it asks now and then, not all the time


def test_what_another_tab_does_right_after_an_answer_is_shown(review, visit):
    page = visit(f"{review.guard.address}#grid/red")
    held = []
    page.route("**/api/version", lambda route: route.abort())
    page.route("**/api/status", lambda route: held.append(route))
    with page.expect_response("**/api/answer"):
        page.keyboard.press("a")
    page.wait_for_selector(".accepted")
    until(lambda: page.wait_for_timeout(10) or held)
    review.session.undo()  # before the counts that follow the answer are told
    page.unroute("**/api/status")
    for route in held:
        route.continue_()
    page.wait_for_timeout(300)
    page.unroute("**/api/version")
    until(lambda: page.evaluate("!document.querySelector('.accepted')"))


def test_a_tab_of_another_table_writes_nothing(tmp_path, place, tables, visit):
    shifted = tmp_path / "shifted"
    shifted.mkdir()
    with served(write_tags(tmp_path, place, tables[0]), place) as review:
        old = visit(f"{review.guard.address}#grid/red")
        old.route("**/api/version", lambda route: route.abort())  # it has not asked since
    with served(write_tags(shifted, place, tables[0], rows=range(199, -1, -1)), place, port=review.guard.port) as other:
        visit(f"{other.guard.address}#grid/red", context=old.context)
        old.keyboard.press("a")
        old.wait_for_selector(f"html[data-run='{other.guard.run}']", state="attached")
        old.wait_for_selector("body[data-ready]")
        assert not decided(other)
        shown = rows(old)
        old.keyboard.press("a")
        until(lambda: decided(other) == {(shown[0], "red"): 1})


class _Stranger(BaseHTTPRequestHandler):
    """Somebody else's site."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>elsewhere</title>")

    def log_message(self, *_):
        pass


def test_the_file_that_the_browser_is_opened_with_leads_to_the_page(review, browser, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(webbrowser, "open", lambda _: True)
    page = browser.new_page()
    with in_browser(review.guard.address):
        page.goto(next(tmp_path.glob("*.html")).as_uri())
        page.wait_for_selector("body[data-ready]")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.close()


def test_another_site_gets_nothing(review, browser):
    elsewhere = ThreadingHTTPServer(("127.0.0.1", 0), _Stranger)
    threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
    context = browser.new_context()
    page = context.new_page()
    page.goto(review.guard.address)
    page.wait_for_selector("body[data-ready]")
    shown = rows(page)
    page.keyboard.press("a")
    until(lambda: len(decided(review)) == 1)
    own = f"http://127.0.0.1:{review.guard.port}"
    page.goto(f"http://localhost:{elsewhere.server_address[1]}/")
    # The cookie is in this very browser; still, neither writing nor looking works from here.
    program = """async ([own, row]) => {
        const post = { method: "POST", credentials: "include", body: "{}" };
        for (const way of [{}, { mode: "no-cors" }])
            for (const path of ["undo", "answer", "export"])
                await fetch(`${own}/api/${path}`, { ...post, ...way }).catch(() => 0);
        const image = new Image();
        const loaded = new Promise((done) => {
            image.onload = () => done(true);
            image.onerror = () => done(false);
        });
        image.src = `${own}/thumbnail/${row}`;
        return await loaded;
    }"""
    assert page.evaluate(program, [own, shown[0]]) is False
    assert len(decided(review)) == 1 and len(review.store.actions()) == 1
    # Nor from another port of the same address, where browsers send the cookie along.
    page.goto(f"http://127.0.0.1:{elsewhere.server_address[1]}/")
    assert page.evaluate(program, [own, shown[0]]) is False
    assert len(review.store.actions()) == 1 and not list(review.source.parent.glob("*reviewed*"))
    context.close()
    elsewhere.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(review, visit, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = visit(f"{review.guard.address}#grid/red", color_scheme=scheme, reduced_motion="reduce")
    page.keyboard.press("a")
    page.keyboard.press("r")
    page.keyboard.press(" ")
    until(lambda: len(decided(review)) == 2)
    for view in ("grid", "photo", "check", "progress", "create", "keys", "zoom"):
        if view in ("keys", "zoom"):
            page.evaluate("location.hash = '#grid'")
            page.wait_for_selector("body[data-view=grid] .tiles li")
            page.keyboard.press("?" if view == "keys" else "z")
            page.wait_for_selector(f"#{view}[open]")
        else:
            page.evaluate(f"location.hash = '#{view}'")
            page.wait_for_selector(f"body[data-view={view}] #main > :is(.{view}, .tiles:has(li))")
        found = Axe().run(page)
        assert not found.response["violations"], f"{view}: {found.generate_report()}"
        if view == "keys":
            page.keyboard.press("Escape")


def test_a_phone_shows_it_all_and_takes_fingers(review, visit):
    page = visit(f"{review.guard.address}#grid/red", is_mobile=True, has_touch=True)
    page.set_viewport_size({"width": 390, "height": 844})
    for view in ("photo", "check", "progress", "create", "grid"):
        page.evaluate(f"location.hash = '#{view}'")
        page.wait_for_selector(f"body[data-view={view}] #main > :is(.{view}, .tiles:has(li))")
        for place in ("documentElement", "getElementById('main')"):
            assert page.evaluate(f"(all => all.scrollWidth <= all.clientWidth)(document.{place})"), view
    page.locator(".tiles > li img").nth(2).tap()
    page.locator(".tiles > li img").nth(3).tap()
    chosen = rows(page, ".selected")
    page.locator("#bar button.yes").tap()
    until(lambda: decided(review) == {(row, "red"): 1 for row in chosen})
    page.locator("#open-side").tap()
    page.locator("#tags a", has_text="blue").tap()
    playwright.expect(page.locator("#title")).to_have_text("blue")


def test_a_known_tag_is_taken_away_and_given_back(review, visit):
    red = review.session.table.states()[:, review.session.column("red")]
    row = int(np.flatnonzero(red > 0)[0])
    page = visit(f"{review.guard.address}#photo/{row}")
    chip = page.get_by_role("button", name=re.compile("^red, "))
    chip.focus()
    page.keyboard.press("Enter")
    until(lambda: decided(review) == {(row, "red"): -1})
    playwright.expect(chip).to_have_text("✕ red")
    playwright.expect(chip).to_be_focused()
    page.locator("#export").click()
    playwright.expect(page.locator("#toast")).to_contain_text(re.compile("0 .*tags.* 1 .*absence"))
    chip.focus()
    page.keyboard.press("Enter")
    until(lambda: decided(review) == {(row, "red"): 0})
    playwright.expect(chip).to_have_text("red")
    candidate = page.locator(".candidates .name").first.text_content()
    page.keyboard.press("1")
    until(lambda: decided(review).get((row, candidate)) == 1)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.get_by_role("button", name=f"{candidate}, accepted").click()  # decided before: asked again
    page.wait_for_selector(f".candidates button[aria-label='Accept {candidate}']")
    assert decided(review)[row, candidate] == 0


def test_the_page_chooses_what_to_ask(review, visit):
    page = visit(f"{review.guard.address}#check")
    playwright.expect(page.get_by_role("button", name="Mixed")).to_have_attribute("aria-pressed", "true")
    for count in range(1, 11):
        page.wait_for_selector(".check figure")
        page.keyboard.press("n")
        until(lambda count=count: len(review.store.actions()) == count)
    assert [action.way for action in review.store.actions()] == list(MIXED)
    page.keyboard.press("u")
    page.keyboard.press("y")
    until(lambda: [action.decisions[0][2] for action in review.store.actions()] == [-1] * 9 + [1])
    assert review.store.actions()[-1].way == MIXED[9]  # asked again as it was asked


SLOW_SERVICE = """
    let draw = 1;
    const send = window.fetch;
    const wait = () => new Promise((done) => setTimeout(done, (draw = (draw * 16807) % 2147483647) % 120));
    window.fetch = async (...asked) => {
        await wait();
        const told = await send(...asked);
        await wait();
        return told;
    };
"""
"""Every request takes up to 240 ms, and a later one may be answered first."""

ANSWERING = """async (count) => {
    for (let answered = 0; answered < count; ) {
        if (document.querySelector(".check figure")) {
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "n", bubbles: true, cancelable: true }));
            answered += 1;
        }
        await new Promise((done) => setTimeout(done, 30));
    }
}"""


def test_questions_come_in_turn_and_once_however_quick_the_answers(review, visit):
    page = visit(f"{review.guard.address}#check", script=SLOW_SERVICE)
    page.evaluate(ANSWERING, 30)
    until(lambda: len(review.store.actions()) == 30)
    assert [action.way for action in review.store.actions()] == list(MIXED) * 3
    assert len(decided(review)) == 30


def test_the_check_does_not_ask_what_was_just_answered(review, visit):
    page = visit(f"{review.guard.address}#check")

    def asked():
        return int(page.locator("figure").get_attribute("data-row")), page.locator(".question strong").text_content()

    row, tag = asked()
    page.evaluate(f"location.hash = '#photo/{row}'")
    page.get_by_role("button", name=f"Accept {tag}").click()
    until(lambda: decided(review) == {(row, tag): 1})
    page.evaluate("location.hash = '#check'")
    page.wait_for_selector("body[data-view=check] .check figure")
    assert asked() != (row, tag)


def test_the_focus_stays_and_a_question_is_told_once(review, visit):
    page = visit(f"{review.guard.address}#check")
    page.evaluate(
        "window.told = []; new MutationObserver(() => told.push(announced.textContent))"
        ".observe(announced, { childList: true, characterData: true, subtree: true })"
    )
    yes = page.locator("#bar .yes")
    yes.focus()
    for count in (1, 2):
        page.keyboard.press("Enter")
        until(lambda count=count: len(decided(review)) == count)
        playwright.expect(yes).to_be_focused()
    page.wait_for_timeout(400)  # counts have come, and were painted
    told = page.evaluate("told")
    assert len(told) == 2 and told[1].startswith(page.locator(".question").text_content())
    first = review.session.model.classes[0]
    for view, links in (("grid", "#tags a"), ("progress", "#main a")):
        page.evaluate(f"location.hash = '#{view}'")
        page.wait_for_selector(f"body[data-view={view}] :is(.tiles > li, .progress)")
        page.wait_for_timeout(300)
        link = page.locator(links).nth(1)
        link.focus()
        with page.expect_response("**/api/status"):
            review.session.decide([(int(review.session.model.ranking(0, 1)[0]), first)], -1, "photo")
        page.wait_for_timeout(100)
        playwright.expect(link).to_be_focused()


def test_an_address_that_leads_nowhere_changes_nothing(review, visit):
    page = visit(f"{review.guard.address}#nowhere")
    playwright.expect(page.locator(".tiles > li").first).to_be_visible()
    page.evaluate("location.hash = '#check'")
    page.wait_for_selector(".check figure")
    page.locator(".skip-link").focus()
    page.keyboard.press("Enter")
    until(lambda: page.evaluate("document.activeElement.id === 'main' && location.hash === '#check'"))
    page.keyboard.press("n")
    until(lambda: len(decided(review)) == 1)
    page.evaluate("location.hash = '#grid/50%'")
    page.wait_for_selector("body[data-view=grid] .tiles > li")
    page.evaluate("location.hash = '#constructor'")
    until(lambda: page.evaluate("location.hash === '#grid/50%'"))


def test_nothing_is_certain_that_is_not_known(review, visit):
    page = visit(review.guard.address)
    shares = [0, 0.002, 0.31, 0.994, 0.996, 1]
    told = page.evaluate("shares => import('/page/dom.js').then(({ percent }) => shares.map(percent))", shares)
    assert told == ["0 %", "< 1 %", "31 %", "99 %", "> 99 %", "100 %"]


TURNING = """async (pages) => {
    const tiles = document.querySelector(".tiles");
    const press = (key, shiftKey = false) => document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", { key, shiftKey, bubbles: true, cancelable: true }));
    const painted = (is) => new Promise((done) => {
        const look = () => is() && (observer.disconnect(), requestAnimationFrame(done));
        const observer = new MutationObserver(look);
        observer.observe(tiles, { subtree: true, childList: true, attributes: true });
        look();
    });
    const sizes = [];
    for (let page = 0; page < pages; page += 1) {
        press("R", true);
        await painted(() => !tiles.querySelector("li:not(.rejected)"));
        press("Enter");
        await painted(() => !tiles.querySelector(".rejected"));
        sizes.push(document.querySelectorAll("*").length);
    }
    return sizes;
}"""
"""Rejects page after page; gives the number of elements of each."""


def test_of_ten_thousand_photos_it_loads_what_it_shows(tmp_path, place, tables, visit):
    count = 10_000
    generator = np.random.default_rng(0)
    images, files = [f"{row:05d}.png" for row in range(count)], tables[0].paths[:40]
    for row, image in enumerate(images):  # few files under many names
        os.link(files[row % 40], tmp_path / image)
    states = (generator.random((count, 12)) < 0.01).astype(np.int8)
    table = LabelTable.from_states(images, [f"tag {number:03d}" for number in range(12)], states)
    table = replace(table, root=tmp_path, source="tags.csv")
    features = generator.random((count, 16), dtype=np.float32)
    with served(tmp_path / "tags.csv", place, features=features, table=table, landmarks=50) as review:
        page = visit(f"{review.guard.address}#grid/tag%20007")
        requests, shown = [], rows(page)
        page.on("request", lambda request: requests.append(request.url))
        sizes = page.evaluate(TURNING, 12)
        assert max(sizes) < 2500 and max(sizes) - min(sizes) < 200  # what is shown, not what there is
        thumbnails = [url for url in requests if "/thumbnail/" in url]
        assert len(shown) <= 120 and len(thumbnails) <= 12 * 120
        assert len([url for url in requests if "/api/" in url]) <= 12 * 8
        until(lambda: len(decided(review)) >= 11 * (len(shown) - 5))
        status = f"http://127.0.0.1:{review.guard.port}/api/status"
        assert len(page.request.get(status, headers={RUN: review.guard.run}).body()) < 100_000
        page.evaluate("location.hash = '#create'")
        page.wait_for_selector("body[data-view=create] .tiles li")
        page.keyboard.press("PageDown")
        until(lambda: page.evaluate("document.querySelectorAll('.tiles li').length > 8"))
        assert page.evaluate("document.querySelectorAll('*').length") < 2500
