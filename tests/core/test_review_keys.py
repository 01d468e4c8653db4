"""Keys on the review page go where a person means them: into a name, to the photo that an undo leads back to."""

import re
from dataclasses import replace

import numpy as np
from test_review_page import (  # noqa: F401
    decided,
    playwright,
    review,
    rows,
    source,
    until,
    visit,
)

from positively.labels import UNKNOWN, LabelTable
from reviewing import served


def cursor_is(page, row):
    """Wait until a photo is the one that the next key is for."""
    page.wait_for_selector(f".tiles > .current img[src^='/thumbnail/{row}?']")


def test_letters_in_a_new_tag_are_its_name(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#grid/red")
    title, subtitle = page.locator("#title"), page.locator("#subtitle")
    told = subtitle.text_content()
    page.keyboard.press("t")
    page.keyboard.type("garnet? u/r[")  # every letter is a shortcut somewhere else
    assert page.get_by_label("Name of the tag").input_value() == "garnet? u/r["
    assert page.evaluate("document.body.dataset.view") == "create" and not page.locator("dialog[open]").count()
    page.wait_for_selector(".tiles li")
    page.keyboard.press("Escape")
    playwright.expect(title).to_have_text("red")
    assert subtitle.text_content() == told
    assert page.locator("#tags a[aria-current] .name").text_content() == "red"
    page.wait_for_selector(".tiles .quick", state="attached")
    assert not decided(review)

    page.locator("#new-tag").click()  # and by the mouse: photos first, then the name
    playwright.expect(title).to_have_text("New tag")
    assert page.locator("#tags a[aria-current]").count() == 0
    page.wait_for_selector(".tiles .pick:focus")
    page.keyboard.press("ArrowRight")
    page.keyboard.press(" ")
    assert rows(page, ".selected") == rows(page)[1:2]
    page.locator("#view-grid").click()
    playwright.expect(title).to_have_text("red")
    assert page.locator("#tags a[aria-current] .name").text_content() == "red"
    page.keyboard.press("t")
    page.wait_for_selector(".tiles .pick:focus")
    assert len(rows(page, ".selected")) == 1  # what was picked and named is still there
    assert page.get_by_label("Name of the tag").input_value() == "garnet? u/r["
    page.get_by_label("Name of the tag").fill("")
    page.locator(".tiles .current .pick").focus()
    page.keyboard.type("garnet")
    page.keyboard.press("Enter")
    playwright.expect(title).to_have_text("garnet")
    assert len(decided(review)) == 1


def test_photos_that_arrive_while_a_name_is_typed_leave_its_field_alone(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#grid/red")
    held = []
    page.route("**/api/browse", lambda route: held.append(route))  # a slow answer of the server
    page.keyboard.press("t")
    page.keyboard.type("dark ")
    until(lambda: page.wait_for_timeout(10) or held)
    page.evaluate("document.getElementById('tag-name').addEventListener('blur', () => (window.isLeft = true))")
    held[0].continue_()
    page.wait_for_selector(".tiles .pick")
    page.keyboard.type(" red")  # a space that reaches a photo would pick it
    assert page.get_by_label("Name of the tag").input_value() == "dark  red"
    assert page.evaluate("window.isLeft") is None
    assert not rows(page, ".selected")


def test_an_answer_never_goes_to_a_tag_that_is_not_shown(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#grid/red")
    held = []
    page.route("**/api/grid", lambda route: held.append(route))  # a slow answer of the server
    page.keyboard.press("]")
    until(lambda: page.evaluate("document.getElementById('title').textContent !== 'red'"))
    page.keyboard.press("a")
    page.keyboard.press("[")
    playwright.expect(page.locator("#title")).to_have_text("red")
    page.keyboard.press("a")
    until(lambda: page.wait_for_timeout(10) or len(held) >= 2)  # or three: a renewal asks too
    for route in reversed(held):
        route.continue_()
    page.wait_for_selector(".tiles .pick:focus")
    page.wait_for_timeout(200)
    likeliest = review.session.model.ranking(review.session.column("red"), limit=len(rows(page)))
    assert rows(page) == likeliest.tolist() and not decided(review)


def test_undo_leads_back_to_the_photo(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#grid/red")
    shown = rows(page)
    for key in ("r", "u", "a"):  # oops
        page.keyboard.press(key)
    until(lambda: decided(review) == {(shown[0], "red"): 1})
    cursor_is(page, shown[1])
    page.keyboard.press("z")
    page.wait_for_selector("#zoom[open] img")
    for key in ("r", "u", "a"):  # in the large photo too
        page.keyboard.press(key)
    until(lambda: decided(review) == {(shown[0], "red"): 1, (shown[1], "red"): 1})
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("r")
    until(lambda: len(decided(review)) == 4)
    page.keyboard.press("End")
    page.locator("#undo").click()
    cursor_is(page, shown[2])
    until(lambda: len(decided(review)) == 2)
    page.keyboard.press("]")
    playwright.expect(page.locator("#title")).not_to_have_text("red")
    page.keyboard.press("u")  # not on this page: then its name is told
    playwright.expect(page.locator("#toast")).to_have_text(re.compile(re.escape(review.session.table.images[shown[1]])))


def test_undo_asks_the_question_again(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#check")
    for way in ("Random check", "Most useful"):
        page.get_by_role("button", name=way).click()
        page.wait_for_selector(".check figure")
        before = decided(review)
        asked = int(page.locator("figure").get_attribute("data-row")), page.locator(".question strong").text_content()
        for key in ("n", "u", "y"):
            page.keyboard.press(key)
        until(lambda before=before, asked=asked: decided(review) == {**before, asked: 1})


def test_undo_leads_back_to_a_photo_of_its_own(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#photo")
    first = int(page.url.rpartition("/")[2])
    names = page.locator(".candidates .name").all_text_contents()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("r")
    page.keyboard.press("ArrowRight")
    until(lambda: page.evaluate(f"!location.hash.endsWith('/{first}')"))
    page.keyboard.press("u")
    page.wait_for_selector(f"figure[data-row='{first}']")
    playwright.expect(page.locator(".candidates .current .name")).to_have_text(names[1])
    page.keyboard.press("a")
    until(lambda: decided(review) == {(first, names[1]): 1})


def test_before_the_first_tag_everything_leads_to_it(tmp_path, place, tables, visit):  # noqa: F811
    truth = tables[0]
    bare = LabelTable.from_positives(truth.images, (), [[] for _ in truth.images], UNKNOWN)
    bare = replace(bare, root=truth.root, source="photos")
    features = np.random.default_rng(0).random((len(bare), 8), dtype=np.float32)
    with served(tmp_path / "photos.csv", place, features=features, table=bare) as review:  # noqa: F811
        page = visit(review.guard.address)
        title = page.locator("#title")
        playwright.expect(title).to_have_text("New tag")
        for view in ("photo", "check", "progress", "grid"):
            page.locator(f"#view-{view}").click()
            playwright.expect(title).to_have_text("No tag yet")
            assert "missing" not in page.locator("#frame").text_content()
        page.get_by_role("button", name="first tag").click()
        page.wait_for_selector(".tiles .pick:focus")
        page.keyboard.press(" ")
        page.keyboard.type("teapot")
        page.keyboard.press("Enter")
        playwright.expect(title).to_have_text("teapot")
        page.wait_for_selector(".tiles .pick:focus")
        page.keyboard.press("u")  # without the only tag it is as before
        playwright.expect(title).to_have_text("No tag yet")


def test_a_name_that_no_tag_has_becomes_a_new_tag(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#photo")
    row = int(page.url.rpartition("/")[2])
    page.get_by_label("Another tag").fill("teapot")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # on what is offered
    playwright.expect(page.locator("#title")).to_have_text("New tag")
    playwright.expect(page.locator("#bar .told")).to_have_text("1 photo picked")
    page.wait_for_selector(".tiles .pick:focus")
    page.keyboard.type("s")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#title")).to_have_text("teapots")
    assert decided(review) == {(row, "teapots"): 1}


def test_a_phone_shows_the_whole_progress(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#progress", is_mobile=True, has_touch=True)
    page.set_viewport_size({"width": 390, "height": 844})
    until(lambda: page.evaluate("innerWidth === 390"))
    assert page.evaluate("(main => main.scrollWidth <= main.clientWidth)(document.getElementById('main'))")


def slow(page, path):
    """Have the server take its time over something."""
    page.route(path, lambda route: (page.wait_for_timeout(300), route.continue_()))


def press(page, key, code, **options):
    """A key as the browser tells it, Caps Lock or not."""
    page.evaluate(
        "init => document.activeElement.dispatchEvent("
        "new KeyboardEvent('keydown', { bubbles: true, cancelable: true, ...init }))",
        {"key": key, "code": code, **options},
    )


def test_a_key_is_for_what_is_coming_not_for_what_was(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#grid/red")
    shown = rows(page)
    page.keyboard.press("Shift+A")
    until(lambda: len(decided(review)) == len(shown))
    slow(page, "**/api/grid")
    page.keyboard.press("Enter")
    page.keyboard.press("r")
    until(lambda: page.wait_for_timeout(20) or len(decided(review)) == len(shown) + 1)
    first = rows(page)[0]
    assert first not in shown and decided(review)[first, "red"] == -1
    assert all(decided(review)[row, "red"] == 1 for row in shown)
    page.keyboard.press("p")
    page.wait_for_selector(".photo")
    before, first = decided(review), int(page.url.rpartition("/")[2])
    slow(page, "**/api/photo")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("1")
    until(lambda: page.wait_for_timeout(20) or len(decided(review)) == len(before) + 1)
    ((row, _),) = set(decided(review)) - set(before)
    assert row != first and page.url.endswith(f"/{row}")


def test_caps_lock_changes_nothing(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#grid/red")
    shown = rows(page)
    press(page, "A", "KeyA")
    until(lambda: decided(review) == {(shown[0], "red"): 1})
    press(page, "U", "KeyU")
    until(lambda: not decided(review))
    cursor_is(page, shown[0])
    press(page, "Z", "KeyZ")
    page.wait_for_selector("#zoom[open]")
    press(page, "R", "KeyR")
    until(lambda: decided(review) == {(shown[0], "red"): -1})
    page.keyboard.press("Escape")
    press(page, "a", "KeyA", shiftKey=True)  # with Caps Lock, Shift makes small letters
    until(lambda: len(decided(review)) == len(shown))
    press(page, "C", "KeyC")
    page.wait_for_selector(".check figure")
    press(page, "Y", "KeyY")
    until(lambda: len(decided(review)) == len(shown) + 1)


def test_a_key_held_down_answers_once(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#grid/red")
    shown = rows(page)

    def hold(key, times=8):
        for _ in range(times):
            page.keyboard.down(key)
        page.keyboard.up(key)

    hold("a")
    hold("ArrowRight", 3)
    cursor_is(page, shown[4])
    page.keyboard.press("z")
    page.wait_for_selector("#zoom[open]")
    hold("r")
    page.keyboard.press("Escape")
    page.wait_for_selector("#zoom:not([open])", state="attached")
    until(lambda: len(decided(review)) == 2)
    page.keyboard.press("c")
    page.wait_for_selector(".check figure")
    for count, key in enumerate(("y", "ArrowRight", "n", "Enter"), start=3):
        if key == "Enter":
            page.locator("#bar .yes").focus()
        hold(key)
        until(lambda count=count: len(decided(review)) == count)
        page.wait_for_timeout(150)
    assert len(decided(review)) == 6
    for _ in range(30):
        page.keyboard.down("u")  # an undo may go on
        page.wait_for_timeout(30)
    page.keyboard.up("u")
    until(lambda: not decided(review))


def test_space_selects_and_its_release_does_not_click(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#grid/red")
    page.keyboard.press(" ")
    assert rows(page, ".selected") == rows(page)[:1]
    # Firefox clicks a button on the release of space, unless the release itself is stopped.
    released = "new KeyboardEvent('keyup', { key: ' ', bubbles: true, cancelable: true })"
    assert page.evaluate(f"document.activeElement.dispatchEvent({released})") is False
    assert page.evaluate(f"document.getElementById('undo').dispatchEvent({released})") is True


def test_keys_go_on_in_the_zoom_after_a_click_and_back_closes_it(review, visit):  # noqa: F811
    page = visit(f"{review.guard.address}#progress")
    page.evaluate("location.hash = '#grid/red'")
    page.wait_for_selector(".tiles .pick:focus")
    shown = rows(page)
    page.keyboard.press("z")
    page.wait_for_selector("#zoom[open] img")
    page.get_by_role("button", name="Next photo").click()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"#zoom img[src^='/photo/{shown[2]}?']")
    page.locator("#zoom .yes").click()
    page.wait_for_selector(f"#zoom img[src^='/photo/{shown[3]}?']")
    page.keyboard.press("r")
    until(lambda: decided(review) == {(shown[2], "red"): 1, (shown[3], "red"): -1})
    page.go_back()
    page.wait_for_selector("body[data-view=progress]")
    assert not page.locator("dialog[open]").count()
