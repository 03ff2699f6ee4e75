"""An alert is sent by mail and to a webhook, with what is secret from the environment."""

import json
import socketserver
import threading
from contextlib import contextmanager
from dataclasses import replace
from email import message_from_string
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.home import home
from dp_synth_pipeline.orchestration.alerts import FOLDER, Alert, AlertResource
from dp_synth_pipeline.orchestration.resources import of_project

ALERT = Alert("release_refused", "people", "Account people refused a release of people. Nothing was read.")


class Web(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.answers)
        self.end_headers()

    def log_message(self, *_):
        pass


class Mail(socketserver.StreamRequestHandler):
    """As much of a mail server as one mail needs; it offers no TLS."""

    def handle(self):
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline().decode().strip():
            self.server.said.append(line)
            if line.lower() == "data":
                self.wfile.write(b"354 go on\r\n")
                lines = iter(lambda: self.rfile.readline().decode(), ".\r\n")
                self.server.heard.append(message_from_string("".join(lines)))
            if line.lower().startswith("ehlo"):
                self.wfile.write(b"250-here\r\n")
                self.wfile.write(b"250 AUTH PLAIN\r\n")
                continue
            self.wfile.write(b"221 bye\r\n" if line.lower() == "quit" else b"250 yes\r\n")


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path))


@contextmanager
def serving(kind, handler):
    with kind(("127.0.0.1", 0), handler) as server:
        server.heard, server.said, server.answers = [], [], 204
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def web():
    with serving(HTTPServer, Web) as server:
        yield server


@pytest.fixture
def post():
    with serving(socketserver.TCPServer, Mail) as server:
        yield server


def made(**fields):
    """The resource as a project's sensors get it."""
    defs = dg.Definitions(resources={"pager": AlertResource(**fields)})
    return of_project(AlertResource, defs.get_repository_def().get_top_level_resources())


def test_an_alert_is_posted_to_the_webhook_that_the_environment_names(web, monkeypatch):
    monkeypatch.setenv("ALERT_WEBHOOK", f"http://127.0.0.1:{web.server_port}/secret")
    assert made(webhook=dg.EnvVar("ALERT_WEBHOOK")).tell([ALERT]) == ALERT.message
    (told,) = web.heard
    assert (told["text"], told["kind"], told["subject"]) == (ALERT.message, "release_refused", "people")


def test_an_alert_is_sent_by_mail_to_all_who_are_named(post):
    to = "ana@clinic.example, bob@clinic.example"
    own = made(mail_to=to, smtp_host="127.0.0.1", smtp_port=post.server_address[1], mail_from="etl@clinic.example")
    own.notify(ALERT)
    (mail,) = post.heard
    assert (mail["To"], mail["From"]) == (to, "etl@clinic.example")
    assert mail["Subject"] == "dp_synth: release refused, people"
    assert mail.get_payload().strip() == ALERT.message
    assert sum(line.lower().startswith("rcpt to:") for line in post.said) == 2


def test_a_password_is_not_sent_without_tls_and_what_fails_tells_no_secret(post, web):
    own = made(
        mail_to="a@b.example", smtp_host="127.0.0.1", smtp_port=post.server_address[1], smtp_user="etl",
        smtp_password="PASSWORD",
    )  # fmt: skip
    assert "An alert waits for the mail server." in own.tell([ALERT])
    with pytest.raises(InvalidInput, match="not taken by the mail server") as refused:
        own.tell([])
    assert post.heard == []
    assert not any("AUTH" in line.upper() for line in post.said)
    assert "PASSWORD" not in repr(refused.value)
    assert refused.value.__context__ is None
    web.answers = 500
    for address in (f"http://127.0.0.1:{web.server_port}/SECRET", "SECRET"):
        broken = made(webhook=address)
        told = broken.tell([ALERT])
        with pytest.raises(InvalidInput, match="not taken by the webhook") as failed:
            broken.tell([])
        assert "SECRET" not in told + repr(failed.value)
    assert not any("SECRET" in path.name + path.read_text() for path in (home() / FOLDER).iterdir())


def test_a_mail_server_that_is_down_has_nothing_posted_twice_and_gets_all_in_order_later(post, web):
    port = post.server_address[1]
    facts = {"webhook": f"http://127.0.0.1:{web.server_port}/", "mail_to": "a@b.example", "smtp_host": "127.0.0.1"}
    down, up = made(**facts, smtp_port=port, smtp_user="needs TLS"), made(**facts, smtp_port=port)
    later = replace(ALERT, subject="visits")
    assert down.tell([ALERT]).endswith("An alert waits for the mail server.")
    asked = len(post.said)
    down.tell([later])
    assert len(post.said) < 2.5 * asked, "behind an alert that waits, the next one is not tried"
    with pytest.raises(InvalidInput):
        down.tell([])
    assert [told["subject"] for told in web.heard] == ["people", "visits"]
    assert up.tell([]) == ""
    assert [mail["Subject"].split()[-1] for mail in post.heard] == ["people", "visits"]
    assert up.tell([]) == ""
    assert (len(web.heard), len(post.heard)) == (2, 2)


def test_a_webhook_that_is_down_keeps_no_mail_back(post, web):
    web.answers = 500
    facts = {"mail_to": "a@b.example", "smtp_host": "127.0.0.1", "smtp_port": post.server_address[1]}
    own = made(webhook=f"http://127.0.0.1:{web.server_port}/", **facts)
    assert own.tell([ALERT]).endswith("An alert waits for the webhook.")
    assert len(post.heard) == 1


def test_what_waits_for_one_projects_webhook_goes_to_no_other(web):
    web.answers = 500
    address = f"http://127.0.0.1:{web.server_port}/"
    made(webhook=address).tell([ALERT])
    web.answers = 204
    web.heard.clear()
    assert made(webhook=f"{address}another").tell([]) == ""
    assert web.heard == []


def test_nobody_is_told_where_nobody_is_named():
    AlertResource().notify(ALERT)
    assert not (home() / FOLDER).exists()
