package verify_test

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// The verifier finds an admission beyond a budget, and one delayed longer than the budget requires.
func TestDecisionsOnBudgets(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ids := []task.ID{"01JNAT00000000000000000001", "01JNAT00000000000000000002", "01JNAT00000000000000000003"}
	type said struct {
		at   time.Duration
		of   task.ID // "" for an admission
		what any
	}
	admits := func(at time.Duration, which ...int) said {
		var g task.Granted
		for _, n := range which {
			g.Grants = append(g.Grants, task.Grant{Task: ids[n-1], Limits: []string{"budget:day:j"}})
		}
		return said{at, "", g}
	}
	starts := func(at time.Duration, n int) said {
		return said{at, ids[n-1], task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 1}}
	}
	ends := func(at time.Duration, n int, epoch uint64) said {
		return said{at, ids[n-1], task.AttemptFinished{Attempt: 1, Epoch: epoch}}
	}
	const h = time.Hour
	two := limit.Budget{Starts: 2}
	hours := limit.Budget{Run: value.Duration(3 * h)}
	// Three tasks of a job, submitted at noon, wait.
	for name, c := range map[string]struct {
		budget  limit.Budget
		timeout time.Duration
		log     []said
		cut     bool   // each has left more to the next one
		wrong   string // of the last admission
	}{
		"as many as it allows":      {two, 0, []said{admits(0, 1), admits(h, 2)}, true, ""},
		"at once":                   {two, 0, []said{admits(0, 1, 2)}, false, ""},
		"one more":                  {two, 0, []said{admits(0, 1, 2, 3)}, false, "no more than 2 are admitted"},
		"one more later":            {two, 0, []said{admits(0, 1, 2), admits(11*h, 3)}, false, "no more than 0 are admitted"},
		"when they have ended":      {two, 0, []said{admits(0, 1, 2), starts(0, 1), ends(h, 1, 5), admits(2*h, 3)}, false, "no more than 0 are admitted"},
		"on the next day":           {two, 0, []said{admits(0, 1, 2), starts(0, 1), starts(0, 2), admits(12*h, 3)}, false, ""},
		"but for who starts then":   {two, 0, []said{admits(0, 1, 2), starts(0, 1), admits(12*h, 3)}, false, ""},
		"if that leaves one":        {two, 0, []said{admits(0, 1, 2), admits(12*h, 3)}, false, "no more than 0 are admitted"},
		"fewer":                     {two, 0, []said{admits(0, 1)}, false, "the task is admitted too"},
		"fewer, and more":           {two, 0, []said{admits(0, 1)}, true, ""},
		"one before its turn":       {two, 0, []said{admits(0, 1), admits(h, 3)}, true, "goes before it"},
		"none, and one could":       {two, 0, []said{said{0, "", task.Granted{}}}, false, "the task is admitted too"},
		"one of unknown length":     {hours, 0, []said{admits(0, 1)}, false, ""},
		"two of unknown length":     {hours, 0, []said{admits(0, 1, 2)}, false, "no more than 1 are admitted"},
		"as the first took":         {hours, 0, []said{admits(0, 1), starts(0, 1), ends(h, 1, 5), admits(h, 2, 3)}, false, ""},
		"and no more":               {hours, 0, []said{admits(0, 1), starts(0, 1), ends(2*h, 1, 5), admits(2*h, 2, 3)}, false, "no more than 1 are admitted"},
		"all is used up":            {hours, 0, []said{admits(0, 1), starts(0, 1), ends(3*h, 1, 5), admits(4*h, 2)}, false, "no more than 0 are admitted"},
		"as their timeout says":     {hours, 2 * h, []said{admits(0, 1, 2)}, false, ""},
		"and no more than that":     {hours, 2 * h, []said{admits(0, 1, 2, 3)}, false, "no more than 2 are admitted"},
		"what ran before midnight":  {hours, 0, []said{admits(0, 1), starts(0, 1), ends(14*h, 1, 5), admits(14*h, 2)}, false, ""},
		"counts not, and then does": {hours, 0, []said{admits(0, 1), starts(0, 1), ends(15*h, 1, 5), admits(15*h, 2)}, false, "no more than 0 are admitted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log []events.Record
			add := func(kind events.Kind, at time.Time, f events.Fact) {
				f.At, f.Type, f.ID = at, events.TypeOf(f.Event), events.NewID(at)
				log = append(log, events.Record{Seq: uint64(len(log) + 1), Stored: at, Kind: kind, Fact: f})
			}
			for _, id := range ids {
				spec := &job.Spec{Handler: "h", Budget: limit.Budgets{c.budget}, Timeout: job.Timeout{Run: value.Duration(c.timeout)}}
				add(events.KindHold, noon, events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Job: "j", Spec: spec, Route: "default.5", Holds: []string{task.HoldLimit}}}})
			}
			for _, s := range c.log {
				f := events.Fact{Task: s.of}
				if s.of == "" {
					f.Scope, f.Event, f.By = "job.j", s.what.(task.Granted), &task.By{Seen: uint64(len(log)), Cut: c.cut}
					add(events.KindLimit, noon.Add(s.at), f)
					continue
				}
				f.Event = s.what.(task.Event)
				add(events.KindChain, noon.Add(s.at), f)
			}
			found := verify.Decided(log)
			switch {
			case c.wrong == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case c.wrong != "" && (len(found) != 1 || !strings.Contains(found[0].What, c.wrong) || found[0].Seqs[len(found[0].Seqs)-1] != uint64(len(log))):
				t.Errorf("found %+v, want one with %q", found, c.wrong)
			}
		})
	}
}
