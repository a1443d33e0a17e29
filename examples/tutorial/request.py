"""Code that wants to send something away. Inside no network leads out.

The address comes as the first argument, so that the tests can name a server of their own.
"""

import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://192.0.2.1/"
try:
    with urllib.request.urlopen(url, timeout=5) as answer:
        print("reached it:", answer.status)
except OSError as error:
    print("refused:", error)
