package limit

import (
	"testing"
	"time"

	"millrace/task/value"
)

var guard = &Breaker{Failures: 3, Within: value.Duration(time.Minute), Cooldown: value.Duration(time.Minute), HalfOpen: 2}

// A breaker's life, event by event: Judge sees what has happened so far.
func TestBreakerJudges(t *testing.T) {
	type step struct {
		after  time.Duration
		failed int  // attempts that fail then
		done   int  // attempts that finish then
		old    bool // they began before the state did
		want   CircuitState
	}
	for name, steps := range map[string][]step{
		"few failures":                     {{0, 2, 5, false, StateClosed}},
		"enough":                           {{0, 2, 0, false, StateClosed}, {time.Second, 1, 0, false, StateOpen}},
		"enough, though others finish":     {{0, 3, 9, false, StateOpen}},
		"not within the time":              {{0, 2, 0, false, StateClosed}, {time.Minute, 1, 0, false, StateClosed}, {time.Second, 1, 0, false, StateClosed}},
		"the cooldown":                     {{0, 3, 0, false, StateOpen}, {59 * time.Second, 4, 4, false, StateOpen}, {time.Second, 0, 0, false, StateHalfOpen}},
		"trials finish":                    {{0, 3, 0, false, StateOpen}, {time.Minute, 0, 0, false, StateHalfOpen}, {0, 0, 1, false, StateHalfOpen}, {0, 0, 1, false, StateClosed}},
		"one trial fails":                  {{0, 3, 0, false, StateOpen}, {time.Minute, 0, 0, false, StateHalfOpen}, {0, 1, 1, false, StateOpen}},
		"what began before is no trial":    {{0, 3, 0, false, StateOpen}, {time.Minute, 0, 0, false, StateHalfOpen}, {0, 3, 3, true, StateHalfOpen}},
		"closed, old failures are history": {{0, 3, 0, false, StateOpen}, {time.Minute, 0, 0, false, StateHalfOpen}, {0, 0, 2, false, StateClosed}, {0, 2, 0, false, StateClosed}, {0, 1, 0, false, StateOpen}},
	} {
		c, now, seq := Circuit{}, noon, uint64(0)
		var o Outcomes
		for i, s := range steps {
			now = now.Add(s.after)
			for n := range s.failed + s.done {
				seq++
				epoch := seq
				if s.old {
					epoch = 1
				}
				o.Add(guard, c, Outcome{At: now, Epoch: epoch, Failed: n < s.failed, What: "exit 1"})
			}
			if e := guard.Judge(c, &o, now); e != nil {
				seq++
				c = EvolveCircuit(c, seq, now, e)
				o.Moved(c)
			}
			if is := c.State; is != s.want && !(is == "" && s.want == StateClosed) {
				t.Errorf("%s: after step %d it is %s (%s), want %s", name, i+1, c.State, c.Reason, s.want)
			}
			if guard.Judge(c, &o, now) != nil {
				t.Errorf("%s: after step %d it is judged again at once", name, i+1)
			}
		}
	}
}
