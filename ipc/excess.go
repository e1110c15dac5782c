package ipc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// excess is the error of a payload with a value that is too long, or with too many values.
type excess string

func (e excess) Error() string { return string(e) }

func tooMuch(format string, args ...any) error { return excess(fmt.Sprintf(format, args...)) }

// refused returns m without its payload, and with the reason, if err means that it carries too
// much.
func (m Message) refused(err error) (Message, bool) {
	what, ok := errors.AsType[excess](err)
	if !ok {
		return Message{}, false
	}
	return Message{Type: m.Type, ID: m.ID, Excess: string(what)}, true
}

// head reads the beginning of a line that is longer than a message can be. If the line is a message
// of a known type whose payload does not end there, head returns its type, id and key, if they are
// in that part.
func head(line []byte) (m Message, key []byte, ok bool) {
	var whole json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&whole); !errors.Is(err, io.ErrUnexpectedEOF) {
		return Message{}, nil, false // not JSON, or complete
	}
	for name, value := range members(line) {
		if len(value) == 0 || &value[len(value)-1] == &line[len(line)-1] {
			break // cut off
		}
		switch string(name) {
		case `"type"`:
			if m.Type, ok = typeName(value); !ok {
				return Message{}, nil, false
			}
		case `"key"`:
			key = plain(value)
		case `"id"`:
			m.ID = identity(value)
		case `"v"`:
			if v := string(value); v != "1" && v != "null" {
				return Message{}, nil, false
			}
		}
	}
	return m, key, ok
}

// refusing is a message that is too long, while its line is skipped.
type refusing struct {
	Message
	bytes int
}

// refuse begins to skip the line at start if it is a message that is too long. If such a message
// does not count, refuse returns true only when that must be said first.
func (r *Reader) refuse(line []byte) bool {
	if r.asText || len(line) <= r.maxMessage || !r.candidate(line) {
		return false
	}
	m, key, ok := head(line[:r.maxMessage])
	if !ok || !r.speaks(m.Type) {
		return false
	}
	if !r.gate.opens(&m, key) {
		return r.withhold(m.Type)
	}
	r.over = &refusing{Message: m}
	return true
}

// pass skips what has been read of such a line, and tells whether its end is reached.
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
