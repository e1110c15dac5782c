package ipc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// excess is the error of a payload in which something is longer, or more, than a message may carry.
type excess string

func (e excess) Error() string { return string(e) }

func tooMuch(format string, args ...any) error { return excess(fmt.Sprintf(format, args...)) }

// refused is m without its payload, and why, if err says that it carries too much.
func (m Message) refused(err error) (Message, bool) {
	what, ok := errors.AsType[excess](err)
	if !ok {
		return Message{}, false
	}
	return Message{Type: m.Type, ID: m.ID, Excess: string(what)}, true
}

// head reads the beginning of a line that is longer than a message can be. If it is one of a known type
// whose payload has no end within that, it returns type and id, so far as they stand there.
func head(line []byte) (m Message, ok bool) {
	var whole json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&whole); !errors.Is(err, io.ErrUnexpectedEOF) {
		return Message{}, false // it is no JSON, or has an end
	}
	for key, value := range members(line) {
		if len(value) == 0 || &value[len(value)-1] == &line[len(line)-1] {
			break // cut off
		}
		switch string(key) {
		case `"type"`:
			if m.Type, ok = typeName(value); !ok {
				return Message{}, false
			}
		case `"id"`:
			m.ID = identity(value)
		case `"v"`:
			if v := string(value); v != "1" && v != "null" {
				return Message{}, false
			}
		}
	}
	return m, ok
}

// refusing is a line that is too long for the message that it is, on its way to its end.
type refusing struct {
	Message
	bytes int
}

// refuse begins to pass over the line at start if that is too long for the message that it is.
func (r *Reader) refuse(line []byte) bool {
	if r.asText || len(line) <= r.maxMessage || !r.candidate(line) {
		return false
	}
	m, ok := head(line[:r.maxMessage])
	if ok {
		r.over = &refusing{Message: m}
	}
	return ok
}

// pass passes over what there is of such a line, and tells whether its end is reached.
func (r *Reader) pass() (m Message, ended bool) {
	n := bytes.IndexByte(r.buf[r.start:r.end], '\n')
	ended = n >= 0 || r.err != nil
	next := r.end
	if n < 0 {
		n = r.end - r.start
	} else {
		next = r.start + n + 1
	}
	r.over.bytes += n
	r.advance(next)
	if ended {
		m = r.over.Message
		m.Excess = fmt.Sprintf("its line has %d bytes, want at most %d", r.over.bytes, r.maxMessage)
		r.over = nil
	}
	return m, ended
}
