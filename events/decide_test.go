package events_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task/limit"
)

// A decision on a chain is written once, although answers get lost and other writers are faster.
func TestDecide(t *testing.T) {
	var errDown, errNo = errors.New("down"), errors.New("refused")
	type world struct {
		chain    []string // the messages on it
		reads    int
		replaced bool
	}
	type answer func(w *world, what string, end int) error
	taken := func(w *world, what string, end int) error {
		if len(w.chain) != end {
			return fmt.Errorf("at %d: %w", end, events.ErrConflict)
		}
		w.chain = append(w.chain, what)
		return nil
	}
	another := func(w *world, what string, end int) error { // another writer is faster
		w.chain = append(w.chain, "theirs")
		return taken(w, what, end)
	}
	lost := func(w *world, what string, end int) error { // the answer is lost, the write is not
		_ = taken(w, what, end)
		return events.ErrUnknown
	}
	neverSent := func(*world, string, int) error { return events.ErrUnknown }
	lostAndBehind := func(w *world, what string, end int) error { // and another writer wrote behind it
		_ = lost(w, what, end)
		w.chain = append(w.chain, "theirs")
		return events.ErrUnknown
	}
	neverSentAndAnother := func(w *world, _ string, _ int) error {
		w.chain = append(w.chain, "theirs")
		return events.ErrUnknown
	}
	neverSentToAnother := func(w *world, _ string, _ int) error { // the chain is as long as before, and not the same
		w.replaced = true
		return events.ErrUnknown
	}
	stale := func(*world, string, int) error { return events.ErrConflict } // of our write
	down := func(*world, string, int) error { return errDown }

	for _, c := range []struct {
		name    string
		once    bool
		answers []answer // the last one repeats
		decided []string // the decision by number of calls; "" for nothing, "no" for a refusal; the last one repeats
		blind   bool     // the chain cannot be read

		want    events.Outcome
		err     error
		chain   string
		asked   int
		reads   int
		endsFor int // the end of the chain as known to the decider
	}{
		{name: "nobody else", answers: []answer{taken}, decided: []string{"a"}, want: events.Recorded, chain: "[a]", asked: 1, endsFor: 1},
		{name: "nothing to do", answers: []answer{taken}, decided: []string{""}, want: events.Held, chain: "[]", asked: 1},
		{name: "refused", answers: []answer{taken}, decided: []string{"no"}, err: errNo, chain: "[]", asked: 1},
		{name: "somebody else is faster", answers: []answer{another, taken}, decided: []string{"a", "b"}, want: events.Recorded, chain: "[theirs b]", asked: 2, reads: 1, endsFor: 2},
		{name: "a loser does not decide again", once: true, answers: []answer{another, taken}, decided: []string{"a", "b"}, want: events.Lost, chain: "[theirs]", asked: 1, reads: 1, endsFor: 1},
		{name: "somebody else has done it", answers: []answer{another, taken}, decided: []string{"a", ""}, want: events.Held, chain: "[theirs]", asked: 2, reads: 1, endsFor: 1},
		{name: "refused after somebody else", answers: []answer{another, taken}, decided: []string{"a", "no"}, err: errNo, chain: "[theirs]", asked: 2, reads: 1, endsFor: 1},
		{name: "a lost answer", answers: []answer{lost}, decided: []string{"a"}, want: events.Found, chain: "[a]", asked: 1, reads: 1, endsFor: 1},
		{name: "a lost answer, once", once: true, answers: []answer{lost}, decided: []string{"a"}, want: events.Found, chain: "[a]", asked: 1, reads: 1, endsFor: 1},
		{name: "a lost answer, and others behind it", answers: []answer{lostAndBehind}, decided: []string{"a"}, want: events.Found, chain: "[a theirs]", asked: 1, reads: 1, endsFor: 2},
		{name: "a lost write is the same again", answers: []answer{neverSent, taken}, decided: []string{"a", "b"}, want: events.Recorded, chain: "[a]", asked: 1, reads: 1, endsFor: 1},
		{name: "a lost write is the same again, once", once: true, answers: []answer{neverSent, taken}, decided: []string{"a", "b"}, want: events.Recorded, chain: "[a]", asked: 1, reads: 1, endsFor: 1},
		{name: "a lost write, and another chain", answers: []answer{neverSentToAnother, taken}, decided: []string{"a", "b"}, want: events.Recorded, chain: "[b]", asked: 2, reads: 1, endsFor: 1},
		{name: "a lost write, and another chain, once", once: true, answers: []answer{neverSentToAnother, taken}, decided: []string{"a"}, want: events.Lost, chain: "[]", asked: 1, reads: 1},
		{name: "a lost write and somebody else", answers: []answer{neverSentAndAnother, taken}, decided: []string{"a", "b"}, want: events.Recorded, chain: "[theirs b]", asked: 2, reads: 1, endsFor: 2},
		{name: "a lost write and somebody else, once", once: true, answers: []answer{neverSentAndAnother, taken}, decided: []string{"a"}, want: events.Lost, chain: "[theirs]", asked: 1, reads: 1, endsFor: 1},
		{name: "a conflict with nobody", answers: []answer{stale, taken}, decided: []string{"a", "b"}, want: events.Recorded, chain: "[a]", asked: 1, reads: 1, endsFor: 1},
		{name: "a conflict with nobody, once", once: true, answers: []answer{stale, taken}, decided: []string{"a"}, want: events.Lost, chain: "[]", asked: 1, reads: 1},
		{name: "another error", answers: []answer{down}, decided: []string{"a"}, err: errDown, chain: "[]", asked: 1},
		{name: "an unknown end", answers: []answer{neverSent}, decided: []string{"a"}, blind: true, err: events.ErrUnknown, chain: "[]", asked: 1, reads: 1},
		{name: "a conflict that cannot be looked at", answers: []answer{another}, decided: []string{"a"}, blind: true, err: errDown, chain: "[theirs]", asked: 1, reads: 1},
		{name: "others are faster each time", answers: []answer{another}, decided: []string{"a"}, err: events.ErrContended, asked: 1000, reads: 1000, endsFor: 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{}
				var asked, written int
				nth := func(n int) answer { return c.answers[min(n, len(c.answers)-1)] }
				chain := events.Chain[[]string, string]{
					Read: func(_ context.Context, wrote string) ([]string, uint64, bool, error) {
						if w.reads++; c.blind {
							return nil, 0, false, errDown
						}
						mine := false
						for _, what := range w.chain {
							mine = mine || what == wrote
						}
						return w.chain, uint64(len(w.chain)), mine, nil
					},
					Write: func(_ context.Context, what string, end uint64) (uint64, error) {
						err := nth(written)(w, what, int(end))
						written++
						return uint64(len(w.chain)), err
					},
					Another: func() bool { return w.replaced },
					Once:    c.once,
				}
				d, err := chain.DecideFrom(t.Context(), nil, 0, func(is []string) (string, bool, error) {
					if len(is) > len(w.chain) || asked > 0 && len(is) == 0 && !w.replaced {
						t.Errorf("asked on %v, and there is %v", is, w.chain)
					}
					what := c.decided[min(asked, len(c.decided)-1)]
					if asked++; what == "no" {
						return "", false, errNo
					}
					return what, what != "", nil
				})
				if d.Outcome != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("it is %d, %v; want %d, %v", d.Outcome, err, c.want, c.err)
				}
				if got := fmt.Sprint(w.chain); c.chain != "" && got != c.chain {
					t.Errorf("the chain is %s, want %s", got, c.chain)
				}
				if asked != c.asked || w.reads != c.reads || d.End != uint64(c.endsFor) {
					t.Errorf("asked %d times, read %d times, ends at %d; want %d, %d, %d", asked, w.reads, d.End, c.asked, c.reads, c.endsFor)
				}
			})
		})
	}
}

// DecideFrom ends with its context while other writers are faster.
func TestDecideHeedsItsContext(t *testing.T) {
	why := errors.New("enough")
	for _, unknown := range []bool{true, false} {
		t.Run(fmt.Sprint("unknown ", unknown), func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			end := uint64(0)
			chain := events.Chain[struct{}, int]{
				Read: func(context.Context, int) (struct{}, uint64, bool, error) { return struct{}{}, end, false, nil },
				Write: func(context.Context, int, uint64) (uint64, error) {
					stop(why)
					if unknown {
						return 0, events.ErrUnknown
					}
					end++
					return 0, events.ErrConflict
				},
			}
			_, err := chain.DecideFrom(ctx, struct{}{}, end, func(struct{}) (int, bool, error) { return 1, true, nil })
			if !errors.Is(err, why) || errors.Is(err, events.ErrUnknown) != unknown {
				t.Error(err)
			}
		})
	}
}

// forgetful is a log that loses the answer to the first write on a chain.
type forgetful struct {
	*events.Memory
	lost bool
}

func (l *forgetful) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	seq, err := l.Memory.Append(ctx, f, last)
	if err == nil && !l.lost {
		l.lost = true
		return 0, events.ErrUnknown
	}
	return seq, err
}

// A breaker is judged once although the answer is lost: a trial takes one place, and the closing
// process learns the state before.
func TestBreakerThoughTheAnswerIsLost(t *testing.T) {
	half := limit.HalfOpened{Reason: "the cooldown is over", Until: time.Now().Add(time.Hour), Left: 3}
	for _, c := range []struct {
		name  string
		judge func(limit.Circuit) limit.CircuitEvent
		left  int
		state limit.CircuitState
	}{
		{"a trial", func(is limit.Circuit) limit.CircuitEvent {
			return limit.Tried{Reason: "trial", Until: is.Until, Left: is.Left - 1}
		}, 2, limit.StateHalfOpen},
		{"a reset", func(limit.Circuit) limit.CircuitEvent { return limit.Closed{Reason: "by hand"} }, 0, limit.StateClosed},
	} {
		log := &forgetful{Memory: events.NewMemory(time.Now, time.Minute), lost: true}
		r := &events.Recorder{Log: log, Actor: "test", Now: time.Now, NewID: events.NewID}
		do := func(judge func(limit.Circuit) limit.CircuitEvent) (was, is limit.Circuit) {
			was, is, err := r.DoBreaker(t.Context(), "j", func(is limit.Circuit, _ time.Time) events.Verdict { return events.Verdict{Event: judge(is)} })
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			return was, is
		}
		do(func(limit.Circuit) limit.CircuitEvent { return half })
		log.lost = false
		was, is := do(c.judge)
		if was.State != limit.StateHalfOpen || was.Left != 3 || is.State != c.state || is.Left != c.left {
			t.Errorf("%s: it was %+v and is %+v", c.name, was, is)
		}
		if last, err := r.Circuit(t.Context(), "j"); err != nil || last != is {
			t.Errorf("%s: the log has %+v, %v, want %+v", c.name, last, err, is)
		}
	}
}
