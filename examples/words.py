"""An app of Celery, ported. There it was:

    app = Celery("words", broker="redis://…", backend="redis://…")

    @app.task(autoretry_for=(OSError,), retry_backoff=True, max_retries=3)
    def words(text): …

    @app.task
    def total(counts): …

    chord((words.s(t) for t in texts), total.s()).delay()
    words.delay("a b").get()

Here a job names the program, and no broker, result store or beat is beside the server:

    name: count
    run: {program: python3 examples/words.py, handler: count}

    client = millrace_http.Client()
    id = client.submit(job="count", params={"texts": ["a b", "c"]})    # its job is stored by millrace job apply
    client.result(id)

PYTHONPATH must have the folder of millrace.py (ipc/clients/python).
"""

import millrace


@millrace.task("words")
def words(text: str):
    return len(text.split())


@millrace.task("count")
def count(texts: list):  # the chord; while the children run it takes no slot
    counted = millrace.call_all("words", [{"handler": "words", "params": {"text": text}, "retries": 3} for text in texts])
    return {"total": sum(child.result() for child in counted)}


millrace.run()
