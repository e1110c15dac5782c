package logtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
)

// decisive are the fields of facts that hold decisions, as paths. Other fields were reported (a
// class, an exit code) or given by a person (a reason).
var decisive = map[events.Type][]string{
	events.TaskSubmitted:       {"due", "window.detail"},
	events.AttemptFailed:       {"retry", "retry.attempt", "retry.due", "reason", "by.drawn", "by.final"},
	events.AttemptStarted:      {"took_over.heard", "took_over.ground", "took_over.reason", "by", "by.lease"},
	events.AttemptLost:         {"reason", "by", "by.rule", "by.seen"},
	events.TaskAbnormal:        {"reason", "detail", "by", "by.rule"},
	events.TaskCancelRequested: {"deadline", "reason", "by", "by.rule", "by.seen", "by.limit"},
	events.TaskReassigned:      {"to", "from", "reason", "until", "asked", "by.rule", "by.peer"},
	events.TaskPostponed:       {"reason", "detail", "due", "by", "by.rule", "by.drawn"},
	events.TaskCollapsed:       {"due"},
	events.NodeOffline:         {"lost", "reason", "by"},
	events.NodeQuarantined:     {"reason", "until", "by.flap", "by"},
	events.NodeReleased:        {"reason", "by.flap"},
	events.TaskThrottled:       {"limit"},
	events.UniqueClaimed:       {"before", "by", "by.ends"},
	events.TaskExpanded:        {"children.names", "children.spares"},
	events.TaskConcluded:       {"state", "reason", "message", "result", "by"},
	events.TaskUnheld:          {"hold", "reason", "inputs", "by", "by.ends"},
	events.TaskQueued:          {"reason", "inputs", "by.ends"},
	events.TaskCancelled:       {"reason", "code", "by", "by.ends", "by.seen", "by.limit"},
	events.LimitGranted:        {"grants", "grants." + swapped, "rates"},
	events.ScheduleAdmitted:    {"tick", "due", "trigger", "made", "detail", "ledger", "ledger.last", "ledger.failures", "ledger.waiting", "revision", "by", "by.offer", "by.ends", "by.rule"},
	events.ScheduleSkipped:     {"tick", "until", "count", "reason", "ledger", "ledger.open", "ledger.last", "ledger.failures", "by", "by.offer", "by.ends", "by.rule"},
	events.ScheduleQueued:      {"tick", "trigger", "ledger", "ledger.open", "by", "by.offer", "by.ends"},
	events.BreakerOpened:       {"reason", "until", "by", "by.policy"},
	events.BreakerHalfOpened:   {"reason", "until", "left", "by"},
	events.BreakerTried:        {"until", "left", "by"},
	events.BreakerClosed:       {"reason", "by"},
}

// counted tells whether a decision depends on a field. A named input may have had no effect; a
// decision under other settings needs it nevertheless.
func counted(r *events.Record, path string) bool {
	by := r.Fact.By
	if e, ok := r.Fact.Event.(task.Submitted); ok {
		return e.Window != nil // else the submitter gave the time
	}
	if e, ok := r.Fact.Event.(task.Granted); ok {
		return path != "rates" || takesFromRates(&e)
	}
	if _, ok := r.Fact.Event.(task.CancelRequested); ok {
		switch path {
		case "reason":
			return by != nil // else a person has given it
		case "by":
			return by != nil && by.Rule == task.RuleLimit // any other decision without inputs was requested by a person
		}
	}
	if by == nil {
		return r.Fact.Type == events.TaskExpanded || r.Fact.Type == events.TaskCancelRequested || r.Fact.Type == events.TaskThrottled || r.Fact.Type == events.AttemptFailed
	}
	switch e := r.Fact.Event.(type) {
	case task.AttemptFailed:
		return path != "by.drawn" || e.Retry != nil && e.RetryAfter == 0
	case task.AttemptLost:
		return (path != "by.seen" || by.Seen == r.Seq-1) && (path != "reason" || by.Rule != task.RuleOwn)
	case task.Reassigned:
		return by.Peer == nil || by.Peer.At > 0 // else an unknown peer has requested it
	}
	return true
}

// takesFromRates tells whether an admission states what is left of a rate that it draws from.
func takesFromRates(e *task.Granted) bool {
	for _, g := range e.Grants {
		for _, name := range g.Limits {
			if _, told := e.Rates[name]; told {
				return true
			}
		}
	}
	return false
}

// Alter changes each decision in a log, one at a time, and calls found with the changed log. Found
// tells whether it reports a fault. Alter changes each field of each type at most most times; done
// counts the changes.
func Alter(t testing.TB, log []events.Record, most int, done map[string]int, found func([]events.Record) bool) {
	t.Helper()
	for i := range log {
		r := &log[i]
		for _, path := range decisive[r.Fact.Type] {
			name := string(r.Fact.Type) + " " + path
			if r.Err != nil || done[name] >= most || !counted(r, path) {
				continue
			}
			other, ok := altered(t, r, strings.Split(path, "."))
			if !ok {
				continue
			}
			try(t, log, i, other, name, done, found)
		}
		if r.Err != nil || r.Fact.By == nil {
			continue
		}
		for name, other := range cameLater(r) {
			if name = string(r.Fact.Type) + " " + name; done[name] < most {
				try(t, log, i, other, name, done, found)
			}
		}
	}
}

// try puts another record in the place of one.
func try(t testing.TB, log []events.Record, i int, other events.Record, name string, done map[string]int, found func([]events.Record) bool) {
	t.Helper()
	done[name]++
	changed := slices.Clone(log)
	changed[i] = other
	if !found(changed) {
		t.Errorf("%s at %d was changed, and nothing is found: %s, was %s", name, log[i].Seq, body(t, &other), body(t, &log[i]))
	}
}

// cameLater returns a decision as it would be if it had been made by what came after it.
func cameLater(r *events.Record) map[string]events.Record {
	late, knowing, of := *r, *r, *r
	late.Fact.At = r.Stored.AddDate(100, 0, 0)
	by, of2 := *r.Fact.By, *r.Fact.By
	by.Seen, of2.Task = r.Seq, r.Seq
	knowing.Fact.By, of.Fact.By = &by, &of2
	return map[string]events.Record{"at in the future": late, "by.seen behind it": knowing, "by.task behind it": of}
}

func body(t testing.TB, r *events.Record) string {
	t.Helper()
	text, err := events.Encode(nil, &r.Fact)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// altered returns a record with one field changed; false if the record does not have the field.
func altered(t testing.TB, r *events.Record, path []string) (events.Record, bool) {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(body(t, r)), &fields); err != nil {
		t.Fatal(err)
	}
	if !alter(fields, path) {
		return events.Record{}, false
	}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	other := *r
	if other.Fact, err = events.Decode(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return other, true
}

// swapped ends a path to a list whose first two elements are to be swapped.
const swapped = "swapped"

// alter changes the field at a path; false if there is none.
func alter(fields map[string]any, path []string) bool {
	in := fields
	if path[len(path)-1] == swapped {
		all, ok := in[path[0]].([]any)
		if !ok || len(all) < 2 {
			return false
		}
		all[0], all[1] = all[1], all[0]
		return true
	}
	for _, name := range path[:len(path)-1] {
		next, ok := in[name].(map[string]any)
		if !ok {
			return false
		}
		in = next
	}
	last := path[len(path)-1]
	switch v := in[last].(type) {
	case nil:
		return false
	case float64:
		if in[last] = v + 1; v < 1 {
			in[last] = v / 2
		}
	case bool:
		in[last] = !v
	case []any:
		for i := range v {
			if seq, ok := v[i].(float64); ok {
				v[i] = seq + 1
			} else {
				delete(in, last)
			}
		}
	case string:
		in[last] = v + "x"
		if last == "to" || last == "from" {
			in[last] = "elsewhere.5"
		} else if last == "state" {
			if in[last] = "finished"; v == "finished" {
				in[last] = "error"
			}
		} else if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			in[last] = at.Add(time.Second)
		} else if d, err := time.ParseDuration(v); err == nil {
			in[last] = fmt.Sprint(d + time.Second)
		}
	default:
		delete(in, last)
	}
	return true
}
