# Computes the ID of an index in a scrambled app (docs/modes.md). It needs the package cryptography.
import hashlib
import hmac
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

def scramble(secret, app, shard, index):
    key = hmac.new(secret.encode(), b"shardid scramble app %d" % app, hashlib.sha256).digest()[:16]
    aes = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update
    p = int.from_bytes(aes(bytes([1, 2, 1, 0, 0, 2, 10, 24, 0, 0, 0, 49, 0, 0, 0, 1])), "big")
    left, right = index >> 25, index & 0x1FFFFFF
    for i in range(10):
        half = left if i % 2 else right
        q = p ^ (shard << 120) ^ (i << 32) ^ half
        y = int.from_bytes(aes(q.to_bytes(16, "big"))[:8], "big")
        if i % 2:
            right = (right + y) & 0x1FFFFFF
        else:
            left = (left + y) & 0xFFFFFF
    image = left << 25 | right
    return image << 14 | shard << 8 | app if image else scramble(secret, app, shard, image)
