"""A worker in plain Python: lease, work, settle. Run it with `python3 examples/pull-worker.py`."""
import http.client, json, os, signal, socket, sys, threading, time
from urllib import parse, request

BASE = os.environ.get("POSTHORN_URL", "http://localhost:8080")
WORKER = f"{socket.gethostname()}:{os.getpid()}"
KEY = os.environ.get("POSTHORN_KEY")
HEADERS = {"content-type": "application/json", **({"authorization": f"Bearer {KEY}"} if KEY else {})}

class Plain(request.HTTPErrorProcessor):  # refusals are answers too, and redirects are not followed
    http_response = https_response = lambda self, asked, answer: answer

def call(path, body=None):
    """The status and the JSON of the answer. A server that is away or busy is asked again: repeats are safe."""
    asked = request.Request(BASE + path, body and json.dumps(body).encode(), HEADERS)
    while True:
        try:
            with request.build_opener(Plain).open(asked, timeout=50) as answer:
                status, pause = answer.status, answer.headers.get("retry-after", "")
                told = json.load(answer) if "json" in answer.headers.get("content-type", "") else {}
        except (OSError, http.client.HTTPException, ValueError):
            status, pause = 503, ""
        if status < 500 and status not in (408, 429):
            return status, told
        time.sleep(int(pause) if pause.isdigit() else 1)

def tell(event, verb, **report):
    return call(f"/events/{event['id']}/{verb}", {"lease_token": event["lease_token"], **report})

def keep_lease(event, done, stop):
    while not done.wait(20):  # a third of the lease: two beats may get lost
        status, told = tell(event, "heartbeat")
        if status == 409 or told.get("cancelled"):
            stop.set()

def work(event, handle):
    done, stop = threading.Event(), threading.Event()
    threading.Thread(target=keep_lease, args=(event, done, stop), daemon=True).start()
    try:
        try:
            handle(event, stop)
            outcome = {"verb": "complete"}
        except Exception as failure:
            outcome = {"verb": "fail", "error_message": repr(failure)}
        tell(event, **({"verb": "release"} if stop.is_set() else outcome))  # 409: others have it now, so let it be
        done.set()
    except SystemExit:  # this process is asked to end, which is not the event's fault
        tell(event, "release")
        raise

def run(handle, **wanted):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    while True:
        status, told = call("/events/subscribe?" + parse.urlencode({"worker_id": WORKER, "wait": 20, **wanted}))
        if status == 200 and told:
            work(told, handle)
        elif status != 204:
            sys.exit(f"{BASE} answered {status}: {told.get('detail', 'this is not Posthorn')}")

run(lambda event, stop: print(event["title"], event["payload"], flush=True), tags="pdf")
