package millracetest_test

import (
	"context"
	"slices"
	"testing"

	"millrace"
	"millrace/millracetest"
)

// ledger is a side effect that the other side makes once for each key.
type ledger struct {
	paid []string
	sent int
}

func (l *ledger) pay(key string) {
	if !slices.Contains(l.paid, key) {
		l.paid = append(l.paid, key)
	}
}

func TestCrashEverywhere(t *testing.T) {
	t.Parallel()
	runs := 0
	millracetest.CrashEverywhere(t, func(t *testing.T, w *millracetest.World) any {
		runs++
		var l ledger
		thumb := millrace.Func("thumb", func(_ context.Context, in string) (string, error) { return in + ".thumb", nil })
		album := millrace.Func("album", func(ctx context.Context, all []string) (done []string, err error) {
			from, _, err := millrace.Resume[int](ctx)
			if err != nil {
				return nil, err
			}
			for i, in := range all {
				run, err := thumb.Spawn(ctx, in, in)
				if err != nil {
					return nil, err
				}
				is, err := run.Result(ctx)
				if err != nil {
					return nil, err
				}
				done = append(done, is)
				if i < from {
					continue
				}
				l.pay(in)
				if err := millrace.Checkpoint(ctx, i+1); err != nil {
					return nil, err
				}
			}
			return done, nil
		})
		w.Work(album, thumb)
		run, err := album.Submit(t.Context(), w.App, []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		w.RunUntilIdle()
		done, err := run.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return []any{done, l.paid}
	})
	if runs < 15 {
		t.Errorf("only %d runs", runs)
	}
}
