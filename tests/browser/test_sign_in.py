"""The way in: e-mail and code, the first project, and out again."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import Visitor


def test_a_new_person_signs_up_and_names_a_project(visitor: Visitor) -> None:
    page = visitor.page
    visitor.sign_in("nina@example.com")
    expect(page.get_by_role("heading", name="Welcome to Moorage")).to_be_visible()
    page.get_by_label("Organization").fill("Nina Labs")
    page.get_by_label("Name").fill("production")
    page.get_by_role("button", name="Create project").click()
    page.wait_for_url(re.compile("/projects/prj_[a-z2-7]+/containers$"))
    expect(page.get_by_text("Nothing runs here yet.")).to_be_visible()
    expect(page.get_by_role("button", name="Project: production")).to_be_visible()
    expect(page.get_by_role("button", name="Organization: Nina Labs")).to_be_visible()

    page.get_by_role("button", name="Account of nina@example.com").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Moorage")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Sign in to Moorage")).to_be_visible()


def test_a_wrong_code_is_refused_beside_the_field(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open("/login")
    page.get_by_label("E-mail").fill("wrong@example.com")
    page.get_by_role("button", name="Send me a code").click()
    expect(page.get_by_text("This installation has no mail server yet.")).to_be_visible()
    page.get_by_label("Digit of the code").first.focus()
    page.keyboard.type("000000")
    expect(page.get_by_role("alert")).to_contain_text("code")
    expect(page.get_by_label("Digit of the code").first).to_be_focused()


def test_an_address_for_later_is_kept_through_sign_in(visitor: Visitor) -> None:
    visitor.open("/projects/prj_aaaaaaaaaaaaaaaaaaaa/containers")
    visitor.page.wait_for_url(re.compile(r"/login\?next="))
    assert "next=%2Fprojects%2Fprj_" in visitor.page.url


def test_a_page_that_is_not_there_says_so(visitor: Visitor) -> None:
    visitor.open("/no/such/page")
    expect(visitor.page.get_by_role("heading", name="There is nothing at this address.")).to_be_visible()
