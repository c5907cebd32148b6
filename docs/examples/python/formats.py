# Writes an ID in each format of docs/modes.md and reads it again.
DIGITS = {
    "dec": "0123456789",
    "hex": "0123456789abcdef",
    "base36": "0123456789abcdefghijklmnopqrstuvwxyz",
    "base62": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    "crockford": "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
}
LAST = 2**63 - 1

def encode(number, format, padded=False):
    digits, text = DIGITS[format], ""
    rest, width = number, LAST if padded else 0
    while rest or width or not text:
        text = digits[rest % len(digits)] + text
        rest, width = rest // len(digits), width // len(digits)
    return text

def decode(text, format):
    digits, number = DIGITS[format], 0
    if format == "crockford":
        if text.startswith("-") or text.endswith("-"):
            raise ValueError("not an ID: " + text)
        text = text.replace("-", "").upper().translate(str.maketrans("ILO", "110"))
    elif format != "base62":
        text = text.lower()
    for c in text:
        number = number * len(digits) + digits.index(c)  # ValueError for another character
    if not text or number > LAST:
        raise ValueError("not an ID: " + text)
    return number
