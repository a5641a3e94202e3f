# Redis' glob: ? * [abc] [^abc] [a-z] and \ to quote, byte by byte, case-sensitive.
#
# Everything but * matches exactly one byte, so after a mismatch only the latest * need take one byte more: time is at
# most (length of text) x (length of pattern), where the recursive way is exponential in the number of stars.


cdef inline bint match_class(const unsigned char *pattern, Py_ssize_t length, Py_ssize_t *at, unsigned char c) noexcept nogil:
    """Does the class that begins at pattern[at] == '[' hold c? Moves `at` behind it. A class that is never closed ends
    with the pattern."""
    cdef Py_ssize_t i = at[0] + 1
    cdef bint found = False, negated = False
    cdef unsigned char low, high
    if i < length and pattern[i] == b"^":
        negated = True
        i += 1
    while i < length and pattern[i] != b"]":
        if pattern[i] == b"\\" and i + 1 < length:
            i += 1
            found = found or pattern[i] == c
        elif i + 2 < length and pattern[i + 1] == b"-":
            low, high = pattern[i], pattern[i + 2]
            if low > high:
                low, high = high, low
            found = found or low <= c <= high
            i += 2
        else:
            found = found or pattern[i] == c
        i += 1
    at[0] = i + 1 if i < length else length
    return found != negated


cdef inline bint glob_match(
    const unsigned char *pattern, Py_ssize_t pattern_length, const unsigned char *text, Py_ssize_t text_length
) noexcept nogil:
    cdef Py_ssize_t p = 0, t = 0, after = 0
    cdef Py_ssize_t star = -1, resume = 0  # behind the latest *, and the text it has not taken yet
    cdef bint matched
    while t < text_length:
        if p < pattern_length and pattern[p] == b"*":
            p += 1
            star, resume = p, t
            continue
        matched = False
        if p < pattern_length:
            after = p
            if pattern[p] == b"[":
                matched = match_class(pattern, pattern_length, &after, text[t])
            else:
                if pattern[p] == b"\\" and p + 1 < pattern_length:
                    after += 1
                matched = pattern[after] == text[t] or (pattern[p] == b"?")
                after += 1
        if matched:
            p = after
            t += 1
        elif star >= 0:
            resume += 1
            p, t = star, resume
        else:
            return False
    while p < pattern_length and pattern[p] == b"*":
        p += 1
    return p == pattern_length
