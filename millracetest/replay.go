package millracetest

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"millrace"
	"millrace/events"
	"millrace/history/incident"
	"millrace/service/rerun"
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
// what went wrong. The file is an incident file or an export of a log (`millrace incident export`,
// `millrace events export`).
//
// The function is given what the log had before the task's last attempt ended: its parameters, what it needs, its
// signals, the outcomes of its steps, and its children, none of which run again. It is that very attempt, and the clock
// stands at that time. A step of which the file has no outcome is a difference, and so is another child. Checkpoints are
// no part of a log, so the function begins without one. What the function does outside of steps it does again: give it
// fakes there. A task whose last attempt was cancelled, lost or stopped is left out; one whose parameters the file hides
// differs. Middleware is what the program gives [millrace.App.Use]. Replay returns how many tasks it has run, and fails
// the test if there are none.
func Replay(t *testing.T, f millrace.Handler, file string, around ...millrace.Middleware) (tasks int) {
	t.Helper()
	log, err := recorded(file)
	if err != nil {
		t.Fatalf("millracetest: replay %s: %v", file, err)
	}
	for i := range log.Endings {
		e := &log.Endings[i]
		if e.Function != millrace.NameOf(f) {
			continue
		}
		tasks++
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(e.At))
			past := log.Of(e, func(now rerun.Outcome) {
				if differs := e.Differs(now); differs != "" {
					t.Errorf("millracetest: %s", differs)
				}
			})
			app := millrace.New(past.Client(), nil)
			app.Use(around...)
			w := millrace.Worker{App: app, Node: "replay", Log: slog.New(slog.DiscardHandler)}
			if err := w.Run(t.Context(), f); err != nil {
				t.Errorf("millracetest: replay task %s: %v", e.Task, err)
			}
		})
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
func recorded(file string) (*rerun.Log, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !incident.Is(data) {
		all, err := rerun.ReadExport(bytes.NewReader(data))
		return rerun.LogOf(all), err
	}
	is, err := incident.Open(data)
	if err != nil {
		return nil, err
	}
	var all []events.Record
	for r, err := range is.Facts() {
		if err == nil {
			all = append(all, r)
		}
	}
	log := rerun.LogOf(all)
	log.Apart = is.Result
	return log, nil
}
