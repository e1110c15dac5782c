package ipc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Version is the version of the protocol that this package speaks. A line with another number in v
// is log text.
const Version = 1

// Types of messages from the process.
const (
	// TypeStatus reports what the program is doing, in words; see [Message.Status].
	TypeStatus = "STATUS"
	// TypeProgress reports how far the work is; see [Message.Progress].
	TypeProgress = "PROGRESS"
	// TypeMetric sets figures to their latest values; see [Message.Metrics].
	TypeMetric = "METRIC"
	// TypeLog is a line of the log with a level and fields; see [Message.Entry].
	TypeLog = "LOG"
	// TypeError reports what went wrong, in the program's own words; see [Message.Failure]. It does
	// not end the process.
	TypeError = "ERROR"
	// TypeInsertData carries records that the task has produced; see [Message.Records].
	TypeInsertData = "INSERT_DATA"
	// TypeResult carries the value that becomes the task's result: any JSON
	// value of at most [MaxResult] bytes. The last one counts.
	TypeResult = "RESULT"
	// TypeHeartbeat reports that the program makes progress. It may have any payload.
	TypeHeartbeat = "HEARTBEAT"
	// TypeExtend asks for more time; see [Message.Extension].
	TypeExtend = "EXTEND"
	// TypeCheckpoint carries the value from which another attempt continues: any JSON value of at
	// most [MaxCheckpoint] bytes. The last one counts.
	TypeCheckpoint = "CHECKPOINT"
	// TypeSpawn asks for another task; see [Message.Spawn].
	TypeSpawn = "SPAWN"
	// TypeReady reports that the program has set itself up and begins its work. It may have any
	// payload.
	TypeReady = "READY"
	// TypeStep comes to a step of a durable function; see [Message.Step]. TypeStepped says what such
	// a step gave; see [Message.End]. They are for resident programs.
	TypeStep    = "STEP"
	TypeStepped = "STEPPED"
	// TypeHello is the first message of a resident program; see [Message.Hello]. Only such programs
	// may send it, and TypeDone.
	TypeHello = "HELLO"
	// TypeDone ends the task that the program was given last; see [Message.End].
	TypeDone = "DONE"
	// TypeStray stands for a message of a resident program that means nothing now: its type is
	// unknown, or its key is that of another task, and then it is bare. Its payload is the type.
	TypeStray = "?"
)

// Types of messages to the process. Each has a function that makes it.
const (
	TypeInit   = "INIT"   // see [Init]
	TypeCancel = "CANCEL" // see [Cancel]
	TypeAck    = "ACK"    // see [Ack]
	TypePing   = "PING"   // see [Ping]
	TypeBye    = "BYE"    // see [Bye]
)

// fromProcess lists the types that a process may send.
var fromProcess = []string{
	TypeStatus, TypeProgress, TypeMetric, TypeLog, TypeError, TypeInsertData, TypeResult,
	TypeHeartbeat, TypeExtend, TypeCheckpoint, TypeSpawn, TypeReady, TypeStep, TypeStepped, TypeHello, TypeDone,
}

// Bounds of a message; a message beyond them is refused.
const (
	// MaxResult bounds the payload of a RESULT, in bytes.
	MaxResult = 64 << 10
	// MaxCheckpoint bounds the payload of a CHECKPOINT, in bytes.
	MaxCheckpoint = 64 << 10
	// MaxMetrics bounds the number of figures in one METRIC, and MaxName their names and the keys
	// of a SPAWN, in bytes.
	MaxMetrics = 64
	MaxName    = 128
	// MaxID bounds the id of a message, in bytes; a longer one is ignored.
	MaxID = 128
)

// Message is one message of either direction.
type Message struct {
	// Type is one of the Type constants.
	Type string
	// ID identifies the ACK of this message to the process; "" if it wants none.
	ID string
	// Payload is valid JSON, or nil if the message has none.
	Payload json.RawMessage
	// Bare means that it came without the key and only reports something: it is no sign of life.
	Bare bool
	// Excess says what is too long, or too many, in a message that is refused for that; then its
	// payload is gone. Else it is "".
	Excess string
}

// Status is the payload of a STATUS message.
type Status struct {
	Message string `json:"message"`
	// Progress is from 0 to 1, or nil if the message has none.
	Progress *float64 `json:"progress"`
}

// Failure is the payload of an ERROR message.
type Failure struct {
	Message string `json:"message"`
	// Class is the class of failure in the program's words, not checked here.
	Class string `json:"class"`
	// Retryable is nil if the program leaves it to the task's policy.
	Retryable *bool `json:"retryable"`
	// RetryAfter is the pause that the program asks for before another attempt; 0 leaves it to the
	// task's policy.
	RetryAfter Span `json:"retry_after"`
	// Fatal means that the attempt has failed even if the process exits with 0.
	Fatal bool `json:"fatal"`
}

// Status reads the payload of a STATUS message: an object, or a string that is its message. Other
// fields remain in m.Payload. It returns an error if the payload has another form or the progress
// is not within 0 to 1; that does not happen to a message from a [Reader].
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

// Records returns the records of an INSERT_DATA message: one for an object, one for each object of
// an array, none for null; nulls within an array are left out. The records share the payload's
// memory. It returns an error if any value is neither object nor null; that does not happen to a
// message from a [Reader].
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

// decode decodes a string payload into text and an object into v, and refuses other forms.
func decode(payload json.RawMessage, text *string, v any) error {
	switch kind(payload) {
	case '"':
		return json.Unmarshal(payload, text)
	case '{':
		return json.Unmarshal(payload, v)
	}
	return errors.New("want an object or a string")
}

// parse parses one line as a message to Millrace, and returns its key, which shares the line's
// memory. It reports false if the line is not one. The payload is copied; bytes that are not UTF-8 become U+FFFD in it, for a record with one spoilt
// letter is worth more than a line in a log.
func parse(line []byte) (m Message, key []byte, ok bool) {
	if !typed(line) {
		return Message{}, nil, false
	}
	if m, key, ok = envelope(line); !ok {
		return Message{}, nil, false
	}
	if err := m.check(); err != nil {
		m, ok = m.refused(err)
		return m, key, ok
	}
	if clear, replaced := clean(nil, m.Payload); replaced {
		m.Payload = clear
	} else {
		m.Payload = bytes.Clone(m.Payload)
	}
	return m, key, true
}

// typed tells whether a line may have a type. Many programs log JSON, and most of their lines stop
// here. A line has fewer letters than quotes, so this search is ten times as fast as one for the
// whole key.
func typed(line []byte) bool { return bytes.Contains(line, []byte(`ype"`)) }

// check returns what is wrong with the payload of m, for its type.
func (m Message) check() (err error) {
	switch m.Type {
	case TypeStatus:
		_, err = m.Status()
	case TypeProgress:
		_, err = m.Progress()
	case TypeMetric:
		_, err = m.Metrics()
	case TypeLog:
		_, err = m.Entry()
	case TypeError:
		_, err = m.Failure()
	case TypeExtend:
		_, err = m.Extension()
	case TypeSpawn:
		_, err = m.Spawn()
	case TypeStep:
		_, err = m.Step()
	case TypeStepped:
		_, err = m.End()
	case TypeInsertData:
		switch kind(m.Payload) {
		case '{', 'n', 0:
			return nil
		case '[':
			for element := range elements(m.Payload) {
				if k := kind(element); k != '{' && k != 'n' {
					return errForm
				}
			}
			return nil
		}
		return errForm
	case TypeResult:
		return checkValue(m.Payload, MaxResult)
	case TypeCheckpoint:
		return checkValue(m.Payload, MaxCheckpoint)
	}
	return err
}

// errForm: the payload does not have the form of its type.
var errForm = errors.New("the payload has another form")

func checkValue(payload json.RawMessage, most int) error {
	switch n := len(payload); {
	case n == 0:
		return errForm
	case n > most:
		return tooMuch("it has %d bytes, want at most %d", n, most)
	}
	return nil
}
