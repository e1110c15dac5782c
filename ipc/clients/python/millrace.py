"""Speak to Millrace from a task: one file, standard library only.

    import millrace

    for n, url in enumerate(urls):
        if millrace.cancelled():          # with run.stdin: open
            break
        millrace.data({"url": url})
        millrace.progress(done=n + 1, total=len(urls))
        millrace.checkpoint({"next": n + 1})
    millrace.result({"pages": len(urls)})

Every function writes one line to the standard output, so nothing here needs a
server, and a program runs without Millrace as well. Functions that take wait=True
return when Millrace has answered; they need `run: {stdin: open}` in the job.
docs/ipc.md describes the protocol. All functions may be called from any thread.
"""

import json
import os
import signal
import sys
import threading

VERSION = 1
MAX_VALUE = 64 << 10  # bytes of a result or a checkpoint as JSON
MAX_LINE = 1 << 20    # bytes of a message
BATCH = 512 << 10     # about how many bytes of records data() puts into one

_write_lock = threading.Lock()
_lock = threading.Condition()
_answers = {}
_init = None
_cancel = None
_on_cancel = []
_reading = False
_ended = False
_count = 0


class Refused(Exception):
    """Millrace has refused what was asked for; the text says why."""


# -- what the task is ---------------------------------------------------------

def inside():
    """Whether this process is a task of Millrace."""
    return "MILLRACE_IPC" in os.environ


def id():
    """The task's id, or None outside of Millrace."""
    return os.environ.get("MILLRACE_TASK")


def attempt():
    """The number of this attempt, from 1."""
    return int(os.environ.get("MILLRACE_ATTEMPT", "1"))


def _variable(name):
    """The text of a variable; a file holds it if it is too long for a variable."""
    path = os.environ.get(name + "_FILE")
    if name in os.environ or not path:
        return os.environ.get(name)
    with open(path, encoding="utf-8") as file:
        return file.read()


def params():
    """The task's parameters, a dict."""
    return json.loads(_variable("MILLRACE_PARAMS") or "{}")


def last_checkpoint(default=None):
    """The last checkpoint() of an earlier attempt."""
    text = _variable("MILLRACE_CHECKPOINT")
    return json.loads(text) if text else default


def init(timeout=10):
    """The payload of INIT, a dict; None without run.stdin: open."""
    if not _read():
        return None
    with _lock:
        _lock.wait_for(lambda: _init is not None or _ended, timeout)
        return _init


# -- what to say --------------------------------------------------------------

def send(type, payload=None, wait=False, timeout=60):
    """Send a message of any type. With wait, return the payload of its ACK.

    Raises ValueError for what Millrace would refuse because it is too long.
    """
    global _count
    message = {"v": VERSION, "type": type}
    if os.environ.get("MILLRACE_KEY"):
        message["key"] = os.environ["MILLRACE_KEY"]
    if wait and not _read():
        raise RuntimeError("waiting for an answer needs `run: {stdin: open}` in the job")
    if wait:
        with _lock:
            _count += 1
            message["id"] = "py-%d-%d" % (os.getpid(), _count)
    line = _json(message)
    if payload is not None:
        text = _json(payload)
        if type in ("RESULT", "CHECKPOINT") and _size(text) > MAX_VALUE:
            raise ValueError("a %s has at most %d bytes, this one has %d" % (type, MAX_VALUE, _size(text)))
        line = line[:-1] + ',"payload":' + text + "}"
    if _size(line) > MAX_LINE:
        raise ValueError("a message has at most %d bytes, this %s has %d" % (MAX_LINE, type, _size(line)))
    with _write_lock:
        sys.stdout.flush()
        out = getattr(sys.stdout, "buffer", None)
        if out is None:
            sys.stdout.write(line + "\n")
        else:
            out.write(line.encode("utf-8", "replace") + b"\n")
        sys.stdout.flush()
    if not wait:
        return None
    with _lock:
        _lock.wait_for(lambda: message["id"] in _answers or _ended, timeout)
        answer = _answers.pop(message["id"], None)
    if answer is None:
        raise TimeoutError("no answer to %s" % type)
    if not answer.get("ok"):
        raise Refused(answer.get("error", "refused"))
    return answer


def _json(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _size(text):
    return len(text.encode("utf-8", "replace"))


def status(message, progress=None):
    """Say what the task is at."""
    send("STATUS", message if progress is None else {"message": message, "progress": progress})


def progress(share=None, message=None, done=None, total=None):
    """Say how far the task is: a share from 0 to 1, or done of total."""
    payload = {"progress": share} if share is not None else {"done": done, "total": total}
    if message:
        payload["message"] = message
    send("PROGRESS", payload)


def metric(**values):
    """Give figures their latest values: metric(pages=7, errors=0)."""
    send("METRIC", values)


def log(message, level="info", **fields):
    """Write an entry of the log: level is debug, info, warn or error."""
    payload = {"message": message, "level": level}
    if fields:
        payload["fields"] = fields
    send("LOG", payload)


def data(records, wait=False):
    """Store a record (a dict) or several (a list). With wait, return when they are stored."""
    if records is None or isinstance(records, dict):
        send("INSERT_DATA", records, wait)
        return
    some, size = [], 0
    for record in records:  # in as many messages as they need
        n = _size(_json(record)) + 1
        if some and size + n > BATCH:
            send("INSERT_DATA", some, wait)
            some, size = [], 0
        some.append(record)
        size += n
    if some:
        send("INSERT_DATA", some, wait)


def error(message, cls=None, retryable=None, retry_after=None, fatal=None):
    """Say what went wrong. It counts when the process then fails; with fatal in any case."""
    payload = {"message": message, "class": cls, "retryable": retryable, "retry_after": retry_after, "fatal": fatal}
    send("ERROR", {k: v for k, v in payload.items() if v is not None})


def result(value):
    """Set the task's result, any JSON of at most 64 kB."""
    send("RESULT", value)


def heartbeat():
    """Say that the program makes headway."""
    send("HEARTBEAT")


def extend(by, wait=False):
    """Ask that the run timeout not pass for so long: "10m", or seconds."""
    answer = send("EXTEND", {"by": by}, wait)
    return answer and answer.get("until")


def checkpoint(value, wait=False):
    """Store the state from which another attempt continues, any JSON of at most 64 kB."""
    send("CHECKPOINT", value, wait)


def spawn(key=None, wait=False, **task):
    """Submit a child: spawn(job="page", params={"url": u}, key=u). With wait, return its id."""
    if key is not None:
        task["key"] = key
    answer = send("SPAWN", task, wait)
    return answer and answer.get("task")


def ready():
    """Say that the program has set itself up and begins its work."""
    send("READY")


# -- what Millrace says -------------------------------------------------------

def cancelled():
    """Whether the task is to end: the payload of CANCEL, or None. Needs run.stdin: open."""
    _read()
    return _cancel


def on_cancel(function):
    """Call function(payload), from another thread, when Millrace asks the task to end."""
    with _lock:
        _on_cancel.append(function)
    _read()


def _read():
    global _reading
    if os.environ.get("MILLRACE_STDIN") != "open":
        return False
    with _lock:
        if not _reading:
            _reading = True
            threading.Thread(target=_listen, daemon=True).start()
    return True


def _listen():
    global _init, _cancel, _ended
    for line in sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        payload = message.get("payload") or {}
        call = []
        with _lock:
            if message.get("type") == "INIT":
                _init = payload
            elif message.get("type") == "ACK":
                _answers[payload.get("id")] = payload
            elif message.get("type") == "CANCEL":
                _cancel = payload
                call = list(_on_cancel)
            _lock.notify_all()
        if message.get("type") == "PING":
            heartbeat()
        for function in call:
            function(payload)
    with _lock:
        _ended = True
        _lock.notify_all()


def quiet_term():
    """Let SIGTERM end nothing: for programs that end when cancelled() says so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
