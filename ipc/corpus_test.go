package ipc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/internal/testkit"
)

// Messages of programs of any version keep their meaning. Programs write such lines, and this
// package does not: each file of the corpus is one line, and its meaning is stored beside it.
func TestFromProcessCorpus(t *testing.T) {
	testkit.Test(t, testkit.Form{Dir: "testdata/corpus/from_process", Version: Version, Results: true, Again: func(written []byte) ([]byte, error) {
		var b bytes.Buffer
		for line := range bytes.Lines(written) {
			m, key, ok := parse(bytes.TrimSpace(line))
			if !ok {
				fmt.Fprintln(&b, "log text")
				continue
			}
			meaning, err := meaningOf(m)
			if err != nil {
				return nil, err
			}
			text, err := json.Marshal(meaning)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "%s %q %s", m.Type, m.ID, text)
			if len(key) > 0 {
				fmt.Fprintf(&b, " by %s", key)
			}
			b.WriteByte('\n')
		}
		return b.Bytes(), nil
	}})
}

// meaningOf returns what Millrace reads in a message.
func meaningOf(m Message) (any, error) {
	switch m.Type {
	case TypeStatus:
		return m.Status()
	case TypeProgress:
		return m.Progress()
	case TypeMetric:
		return m.Metrics()
	case TypeLog:
		return m.Entry()
	case TypeError:
		return m.Failure()
	case TypeInsertData:
		return m.Records()
	case TypeExtend:
		return m.Extension()
	case TypeSpawn:
		s, err := m.Spawn()
		return []any{s.Key, s.Task}, err
	}
	return m.Payload, nil
}

// Messages to programs keep their form. Programs recognise a later version by "v".
func TestToProcessCorpus(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	today := map[string][]byte{}
	for _, m := range []Message{
		Init(Task{Task: "01JNA0TASK0000000000000000", Attempt: 2, Epoch: 7, Job: "crawl", Node: "w1", Queue: "default", Time: at, Deadline: at.Add(time.Minute), Params: json.RawMessage(`{"a":1}`),
			Labels: map[string]string{"team": "images"}, Parent: "01JNA0PARENT00000000000000", Inputs: json.RawMessage(`{"b":2}`), Checkpoint: json.RawMessage(`[3]`), Limits: "memory 64MiB (cgroup)"}),
		Cancel("a whim", at), Ping(), Bye(),
		Ack(Receipt{ID: "1", OK: true, Error: "e", Task: "01JNA0CH11D000000000000000", Until: at}),
	} {
		line, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		today[strings.ToLower(m.Type)+".json"] = line
	}
	testkit.Test(t, testkit.Form{Dir: "testdata/corpus/to_process", Version: Version, Today: today, Again: func(written []byte) ([]byte, error) {
		m := new(struct {
			V       int             `json:"v"`
			Type    string          `json:"type"`
			ID      string          `json:"id"`
			Payload json.RawMessage `json:"payload"`
		})
		if err := json.Unmarshal(written, m); err != nil || m.V != Version {
			return nil, fmt.Errorf("it is of version %d: %w", m.V, err)
		}
		var payload any
		switch m.Type {
		case TypeInit:
			payload = new(Task)
		case TypeAck:
			payload = new(Receipt)
		default:
			return Encode(Message{Type: m.Type, ID: m.ID, Payload: m.Payload})
		}
		if err := json.Unmarshal(m.Payload, payload); err != nil {
			return nil, err
		}
		return Encode(tell(m.Type, payload))
	}})
}
