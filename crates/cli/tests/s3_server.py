"""An S3 server for tests (moto), which can be told to fail, to lie, to be slow, and what it was asked.

Prints its port. POST /_faults: a list of {"method", "match" (in the path or query), "do"}; GET /_log.
"""
import io
import json
import sys
import time

try:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

FORBIDDEN = (
    "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>{key}</AWSAccessKeyId>"
    "<StringToSign>{headers}</StringToSign></Error>"
)
faults = []
log = []


class Faulty:
    def __init__(self, app):
        self.app = app
        self.lists = {}

    def __call__(self, environ, start_response):
        path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
        method, where = environ["REQUEST_METHOD"], f"{path}?{query}"
        if path == "/_faults":
            length = int(environ["CONTENT_LENGTH"])
            faults[:] = json.loads(environ["wsgi.input"].read(length))
            return self.say(start_response, "200 OK", b"")
        if path == "/_log":
            return self.say(start_response, "200 OK", json.dumps(log).encode())
        log.append(f"{method} {where}")
        is_this = lambda fault: fault["method"] == method and fault["match"] in where
        fault = next(filter(is_this, faults), {"do": ""})["do"]
        if fault == "forbid":
            headers = "\n".join(f"{name}: {value}" for name, value in environ.items())
            text = FORBIDDEN.format(key=environ.get("HTTP_AUTHORIZATION"), headers=headers)
            return self.say(start_response, "403 Forbidden", text.encode())
        if fault == "skew":
            return self.say(start_response, "403 Forbidden", b"<Error><Code>RequestTimeTooSkewed</Code></Error>")
        if fault == "hang":
            time.sleep(600)
        if fault == "fail":
            return self.say(start_response, "500 Internal Server Error", b"<Error><Code>InternalError</Code></Error>")
        if fault == "no conditions" and "HTTP_IF_NONE_MATCH" in environ:
            return self.say(start_response, "501 Not Implemented", b"<Error><Code>NotImplemented</Code></Error>")
        if fault == "nothing listed":
            text = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            return self.say(start_response, "200 OK", text.encode())
        if fault == "swallow":  # says that it has written, and has not
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            return self.say(start_response, "200 OK", b"", [("ETag", '"0"')])
        if fault == "cut put":
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            body = body[: len(body) // 2]
            environ["wsgi.input"] = io.BytesIO(body)
            environ["CONTENT_LENGTH"] = str(len(body))
            for name in ("HTTP_X_AMZ_CONTENT_SHA256", "HTTP_X_AMZ_DECODED_CONTENT_LENGTH"):
                environ.pop(name, None)
        status, headers, body = self.ask(environ)
        if fault == "stale":  # a list from before
            status, headers, body = self.lists.setdefault(where, (status, headers, body))
        if fault == "cut":
            body = body[: len(body) // 2]
        if fault == "damage":
            body = bytes([body[0] ^ 1]) + body[1:]
        if fault == "endless":
            return self.say(start_response, status, body * 1000)
        if fault == "drop":  # ends in the middle
            start_response(status, [("Content-Length", str(len(body))), ("Connection", "close")])
            return [body[: len(body) // 2]]
        return self.say(start_response, status, body, headers)

    def ask(self, environ):
        kept = {}
        answer = self.app(environ, lambda status, headers, *_: kept.update(status=status, headers=headers))
        return kept["status"], kept["headers"], b"".join(answer)

    def say(self, start_response, status, body, headers=()):
        headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start_response(status, headers + [("Content-Length", str(len(body)))])
        return [body]


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *args):
        pass


server = make_server("127.0.0.1", 0, Faulty(DomainDispatcherApplication(create_backend_app)), threaded=True, request_handler=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
