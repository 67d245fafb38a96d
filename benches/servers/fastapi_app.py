"""A FastAPI server with three routes, for load.py: a template, checked JSON, many small documents."""

import json

import jinja2
import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import BaseModel

app = FastAPI()
PAGE = jinja2.Template("<ul>{% for x in items %}<li>{{ x.name|upper }} {{ x.price }}</li>{% endfor %}</ul>")
DATA = [{"name": f"item {i}", "price": i * 1.25} for i in range(200)]


class Item(BaseModel):
    name: str
    price: float


@app.get("/page", response_class=HTMLResponse)
async def page():
    return PAGE.render(items=DATA)


@app.get("/json")
async def listed() -> list[Item]:
    return sorted((Item(**x) for x in DATA), key=lambda x: -x.price)


@app.get("/count", response_class=PlainTextResponse)
def count():
    return str(sum(len(json.dumps(x)) for x in DATA))


if __name__ == "__main__":
    uvicorn.run(app, port=5112, log_level="warning")
