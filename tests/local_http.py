"""HTTP servers on this machine, for as long as a test lasts."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LocalServer(ThreadingHTTPServer):
    """Serves at ``url`` inside its ``with`` block."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler, port=0):
        super().__init__(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        self.server_close()


class LocalHandler(BaseHTTPRequestHandler):
    """Reads and answers JSON, and logs nothing."""

    disable_nagle_algorithm = True  # it would hold back every answer for 40 ms

    def read(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def say(self, status, body, headers=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass
