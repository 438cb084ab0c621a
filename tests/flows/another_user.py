"""A program of another user of the machine: what it sees of `curriculum serve`, and where it gets in."""

SNOOP = """\
import encodings.idna, glob, http.client, json, os, sys
user, server, pages, place, path, secret, *pids = sys.argv[1:]
if int(user):
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))

def tried(attempt):
    try:
        return attempt()
    except OSError as refused:
        return type(refused).__name__

def read(file):
    with open(file, "rb") as opened:
        return opened.read().decode(errors="replace")

def asked(server, path, **headers):
    connection = http.client.HTTPConnection(server, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except ConnectionError:
        return "closed"

def seen():
    lines = [tried(lambda: read(file)) for file in glob.glob("/proc/[0-9]*/cmdline")]
    own = [tried(lambda: read(f"/proc/{os.getpid()}/cmdline"))]
    return [line for line in lines if line not in own and (path in line or secret in line)]

found = {
    "file": tried(lambda: json.loads(read(place))["secret"]),
    "environment": [tried(lambda: secret in read(f"/proc/{pid}/environ")) for pid in pids],
    "memory": [tried(lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))) for pid in pids],
    "lines": seen(),
    "ports": [hex(int(each.rpartition(":")[2]))[2:].upper() in read("/proc/net/tcp")
              for each in (server, pages)],
    "health": asked(server, "/api/health"),
    "api": asked(server, "/api/version", **{"X-Forwarded-For": "127.0.0.1:1"}),
    "pages": [asked(pages, page) for page in ("/", "/overview/", "/reports/", "/" + "0" * 32 + "/sql/")],
}
print(json.dumps(found))
"""
