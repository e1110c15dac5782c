package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events/jet/rights"
	"millrace/service/answers"
)

// A caller has its burst at once and then its rate; what comes much too early is refused, and no
// other caller waits for it.
func TestRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rates{limit: 10}
		begun := time.Now()
		for i := range 110 {
			if err := r.admit(t.Context(), "shop"); err != nil {
				t.Fatalf("request %d is refused: %v", i, err)
			}
			if i == 99 && time.Since(begun) != 0 {
				t.Errorf("the burst took %v", time.Since(begun))
			}
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("110 requests took %v, want 1s", took)
		}
		var all sync.WaitGroup
		var admitted, refused atomic.Int32
		for range 30 {
			all.Go(func() {
				err := r.admit(t.Context(), "shop")
				if err == nil {
					admitted.Add(1)
					return
				}
				refused.Add(1)
				often, ok := errors.AsType[*answers.TooOften](err)
				if !ok || often.After <= 0 || often.After > 2*time.Second || often.Caller != "shop" {
					t.Errorf("refused with %v", err)
				}
			})
		}
		synctest.Wait()
		before := time.Now()
		if err := r.admit(t.Context(), "other"); err != nil || time.Since(before) != 0 {
			t.Errorf("another caller waits %v: %v", time.Since(before), err)
		}
		all.Wait()
		if admitted.Load() != 10 || refused.Load() != 20 {
			t.Errorf("of 30 at once %d are admitted and %d refused, want 10 and 20", admitted.Load(), refused.Load())
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		if err := r.admit(ctx, "shop"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that has gone gets %v", err)
		}
		for i := range 2 * mostPaced {
			if err := r.admit(t.Context(), fmt.Sprint("caller", i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if len(r.of) > mostPaced {
			t.Errorf("%d callers are remembered", len(r.of))
		}
		if err := (&rates{}).admit(t.Context(), "shop"); err != nil {
			t.Errorf("without a bound: %v", err)
		}
	})
}

// One who asks too often hears when to ask again, in the API and on pages; others are answered.
func TestTooOften(t *testing.T) {
	s := openWith(t, Config{Address: "127.0.0.1:0", Rate: 0.01}, nil)
	greedy, other := s.token("greedy", rights.Viewer, time.Time{}, false), s.token("other", rights.Viewer, time.Time{}, false)
	s.want(200, "GET", "/api/v1/tasks", "", nil, "Authorization", greedy)
	s.refused(429, "rate", "GET", "/api/v1/tasks", "", "Authorization", greedy)
	got := s.send("GET", "/openapi.json", "", "Authorization", greedy)
	if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || got.status != 429 || after < 10 || after > 200 {
		t.Errorf("%d, to be asked again after %q", got.status, got.header.Get("Retry-After"))
	}
	s.want(200, "GET", "/api/v1/tasks", "", nil, "Authorization", other)
}
