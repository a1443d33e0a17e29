"""Calls an API with a key that this program does not have, and then sends it elsewhere."""

import json
import os
import sys
import urllib.error
import urllib.request

port = sys.argv[1]
key = os.environ["DEMO_API_KEY"]
print("the key inside has the shape of the real one:", key[:5] + "...", len(key), "characters")


def call(host, path):
    request = urllib.request.Request(f"https://{host}:{port}{path}")
    request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


status, answer = call("127.0.0.1", "/repos/stockade")
print("the API answers:", status, answer["message"])
print("what it sent back of the key:", answer["you_sent"])

for host, path in [("127.0.0.1", "/admin"), ("127.0.0.1", "/repos/%2e%2e/admin"), ("127.0.0.2", "/")]:
    status, denial = call(host, path)
    print("denied:", status, denial["control"], "-", denial["why"])
