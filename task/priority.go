package task

import (
	"encoding/json"
	"fmt"
)

// MaxFairKey is how long a fair key may be, in bytes.
const MaxFairKey = 256

// ValidPriority refuses a priority that is out of bounds.
func ValidPriority(p int) error {
	if p < MinPriority || p > MaxPriority {
		return fmt.Errorf("priority is %d, want %d to %d (the larger the more urgent)", p, MinPriority, MaxPriority)
	}
	return nil
}

// At is the route with another priority.
func (r Route) At(priority int) Route {
	if node, own := r.Node(); own {
		return NodeRoute(node, priority)
	}
	return QueueRoute(r.Queue(), priority)
}

func (s *Submission) priority(job *Job) (int, error) {
	p := s.Priority
	if p == 0 && job != nil {
		p = job.Priority
	}
	if p == 0 {
		return DefaultPriority, nil
	}
	return p, ValidPriority(p)
}

// fairKey is the key that the submission names, or what the job's fair stands for in it.
func (s *Submission) fairKey(job *Job, w *Work) (string, error) {
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

// CancelWaiting is [Cancel] for a task only as long as it waits.
type CancelWaiting struct{ Reason string }

func (CancelWaiting) isCommand() {}

// Prioritize gives a task that waits another priority.
type Prioritize struct {
	Priority int
	Reason   string
}

func (Prioritize) isCommand() {}

func prioritize(t *Task, c Prioritize) (Event, error) {
	if err := ValidPriority(c.Priority); err != nil {
		return nil, err
	}
	return reassign(t, Reassign{From: t.Route, To: t.Route.At(c.Priority), Reason: c.Reason})
}
