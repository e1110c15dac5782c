"""The program that every library writes for the conformance suite, ipc/clients/go/conformance_test.go."""

import dataclasses
import sys

import millrace


@dataclasses.dataclass
class Resize:
    url: str
    width: int = 100


@millrace.task("echo")
def echo(**params):
    return params


@millrace.task("typed")
def typed(p: Resize):
    return p


@millrace.task("plain")
def plain():
    print("out")
    print("err", file=sys.stderr)
    print("half", end="")


@millrace.task("fail")
def fail():
    raise RuntimeError("no luck")


@millrace.task("final")
def final():
    raise millrace.Failure("never", cls="user", retryable=False)


@millrace.task("later")
def later():
    raise millrace.Failure("busy", cls="network", retry_after="30s")


@millrace.task("says")
def says():
    millrace.status("up")
    millrace.progress(done=1, total=4)
    millrace.data({"n": 1})
    millrace.log("slow", level="warn", ms=9)
    last = millrace.last_checkpoint({"next": 0})
    millrace.checkpoint({"next": last["next"] + 1})
    return {"id": millrace.id(), "attempt": millrace.attempt()}


@millrace.task("asks")
def asks():
    child = millrace.spawn(key="a", argv=["true"], wait=True)
    try:
        millrace.spawn(job="none", wait=True)
    except millrace.Refused as e:
        return {"child": child, "refused": str(e)}


@millrace.task("waits")
def waits():
    millrace.status("waiting")
    try:
        millrace.wait(600)
    except millrace.Cancelled as e:
        return "cancelled: %s" % e


@millrace.task("large")
def large():
    return "x" * (64 << 10)


@millrace.task("reads")
def reads():
    return sys.stdin.read()


@millrace.task("steps")
def steps():
    id, at = millrace.new_id(), millrace.now()
    paid = millrace.step("charge", lambda: {"paid": 7}, retry=2)
    millrace.sleep("grace", 3600)
    who = millrace.wait_for("approval", timeout=7200, form={"type": "string", "max": 40})
    child = millrace.call("thumb", handler="resize", params={"width": 1})
    return {"id": id, "year": at.year, "paid": paid, "who": who, "child": child, "way": millrace.version("tax", 2)}


@millrace.task("missteps")
def missteps():
    def unlucky():
        raise millrace.Failure("no luck", retry_after="1s")
    try:
        millrace.step("charge", unlucky, retry={"max": 3, "min": "1s"})
    except millrace.StepFailed as e:
        failed = [e.message, e.tries]
    try:
        millrace.wait_for("approval", form=Resize)
    except millrace.NoSignal:
        failed.append("no signal")
    for child in millrace.call_all("both", [{"handler": "a"}, {"job": "b"}]):
        try:
            failed.append(child.result())
        except millrace.StepFailed as e:
            failed.append(e.message)
    try:
        millrace.sleep("", 1)
    except millrace.Refused as e:
        failed.append(str(e))
    return failed


millrace.run()
