"""A durable function in Python: millrace worker --program 'python3 examples/order.py', then
millrace run --handler order -p total=20; millrace task signal TASK --data '"ann"'

Whatever is lost or started again meanwhile, the order is charged once. PYTHONPATH must have the folder of
millrace.py (ipc/clients/python).
"""

import millrace


@millrace.task("order")
def order(total: int):
    id = millrace.new_id()  # the same in each attempt: the bank knows the payment again
    paid = millrace.step("charge", charge, id, total, retry=5)
    millrace.sleep("grace", 1)  # or "24h": no slot is taken meanwhile
    by = millrace.wait_for("approval", timeout="72h", form={"type": "string"})
    label = millrace.call("label", handler="label", params={"text": "%s by %s" % (paid["id"], by)})
    return {"paid": paid["total"], "label": label}


def charge(id, total):
    print("charged", id, total)
    return {"id": id, "total": total}


@millrace.task("label")
def label(text: str):
    return text.upper()


millrace.run()
