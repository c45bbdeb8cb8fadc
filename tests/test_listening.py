"""Which requests name this machine's own server, and how its address is written for people."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from textassay.listening import answers_to, link, origin

HOSTNAME = socket.gethostname()


@pytest.mark.parametrize(
    ("header", "listening", "answered"),
    [
        ("127.0.0.1:8765", "127.0.0.1", True),
        ("localhost:8765", "127.0.0.1", True),
        ("LOCALHOST", "127.0.0.1", True),
        ("[::1]:8765", "127.0.0.1", True),
        ("192.0.2.7:8765", "127.0.0.1", False),
        ("evil.example:8765", "127.0.0.1", False),
        (HOSTNAME, "127.0.0.1", False),
        ("192.0.2.7:8765", "192.0.2.7", True),
        ("[fd00::2]:8765", "fd00::2", True),
        ("[fd00::2]", "fd00::2", True),
        ("192.0.2.7", "0.0.0.0", True),
        (f"{HOSTNAME}:8765", "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("127.0.0.1.evil.example", "0.0.0.0", False),
        ("box.local:80", "box.local", True),
        ("", "127.0.0.1", False),
        ("[localhost]", "127.0.0.1", False),
        ("[[127.0.0.1]]", "127.0.0.1", False),
    ],
)
def test_only_own_names_are_answered(header, listening, answered):
    """A name that somebody else may point at this machine is not one of its own."""
    assert answers_to(header, listening) is answered


def test_links_can_be_opened_elsewhere():
    assert link("127.0.0.1", 80) == "http://127.0.0.1:80"
    assert link("fd00::2", 80) == "http://[fd00::2]:80"
    assert link("box.local", 80) == "http://box.local:80"


def test_all_addresses_are_named_by_one():
    program = "from textassay.listening import link; print(link('0.0.0.0', 80), link('::', 80))"
    # in a process of its own: in this one even a socket that sends nothing may not leave
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert [one.endswith(":80") for one in shown] == [True, True]
    assert not {"http://0.0.0.0:80", "http://[::]:80"} & set(shown)


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("https://rate.example", "https://rate.example"),
        ("https://Rate.example:8443/", "https://rate.example:8443"),
        ("HTTPS://rate.example:443", "https://rate.example"),
        ("http://[FD00::2]:80", "http://[fd00::2]"),
        ("https://b\u00fccher.example", "https://xn--bcher-kva.example"),
        ("https://rate example", None),
        ("rate.example", None),
        ("ftp://rate.example", None),
        ("https://rate.example/study", None),
        ("https://rate.example?x=1", None),
        ("https://me:secret@rate.example", None),
        ("https://rate.example:port", None),
        ("https://", None),
    ],
)
def test_origins(url, known):
    assert origin(url) == known
