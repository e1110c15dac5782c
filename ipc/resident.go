package ipc

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"millrace/task/value"
)

// Turns is the key of the task that a resident program has now. It changes with each task, so that
// what comes late from one cannot count for the next.
type Turns struct{ key atomic.Value }

// Set replaces the key; with "" nothing counts but signs of life.
func (t *Turns) Set(key string) { t.key.Store(key) }

func (t *Turns) now() string {
	key, _ := t.key.Load().(string)
	return key
}

// opensNow is opens for a resident program. A message with the key of another task becomes a stray
// one. A sign of life without the right key is bare: it says that the program lives, and nothing of
// its task.
func (g *Gate) opensNow(m *Message, key []byte) bool {
	switch now := g.Turns.now(); {
	case now != "" && subtle.ConstantTimeCompare(key, []byte(now)) == 1:
	case m.Type == TypeHeartbeat, len(key) == 0 && g.Keyless <= Most(m.Type):
		m.Bare, m.ID = true, ""
	case len(key) > 0:
		*m = stray(m.Type)
		m.Bare = true
	default:
		return false
	}
	return true
}

func stray(typ string) Message {
	return Message{Type: TypeStray, Payload: value.Must(Payload(typ))}
}

// speaks tells whether a type has a meaning in this stream.
func (r *Reader) speaks(typ string) bool {
	return r.gate.Turns != nil || typ != TypeHello && typ != TypeDone
}

// parse is that of the package, for the types of this stream.
func (r *Reader) parse(line []byte) (m Message, key []byte, ok bool) {
	if m, key, ok = parse(line); ok || r.gate.Turns == nil {
		return m, key, ok && r.speaks(m.Type)
	}
	// A later library may say more than this version knows.
	now := []byte(r.gate.Turns.now())
	if len(now) == 0 || !bytes.Contains(line, now) || !json.Valid(line) || kind(line) != '{' {
		return m, key, false
	}
	typ := ""
	for name, value := range members(line) {
		switch string(name) {
		case `"type"`:
			typ = string(plain(value))
		case `"key"`:
			key = plain(value)
		case `"id"`:
			m.ID = identity(value)
		}
	}
	id := m.ID
	m = stray(typ)
	m.ID = id
	return m, key, typ != "" && bytes.Equal(key, now)
}

// Hello is the payload of a HELLO.
type Hello struct {
	// Protocol is the latest version of the protocol that the program speaks.
	Protocol int `json:"protocol"`
	// Tasks are the handlers that it has, at least one.
	Tasks []string `json:"tasks"`
	// Library names the library that it uses, for people.
	Library string `json:"library"`
}

// Hello reads the payload of a HELLO. It returns an error that says what is missing.
func (m Message) Hello() (h Hello, err error) {
	if err = unmarshal(m.Payload, &h); err == nil {
		switch {
		case h.Protocol < Version:
			err = fmt.Errorf("it speaks version %d of the protocol, want at least %d", h.Protocol, Version)
		case len(h.Tasks) == 0:
			err = errors.New("it names no tasks")
		}
	}
	if err != nil {
		return h, fmt.Errorf("payload of %s: %w", m.Type, err)
	}
	return h, nil
}

// End is the payload of a DONE.
type End struct {
	// Result is the task's result, or nil.
	Result json.RawMessage `json:"result"`
	// Error is why it failed, or nil.
	Error *Failure `json:"error"`
}

// End reads the payload of a DONE; none is a success without a result. It returns an error if the
// payload has another form; that does not happen to a message from a [Reader].
func (m Message) End() (e End, err error) {
	if len(m.Payload) == 0 {
		return e, nil
	}
	if err = unmarshal(m.Payload, &e); err != nil {
		return e, fmt.Errorf("payload of %s: %w", m.Type, err)
	}
	if e.Error != nil && e.Error.Message == "" {
		e.Error.Message = "the handler has failed without a message"
	}
	return e, nil
}
