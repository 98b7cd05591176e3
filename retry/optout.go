package retry

import "bytes"

// HasNoRetryComment reports whether a text has the comment that turns replay off for its transaction: /* sluice:
// no-retry */, with any blanks. HasNoRetryComment does not parse the text. A match inside a string constant counts too,
// which is safe.
func HasNoRetryComment(sql []byte) bool {
	for {
		i := bytes.Index(sql, []byte("/*"))
		if i < 0 {
			return false
		}
		sql = sql[i+2:]
		rest, ok := cutWord(sql, "sluice:")
		if !ok {
			continue
		}
		if rest, ok = cutWord(rest, "no-retry"); !ok {
			continue
		}
		if _, ok = cutWord(rest, "*/"); ok {
			return true
		}
	}
}

// cutWord removes blanks and then word from the start of text. If text does not begin with them, cutWord returns false.
func cutWord(text []byte, word string) (rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) < len(word) || string(text[:len(word)]) != word {
		return nil, false
	}
	return text[len(word):], true
}
