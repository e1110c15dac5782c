package ipc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Types of messages from the process.
const (
	// TypeStatus says how far the work is; see [Message.Status].
	TypeStatus = "STATUS"
	// TypeError says what went wrong, in the program's own words; see
	// [Message.Failure]. It does not end the process.
	TypeError = "ERROR"
	// TypeInsertData carries records that the task has produced; see [Message.Records].
	TypeInsertData = "INSERT_DATA"
	// TypeResult carries the value that becomes the task's result: any JSON
	// value of at most [MaxResult] bytes. The last one counts.
	TypeResult = "RESULT"
)

// TypeCancel is a message to the process: it is asked to end; see [Cancel].
const TypeCancel = "CANCEL"

// MaxResult bounds the payload of a RESULT, in bytes; a line with a larger one is log text.
const MaxResult = 64 << 10

// Message is one message of either direction.
type Message struct {
	// Type is one of the Type constants.
	Type string
	// Payload is valid JSON, or nil if the message has none.
	Payload json.RawMessage
}

// Status is the payload of a STATUS message.
type Status struct {
	Message string `json:"message"`
	// Progress is from 0 to 1, or nil if the message does not say.
	Progress *float64 `json:"progress"`
}

// Failure is the payload of an ERROR message.
type Failure struct {
	Message string `json:"message"`
	// Class is the class of failure in the program's words, not checked here.
	Class string `json:"class"`
	// Retryable is nil if the program leaves it to the task's policy.
	Retryable *bool `json:"retryable"`
	// RetryAfter is the pause before another attempt that the program asks for, such as "30s"; "" if
	// it leaves that to the task's policy. It is not checked here.
	RetryAfter string `json:"retry_after"`
}

// Status reads the payload of a STATUS message: an object, or a string that is
// its message. Fields that Status does not name remain in m.Payload. It returns
// an error if the payload has another form or the progress is not within 0 to
// 1; that does not happen to a message from a [Reader].
func (m Message) Status() (Status, error) {
	var s Status
	if err := decode(m.Payload, &s.Message, &s); err != nil {
		return Status{}, fmt.Errorf("payload of %s: %w", m.Type, err)
	}
	if s.Progress != nil && (*s.Progress < 0 || *s.Progress > 1) {
		return Status{}, fmt.Errorf("payload of %s: progress is %v, want 0 to 1", m.Type, *s.Progress)
	}
	return s, nil
}

// Failure reads the payload of an ERROR message: an object with a message, or a
// string that is the message. It returns an error if the payload has another
// form or no message; that does not happen to a message from a [Reader].
func (m Message) Failure() (Failure, error) {
	var f Failure
	if err := decode(m.Payload, &f.Message, &f); err != nil {
		return Failure{}, fmt.Errorf("payload of %s: %w", m.Type, err)
	}
	if f.Message == "" {
		return Failure{}, fmt.Errorf("payload of %s: the message is missing", m.Type)
	}
	return f, nil
}

// Records returns the records of an INSERT_DATA message: one for an object, one
// for each object of an array, none for null; nulls within an array are left
// out. The records share the payload's memory. It returns an error if anything
// is neither object nor null; that does not happen to a message from a [Reader].
func (m Message) Records() ([]json.RawMessage, error) {
	switch kind(m.Payload) {
	case '{':
		return []json.RawMessage{m.Payload}, nil
	case 'n', 0:
		return nil, nil
	case '[':
		var records []json.RawMessage
		for element := range elements(m.Payload) {
			switch kind(element) {
			case '{':
				records = append(records, element)
			case 'n':
			default:
				return nil, fmt.Errorf("payload of %s: a record is %.40s, want an object", m.Type, element)
			}
		}
		return records, nil
	}
	return nil, fmt.Errorf("payload of %s: want an object, an array of objects or null", m.Type)
}

// Cancel asks the process to end: reason says why, and at deadline it is ended by force.
func Cancel(reason string, deadline time.Time) Message {
	payload, err := json.Marshal(struct {
		Reason   string `json:"reason"`
		Deadline string `json:"deadline"`
	}{reason, deadline.UTC().Format(time.RFC3339Nano)})
	if err != nil {
		panic(err) // two strings always encode
	}
	return Message{Type: TypeCancel, Payload: payload}
}

// Encode returns m as one line with its end. It returns an error if the payload
// is not valid JSON.
func Encode(m Message) ([]byte, error) {
	line, err := json.Marshal(struct {
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}{m.Type, m.Payload})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Type, err)
	}
	return append(line, '\n'), nil
}

// decode reads a string payload into text and an object into v, and refuses the rest.
func decode(payload json.RawMessage, text *string, v any) error {
	switch kind(payload) {
	case '"':
		return json.Unmarshal(payload, text)
	case '{':
		return json.Unmarshal(payload, v)
	}
	return errors.New("want an object or a string")
}

// parse reads one line as a message to Millrace. It reports false for whatever
// is not one. The payload is copied; bytes that are not UTF-8 become U+FFFD in
// it, for a record with one spoilt letter is worth more than a line in a log.
func parse(line []byte) (Message, bool) {
	// Programs that log JSON are many; most of their lines stop here.
	if !bytes.Contains(line, []byte(`"type"`)) {
		return Message{}, false
	}
	typ, payload, ok := envelope(line)
	if !ok {
		return Message{}, false
	}
	m := Message{Type: typ, Payload: payload}
	if !m.wellFormed() {
		return Message{}, false
	}
	if m.Payload = bytes.Clone(payload); !utf8.Valid(payload) {
		m.Payload = bytes.ToValidUTF8(payload, []byte("\uFFFD"))
	}
	return m, true
}

// wellFormed tells whether m is of a known type and its payload of that type's form.
func (m Message) wellFormed() bool {
	var err error
	switch m.Type {
	case TypeStatus:
		_, err = m.Status()
	case TypeError:
		_, err = m.Failure()
	case TypeInsertData:
		switch kind(m.Payload) {
		case '{', 'n', 0:
			return true
		case '[':
			for element := range elements(m.Payload) {
				if k := kind(element); k != '{' && k != 'n' {
					return false
				}
			}
			return true
		}
		return false
	case TypeResult:
		return len(m.Payload) > 0 && len(m.Payload) <= MaxResult
	default:
		return false
	}
	return err == nil
}
