"""Submit tasks, wait for them and ask about them over HTTP: one file, standard library only.

    client = Client("http://127.0.0.1:4280", token)
    id = client.submit(handler="resize", params={"url": u}, unique="resize-" + u)
    print(client.result(id))

docs/http.md describes the routes; a test holds this file against the server's OpenAPI document.
"""

import dataclasses
import json
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request

# The operations of the document that this client uses.
OPERATIONS = {
    "submit": ("PUT", "/tasks/{id}"), "get": ("GET", "/tasks/{id}"), "wait": ("GET", "/tasks/{id}/wait"),
    "list": ("GET", "/tasks"), "cancel": ("POST", "/tasks/{id}/cancel"), "retry": ("POST", "/tasks/{id}/retry"),
    "signal": ("POST", "/tasks/{id}/signal"), "output": ("GET", "/tasks/{id}/output"), "records": ("GET", "/tasks/{id}/records"),
}


class Problem(Exception):
    """The server refuses a request. status is that of HTTP, type the kind of problem."""

    def __init__(self, status, body):
        super().__init__(body.get("detail") or body.get("title") or "status %d" % status)
        self.status, self.type, self.next = status, body.get("type", ""), body.get("next", "")


class Failed(Exception):
    """A task has ended without success; task is that."""

    def __init__(self, task):
        super().__init__("task %s is %s: %s" % (task.id, task.state, task.message or task.reason))
        self.task = task


@dataclasses.dataclass
class Task:
    """What a task is now. state is finished, error, cancelled or abnormal when it has ended."""
    id: str
    state: str
    attempt: int = 0
    job: str = ""
    node: str = ""
    reason: str = ""
    message: str = ""
    result: object = None
    params: object = None
    labels: dict = dataclasses.field(default_factory=dict)
    submitted_at: str = ""
    ended_at: str = ""


@dataclasses.dataclass
class Line:
    """A line of output; stream is stdout, stderr, log or system."""
    stream: str
    text: str = ""
    at: str = ""
    level: str = ""


def _of(kind, body):
    return kind(**{f.name: body[f.name] for f in dataclasses.fields(kind) if f.name in body})


class Client:
    """A server of Millrace. Requests that find it busy, or not there, are repeated for patience seconds."""

    def __init__(self, url="http://127.0.0.1:4280", token="", patience=30):
        self.url, self.token, self.patience = url.rstrip("/") + "/api/v1", token, patience

    def submit(self, job=None, handler=None, argv=None, shell=None, params=None, id=None, **more):
        """Submit a task of a job, a handler or a command; more are fields of a submission.

        Returns the id. The task gets it here, so repeating a request makes no second one.
        """
        body = dict(more)
        spec = {"handler": handler} if handler else {"run": {"argv": argv}} if argv else {"run": {"shell": shell}} if shell else None
        for name, value in (("job", job), ("spec", spec), ("params", params)):
            if value is not None:
                body[name] = value
        return self._call("submit", id=id or new_id(), body=body)["id"]

    def get(self, id):
        """The task as it is now."""
        return _of(Task, self._call("get", id=id))

    def wait(self, id, timeout=None):
        """The task when it has ended. Raises TimeoutError after timeout seconds."""
        by = None if timeout is None else time.monotonic() + timeout
        while True:
            answer = self._call("wait", id=id)
            if answer.get("met"):
                return _of(Task, answer["task"])
            if by is not None and time.monotonic() > by:
                raise TimeoutError("task %s is %s" % (id, answer["task"]["state"]))

    def result(self, id, timeout=None):
        """The result of a task when it has ended. Raises Failed unless it is finished."""
        task = self.wait(id, timeout)
        if task.state != "finished":
            raise Failed(task)
        return task.result

    def list(self, query="", limit=None):
        """Tasks that a query chooses, such as "state:error since:2h", the newest first."""
        cursor = ""
        while limit is None or limit > 0:
            page = self._call("list", query={"query": query, "cursor": cursor, "limit": min(limit or 1000, 1000)})
            for body in page.get("tasks") or []:
                yield _of(Task, body)
            cursor = page.get("next", "")
            limit = limit and limit - len(page.get("tasks") or [])
            if not cursor:
                return

    def cancel(self, id, reason=""):
        """Cancel a task; returns it."""
        return _of(Task, self._call("cancel", id=id, body={"reason": reason}))

    def retry(self, id, reason=""):
        """Give a task that has ended another life; returns it."""
        return _of(Task, self._call("retry", id=id, body={"reason": reason}))

    def signal(self, id, data=None, reason="", name=""):
        """Give a task the signal that it waits for, or refuse if it waits for one of another name; returns it."""
        return _of(Task, self._call("signal", id=id, body={"data": data, "reason": reason, "name": name}))

    def output(self, id):
        """The lines that a task has printed so far."""
        for batch in self._batches("output", id):
            for body in batch.get("lines") or []:
                yield _of(Line, body)

    def records(self, id):
        """The records that a task has produced so far."""
        for batch in self._batches("records", id):
            yield from batch.get("items") or []

    def _batches(self, operation, id):
        after = 0
        while True:
            page = self._call(operation, id=id, query={"after": after, "limit": 1000})
            for batch in page.get("batches") or []:
                yield batch["of"]
            if not page.get("next"):
                return
            after = page["next"]

    def _call(self, operation, id="", query=None, body=None):
        method, path = OPERATIONS[operation]
        url = self.url + path.replace("{id}", urllib.parse.quote(id, safe=""))
        given = {k: v for k, v in (query or {}).items() if v}
        if given:
            url += "?" + urllib.parse.urlencode(given)
        request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("Accept", "application/json")
        request.add_header("Content-Type", "application/json")
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        by, pause = time.monotonic() + self.patience, 0.1
        while True:
            try:
                with urllib.request.urlopen(request, timeout=self.patience + 30) as answer:
                    return json.loads(answer.read())
            except urllib.error.HTTPError as e:
                try:
                    problem = Problem(e.code, json.loads(e.read() or b"{}"))
                except ValueError:
                    problem = Problem(e.code, {})
                asked = e.headers.get("Retry-After")
                if e.code not in (429, 503) or time.monotonic() > by:
                    raise problem from None
                pause = float(asked) if asked and asked.isdigit() else pause
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > by or method == "POST":  # it may have been done
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 5)


def new_id():
    """A new id of a task: a ULID."""
    n = int(time.time() * 1000) << 80 | secrets.randbits(80)
    return "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[n >> 5 * i & 31] for i in reversed(range(26)))
