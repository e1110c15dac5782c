package millracetest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace"
	"millrace/millracetest"
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
}
