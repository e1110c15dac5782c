package client

import (
	"context"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// kinds lists definitions by their kinds.
type kinds struct{ gridWorld }

func (w *kinds) List(_ context.Context, q view.Query) (view.Page, error) {
	of := maps.Clone(w.defined)
	maps.DeleteFunc(of, func(d task.Def, _ task.Definition) bool { return d.Kind() != q.Of })
	return view.Page{Definitions: of}, nil
}

// A job runs next when the first of its schedules does that is not paused.
func TestNextOfJobs(t *testing.T) {
	since := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	now := since.Add(90 * time.Minute)
	var w kinds
	for name, s := range map[string]struct {
		job    string
		every  time.Duration
		paused bool
	}{"a": {"copy", 4 * time.Hour, false}, "b": {"copy", time.Hour, false}, "c": {"copy", time.Minute, true}, "d": {"copy", 9 * time.Hour, false}, "e": {"rest", time.Minute, true}} {
		d := schedule.Definition{Name: name, When: job.Schedule{Every: value.Duration(s.every)}, Make: birth.Submission{Job: s.job}, Since: since, Anchor: since}
		if s.paused {
			d.Paused = &schedule.Pause{At: since}
		}
		w.define(d)
	}
	for _, name := range []string{"copy", "none", "rest"} {
		text, _ := json.Marshal(job.Job{Name: name, Spec: job.Spec{Handler: "do"}})
		w.defined[task.Named(task.DefJob, name)] = task.Definition{Edition: task.Edition{Revision: 1, Text: text}, Head: 1, Changed: since}
	}
	rows, err := JobRowsOf(t.Context(), &w, nil, now)
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d jobs: %v", len(rows), err)
	}
	for i, want := range []time.Time{since.Add(2 * time.Hour), {}, {}} {
		if got := rows[i].Next; !got.Equal(want) {
			t.Errorf("%s runs at %v, want %v", rows[i].Name, got, want)
		}
	}
}
