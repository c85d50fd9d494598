"""The local server of the viewer: on loopback, with a secret in its URL.

It serves untrusted text, so access is limited. It serves only the files of the page and answers
about the given sources. The URL contains a secret, which other users of the machine do not know.
``Host`` and ``Origin`` must be its own, so that no other page can send requests through the browser
(DNS rebinding included). The page loads nothing from elsewhere.
"""

import json
import secrets
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from llm_gym.core.errors import LLMGymError, error_words
from llm_gym.core.loopback import is_own, own_hosts, same_secret
from llm_gym.view.api import Api, dump
from llm_gym.view.export import TYPES, static_files
from llm_gym.view.sources import ViewSource

MAX_BODY = 2**20
MAX_FIELDS = 20
_JSON = "application/json"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ViewServer(ThreadingHTTPServer):
    """Serves the page about ``sources``."""

    daemon_threads = True

    def __init__(self, sources: Sequence[ViewSource], port: int = 0) -> None:
        self.api = Api(sources)
        self.secret = secrets.token_urlsafe(16)
        super().__init__(("127.0.0.1", port), Handler)
        self.hosts = own_hosts(self.server_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.secret}/"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: ViewServer
    server_version = "llm-gym"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        if (name := self._allowed()) is None:
            return
        parts = urlsplit(name)
        name = parts.path or "index.html"
        if name in static_files():
            self._send(HTTPStatus.OK, static_files()[name], TYPES[Path(name).suffix])
            return
        question = name.removeprefix("api/")
        if question == name or question not in {*self.server.api.answers, "episode"}:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        try:
            query = dict(parse_qsl(parts.query, max_num_fields=MAX_FIELDS))
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "the address has too many fields")
            return
        api = self.server.api
        if question == "episode":
            self._answer(lambda: api.episode(query))
        else:
            self._answer(lambda: dump(api.ask(question, query)))

    def do_POST(self) -> None:
        if (name := self._allowed()) is None:
            return
        length = self.headers.get("Content-Length", "")
        if name != "api/play" or self.headers.get_content_type() != _JSON:
            self._refuse(HTTPStatus.NOT_FOUND, "only api/play takes JSON")
        elif not (length.isdecimal() and len(length) < 10 and int(length) <= MAX_BODY):
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY} bytes")
        else:
            body = self.rfile.read(int(length))
            self._answer(lambda: dump(self.server.api.play(json.loads(body))))

    def _allowed(self) -> str | None:
        """Return the path after the secret, or answer why not and return None."""
        site = self.headers.get("Sec-Fetch-Site", "none")
        own = is_own(self.headers.get("Host", ""), self.headers.get("Origin"), self.server.hosts)
        if not own or site not in ("same-origin", "none"):
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers its own page alone")
            return None
        _, secret, name = [*self.path.split("/", 2), "", ""][:3]
        if not same_secret(secret, self.server.secret):
            self._refuse(HTTPStatus.FORBIDDEN, "open the address that llm-gym view has printed")
            return None
        return name

    def _answer(self, ask: Any) -> None:
        try:
            body = ask()
        except (LLMGymError, ValueError, RecursionError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - of an environment played on
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, error_words(error))
        else:
            self._send(HTTPStatus.OK, body, _JSON)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True  # the body of a refused request was not read
        self._send(status, dump({"error": why[:2000]}), _JSON)

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        headers = {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal belongs to the command."""
