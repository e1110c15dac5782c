package worker

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"millrace/task/output"
	"millrace/task/value"
)

// maxSaid bounds how much of a line is remembered, in bytes, escape sequences included.
const maxSaid = 512

// maxLastLine bounds what [Output.LastLine] returns, in bytes.
const maxLastLine = 200

// said are the last non-blank lines of a program's streams, with the [trace] to which they belong. Most attempts print
// many lines and few fail, so a line costs little more than a copy of its beginning.
type said []saidLine

type saidLine struct {
	stream string
	trace  trace  // of the whole lines
	text   []byte // of a line of which more is to come
	more   bool   // so it is
	back   bool   // the next text replaces it
	wiped  []byte // what was replaced by nothing that can be seen
	at     time.Time
}

// hear takes a line, a piece of one, or several lines separated by line feeds.
func (s *said) hear(stream string, text []byte, more bool, at time.Time) {
	var l *saidLine
	for i := range *s {
		if (*s)[i].stream == stream {
			l = &(*s)[i]
		}
	}
	if l == nil {
		*s = append(*s, saidLine{stream: stream})
		l = &(*s)[len(*s)-1]
	}
	goesOn := l.more
	l.more = more
	switch {
	case goesOn:
		l.at = at
	case len(bytes.TrimSpace(text)) == 0 && !more:
		return
	default:
		l.text, l.back, l.at = l.text[:0], false, at
	}
	for {
		line, rest, several := bytes.Cut(text, []byte{'\n'})
		l.add(line)
		if !several && more {
			return
		}
		l.trace.hear(l.text)
		if l.text, l.back = l.text[:0], false; !several {
			return
		}
		text = rest
	}
}

// add adds text as [output.Shown] shows it.
func (l *saidLine) add(text []byte) {
	from, to := 0, len(text)
	escaped := bytes.IndexByte(text, 0x1b) >= 0
	if escaped || bytes.IndexByte(text, '\r') >= 0 {
		from, to = output.Last(text)
	}
	rest := text[from:to]
	if escaped && quotable(string(rest)) == "" {
		rest = nil // nothing of it can be seen
	}
	if from > 0 || l.back && to > 0 {
		if len(bytes.TrimSpace(rest)) == 0 {
			seen := append(l.text, text[:from]...)
			begin, end := output.Last(seen)
			l.wiped = append(l.wiped[:0], seen[begin:min(end, begin+maxSaid)]...)
		}
		l.text = l.text[:0]
	}
	l.back = to < len(text) || l.back && to == 0
	l.text = append(l.text, rest[:min(len(rest), maxSaid-len(l.text))]...)
}

// headline returns the line that tells most: the one that has begun, else that of the trace.
func (l *saidLine) headline() []byte {
	if begun := bytes.TrimSpace(l.text); len(begun) > 0 {
		return begun
	}
	return l.trace.headline()
}

// together is how far apart two streams' lines may be read although the program printed them in the
// other order.
const together = 200 * time.Millisecond

// last returns the last line of these streams, or of a stack trace the line that names the failure. A line of stderr goes before a line of another
// stream from about the same time: they are read separately, and errors tell more.
func (s said) last(streams []string) []byte {
	var last, err *saidLine
	for i := range s {
		l := &s[i]
		if len(l.headline()) == 0 || !slices.Contains(streams, l.stream) {
			continue
		}
		if last == nil || l.at.After(last.at) {
			last = l
		}
		if l.stream == output.Stderr {
			err = l
		}
	}
	switch {
	case last == nil: // better what is wiped out than nothing
		for i := range s {
			if slices.Contains(streams, s[i].stream) && len(s[i].wiped) > 0 {
				return s[i].wiped
			}
		}
		return nil
	case err != nil && last.at.Sub(err.at) < together:
		return err.headline()
	}
	return last.headline()
}

// LastLine returns the last non-blank line that the program printed to these streams, or, if it
// ended with a stack trace of Go, Python, Java, Node or their like, the line that names the failure; fit for a
// message: without control characters, and at most 200 bytes of it. "" if there is none.
func (o *Output) LastLine(streams ...string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return quotable(string(o.said.last(streams)))
}

// escapes are the sequences by which programs colour what they print.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(\\[[0-9;:?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?)")
})

// quotable makes a line fit for a message.
func quotable(line string) string {
	line = strings.ToValidUTF8(escapes().ReplaceAllString(line, ""), "")
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, line)
	return value.Cut(strings.TrimSpace(line), maxLastLine)
}
