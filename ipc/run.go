package ipc

import (
	"bytes"
	"unicode/utf8"
)

// run delivers as many whole lines of plain log text as have been read, without the last line end,
// and how many they are; 0 if fewer than two. It delivers the same as next would one by one, but
// examines all of them at once, for programs that print much.
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
	if bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
		r.singly = at // to find out which one it is, examine them one by one
		return nil, 0
	}
	r.advance(at)
	return text, lines
}

// suspect tells whether a line must be examined, because it may be a message.
func (r *Reader) suspect(line []byte) bool {
	return r.candidate(line) && (typed(line) || flatFirst(line))
}
