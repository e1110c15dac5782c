package term

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Filter removes from a text what a terminal would obey. Colours stay, if wanted, until the end of
// their line. Other sequences that end on the line vanish; each remaining character that cannot be
// shown becomes a dot. A Filter is for one terminal, and for one goroutine at a time.
type Filter struct {
	// Colours lets colours through. Default: they are removed, too.
	Colours bool

	coloured bool   // since the line began, or a reset
	held     []byte // the beginning of something incomplete
}

// maxHeld bounds what is held back, in bytes: no sequence is longer.
const maxHeld = 1 << 10

const (
	escape   = 0x1b
	instead  = "·"
	noColour = "\x1b[0m"
)

// Pass returns what of p, and of what was held back, may be shown.
func (f *Filter) Pass(p []byte) []byte {
	data := slices.Concat(f.held, p)
	f.held = nil
	shown := make([]byte, 0, len(data)+len(noColour))
	for len(data) > 0 {
		n, text := f.next(data)
		if n == 0 {
			f.held = bytes.Clone(data)
			break
		}
		shown = append(shown, text...)
		data = data[n:]
	}
	return shown
}

// next returns what is shown of the first n bytes. n is 0 if that depends on bytes that are still
// to come.
func (f *Filter) next(data []byte) (n int, text string) {
	switch c := data[0]; {
	case c == '\n':
		if f.coloured {
			f.coloured = false
			return 1, noColour + "\n"
		}
		return 1, "\n"
	case c == '\r' && len(data) == 1:
		return 0, ""
	case c == '\r' && data[1] == '\n':
		return 1, ""
	case c == escape:
		return f.sequence(data)
	case c == '\t':
		return 1, "\t"
	case c < ' ' || c == 0x7f:
		return 1, instead
	case c < utf8.RuneSelf:
		n = 1
		for n < len(data) && data[n] >= ' ' && data[n] < 0x7f {
			n++
		}
		return n, string(data[:n])
	case !utf8.FullRune(data):
		return 0, ""
	}
	r, n := utf8.DecodeRune(data)
	if r == utf8.RuneError || !showable(r) {
		return n, instead
	}
	return n, string(r)
}

// showable tells whether a character is printable and affects only its own place. Two characters
// join others.
func showable(r rune) bool {
	const joiner, nonJoiner = 0x200d, 0x200c
	return unicode.IsPrint(r) || unicode.In(r, unicode.Zs, unicode.Co) || r == joiner || r == nonJoiner
}

// sequence is next for what follows an escape.
func (f *Filter) sequence(data []byte) (n int, text string) {
	n, whole := sequenceLength(data)
	switch {
	case !whole && len(data) <= maxHeld && n == len(data):
		return 0, ""
	case !whole:
		return 1, instead // the rest of it is text
	case data[1] != '[' || data[n-1] != 'm' || !f.Colours:
		return n, ""
	}
	parameters := string(data[2 : n-1])
	if strings.Trim(parameters, "0123456789;:") != "" {
		return n, ""
	}
	f.coloured = strings.Trim(parameters, "0;") != ""
	return n, string(data[:n])
}

// sequenceLength returns the length of the sequence that data begins with. If it is incomplete, n
// is how much of data could be its beginning.
func sequenceLength(data []byte) (n int, whole bool) {
	among := func(c, from, to byte) bool { return from <= c && c <= to }
	if len(data) < 2 {
		return len(data), false
	}
	switch c := data[1]; {
	case c == '[': // parameters, intermediates, a final byte
		n = 2
		for n < len(data) && among(data[n], 0x30, 0x3f) {
			n++
		}
		for n < len(data) && among(data[n], 0x20, 0x2f) {
			n++
		}
		if n < len(data) && among(data[n], 0x40, 0x7e) {
			return n + 1, true
		}
		return n, false
	case c == ']': // a text that ends with a bell, or with a sequence of its own
		for n = 2; n < min(len(data), maxHeld); n++ {
			switch {
			case data[n] == '\a':
				return n + 1, true
			case data[n] == escape && n+1 < len(data) && data[n+1] == '\\':
				return n + 2, true
			case data[n] == escape && n+1 == len(data):
				return n + 1, false
			case data[n] < ' ':
				return n, false
			}
		}
		return n, false
	case among(c, 0x20, 0x2f): // intermediates and a final byte: character sets
		n = 2
		for n < len(data) && among(data[n], 0x20, 0x2f) {
			n++
		}
		if n < len(data) && among(data[n], 0x30, 0x7e) {
			return n + 1, true
		}
		return n, false
	case among(c, 0x30, 0x7e) && !strings.ContainsRune("PX^_", rune(c)): // those begin texts, too
		return 2, true
	}
	return 1, false
}
