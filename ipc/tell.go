package ipc

import (
	"encoding/json"
	"fmt"
	"time"

	"millrace/task/value"
)

// Task is what an INIT tells a process about its task.
type Task struct {
	Task    string `json:"task"`
	Attempt int    `json:"attempt"`
	Epoch   uint64 `json:"epoch"`
	Job     string `json:"job,omitempty"`
	Node    string `json:"node"`
	Queue   string `json:"queue"`
	// Time is the time that the task is for, which may lie in the past.
	Time time.Time `json:"time"`
	// Deadline is when the run timeout passes, unless it is extended.
	Deadline time.Time         `json:"deadline,omitzero"`
	Params   json.RawMessage   `json:"params,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Parent   string            `json:"parent,omitempty"`
	// Inputs is an object that says how the tasks that this task needed have ended.
	Inputs json.RawMessage `json:"inputs,omitempty"`
	// Checkpoint is the last one of an earlier attempt.
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	// Limits describes in words which limits are in force.
	Limits string `json:"limits,omitempty"`
	// Handler, Key and Trace are for resident programs, which have no variables of the task: what
	// to run, the key of the attempt, and its place in a trace.
	Handler string `json:"handler,omitempty"`
	Key     string `json:"key,omitempty"`
	Trace   string `json:"trace,omitempty"`
}

// Receipt is the content of an ACK.
type Receipt struct {
	// ID is the message's.
	ID string `json:"id"`
	OK bool   `json:"ok"`
	// Error says why the message was refused.
	Error string `json:"error,omitempty"`
	// Task is the id of the task that a SPAWN has made.
	Task string `json:"task,omitempty"`
	// Until is when the run timeout passes after an EXTEND.
	Until time.Time `json:"until,omitzero"`
	// Step answers a STEP or a STEPPED.
	Step *Outcome `json:"step,omitempty"`
}

// Outcome is what becomes of a step. The zero value means that the program is to do it, or that what it
// gave is remembered.
type Outcome struct {
	// Known means that it was done before, and Value is what it gave.
	Known bool            `json:"known,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	// Failed says why it has failed for good, and Tries how often it was tried. A signal that did not
	// come in time is a failure.
	Failed string `json:"failed,omitempty"`
	Tries  int    `json:"tries,omitempty"`
	// Suspended means that it waits: the handler must return at once, and its task goes on behind the step
	// in another attempt.
	Suspended bool `json:"suspended,omitempty"`
}

// Init is the first message to a process.
func Init(t Task) Message {
	t.Time, t.Deadline = t.Time.UTC(), t.Deadline.UTC()
	return tell(TypeInit, t)
}

// Cancel asks the process to end: reason says why; at deadline it is killed.
func Cancel(reason string, deadline time.Time) Message {
	return tell(TypeCancel, struct {
		Reason   string `json:"reason"`
		Deadline string `json:"deadline"`
	}{reason, deadline.UTC().Format(time.RFC3339Nano)})
}

// Ack answers a message with an id, once what it asked for is durable.
func Ack(r Receipt) Message {
	r.Until = r.Until.UTC()
	return tell(TypeAck, r)
}

// Ping asks for a sign of life, which is a HEARTBEAT.
func Ping() Message { return Message{Type: TypePing} }

// Bye tells a resident program that no task follows: it should end.
func Bye() Message { return Message{Type: TypeBye} }

// Payload encodes what a message carries.
func Payload(of any) (json.RawMessage, error) { return value.JSON(of) }

func tell(typ string, payload any) Message {
	// Ours always encode, unless raw JSON that was checked before is broken.
	return Message{Type: typ, Payload: value.Must(Payload(payload))}
}

// Encode returns m as one line with its line end. It returns an error if the payload is not valid
// JSON.
func Encode(m Message) ([]byte, error) { return EncodeKeyed(m, "") }

// KeyVar is the variable that tells a process the key of its attempt. It is not set if no
// message counts.
const KeyVar = "MILLRACE_KEY"

// EncodeKeyed is [Encode] for a message of the process that has the key of its attempt.
func EncodeKeyed(m Message, key string) ([]byte, error) {
	line, err := value.JSON(struct {
		Version int             `json:"v"`
		Type    string          `json:"type"`
		Key     string          `json:"key,omitempty"`
		ID      string          `json:"id,omitempty"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}{Version, m.Type, key, m.ID, m.Payload})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Type, err)
	}
	return append(line, '\n'), nil
}
