package task

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	"millrace/task/job"
	"millrace/task/where"
)

// MaxFairKey is the largest length of a fair key, in bytes.
const MaxFairKey = 256

func (s *Submission) priority(job *job.Job) (int, error) {
	p := s.Priority
	if p == 0 && job != nil {
		p = job.Priority
	}
	if p == 0 {
		return where.DefaultPriority, nil
	}
	return p, where.ValidPriority(p)
}

// fairKey is the key that the submission names, or the value of the name in the job's fair.
func (s *Submission) fairKey(job *job.Job, w *Work) (string, error) {
	key := s.FairKey
	if key == "" && job != nil && job.Fair != "" {
		key = w.valueOf(job.Fair)
	}
	if len(key) > MaxFairKey {
		return "", fmt.Errorf("fair_key has %d bytes, want at most %d", len(key), MaxFairKey)
	}
	return key, nil
}

// valueOf is the value of a label, or else of a parameter; "" if there is neither.
func (w *Work) valueOf(name string) string {
	if v, ok := w.Labels[name]; ok {
		return v
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(w.Params, &params) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(params[name], &text) == nil {
		return text
	}
	if v := string(params[name]); v != "null" {
		return v
	}
	return ""
}

// CancelWaiting is [Cancel] for a task only while it waits.
type CancelWaiting struct{ Reason string }

func (CancelWaiting) isCommand() {}

// Prioritize gives a waiting task another priority.
type Prioritize struct {
	Priority int
	Reason   string
}

func (Prioritize) isCommand() {}

func prioritize(t *Task, c Prioritize) (Event, error) {
	if err := where.ValidPriority(c.Priority); err != nil {
		return nil, err
	}
	return reassign(t, Reassign{From: t.Route, To: t.Route.At(c.Priority), Reason: c.Reason})
}

// Lane is the lane in which the task waits when it is offered.
func (w *Work) Lane() where.Lane {
	l := where.Lane{Queue: w.Route.Queue(), Priority: w.Route.Priority()}
	if w.FairKey != "" {
		h := fnv.New32a()
		h.Write([]byte(w.FairKey))
		l.Number = int(h.Sum32()%where.Lanes) + 1
	}
	return l
}
