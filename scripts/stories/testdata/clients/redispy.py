# As node.js beside this file, by redis-py: redispy.py PORT LIBRARY OPTIONS COMMAND.
import json
import sys
import redis

port, _, options, command = sys.argv[1:]
c = redis.Redis(port=int(port), **json.loads(options))
if command == "INCR":
    ids = [c.incr("snowflake") for _ in range(2000)]
elif command == "LPOP":
    ids = [c.lpop("snowflake") for _ in range(2000)]
else:
    pipeline = c.pipeline()
    for _ in range(2000):
        pipeline.incr("snowflake")
    ids = pipeline.execute()
print(json.dumps({"type": type(ids[0]).__name__, "distinct": len(set(ids))}))
