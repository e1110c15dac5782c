package ipc

import (
	"bytes"
	"unicode/utf8"
)

// Line is log text: a line without its line feed, or a piece of one, or several lines.
type Line struct {
	// Text is valid UTF-8 without zero bytes. The next call of [Reader.Next] overwrites it; copy
	// what must be kept. At most [MaxLine] bytes were read for it, and the CR of a line that ends
	// in CRLF; replaced bytes can make it longer, at most three times as long.
	Text []byte
	// Partial means that the line is longer than [MaxLine] and that the stream's next item is the
	// next piece of it.
	Partial bool
	// Several is how many lines Text holds, separated by line feeds, if more than one; none of them
	// is a piece, and no bytes were replaced in them.
	Several int
	// Replaced means that the process wrote something else: each zero byte, and each byte that is
	// not UTF-8, has become one U+FFFD.
	Replaced bool
}

// Each calls each with one line of l after the other.
func (l Line) Each(each func(Line)) {
	for ; l.Several > 1; l.Several-- {
		one := l
		one.Text, l.Text, _ = bytes.Cut(l.Text, []byte{'\n'})
		one.Several = 0
		each(one)
	}
	l.Several = 0
	each(l)
}

// clean returns raw as text, and whether it had to replace bytes. Without replacements it returns
// raw itself, else buf with the text appended.
func clean(buf, raw []byte) ([]byte, bool) {
	if bytes.IndexByte(raw, 0) < 0 && utf8.Valid(raw) {
		return raw, false
	}
	for i := 0; i < len(raw); {
		size := 1
		bad := raw[i] == 0
		if raw[i] >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRune(raw[i:])
			bad = r == utf8.RuneError && size == 1
		}
		if bad {
			buf = utf8.AppendRune(buf, utf8.RuneError)
		} else {
			buf = append(buf, raw[i:i+size]...)
		}
		i += size
	}
	return buf, true
}

// cut returns where to end a piece of at most limit bytes without dividing a character. The text is longer than limit, and limit is at least 5.
func cut(text []byte, limit int) int {
	at := limit
	for back := 0; back < utf8.UTFMax && !utf8.RuneStart(text[at]); back++ {
		at--
	}
	if !utf8.RuneStart(text[at]) {
		at = limit // not UTF-8: any place will do
	}
	return at
}
