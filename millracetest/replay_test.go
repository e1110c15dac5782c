package millracetest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace"
	"millrace/millracetest"
	"millrace/service/rerun"
)

// priced returns a function that asks for a price in one way or another.
func priced(price func(string) (int, error)) *millrace.Function[string, int] {
	return millrace.Func("price", func(_ context.Context, article string) (int, error) { return price(article) }, millrace.Retries(1))
}

func byLength(article string) (int, error) {
	if article == "" {
		return 0, errors.New("no article")
	}
	return len(article), nil
}

// The tasks of a file end as recorded by the same code, and are noticed where other code ends otherwise.
func TestReplay(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "week.jsonl")
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		price := priced(byLength)
		w.Work(price)
		for _, article := range []string{"shoe", "", "hat"} {
			if _, err := price.Submit(t.Context(), w.App, article, millrace.In(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		w.RunUntilIdle()
		out, err := os.Create(file)
		if err == nil {
			err = errors.Join(w.Export(out), out.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	runs := 0
	same := priced(func(article string) (int, error) { runs++; return byLength(article) })
	if n := millracetest.Replay(t, same, file); n != 3 || runs != 3 {
		t.Errorf("%d tasks in %d runs, want 3", n, runs)
	}
	around := func(ctx context.Context, _ *millrace.Task, next func(context.Context) error) error {
		runs++
		return next(ctx)
	}
	if n := millracetest.Replay(t, same, file, around); n != 3 || runs != 9 {
		t.Errorf("with middleware: %d tasks in %d runs of it and the function, want 3 and 9", n, runs)
	}
}

// A program that `millrace replay --with` has started runs what it is asked on a socket, with the records of each task
// alone, and the first difference ends it.
func TestReplayOfAProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "week.jsonl")
	thumb := millrace.Func("thumb", func(_ context.Context, in string) (string, error) { return in + ".thumb", nil })
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		var l ledger
		work := order(&l, thumb)
		w.Work(work, thumb)
		for _, article := range []string{"shoe", "hat"} {
			if _, err := work.Submit(t.Context(), w.App, article); err != nil {
				t.Fatal(err)
			}
		}
		w.RunUntilIdle()
		out, err := os.Create(file)
		if err == nil {
			err = errors.Join(w.Export(out), out.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	records, err := rerun.ReadExport(in)
	if err != nil {
		t.Fatal(err)
	}
	first := slices.IndexFunc(rerun.LogOf(records).Endings, func(e rerun.Ending) bool { return e.Function == "order" })
	var l ledger
	other := millrace.Func("order", func(ctx context.Context, article string) (string, error) {
		if _, err := millrace.NewID(ctx); err != nil {
			return "", err
		}
		return millrace.Step(ctx, "pack", func(context.Context) (string, error) { l.sent++; return article, nil })
	})
	for _, c := range []struct {
		name    string
		f       *millrace.Function[string, string]
		ran     int
		differs string
	}{
		{"the same code", order(&l, thumb), 4, ""},
		{"other code", other, first + 1, `step 2 was step "charge", and now is step "pack"`},
	} {
		socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		app := millrace.New(rerun.Dial(socket.Addr().String()).Client(), nil)
		worker := millrace.Worker{App: app, Node: "replay"}
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(t.Context(), c.f, thumb) }()
		ran, differs := 0, ""
		err = rerun.LogOf(records).Serve(t.Context(), socket, func(e *rerun.Ending, now rerun.Outcome) bool {
			ran++
			differs = e.Differs(now)
			return differs == ""
		})
		if err := errors.Join(err, <-ended); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if ran != c.ran || (differs == "") != (c.differs == "") || !strings.Contains(differs, c.differs) {
			t.Errorf("%s: %d tasks, want %d; %s", c.name, ran, c.ran, differs)
		}
	}
	if len(l.paid)+l.sent > 0 {
		t.Errorf("steps were done again: %+v", l)
	}
}

// What a function does beyond the record is a difference: another child, or a wait for one.
func TestReplayOfChildren(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "week.jsonl")
	part := millrace.Func("part", func(_ context.Context, in string) (string, error) { return in, nil })
	whole := func(keys ...string) *millrace.Function[string, string] {
		return millrace.Func("whole", func(ctx context.Context, _ string) (all string, err error) {
			for _, key := range keys {
				run, err := part.Spawn(ctx, key, key)
				if err != nil {
					return "", err
				}
				is, err := run.Result(ctx)
				if err != nil {
					return "", err
				}
				all += is
			}
			return all, nil
		})
	}
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		f := whole("a", "b")
		w.Work(f, part)
		if _, err := f.Submit(t.Context(), w.App, ""); err != nil {
			t.Fatal(err)
		}
		w.RunUntilIdle()
		out, err := os.Create(file)
		if err == nil {
			err = errors.Join(w.Export(out), out.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if n := millracetest.Replay(t, whole("a", "b"), file); n != 1 {
		t.Errorf("%d tasks, want 1", n)
	}
	data, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	records, err := rerun.ReadExport(data)
	if err != nil {
		t.Fatal(err)
	}
	log := rerun.LogOf(records)
	e := &log.Endings[len(log.Endings)-1]
	var now rerun.Outcome
	w := millrace.Worker{App: millrace.New(log.Of(e, func(o rerun.Outcome) { now = o }).Client(), nil), Node: "replay"}
	if err := w.Run(t.Context(), whole("a", "c")); err != nil || e.Function != "whole" || !strings.Contains(now.Failure, "a child that the record does not have") {
		t.Errorf("%s: %v, %v", e.Function, now, err)
	}
}
