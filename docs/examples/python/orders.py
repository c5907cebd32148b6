"""Creates an order for each buyer in orders.db, with IDs of shardid. Python 3.8, no packages:

    SHARDID_URLS=http://127.0.0.1:8080 python3 orders.py alice bob
"""
import json
import os
import random
import sqlite3
import sys
import time
import urllib.error
import urllib.request

URLS = os.environ.get("SHARDID_URLS", "http://127.0.0.1:8080").split(",")
TOKEN = os.environ.get("SHARDID_TOKEN")


def take(path, count, tries=6):
    """Takes count IDs. What was asked for and never came is a gap, so trying again is safe."""
    for attempt in range(tries):
        wait = 0.1 * 2**attempt
        url = f"{URLS[attempt % len(URLS)]}/v1/{path}/ids?count={count}"
        request = urllib.request.Request(url, method="POST")
        if TOKEN:
            request.add_header("Authorization", "Bearer " + TOKEN)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return [int(text) for text in json.load(answer)["ids"]]
        except urllib.error.HTTPError as e:
            error = e.read().decode()
            if e.code not in (429, 502, 503, 504):
                raise RuntimeError(error) from e  # asking again would not help
            wait = max(wait, float(e.headers.get("Retry-After") or 0))
        except OSError as e:  # refused, reset, timed out
            error = str(e)
        time.sleep(wait * random.uniform(1, 1.5))
    raise RuntimeError("no IDs: " + error)


def main(buyers):
    db = sqlite3.connect("orders.db")
    db.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, buyer TEXT NOT NULL)")
    orders = list(zip(take("segment/orders", len(buyers)), buyers))
    with db:
        db.executemany("INSERT INTO orders (id, buyer) VALUES (?, ?)", orders)
    for order in orders:
        print(*order)


main(sys.argv[1:])
