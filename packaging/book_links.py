#!/usr/bin/env python3
"""Preprocessor for mdBook: keeps only the text of links to files of the repository that are no pages of the book."""

import json
import re
import sys

if "supports" in sys.argv:
    sys.exit()
_, book = json.load(sys.stdin)


def cut_links(items):
    for chapter in (item["Chapter"] for item in items if "Chapter" in item):
        outside = "../" * (chapter["path"].count("/") + 1)
        chapter["content"] = re.sub(rf"\[([^]]*)\]\({re.escape(outside)}[^)]*\)", r"\1", chapter["content"])
        cut_links(chapter["sub_items"])


cut_links(book["items"] if "items" in book else book["sections"])
json.dump(book, sys.stdout)
