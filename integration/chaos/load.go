package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"millrace/events"
	"millrace/integration/load"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// order is one task that the load submits.
type order struct {
	at         time.Duration // since the beginning
	submission birth.Submission
	// version is the version of the shelf that it runs with; 0 for none.
	version int
	// cancel is how long after its submission it is cancelled; 0 for never.
	cancel time.Duration
}

// workload makes the tasks of a run: rate per second until the end, at most limit if that is above
// 0. Two thirds are short; the others fail once or always, are due later, are cancelled, or run for
// up to a lease and a bit, so that a fault finds them running. A third have limits. Like [Plan] it
// is a pure function.
func workload(seed uint64, duration time.Duration, rate float64, limit int, lease time.Duration) []order {
	chance := rand.New(rand.NewPCG(seed, 1))
	n := int(duration.Seconds() * rate)
	if limit > 0 {
		n = min(n, limit)
	}
	orders := make([]order, 0, n)
	for i := range n {
		o := order{at: time.Duration(float64(i) / rate * float64(time.Second))}
		kind := "short"
		spec := &job.Spec{}
		sleep := func(least, most time.Duration) string {
			return fmt.Sprintf("%.3f", (least + time.Duration(chance.Int64N(int64(most-least)))).Seconds())
		}
		quick := sleep(10*time.Millisecond, 300*time.Millisecond)
		switch k := chance.IntN(100); {
		case k < 66:
			spec.Run = &job.Run{Argv: []string{"sleep", quick}}
		case k < 76:
			kind = "long"
			spec.Run = &job.Run{Argv: []string{"sleep", sleep(lease/3, lease*6/5)}}
		case k < 84:
			kind = "fails-once"
			spec.Run = &job.Run{Shell: "sleep " + quick + `; [ "$MILLRACE_ATTEMPT" != 1 ]`}
			spec.Retry = job.Retry{Max: 2, Min: value.Duration(200 * time.Millisecond)}
		case k < 88:
			kind = "fails"
			spec.Run = &job.Run{Shell: "sleep " + quick + "; exit 7"}
			spec.Retry = job.Retry{Max: 1, Min: value.Duration(200 * time.Millisecond)}
		case k < 94:
			kind = "later"
			spec.Run = &job.Run{Argv: []string{"sleep", quick}}
			o.submission.Delay = value.Duration(time.Duration(500+chance.IntN(4000)) * time.Millisecond)
		default:
			kind = "cancelled"
			spec.Run = &job.Run{Argv: []string{"sleep", "600"}}
			o.cancel = time.Duration(100+chance.IntN(3000)) * time.Millisecond
		}
		o.submission.Spec = spec
		o.submission.Labels = map[string]string{"kind": kind}
		orders = append(orders, o)
	}
	restrain(orders, seed, rate)
	return orders
}

// roundOf computes the load's result from the log. comes says when each task was to come and might
// run, since the run began; length is how long they came.
func roundOf(records []events.Record, submitted []task.ID, comes map[task.ID]time.Duration, began time.Time, length time.Duration) load.Round {
	t := load.NewTally(load.Plan{Profile: load.Profile{For: length}})
	ours := map[task.ID]bool{}
	for _, id := range submitted {
		ours[id] = true
	}
	tasks := map[task.ID]*task.Task{}
	open := 0
	for i := range records {
		r := &records[i]
		id, at := r.Fact.Task, r.Stored.Sub(began)
		due, known := comes[id]
		if !known || !ours[id] {
			continue
		}
		k := tasks[id]
		if k == nil {
			k = &task.Task{ID: id}
			tasks[id] = k
		}
		was, attempt := k.State, k.Attempt
		k.Apply(r.Task())
		switch {
		case was == task.Unknown && k.State != task.Unknown:
			open++
			t.Sent(load.Arrival{At: due}, max(at, due)) // one that is due later is stored before
			t.Born(max(at, due))
		case attempt == 0 && k.Attempt == 1:
			t.Started(at)
			t.Begun(due, at)
		case k.State.Terminal() && !was.Terminal():
			open--
			if k.Attempt == 0 {
				t.Started(at) // it no longer waits
			}
			t.Ended(at, k.State == task.Finished)
			t.Done(due, at)
		}
	}
	return t.Round(open, 0, 0)
}

// brokenAt returns what was broken, relative to the beginning of the run; end replaces the end of
// faults that were never mended.
func brokenAt(faults []Injected, began, end time.Time) (all []load.Fault) {
	for _, f := range faults {
		until := f.Ended
		if until.IsZero() {
			until = end
		}
		all = append(all, load.Fault{From: f.Began.Sub(began).Seconds(), Until: until.Sub(began).Seconds(), What: string(f.Fault) + " " + string(f.Target)})
	}
	return all
}

// planned returns when each task was to come and might run.
func (s *submitter) planned() map[task.ID]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.comes)
}
