"""A worker in plain Python: lease, work, settle. Run it with `python3 examples/pull-worker.py`."""
import json, os, signal, socket, sys, threading, time
from urllib import error, parse, request

BASE = os.environ.get("POSTHORN_URL", "http://localhost:8080")
WORKER = f"{socket.gethostname()}:{os.getpid()}"
HEADERS = {"content-type": "application/json"}
if "POSTHORN_KEY" in os.environ:
    HEADERS["authorization"] = "Bearer " + os.environ["POSTHORN_KEY"]

def call(path, body=None):
    """The status and the JSON of the answer. A server that cannot be reached is one that is busy."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with request.urlopen(request.Request(BASE + path, data, HEADERS), timeout=50) as answer:
            return answer.status, json.loads(answer.read() or "null")
    except error.HTTPError as refusal:
        return refusal.code, None
    except OSError:
        return 503, None

def tell(event, verb, **report):
    return call(f"/events/{event['id']}/{verb}", {"lease_token": event["lease_token"], **report})

def settle(event, verb, **report):
    """Repeats are safe, so it is sent until it is answered. 409: somebody else has the event now, so let it be."""
    while (status := tell(event, verb, **report)[0]) == 429 or status >= 500:
        time.sleep(1)

def keep_lease(event, done, stop):
    while not done.wait(20):  # a third of the lease: two beats may get lost
        status, answer = tell(event, "heartbeat")
        if status == 409 or (status == 200 and answer["cancelled"]):
            stop.set()

def work(event, handle):
    done, stop = threading.Event(), threading.Event()
    threading.Thread(target=keep_lease, args=(event, done, stop), daemon=True).start()
    try:
        handle(event, stop)
        settle(event, "complete")
    except Exception as failure:
        settle(event, "fail", error_message=repr(failure))
    except SystemExit:  # this process is asked to end, which is not the event's fault
        settle(event, "release")
        raise
    finally:
        done.set()

def run(handle, **wanted):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    path = "/events/subscribe?" + parse.urlencode({"worker_id": WORKER, "wait": 20, **wanted})
    while True:
        status, event = call(path)
        if status == 200:
            work(event, handle)
        elif status != 204:
            time.sleep(1)

run(lambda event, stop: print(event["title"], event["payload"], flush=True), tags="pdf")
