package millrace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace"
)

// A function with steps of all kinds goes on behind each of them, and does none twice.
func TestDurable(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	note := func(what string) {
		f, err := os.OpenFile(ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(what + "\n")
		}
		if err != nil {
			t.Error(err)
		}
		f.Close()
	}
	double := millrace.Func("double", func(ctx context.Context, n int) (int, error) {
		if n < 0 {
			return 0, millrace.Final(errors.New("it is negative"))
		}
		return 2 * n, nil
	})
	type sum struct {
		Total int
		By    string
		Same  bool
	}
	var tries, runs atomic.Int32
	var first millrace.ID
	order := millrace.Func("order", func(ctx context.Context, n int) (is sum, err error) {
		runs.Add(1)
		id, err := millrace.NewID(ctx)
		if err != nil {
			return is, err
		}
		if first == "" {
			first = id
		}
		is.Same = first == id
		charged, err := millrace.Step(ctx, "charge", func(context.Context) (int, error) {
			if tries.Add(1) == 1 {
				return 0, errors.New("the bank is busy")
			}
			note("charge")
			return n + 1, nil
		}, millrace.Retries(3), millrace.Fields("retry: {max: 3, min: 10ms, max_delay: 20ms}"))
		if err != nil {
			return is, err
		}
		if err := millrace.Sleep(ctx, "grace", 50*time.Millisecond); err != nil {
			return is, err
		}
		doubled, err := millrace.Call(ctx, "double", double, charged)
		if err != nil {
			return is, err
		}
		who, err := millrace.Await[string](ctx, "approval", time.Hour)
		if err != nil {
			return is, err
		}
		a, b := double.With(1), double.With(-1)
		if err := millrace.All(ctx, "both", a, b); err != nil {
			return is, err
		}
		if _, err := b.Result(); err == nil || !strings.Contains(err.Error(), "error") {
			t.Errorf("the failed child gives %v", err)
		}
		one, err := a.Result()
		if err != nil {
			return is, err
		}
		if _, err := millrace.Await[string](ctx, "never", 20*time.Millisecond); !errors.Is(err, millrace.ErrNoSignal) {
			return is, err
		}
		is.Total, is.By = doubled+one, who
		return is, nil
	})
	app, end := running(order, double)
	defer end()
	run, err := order.Submit(t.Context(), app, 20)
	if err != nil {
		t.Fatal(err)
	}
	for {
		now, err := run.Task(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if now.State.Terminal() {
			t.Fatalf("it has ended as %s: %s", now.State, now.Message)
		}
		if now.AwaitsSignal() {
			break
		}
	}
	if err := run.Signal(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	got, err := run.Result(t.Context())
	if err != nil || got != (sum{44, "ann", true}) {
		now, _ := run.Task(t.Context())
		t.Fatalf("%+v, %v; it is %+v", got, err, now.Durable)
	}
	if text, err := os.ReadFile(ledger); err != nil || string(text) != "charge\n" {
		t.Errorf("the ledger has %q, %v", text, err)
	}
	t.Logf("%d runs", runs.Load())
}

// A signal that comes too early or again is refused as such, and one of another type as wrong: the function waits on.
// What its type refuses beyond that leaves the choice to the function.
func TestSignals(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	pick := millrace.Func("pick", func(ctx context.Context, _ struct{}) (int8, error) {
		if millrace.Current(ctx).Attempt == 1 {
			begun <- true
			<-goOn
		}
		n, err := millrace.Await[int8](ctx, "first", time.Hour)
		if errors.Is(err, millrace.ErrInvalid) && !errors.Is(err, millrace.ErrChanged) {
			return millrace.Await[int8](ctx, "second", time.Hour)
		}
		return n, err
	})
	app, end := running(pick)
	defer end()
	run := must(pick.Submit(t.Context(), app, struct{}{}))(t)
	<-begun
	if err := run.Signal(t.Context(), 7); !errors.Is(err, millrace.ErrNotHeld) {
		t.Errorf("too early: %v", err)
	}
	goOn <- true
	for _, is := range []struct {
		name, not string
		data      any
	}{{"first", "second", 300}, {"second", "first", 7}} {
		waits, found := context.WithCancel(t.Context())
		_, _ = app.Client().Watch(waits, run.ID, func(t millrace.Task) {
			if t.State.Terminal() || t.AwaitsSignal() && t.Waits().Step == is.name {
				found()
			}
		})
		if err := run.SignalTo(t.Context(), is.not, "as its form has it, or not"); !errors.Is(err, millrace.ErrNotHeld) {
			t.Errorf("a signal for %s, while it waits for %s: %v", is.not, is.name, err)
		}
		if err := run.SignalTo(t.Context(), is.name, "seven"); !errors.Is(err, millrace.ErrInvalid) || !strings.Contains(err.Error(), `value is "seven", want a whole number`) {
			t.Errorf("a wrong answer to %s: %v", is.name, err)
		}
		if now, err := run.Task(t.Context()); err != nil || !now.AwaitsSignal() || now.Waits().Step != is.name {
			t.Errorf("after a wrong answer it is %s: %s, %v", now.State, now.Message, err)
		}
		if err := run.SignalTo(t.Context(), is.name, is.data); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := run.Result(t.Context()); n != 7 || err != nil {
		t.Errorf("it returns %d, %v", n, err)
	}
}
