"""Handlers in Python: millrace worker --program 'python3 examples/report.py', then
millrace run --wait --handler report -p name=sales -p 'rows=[3, 4, 5]'

PYTHONPATH must have the folder of millrace.py (ipc/clients/python).
"""

import dataclasses

import millrace


@dataclasses.dataclass
class Report:
    name: str
    rows: list


@millrace.task("report")
def report(wanted: Report):
    done = millrace.last_checkpoint({"next": 0, "sum": 0})  # where an earlier attempt stopped
    for n, row in enumerate(wanted.rows[done["next"]:], done["next"]):
        millrace.check()  # ends here if the task is cancelled
        if not isinstance(row, (int, float)):
            raise millrace.Failure("row %d is no number" % n, cls="user", retryable=False)
        done = {"next": n + 1, "sum": done["sum"] + row}
        millrace.data({"row": n, "sum": done["sum"]})
        millrace.progress(done=n + 1, total=len(wanted.rows))
        millrace.checkpoint(done)
    print("added up", wanted.name)
    return {"name": wanted.name, "sum": done["sum"]}


millrace.run()
