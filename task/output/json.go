package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends the batch as JSON to to, byte for byte as encoding/json writes it with HTML
// escaping off: programs print these characters often, and escaped each takes six bytes. It exists
// because encoding was half of the cost of a line. It returns an error if a time or fields cannot
// be written; the text is then useless.
func (b *Lines) AppendJSON(to []byte) ([]byte, error) {
	to = appendText(append(to, `{"task":`...), string(b.Task))
	to = strconv.AppendInt(append(to, `,"attempt":`...), int64(b.Attempt), 10)
	to = strconv.AppendUint(append(to, `,"epoch":`...), b.Epoch, 10)
	to = append(to, `,"lines":`...)
	if b.Lines == nil {
		to = append(to, "null"...)
	} else {
		to = append(to, '[')
		for i := range b.Lines {
			if i > 0 {
				to = append(to, ',')
			}
			var err error
			if to, err = b.Lines[i].appendJSON(to); err != nil {
				return to, fmt.Errorf("line %d: %w", b.Lines[i].N, err)
			}
		}
		to = append(to, ']')
	}
	if b.Dropped != 0 {
		to = strconv.AppendInt(append(to, `,"dropped":`...), int64(b.Dropped), 10)
	}
	return append(to, '}'), nil
}

func (l *Line) appendJSON(to []byte) ([]byte, error) {
	to = strconv.AppendInt(append(to, `{"n":`...), int64(l.N), 10)
	at, err := l.At.MarshalJSON()
	if err != nil {
		return to, err
	}
	to = append(append(to, `,"at":`...), at...)
	to = appendText(append(to, `,"stream":`...), l.Stream)
	to = appendText(append(to, `,"text":`...), l.Text)
	if l.Level != "" {
		to = appendText(append(to, `,"level":`...), l.Level)
	}
	if len(l.Fields) > 0 {
		var fields bytes.Buffer
		if err := json.Compact(&fields, l.Fields); err != nil {
			return to, fmt.Errorf("its fields: %w", err)
		}
		to = append(append(to, `,"fields":`...), fields.Bytes()...)
	}
	if l.More {
		to = append(to, `,"more":true`...)
	}
	if l.Several != 0 {
		to = strconv.AppendInt(append(to, `,"several":`...), int64(l.Several), 10)
	}
	if l.Upto != 0 {
		to = strconv.AppendInt(append(to, `,"upto":`...), l.Upto, 10)
	}
	return append(to, '}'), nil
}

// appendText appends a text as JSON.
func appendText(to []byte, s string) []byte {
	to = append(to, '"')
	done := 0 // this much of s is appended
	for i := 0; i < len(s); {
		if i += plain(s[i:]); i == len(s) {
			break
		}
		c, size := s[i], 1
		if c >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			if bad := r == utf8.RuneError && size == 1; !bad && r != '\u2028' && r != '\u2029' {
				i += size
				continue
			}
			to = append(to, s[done:i]...)
			switch r {
			case utf8.RuneError:
				to = append(to, `\ufffd`...)
			default: // ends a line in JavaScript
				to = append(to, `\u202`...)
				to = append(to, hexDigits[r&0xf])
			}
		} else {
			to = append(to, s[done:i]...)
			switch c {
			case '"', '\\':
				to = append(to, '\\', c)
			case '\n':
				to = append(to, `\n`...)
			case '\r':
				to = append(to, `\r`...)
			case '\t':
				to = append(to, `\t`...)
			case '\b':
				to = append(to, `\b`...)
			case '\f':
				to = append(to, `\f`...)
			default:
				to = append(to, `\u00`...)
				to = append(to, hexDigits[c>>4], hexDigits[c&0xf])
			}
		}
		i += size
		done = i
	}
	return append(append(to, s[done:]...), '"')
}

const hexDigits = "0123456789abcdef"

// plain is the length of the prefix of s that JSON writes unchanged: ASCII without quotes,
// backslashes and control characters. It checks eight bytes at once.
func plain(s string) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	rest := s
	for len(rest) >= 8 {
		w := uint64(rest[0]) | uint64(rest[1])<<8 | uint64(rest[2])<<16 | uint64(rest[3])<<24 |
			uint64(rest[4])<<32 | uint64(rest[5])<<40 | uint64(rest[6])<<48 | uint64(rest[7])<<56
		// The high bit of a byte is set in one of the terms if that byte is below a space, or is a
		// quote or a backslash. Borrows reach only bytes after such a one, so the first hit is
		// right.
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		if found := ((w - ones*' ') | (quote - ones) | (slash - ones) | w) & high; found != 0 {
			return len(s) - len(rest) + bits.TrailingZeros64(found)/8
		}
		rest = rest[8:]
	}
	for rest != "" && rest[0] >= ' ' && rest[0] < utf8.RuneSelf && rest[0] != '"' && rest[0] != '\\' {
		rest = rest[1:]
	}
	return len(s) - len(rest)
}
