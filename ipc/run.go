package ipc

import (
	"bytes"
	"unicode/utf8"
)

// run delivers as many whole lines of plain log text as have been read, without the end of the
// last one, and says how many they are; 0 if they are fewer than two. It is what next would
// deliver one by one: who prints much is worth one look at all of it.
func (r *Reader) run() (text []byte, lines int) {
	if r.asText || len(r.more) > 0 || r.scanned > r.start || r.start < r.singly {
		return nil, 0
	}
	at := r.start
	for at < r.end {
		n := bytes.IndexByte(r.buf[at:r.end], '\n')
		if n < 0 || at+n-r.start > r.maxLine || r.suspect(r.buf[at:at+n]) {
			break
		}
		at += n + 1
		lines++
	}
	if lines < 2 {
		return nil, 0
	}
	text = r.buf[r.start : at-1]
	if bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
		r.singly = at // which of them it is, is seen one by one
		return nil, 0
	}
	r.advance(at)
	return text, lines
}

// suspect tells whether a line has to be looked at closely, for it may be a message.
func (r *Reader) suspect(line []byte) bool {
	return r.candidate(line) && (typed(line) || flatFirst(line))
}
