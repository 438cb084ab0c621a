"""A page of somebody else in the owner's browser: it tries to start a run, to read and to listen."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from flows import settings

ATTEMPTS = ("simple", "json", "read", "form", "frame", "script", "picture", "socket")
"""Each asks the target for a path that begins with its name, or, at a real API, for what is given."""
_PAGE = """\
<!doctype html><title>hostile</title><body><script>
const target = %(target)s, paths = %(paths)s, body = %(body)s, came = {};
const at = name => target + paths[name];
const tried = (name, trial) => Promise.resolve().then(trial)
  .then(() => { came[name] = "came"; }, () => { came[name] = "failed"; });
const loaded = (tag, name, key) => new Promise((done, failed) => {
  const each = document.createElement(tag);
  each.onload = done; each.onerror = failed; each[key] = at(name); document.body.append(each);
});
const include = {method: "POST", credentials: "include"};
window.all = Promise.all([
  tried("simple", () => fetch(at("simple"), {...include, mode: "no-cors", body: new Blob([body])})),
  tried("json", () => fetch(at("json"),
    {...include, headers: {"Content-Type": "application/json"}, body})),
  tried("read", () => fetch(at("read"), {...include, body: new Blob(["{}"])}).then(r => r.text())),
  tried("form", () => new Promise(done => {
    const frame = document.createElement("iframe"), form = document.createElement("form");
    frame.name = "sink"; frame.onload = done; document.body.append(frame);
    Object.assign(form, {method: "POST", action: at("form"), target: "sink", enctype: "text/plain"});
    const field = document.createElement("input");
    field.name = body.slice(0, -1) + ', "x": "'; field.value = '"}';
    form.append(field); document.body.append(form); form.submit();
  })),
  tried("frame", () => loaded("iframe", "frame", "src")),
  tried("script", () => loaded("script", "script", "src")),
  tried("picture", () => loaded("img", "picture", "src")),
  tried("socket", () => new Promise((done, failed) => {
    const socket = new WebSocket(at("socket").replace("http", "ws"), ["prefect"]);
    socket.onopen = () => socket.send('{"type": "auth", "token": ""}');
    socket.onmessage = done; socket.onclose = failed;
  })),
]).then(() => came);
</script>"""


@dataclass
class Site:
    """A site on a port of its own, which shows the page and writes down what else it is asked for."""

    port: int = 0
    page: str = ""
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Those of each request."""

    def attack(self, target: str, paths: dict[str, str], body: dict[str, object]) -> None:
        """Show a page from now on that attacks a server."""
        given = {"target": target, "paths": paths, "body": json.dumps(body)}
        self.page = _PAGE % {name: json.dumps(each) for name, each in given.items()}


@contextmanager
def site() -> Iterator[Site]:
    """The site while the block lasts; to a socket it says no, once it was asked."""
    here = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            here.asked.append(self.path.strip("/"))
            here.headers.append(dict(self.headers.items()))
            body = (here.page if self.path == "/" else "").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def do_OPTIONS(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer((settings.HOST, 0), Handler)
    here.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
