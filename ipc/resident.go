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
	return r.gate.Turns != nil || typ != TypeHello && typ != TypeDone && typ != TypeStep && typ != TypeStepped
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

// End is the payload of a DONE, which ends a task, and of a STEPPED, which ends a step.
type End struct {
	// Result is the result, or nil.
	Result json.RawMessage `json:"result"`
	// Error is why it failed, or nil.
	Error *Failure `json:"error"`
}

// End reads the payload of a DONE or a STEPPED; none is a success without a result. It returns an error if the
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

// Step is the payload of a STEP: the next step to which a function comes.
type Step struct {
	// Kind is step, sleep, await, call, now, id or version. Name is the function's own for it.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Retry says when a step is tried again, in the form of `retry` of a job.
	Retry json.RawMessage `json:"retry"`
	// For is how long a sleep takes, and Timeout how long a signal may take; 0 for ever.
	For     Span `json:"for"`
	Timeout Span `json:"timeout"`
	// Form is what the answer to an await must be: questions, each as a job declares a parameter. One without
	// a name is the only one, whose answer is that value itself. Default: any JSON, or none.
	Form json.RawMessage `json:"form"`
	// Of are the children of a call, each in the form of a SPAWN without a key.
	Of []json.RawMessage `json:"of"`
	// Is is the version.
	Is int `json:"is"`
}

// Step reads the payload of a STEP. It returns an error if that has another form; that does not happen
// to a message from a [Reader].
func (m Message) Step() (s Step, err error) {
	if err = unmarshal(m.Payload, &s); err != nil {
		return s, fmt.Errorf("payload of %s: %w", m.Type, value.Plainly(err))
	}
	return s, nil
}
