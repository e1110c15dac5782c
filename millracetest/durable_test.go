package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace"
	"millrace/millracetest"
	"millrace/service/rerun"
	"millrace/task/value"
)

// order charges, waits an hour, and sends; the other sides keep a ledger by the ids that they are given.
func order(l *ledger, thumb *millrace.Function[string, string]) *millrace.Function[string, string] {
	return millrace.Func("order", func(ctx context.Context, article string) (string, error) {
		key, err := millrace.NewID(ctx)
		if err != nil {
			return "", err
		}
		receipt, err := millrace.Step(ctx, "charge", func(context.Context) (string, error) {
			l.pay(string(key))
			return "paid", nil
		})
		if err != nil {
			return "", err
		}
		if err := millrace.Sleep(ctx, "grace", time.Hour); err != nil {
			return "", err
		}
		picture, err := millrace.Call(ctx, "picture", thumb, article)
		if err != nil {
			return "", err
		}
		return millrace.Step(ctx, "send", func(context.Context) (string, error) {
			l.sent++
			return receipt + " " + picture, nil
		})
	})
}

// What a durable function does is the same, wherever its worker is lost, and a replay does none of it again.
func TestDurable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log.jsonl")
	runs := 0
	thumb := millrace.Func("thumb", func(_ context.Context, in string) (string, error) { return in + ".thumb", nil })
	millracetest.CrashEverywhere(t, func(t *testing.T, w *millracetest.World) any {
		runs++
		var l ledger
		work := order(&l, thumb)
		w.Work(work, thumb)
		run, err := work.Submit(t.Context(), w.App, "shoe")
		if err != nil {
			t.Fatal(err)
		}
		w.RunUntilIdle()
		text, err := run.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if runs == 1 {
			out, err := os.Create(file)
			if err == nil {
				err = errors.Join(w.Export(out), out.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return []any{text, len(l.paid)}
	})
	if runs < 10 {
		t.Errorf("only %d runs", runs)
	}
	var l ledger
	if n := millracetest.Replay(t, order(&l, thumb), file); n != 1 || len(l.paid)+l.sent > 0 {
		t.Errorf("%d tasks, which did %+v again", n, l)
	}
}

// A node is lost between two steps: what stands there is done again, and no step is.
func TestCrashBetween(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"", "charge"}, {"charge", "grace"}, {"grace", "send"}, {"send", ""}} {
		millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
			steps, between := map[string]int{}, 0
			step := func(ctx context.Context, name string) error {
				between++
				_, err := millrace.Step(ctx, name, func(context.Context) (struct{}, error) { steps[name]++; return struct{}{}, nil })
				return err
			}
			order := millrace.Action("order", func(ctx context.Context, _ string) error {
				if err := step(ctx, "charge"); err != nil {
					return err
				}
				if err := millrace.Sleep(ctx, "grace", time.Hour); err != nil {
					return err
				}
				return step(ctx, "send")
			})
			w.Work(order)
			w.CrashBetween(order, c[0], c[1])
			run, err := order.Submit(t.Context(), w.App, "shoe")
			if err != nil {
				t.Fatal(err)
			}
			w.RunUntilIdle()
			is, err := run.Task(t.Context())
			if err != nil || is.State.String() != "finished" || is.Attempt != 3 || steps["charge"] != 1 || steps["send"] != 1 {
				t.Errorf("%q: %s in attempt %d, with %v: %v", c, is.State, is.Attempt, steps, err)
			}
			if between <= 3 { // two attempts without a crash come to three places
				t.Errorf("%q: only %d places between steps were passed", c, between)
			}
		})
	}
}

// The timeout of a step bounds each of its tries, and an option that a step cannot have is refused.
func TestStepOptions(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		tries := 0
		f := millrace.Func("asks", func(ctx context.Context, _ string) (string, error) {
			is, err := millrace.Step(ctx, "ask", func(ctx context.Context) (string, error) {
				if tries++; tries == 1 {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return "an answer", nil
			}, millrace.Timeout(time.Minute), millrace.Fields("retry: {max: 1, min: 1s}"))
			if err != nil {
				return "", err
			}
			_, err = millrace.Step(ctx, "queued", func(context.Context) (string, error) { return "", nil }, millrace.Queue("other"))
			if !errors.Is(err, millrace.ErrInvalid) {
				return "", fmt.Errorf("a step with a queue: %w", err)
			}
			return is, nil
		})
		w.Work(f)
		run, err := f.Submit(t.Context(), w.App, "")
		if err != nil {
			t.Fatal(err)
		}
		w.RunUntilIdle()
		if is, err := run.Result(t.Context()); is != "an answer" || err != nil || tries != 2 {
			t.Errorf("%q, %v after %d tries", is, err, tries)
		}
	})
}

// What a function draws behind its last step is recorded with the end of its attempt: a later attempt and a replay are
// given the same, and a version that the recorded code did not ask for is the old way.
func TestDrawnLast(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log.jsonl")
	var told []string
	draws := func(more bool, fails func() error) *millrace.Function[string, string] {
		return millrace.Func("draws", func(ctx context.Context, _ string) (string, error) {
			id, err := millrace.NewID(ctx)
			if err != nil {
				return "", err
			}
			now, err := millrace.Now(ctx)
			if err != nil {
				return "", err
			}
			is := string(id) + now.String()
			told = append(told, is)
			if more {
				way, err := millrace.Version(ctx, "way", 1)
				if err != nil || way != 0 {
					return "another way", err
				}
			}
			return is, fails()
		}, millrace.Retries(2))
	}
	millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
		f := draws(false, func() error {
			switch len(told) {
			case 1:
				return errors.New("no")
			case 2:
				return millrace.Snooze(time.Hour)
			case 3:
				panic("no")
			}
			return nil
		})
		w.Work(f)
		run, err := f.Submit(t.Context(), w.App, "")
		if err != nil {
			t.Fatal(err)
		}
		w.RunUntilIdle()
		is, err := run.Task(t.Context())
		if err != nil || is.State.String() != "finished" || len(is.Durable.Steps) != 2 {
			t.Errorf("%s, %+v: %v", is.State, is.Durable, err)
		}
		out, err := os.Create(file)
		if err == nil {
			err = errors.Join(w.Export(out), out.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if n := millracetest.Replay(t, draws(true, func() error { return nil }), file); n != 1 || len(told) != 5 {
		t.Errorf("%d tasks, in %d runs", n, len(told))
	}
	for _, is := range told {
		if is != told[0] {
			t.Errorf("one run was told %s, and another %s", told[0], is)
		}
	}
}

// Large results of steps are remembered as small ones are, wherever the worker is lost; a replay has them only with the
// server that keeps them.
func TestLargeSteps(t *testing.T) {
	t.Parallel()
	const size = 2 << 20 // more than a fact may have
	file := filepath.Join(t.TempDir(), "log.jsonl")
	runs, after := 0, 0
	report := millrace.Func("report", func(ctx context.Context, parts int) (n int, err error) {
		for i := range parts {
			text, err := millrace.Step(ctx, "part", func(context.Context) (string, error) { return strings.Repeat(strconv.Itoa(i), size), nil })
			if err != nil {
				return 0, err
			}
			if text != strings.Repeat(strconv.Itoa(i), size) {
				return 0, fmt.Errorf("part %d has %d bytes", i, len(text))
			}
			n += len(text)
		}
		small, err := millrace.Step(ctx, "small", func(context.Context) (int, error) { after++; return 7, nil })
		return n + small, err
	})
	millracetest.CrashEverywhere(t, func(t *testing.T, w *millracetest.World) any {
		runs++
		w.Work(report)
		run, err := report.Submit(t.Context(), w.App, 3)
		if err != nil {
			t.Fatal(err)
		}
		w.RunUntilIdle()
		n, err := run.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		is, err := run.Task(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range is.Durable.Steps {
			if apart := s.Name == "part"; apart != (s.Digest != "") || apart == (len(s.Result) > 0) {
				t.Errorf("step %d, %s, has %d bytes in the log and digest %q", i, s.Name, len(s.Result), s.Digest)
			}
		}
		if runs == 1 {
			out, err := os.Create(file)
			if err == nil {
				err = errors.Join(w.Export(out), out.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return n
	})
	if runs < 10 || after < runs {
		t.Errorf("%d runs, %d of the step behind", runs, after)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	records, err := rerun.ReadExport(in)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		apart func(millrace.ID, string, int) ([]byte, error)
		says  string
	}{
		"with the server": {func(_ millrace.ID, digest string, n int) ([]byte, error) {
			for i := range 3 {
				if text := fmt.Appendf(nil, "%q", strings.Repeat(strconv.Itoa(i), size)); value.Digest(text) == digest && n == len(text) {
					return text, nil
				}
			}
			return nil, errors.New("never stored")
		}, ""},
		"without": {nil, "the record does not have its 2097154 bytes"},
	} {
		log := rerun.LogOf(records)
		log.Apart = c.apart
		e := &log.Endings[0]
		var now rerun.Outcome
		w := millrace.Worker{App: millrace.New(log.Of(e, func(o rerun.Outcome) { now = o }).Client(), nil), Node: "replay"}
		if err := w.Run(t.Context(), report); err != nil {
			t.Fatal(err)
		}
		if differs := e.Differs(now); (differs == "") != (c.says == "") || !strings.Contains(differs, c.says) {
			t.Errorf("%s: %s", name, differs)
		}
	}
}

// Several calls of one function at once give their results in order, or the first failure.
func TestCallEach(t *testing.T) {
	t.Parallel()
	half := millrace.Func("half", func(_ context.Context, n int) (int, error) {
		if n%2 != 0 {
			return 0, millrace.Final(fmt.Errorf("%d is odd", n))
		}
		return n / 2, nil
	})
	halves := millrace.Func("halves", func(ctx context.Context, all []int) ([]int, error) { return millrace.CallEach(ctx, "each", half, all) })
	for _, c := range []struct {
		all, want []int
		says      string
	}{{[]int{8, 2, 6}, []int{4, 1, 3}, ""}, {nil, nil, ""}, {[]int{2, 3, 5}, nil, "step each"}} {
		millracetest.Run(t, func(t *testing.T, w *millracetest.World) {
			w.Work(half, halves)
			run, err := halves.Submit(t.Context(), w.App, c.all)
			if err != nil {
				t.Fatal(err)
			}
			w.RunUntilIdle()
			if got, err := run.Result(t.Context()); !slices.Equal(got, c.want) || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("of %v: %v, %v", c.all, got, err)
			}
		})
	}
}
