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

// said are the last non-blank lines of a program's streams. Most attempts print many lines and few
// fail, so a line costs no more than a copy of its beginning.
type said []saidLine

type saidLine struct {
	stream string
	text   []byte
	more   bool // it goes on in the next piece
	back   bool // the next text replaces it
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
	if goesOn {
		l.add(text)
		l.at = at
		return
	}
	for {
		line := text[bytes.LastIndexByte(text, '\n')+1:]
		if shown := bytes.TrimRight(line, "\r"); more || len(bytes.TrimSpace(shown[bytes.LastIndexByte(shown, '\r')+1:])) > 0 {
			l.text, l.back, l.at = l.text[:0], false, at
			l.add(line)
			return
		}
		if text = bytes.TrimSuffix(text[:len(text)-len(line)], []byte{'\n'}); len(text) == 0 {
			return // a terminal shows nothing of these lines
		}
	}
}

// add adds text as [output.Shown] shows it.
func (l *saidLine) add(text []byte) {
	rest := bytes.TrimRight(text, "\r")
	i := bytes.LastIndexByte(rest, '\r')
	if i >= 0 || l.back && len(rest) > 0 {
		l.text = l.text[:0]
	}
	l.back = len(rest) < len(text) || l.back && len(rest) == 0
	rest = rest[i+1:]
	l.text = append(l.text, rest[:min(len(rest), maxSaid-len(l.text))]...)
}

// together is how far apart two streams' lines may be read although the program printed them in the
// other order.
const together = 200 * time.Millisecond

// last returns the last line of these streams. A line of stderr goes before a line of another
// stream from about the same time: they are read separately, and errors tell more.
func (s said) last(streams []string) []byte {
	var last, err saidLine
	for _, l := range s {
		if len(l.text) == 0 || !slices.Contains(streams, l.stream) {
			continue
		}
		if l.at.After(last.at) {
			last = l
		}
		if l.stream == output.Stderr {
			err = l
		}
	}
	if len(err.text) > 0 && last.at.Sub(err.at) < together {
		return err.text
	}
	return last.text
}

// LastLine returns the last non-blank line that the program printed to these streams, fit for a
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
