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

A resident program (millrace worker --program 'python app.py') runs one task after the other:

    @millrace.task("resize")
    def resize(url: str, width: int = 100):
        millrace.progress(0.5)
        return {"width": width}

    millrace.run()
"""

import dataclasses
import datetime
import functools
import inspect
import json
import os
import queue
import signal
import sys
import threading
import traceback
import typing

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
_source = None           # what Millrace writes; the standard input by default
_out = None              # where a resident program writes; the standard output by default
_tasks = {}              # handlers by name
_given = queue.SimpleQueue()
_listening = False       # whether the thread of a resident program reads, and not its main one
_wanted = threading.Event()  # by a handler that waits for Millrace
_busy = threading.Event()    # a resident program has a task
unknown = 0              # messages of a type that this version does not know


class Refused(Exception):
    """Millrace has refused what was asked for; the text says why."""


class Failure(Exception):
    """Raise it in a handler to say more of a failure than its message."""

    def __init__(self, message, cls=None, retryable=None, retry_after=None):
        super().__init__(message)
        self.payload = {"message": message, "class": cls, "retryable": retryable, "retry_after": retry_after}


class Cancelled(Exception):
    """The task is to end; check() raises it."""


class Suspended(BaseException):
    """A step waits. Let it pass: the task goes on behind the step, in another attempt."""


class StepFailed(Exception):
    """A step has failed for good, after so many tries, or the child of a call has not finished."""

    def __init__(self, step, message, tries=0, child=None):
        super().__init__("step %s: %s" % (step, message))
        self.step, self.message, self.tries, self.child = step, message, tries, child


class NoSignal(StepFailed):
    """The signal that wait_for() waits for did not come in time."""


# -- what the task is ---------------------------------------------------------

def inside():
    """Whether this process is a task of Millrace."""
    return "MILLRACE_IPC" in os.environ


def id():
    """The task's id, or None outside of Millrace."""
    return (_init or {}).get("task") or os.environ.get("MILLRACE_TASK")


def attempt():
    """The number of this attempt, from 1."""
    return (_init or {}).get("attempt") or int(os.environ.get("MILLRACE_ATTEMPT", "1"))


def _variable(name):
    """The text of a variable; a file holds it if it is too long for a variable."""
    path = os.environ.get(name + "_FILE")
    if name in os.environ or not path:
        return os.environ.get(name)
    with open(path, encoding="utf-8") as file:
        return file.read()


def params():
    """The task's parameters, a dict."""
    if _out is not None:
        return (_init or {}).get("params", {})
    return json.loads(_variable("MILLRACE_PARAMS") or "{}")


def last_checkpoint(default=None):
    """The last checkpoint() of an earlier attempt."""
    if _out is not None:
        return (_init or {}).get("checkpoint", default)
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
    key = (_init or {}).get("key") or os.environ.get("MILLRACE_KEY")
    if key:
        message["key"] = key
    if wait and not _read():
        raise RuntimeError("waiting for an answer needs `run: {stdin: open}` in the job")
    if wait:
        with _lock:
            _count += 1
            message["id"] = "py-%d-%d" % (os.getpid(), _count)
    _write(_line(message, type, payload))
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


def _line(message, type, payload):
    line = _json(message)
    if payload is not None:
        text = _json(payload)
        if type in ("RESULT", "CHECKPOINT") and _size(text) > MAX_VALUE:
            raise ValueError("a %s has at most %d bytes, this one has %d" % (type, MAX_VALUE, _size(text)))
        line = line[:-1] + ',"payload":' + text + "}"
    if _size(line) > MAX_LINE:
        raise ValueError("a message has at most %d bytes, this %s has %d" % (MAX_LINE, type, _size(line)))
    return line


def _write(line):
    with _write_lock:
        sys.stdout.flush()
        if _out is not None:
            _all(_out, line.encode("utf-8", "replace") + b"\n")
            return
        out = getattr(sys.stdout, "buffer", None)
        if out is None:
            sys.stdout.write(line + "\n")
        else:
            out.write(line.encode("utf-8", "replace") + b"\n")
        sys.stdout.flush()


def _all(fd, data):
    while data:
        data = data[os.write(fd, data):]


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
            threading.Thread(target=_listen if _out is None else _help, daemon=True).start()
    if _out is not None and not _listening:
        _wanted.set()
    return True


def _listen(source=None):
    """Take messages to the end of the input; those of a resident program up to an INIT or a BYE."""
    global _init, _cancel, _ended, unknown
    for line in iter((source or sys.stdin).readline, ""):
        try:
            message = json.loads(line)
        except ValueError:
            continue
        type, payload = message.get("type"), message.get("payload") or {}
        call = []
        with _lock:
            if type == "INIT":
                _init, _cancel = payload, None
                if source:
                    _answers.clear()
                    _on_cancel.clear()
                    return payload
            elif type == "BYE":
                return None
            elif type == "ACK":
                _answers[payload.get("id")] = payload
            elif type == "CANCEL":
                _cancel = payload
                call = list(_on_cancel)
            elif type != "PING":
                unknown += 1
            _lock.notify_all()
        if type == "PING":
            heartbeat()
        for function in call:
            function(payload)
    with _lock:
        _ended = True
        _lock.notify_all()


def quiet_term():
    """Let SIGTERM end nothing: for programs that end when cancelled() says so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


# -- resident programs --------------------------------------------------------

def task(name):
    """Make a function the handler of tasks of a name, in a resident program.

    It gets the parameters as keyword arguments, or as one dataclass if it has one parameter of
    that type, and returns the result. Arguments that do not fit the annotations (str, int,
    float, bool, list, dict) fail the task for good.
    """
    def handles(function):
        _tasks[name] = function
        return function
    return handles


def check():
    """Raise Cancelled if the task is to end."""
    if cancelled():
        raise Cancelled(_cancel.get("reason", "cancelled"))


def wait(seconds):
    """Sleep, and raise Cancelled as soon as the task is to end."""
    _read()
    with _lock:
        _lock.wait_for(lambda: _cancel is not None or _ended, seconds)
    check()


def run():
    """Run tasks, one at a time, until the worker needs this program no more."""
    global _source, _out
    if "MILLRACE_RESIDENT" not in os.environ:
        sys.exit("no worker keeps this program: start it with millrace worker --program")
    _source = os.fdopen(os.dup(0), encoding="utf-8")  # so that nothing else reads it
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    _out = os.dup(1)
    _read()
    send("HELLO", {"protocol": VERSION, "tasks": list(_tasks), "library": "python"})
    here = True
    while True:
        init = _listen(_source) if here else _given.get()
        if init is None:
            return
        _busy.set()
        line = _line({"v": VERSION, "type": "DONE", "key": init["key"]}, "DONE", _ends(init))
        sys.stderr.flush()
        with _lock:  # before the next task can come
            _busy.clear()
            here = not _listening
        _write("\n" + line)


def _help():
    """Listen while a task takes long, or wants to hear: between tasks the main thread does, for
    handing over takes longer than many a task."""
    global _listening
    while True:
        _busy.wait()
        init = _init
        wanted = _wanted.wait(0.5)
        with _lock:
            _wanted.clear()
            _listening = _busy.is_set() and (wanted or _init is init)
        if _listening:
            given = _listen(_source)
            with _lock:
                _listening = False
            _given.put(given)


def _ends(init):
    """Run a task and return how it has ended."""
    try:
        function = _tasks[init.get("handler")]
        args, kwargs = _arguments(function, init.get("params", {}))
        value = function(*args, **kwargs)
        return {} if value is None else {"result": _plain(value)}
    except Suspended:
        return {}
    except Cancelled as e:
        return {"error": {"message": str(e)}}
    except BaseException as e:  # also SystemExit: the next task needs the program
        return {"error": _failure(e)}


def _plain(value):
    """A result as JSON has it. One that is none, or is too long, fails for good."""
    try:
        text = _json(dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value)
        if _size(text) > MAX_VALUE:
            raise ValueError("it has at most %d bytes" % MAX_VALUE)
    except (TypeError, ValueError) as e:
        raise Failure("its result: %s" % e, retryable=False) from None
    return json.loads(text)


def _failure(e):
    if isinstance(e, Failure):
        return {k: v for k, v in e.payload.items() if v is not None}
    traceback.print_exception(type(e), e, e.__traceback__)
    return {"message": "%s: %s" % (e.__class__.__name__, e)}


# -- steps --------------------------------------------------------------------
# What each gives is remembered. The handler runs from its beginning in each attempt, comes to the same
# steps in the same order, is given what is remembered, and so goes on behind its last step.

def step(name, function, *args, retry=0):
    """Do a part of the task once: function(*args), of which the result is remembered as JSON.

    retry is how often it is tried again by itself, or a dict such as retry of a job. A step that has
    failed for good raises StepFailed.
    """
    done = _step("step", name, retry={"max": retry} if isinstance(retry, int) else retry)
    if done.get("known"):
        return done.get("value")
    try:
        value = function(*args)
    except Cancelled:
        raise
    except Exception as e:
        _became(name, send("STEPPED", {"error": _failure(e)}, True, None))  # raises
    value = _plain(value)  # fails the task, for the step would only be done again
    _became(name, send("STEPPED", {"result": value}, True, None))
    return value


def sleep(name, seconds):
    """Wait so long, once: a number, or a text such as "24h". No slot is taken meanwhile."""
    _step("sleep", name, **{"for": seconds})


def wait_for(name, timeout=None, form=None):
    """Wait for a signal, and return the data that came with it. Raises NoSignal after timeout.

    With a form other answers are refused. It is a dataclass, of which this returns one; or a list of
    questions, each as a job declares a parameter, for a dict; or one of them without a name, for a value.
    """
    typed = dataclasses.is_dataclass(form)
    asked = {"timeout": timeout, "form": _questions(form) if typed else [form] if isinstance(form, dict) else form}
    data = _step("await", name, **{k: v for k, v in asked.items() if v is not None}).get("value")
    return _fits(form, data or {}) if typed else data


def _questions(of):
    """The fields of a dataclass, each as a job declares a parameter."""
    form = []
    for field in _signature(of).parameters.values():
        is_ = {"name": field.name}
        if field.annotation in _KINDS:
            is_["type"] = _KINDS[field.annotation]
        elif typing.get_origin(field.annotation) is typing.Literal:
            is_["enum"] = list(typing.get_args(field.annotation))
        if field.default is not field.empty:
            is_["optional"] = True
        form.append(is_)
    return form


def call(name, /, **task):
    """Have a child run, and return its result: call("thumb", handler="resize", params={"url": u}).

    The fields are those of spawn(). Raises StepFailed if the child does not finish.
    """
    return call_all(name, [task])[0].result()


def call_all(name, tasks):
    """Have several children run at once; returns a Child for each when all have ended."""
    return [Child(name, **ended) for ended in _step("call", name, of=tasks)["value"]]


class Child:
    """How a child of call_all() has ended: its task, state, reason and value."""

    def __init__(self, step, task, state, reason="", result=None):
        self.step, self.task, self.state, self.reason, self.value = step, task, state, reason, result

    def result(self):
        """Its result. Raises StepFailed unless it is finished."""
        if self.state != "finished":
            why = ": " + self.reason if self.reason else ""
            raise StepFailed(self.step, "task %s is %s%s" % (self.task, self.state, why), child=self)
        return self.value


def now():
    """The time at which the task first came here, a datetime in UTC."""
    at = _step("now")["value"]
    of = datetime.datetime.strptime(at[:19], "%Y-%m-%dT%H:%M:%S")
    return of.replace(microsecond=int(at[20:-1][:6].ljust(6, "0")), tzinfo=datetime.timezone.utc)


def new_id():
    """An id that is drawn once."""
    return _step("id")["value"]


def version(name, number):
    """number for a task that comes here for the first time, 0 for one that passed before there was this."""
    return _step("version", name, **{"is": number})["value"]


def _step(kind, name=None, **more):
    payload = {"kind": kind, **more}
    if name is not None:
        payload["name"] = name
    return _became(name, send("STEP", payload, True, None), NoSignal if kind == "await" else StepFailed)


def _became(name, answer, failed=StepFailed):
    of = answer["step"]
    if of.get("suspended"):
        raise Suspended("step %s waits" % name)
    if of.get("failed"):
        raise failed(name, of["failed"], of.get("tries", 0))
    return of


@functools.lru_cache(maxsize=None)
def _signature(of):
    return inspect.signature(of, eval_str=True)


def _arguments(function, params):
    """The arguments of a handler, checked against its annotations."""
    wanted = list(_signature(function).parameters.values())
    if len(wanted) == 1 and dataclasses.is_dataclass(wanted[0].annotation):
        return [_fits(wanted[0].annotation, params)], {}
    return [], _fits(function, params)


_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def _fits(of, params):
    try:
        wanted = _signature(of)
        for name, value in wanted.bind(**params).arguments.items():
            kind = wanted.parameters[name].annotation if name in params else None
            if kind is float and type(value) is int:
                continue
            if kind in _KINDS and type(value) is not kind:
                raise TypeError("%s is %r, want %s" % (name, value, kind.__name__))
    except TypeError as e:
        raise Failure("params: %s" % e, cls="user", retryable=False) from None
    return of(**params) if inspect.isclass(of) else params
