package answers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/queue"
)

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		err    error
		typ    string
		status int
	}{
		{tooLarge{errors.New("x")}, "too-large", 413},
		{busy{"x"}, "busy", 503},
		{fmt.Errorf("store: %w", events.ErrMute), "no-room", 507},
		{badRequest{task.ErrUnknown}, "bad-request", 400},
		{fmt.Errorf("submit: %w", client.ErrInvalid), "bad-request", 400},
		{fmt.Errorf("get: %w", task.ErrUnknown), "no-task", 404},
		{fmt.Errorf("submit: %w", &events.Taken{}), "key-taken", 409},
		{task.ErrEnded, "ended", 409},
		{task.ErrRunning, "not-now", 409},
		{queue.ErrFull, "queue-full", 429},
		{fmt.Errorf("get: %w", context.Canceled), "cut-off", 503},
		{context.DeadlineExceeded, "unknown-outcome", 504},
		{errors.New("x"), "failed", 500},
	} {
		p := ProblemOf(c.err)
		if p.Type != "urn:millrace:"+c.typ || p.Status != c.status || p.Detail != c.err.Error() || p.Title == "" || p.Next == "" {
			t.Errorf("%v is %+v, want %s with %d", c.err, p, c.typ, c.status)
		}
		if codeOf(c.err) != fmt.Sprint(c.status) {
			t.Errorf("%v has the code %s, want %d", c.err, codeOf(c.err), c.status)
		}
	}
}

// Each kind of problem has a name of its own, and advice.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range append(kinds, failed) {
		if seen[k.name] || k.title == "" || k.next == "" || http.StatusText(k.status) == "" {
			t.Errorf("%+v", k)
		}
		seen[k.name] = true
	}
}
