package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/worker"
)

// carriesOn is a task that goes on while its worker is disconnected.
var carriesOn = job.Spec{OnDisconnect: job.DisconnectContinue}

// talks prints a line each second until end closes, and records why it was stopped.
func talks(end chan struct{}, stopped *error) map[string]worker.Handler {
	return map[string]worker.Handler{"h": func(ctx context.Context, t task.Task) error {
		o := worker.FromContext(ctx).Output
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := 1; ; n++ {
			o.Line(output.Stdout, fmt.Sprintf("attempt %d, line %d", t.Attempt, n))
			if err := o.Insert(json.RawMessage(fmt.Sprint(n))); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				*stopped = context.Cause(ctx)
				return *stopped
			case <-end:
				o.SetResult(json.RawMessage(`"done"`))
				return nil
			case <-tick.C:
			}
		}
	}}
}

// files lists the files of a spool that hold output or reports.
func (w *world) files(dir string) (names []string) {
	w.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
			w.Errorf("%s has mode %v (%v), want 0600", path, info.Mode(), err)
		}
		names = append(names, path)
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return names
}

// wantOutput checks that all that a talking attempt said arrived, once and in order.
func (w *world) wantOutput(s *store, attempt, atLeast int) {
	w.Helper()
	texts, err := s.lines()
	if err != nil {
		w.Error(err)
	}
	for i, text := range texts {
		if want := fmt.Sprintf("attempt %d, line %d", attempt, i+1); text != want {
			w.Errorf("line %d is %q, want %q", i+1, text, want)
		}
	}
	if len(texts) < atLeast {
		w.Errorf("there are %d lines, want %d", len(texts), atLeast)
	}
	items := 0
	for _, r := range get(s, &s.kept) {
		if r.First != items {
			w.Errorf("records begin at %d, want %d", r.First, items)
		}
		items += len(r.Items)
	}
	if items != len(texts) {
		w.Errorf("there are %d records, want %d", items, len(texts))
	}
}

// While the server is away for many leases, the attempt goes on; afterwards the task is still its
// own, and none of its output is missing.
func TestContinueGoesOnAndIsItsOwn(t *testing.T) {
	for _, c := range []struct {
		name string
		// back is whether the server is back before the attempt ends.
		back bool
	}{{"ends after the return", true}, {"ends before the return", false}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				end, dir := make(chan struct{}), w.TempDir()
				var stopped error
				cfg := quick
				cfg.Spool = dir
				a := w.start(cfg, talks(end, &stopped))
				id := w.submit(carriesOn)
				pass(5 * time.Second)
				set(a.store, &a.cut, true)
				pass(10 * ackWait)
				if len(w.files(dir)) != 1 {
					w.Errorf("the spool has %v, want one file", w.files(dir))
				}
				if !c.back {
					close(end)
					pass(10 * ackWait)
				}
				if now := w.task(id); now.State != task.Running || stopped != nil {
					w.Fatalf("it is %s, and was stopped because of %v", now.State, stopped)
				}
				set(a.store, &a.cut, false)
				pass(20 * time.Second)
				if c.back {
					if n := len(get(a.store, &a.printed)); n < 10 {
						w.Errorf("%d batches of output were stored after the return, while it ran", n)
					}
					close(end)
				}
				w.wantState(w.ended(id), task.Finished, "")
				w.wantFacts(id, events.AttemptStarted, events.AttemptFinished)
				w.wantOutput(a.store, 1, 120)
				pass(3 * ackWait)
				a.stop()
				pass(time.Minute)
				if left, _ := os.ReadDir(dir); len(w.files(dir)) > 0 || len(left) > 0 {
					w.Errorf("the spool still has %v", left)
				}
			})
		})
	}
}

// Another worker has the task when this worker is back: a running attempt is stopped, the report of
// an ended one is kept as evidence, and its output is kept under its epoch.
func TestContinueIsTakenOver(t *testing.T) {
	for _, ended := range []bool{true, false} {
		t.Run(fmt.Sprintf("ended %v", ended), func(t *testing.T) {
			inBubble(t, func(w *world) {
				end := make(chan struct{})
				var stopped error
				a := w.start(quick, talks(end, &stopped))
				id := w.submit(carriesOn)
				pass(2 * time.Second)
				set(a.store, &a.cut, true)
				cfg := quick
				cfg.Node = "b"
				w.start(cfg, map[string]worker.Handler{"h": done})
				got := w.ended(id)
				w.wantState(got, task.Finished, "")
				if got.Node != "b" || got.Attempt != 2 {
					w.Errorf("attempt %d on %s has finished it, want 2 on b", got.Attempt, got.Node)
				}
				pass(time.Minute)
				if stopped != nil {
					w.Errorf("it was stopped because of %v while nobody could tell", stopped)
				}
				if ended {
					close(end)
					pass(time.Minute)
				}
				set(a.store, &a.cut, false)
				pass(time.Minute)
				w.wantFacts(id, events.AttemptStarted, events.AttemptStarted, events.AttemptFinished, events.AttemptLate)
				late := event[task.AttemptLate](w, w.facts(id))
				if want := w.facts(id)[0].Seq; late.Epoch != want || late.Node != "a" || ended != strings.Contains(string(late.Said), `"result":"done"`) {
					w.Errorf("the evidence is %+v (%s), want that of epoch %d", late, late.Said, want)
				}
				if !ended && !errors.Is(stopped, worker.ErrFenced) {
					w.Errorf("it was stopped because of %v, want %v", stopped, worker.ErrFenced)
				}
				w.wantOutput(a.store, 1, 60)
				for _, p := range get(a.store, &a.printed) {
					if p.Epoch != late.Epoch {
						w.Errorf("lines were stored under epoch %d, want %d", p.Epoch, late.Epoch)
					}
				}
			})
		})
	}
}

// The next worker of a node hands over what the last one could not before its end.
func TestSuccessorHandsOver(t *testing.T) {
	for _, takenOver := range []bool{false, true} {
		t.Run(fmt.Sprintf("taken over %v", takenOver), func(t *testing.T) {
			inBubble(t, func(w *world) {
				end, dir := make(chan struct{}), w.TempDir()
				var stopped error
				cfg := quick
				cfg.Spool, cfg.Grace = dir, time.Second
				a := w.start(cfg, talks(end, &stopped))
				id := w.submit(carriesOn)
				epoch := w.task(id).Epoch
				pass(2 * time.Second)
				set(a.store, &a.cut, true)
				pass(5 * time.Second)
				close(end)
				pass(time.Second)
				// If the worker were killed now, the report would be on the disk.
				if held, err := os.ReadFile(w.files(dir)[0]); err != nil || !strings.Contains(string(held), `"report"`) {
					w.Errorf("the spool holds no report (%v): %s", err, held)
				}
				a.stop()
				<-a.done
				if len(w.files(dir)) != 1 {
					w.Fatalf("the spool has %v, want one file", w.files(dir))
				}
				if takenOver {
					other := quick
					other.Node = "b"
					w.start(other, map[string]worker.Handler{"h": done})
					w.ended(id)
				}
				next := newStore(w.log)
				w.startOn(next, cfg, map[string]worker.Handler{"h": done})
				pass(time.Second)
				got := w.ended(id)
				w.wantState(got, task.Finished, "")
				if takenOver {
					if late := event[task.AttemptLate](w, w.facts(id)); late.Epoch != epoch || got.Result != nil {
						w.Errorf("the evidence is %+v, the result %s", late, got.Result)
					}
				} else if string(got.Result) != `"done"` || got.Epoch != epoch {
					w.Errorf("it has the result %s of epoch %d, want that of %d", got.Result, got.Epoch, epoch)
				}
				all := append(slices.Clone(get(a.store, &a.printed)), get(next, &next.printed)...)
				n := 0
				for _, p := range all {
					for _, l := range p.Lines.Lines {
						if n++; l.N != n {
							w.Errorf("line %q has number %d, want %d", l.Text, l.N, n)
						}
					}
				}
				if n < 7 {
					w.Errorf("there are %d lines", n)
				}
				if len(w.files(dir)) > 0 {
					w.Errorf("the spool still has %v", w.files(dir))
				}
			})
		})
	}
}

// A full spool keeps the report, and counts what it has dropped.
func TestFullSpool(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := quick
		cfg.SpoolLimit = 400
		end := make(chan struct{})
		a := w.start(cfg, map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error {
			o := worker.FromContext(ctx).Output
			for n := range 60 {
				o.Line(output.Stdout, fmt.Sprint("line ", n+1))
				wait(time.Second)
			}
			<-end
			o.Line(output.Stdout, "the last one")
			return nil
		}})
		id := w.submit(carriesOn)
		set(a.store, &a.cut, true)
		pass(2 * time.Minute)
		set(a.store, &a.cut, false)
		pass(time.Minute)
		close(end)
		w.wantState(w.ended(id), task.Finished, "")
		var texts []string
		dropped, last := 0, 0
		for _, p := range get(a.store, &a.printed) {
			for _, l := range p.Lines.Lines {
				if l.N <= last {
					w.Errorf("line %d comes after line %d", l.N, last)
				}
				last = l.N
				texts = append(texts, l.Text)
				if l.Stream == output.System {
					if _, err := fmt.Sscanf(l.Text, "%d lines", &dropped); err != nil {
						w.Errorf("%q: %v", l.Text, err)
					}
				}
			}
		}
		if stored := len(texts) - 1; dropped == 0 || stored+dropped != 61 || texts[len(texts)-1] != "the last one" {
			w.Errorf("%d lines were stored and %d dropped, want 61 together: %q", stored, dropped, texts)
		}
	})
}
