package millracetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"millrace"
	"millrace/events"
	"millrace/history/incident"
	"millrace/task"
	"millrace/task/value"
	"millrace/worker"
)

// Export writes what has happened in the world so far as an export of its log, which `millrace replay`, `millrace
// verify` and [Replay] read.
func (w *World) Export(to io.Writer) error {
	e, err := events.NewExportWriter(to, events.ExportHeader{})
	if err != nil {
		return err
	}
	for _, r := range w.house.All() {
		if err := e.Write(&r); err != nil {
			return err
		}
	}
	return e.Flush()
}

// Replay runs a function again for each task of it that has ended in a file, and fails the test at the first one that
// now ends otherwise, with both sides. So new code can be held against what has happened, and a debugger attached to
// what went wrong. The file is an incident file or an export of a log (`millrace incident export`, `millrace export`).
//
// Each task has a world of its own, where the log is as it was before the last attempt ended: its parameters, what it
// needs, its signals, the outcomes of its steps, and its children, none of which run again. A step of which the file has
// no outcome is a difference. Checkpoints are no part of a log, so the function begins without one. The clock stands at
// that time. What the function does outside of steps it does again: give it fakes there. A task whose last attempt was
// cancelled or lost is left out; one whose parameters the file hides differs. Replay returns how many tasks it has run,
// and fails the test if there are none.
func Replay(t *testing.T, f millrace.Handler, file string) (tasks int) {
	t.Helper()
	records, err := recorded(file)
	if err != nil {
		t.Fatalf("millracetest: replay %s: %v", file, err)
	}
	for _, of := range endings(records, millrace.NameOf(f)) {
		synctest.Test(t, func(t *testing.T) { of.replay(t, f, records) })
		tasks++
		if t.Failed() {
			return tasks
		}
	}
	if tasks == 0 {
		t.Errorf("millracetest: replay %s: it has no task of %s that ended by itself", file, millrace.NameOf(f))
	}
	return tasks
}

// recorded reads a file.
func recorded(file string) (all []events.Record, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if incident.Is(data) {
		is, err := incident.Open(data)
		if err != nil {
			return nil, err
		}
		for r, err := range is.Facts() {
			if err == nil {
				all = append(all, r)
			}
		}
		return all, nil
	}
	lines, err := events.NewExportReader(bytes.NewReader(data))
	for err == nil {
		var r events.Record
		if r, err = lines.Next(); err == nil {
			all = append(all, r)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}

// ending is the end of a task's last attempt, as a file has it.
type ending struct {
	id   task.ID
	seq  uint64
	at   time.Time
	says outcome
	tree map[task.ID]bool // the task, those below it, and what it needs
}

// outcome is how an attempt ended.
type outcome struct {
	result  json.RawMessage
	failure string // "" for success
}

func (o outcome) String() string {
	if o.failure != "" {
		return "it fails: " + o.failure
	}
	return "it returns " + string(append(o.result, map[bool]string{true: "nothing"}[len(o.result) == 0]...))
}

func (o outcome) same(as outcome) bool {
	if o.failure != as.failure || (len(o.result) == 0) != (len(as.result) == 0) {
		return false
	}
	return len(o.result) == 0 || value.Same(o.result, as.result)
}

// outcomeOf is that of an attempt; false for a fact that is none.
func outcomeOf(r *events.Record) (o outcome, is bool) {
	switch e := r.Fact.Event.(type) {
	case task.AttemptFinished:
		return outcome{result: e.Result}, true
	case task.AttemptFailed:
		return outcome{failure: e.Message}, true
	}
	return outcome{}, false
}

// endings lists how the tasks of a function ended, in the order of their ends.
func endings(records []events.Record, function string) (all []ending) {
	trees := map[task.ID]map[task.ID]bool{}
	last := map[task.ID]int{} // the place in all, behind the task's
	for i := range records {
		r := &records[i]
		if r.Err != nil || r.Fact.Task == "" {
			continue
		}
		if e, born := r.Fact.Event.(task.Submitted); born {
			if e.Spec.Handler == function {
				tree := map[task.ID]bool{r.Fact.Task: true}
				if e.Needs != nil {
					for _, n := range e.Needs.Of {
						tree[n.Task] = true
					}
				}
				trees[r.Fact.Task] = tree
			}
			for _, tree := range trees {
				if tree[e.Parent] {
					tree[r.Fact.Task] = true
				}
			}
		}
		tree, ours := trees[r.Fact.Task]
		if says, is := outcomeOf(r); is && ours {
			end := ending{id: r.Fact.Task, seq: r.Seq, at: r.Fact.At, says: says, tree: tree}
			if n := last[r.Fact.Task]; n > 0 {
				all[n-1] = end
				continue
			}
			all = append(all, end)
			last[r.Fact.Task] = len(all)
		}
	}
	return all
}

// replay runs a task's last attempt again, from what the log held before its end.
func (e ending) replay(t *testing.T, f millrace.Handler, records []events.Record) {
	t.Helper()
	var before []events.Record
	for _, r := range records {
		if r.Seq < e.seq && r.Err == nil && e.tree[r.Fact.Task] {
			before = append(before, r)
		}
	}
	time.Sleep(time.Until(e.at))
	w := newWorld(t, before)
	w.App.Use(func(ctx context.Context, _ *millrace.Task, next func(context.Context) error) error {
		return next(worker.Replay(ctx))
	})
	w.Work(f)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		synctest.Wait()
		_, _, changed := w.open()
		for _, r := range w.house.All() {
			is, ended := outcomeOf(&r)
			if r.Seq < e.seq && len(before) > 0 && r.Seq <= before[len(before)-1].Seq || r.Fact.Task != e.id || !ended {
				continue
			}
			if !is.same(e.says) {
				t.Errorf("millracetest: task %s of %s ends otherwise than recorded at #%d\nrecorded: %v\nnow:      %v", e.id, millrace.NameOf(f), e.seq, e.says, is)
			}
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Hour):
		}
	}
	t.Errorf("millracetest: task %s of %s does not end; recorded at #%d: %v", e.id, millrace.NameOf(f), e.seq, e.says)
}
