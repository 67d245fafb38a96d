"""A Flask server with three routes, for load.py."""

import json

from flask import Flask, jsonify, render_template_string

app = Flask(__name__)
PAGE = "<ul>{% for x in items %}<li>{{ x.name|upper }} {{ x.price }}</li>{% endfor %}</ul>"
DATA = [{"name": f"item {i}", "price": i * 1.25} for i in range(200)]


@app.get("/page")
def page():
    return render_template_string(PAGE, items=DATA)


@app.get("/json")
def api():
    return jsonify(sorted(DATA, key=lambda x: -x["price"]))


@app.get("/count")
def count():
    return str(sum(len(json.dumps(x)) for x in DATA))


if __name__ == "__main__":
    app.run(port=5111, threaded=True)
