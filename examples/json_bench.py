import json
data = [{"name": "item %d" % i, "price": i / 7, "tags": ["a", "b", str(i)]} for i in range(40000)]
for _ in range(6):
    json.loads(json.dumps(data))
