package connect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/quota"
)

// Where a task of the past waited before its limits is a server's to tell. Only if none can answer,
// the command folds the log.
func TestAServerTellsWhereATaskStood(t *testing.T) {
	t.Parallel()
	const id = task.ID("01M8D75WP4WD0G3E5A54PB90DX")
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	spec := &job.Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: "k"}}}
	birth := events.Record{Seq: 1, Stored: noon, Kind: events.KindHold, Fact: events.Fact{
		Task: id, At: noon,
		Event: task.Submitted{Work: task.Work{Spec: spec, Route: "q.5", Holds: []string{task.HoldLimit}}},
	}}
	for _, c := range []struct {
		name   string
		answer error
		folds  int
	}{
		{"a server answers", nil, 0},
		{"none answers", errors.New("no responders"), 1},
	} {
		asked, folds := 0, 0
		model := view.NewFolding(view.Point{Seq: 1, At: noon}, func(_ context.Context, _ view.Kind, each func(*events.Record) error) error {
			folds++
			return each(&birth)
		}, nil)
		past := model.Past(view.Slice{birth})
		s := Sight{View: past, Then: past, Past: &ShownPoint{Seq: 1, Stored: noon}, fold: model.Fold, limits: past}
		a := New(nil, io.Discard, new(bytes.Buffer), nil)
		a.Conn.Timeout = time.Minute
		err := a.stand(t.Context(), &s, id, 3, func(_ context.Context, q Question) (*quota.Standing, error) {
			if asked++; q.At != "1" {
				t.Errorf("%s: it asks as of %q", c.name, q.At)
			}
			return &quota.Standing{Ahead: 7}, c.answer
		})
		if err != nil || asked != 1 || folds != c.folds {
			t.Errorf("%s: %v; it asked %d times and folded %d times, want once and %d times", c.name, err, asked, folds, c.folds)
		}
		if at, err := s.View.(view.Limited).Standing(t.Context(), id, 3); err != nil || at == nil || (at.Ahead == 7) != (c.answer == nil) {
			t.Errorf("%s: the view tells %+v, %v", c.name, at, err)
		}
	}
}
