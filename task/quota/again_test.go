package quota

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/queue"
	"millrace/task/value"
)

// Decisions follow from what a limiter knows: one that was told step by step decides like one that
// was told just now, regardless of earlier decisions.
func TestAdmissionFollowsFromWhatIsKnown(t *testing.T) {
	for seed := range testkit.Size(uint64(40), 200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		along := NewLimiter()
		var tasks []*task.Task
		latest := map[task.ID]task.Grant{}
		used := Used{Rates: map[string]time.Time{}, Budgets: limit.Tallies{}}
		queue := queue.Queue{Name: "q", Head: 1, Rate: limit.Rate{Limit: 4, Burst: 3}, RateSince: 1}
		if rng.IntN(2) == 0 {
			queue.Rate, queue.RateSince = limit.Rate{}, 0
		}
		along.Queue(queue)
		now, seq := noon, uint64(1)
		for range 120 {
			now = now.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
			if rng.IntN(30) == 0 {
				now = now.Add(20 * time.Hour)
			}
			for range 1 + rng.IntN(4) {
				seq++
				k := &task.Task{}
				if n := rng.IntN(10); n < 5 || len(tasks) == 0 {
					k = limited(int(seq), "j", limit.Concurrency{Max: 1 + rng.IntN(3), Key: string('a' + rune(rng.IntN(2)))}, limit.Rate{}, 1+rng.IntN(9))
					if rng.IntN(2) == 0 {
						k.Spec.Concurrency = append(k.Spec.Concurrency, limit.Concurrency{Max: 1 + rng.IntN(3), Key: "/" + string('c'+rune(rng.IntN(2)))})
					}
					if rng.IntN(4) == 0 {
						k.Spec.Rate = limit.Rates{{Limit: 3, Burst: 1 + rng.IntN(2), Key: "z"}}
					}
					if rng.IntN(4) == 0 {
						k.Spec.Budget = limit.Budgets{{Starts: 2 + rng.IntN(6), Key: "/" + string('c'+rune(rng.IntN(2)))}}
					}
					if rng.IntN(4) == 0 {
						k.Spec.Budget = append(k.Spec.Budget, limit.Budget{Run: value.Duration(time.Duration(1+rng.IntN(4)) * time.Second), Per: limit.PerWeek})
						k.Spec.Timeout.Run = value.Duration(time.Duration(rng.IntN(2)) * time.Second)
					}
					if rng.IntN(4) == 0 {
						k.Due = now.Add(time.Duration(rng.IntN(900)) * time.Millisecond)
					}
					tasks = append(tasks, k)
				} else {
					k = tasks[rng.IntN(len(tasks))]
				}
				k.Seq = seq
				g, granted := latest[k.ID]
				was, before := k.State, k.Attempt
				switch {
				case rng.IntN(8) == 0:
					k.State = task.Finished
				case k.Admissible() && granted && g.Turn == k.Turn:
					k.State, k.Holds, k.Rated = task.Pending, nil, g.Rated
				case k.State == task.Pending:
					k.State, k.Attempt, k.StartedAt = task.Running, k.Attempt+1, now
				case k.State == task.Running:
					k.State, k.Holds, k.Turn, k.Rated = task.Retrying, onlyLimit, seq, 0
				}
				if counters, err := k.Counters(); err != nil {
					t.Fatal(err)
				} else if k.Spec.Budget != nil {
					took := task.ShiftOf(task.Course{State: was, Epoch: uint64(before), StartedAt: k.StartedAt}, task.Course{State: k.State, Epoch: uint64(k.Attempt), StartedAt: k.StartedAt}, task.Recorded{At: now})
					along.Spend(counters, took)
					used.Budgets.Spend(counters, took)
				}
				along.Put(k)
				tasks = slices.DeleteFunc(tasks, func(k *task.Task) bool { return k.State == task.Finished })
			}
			if rng.IntN(3) == 0 {
				continue
			}
			told := NewLimiter()
			late := rng.IntN(2) == 0 // the rate is reported after the tasks
			if !late {
				told.Queue(queue)
			}
			for _, i := range rng.Perm(len(tasks)) {
				told.Put(tasks[i])
				if g, ok := latest[tasks[i].ID]; ok {
					told.Granted(g)
				}
			}
			if late {
				told.Queue(queue)
			}
			told.Used(used)
			most := 1 + rng.IntN(5)
			have, want := Decision{}, told.Decide(now, most)
			if rng.IntN(3) == 0 { // a scheduler whose clock is ahead has decided
				ahead := along.Decide(now.Add(time.Duration(rng.IntN(1000))*time.Millisecond), most)
				along.Undo(&ahead)
				have = along.Again(now, most, nil)
			} else {
				have = along.Decide(now, most)
			}
			if grants(have) != grants(want) {
				t.Fatalf("seed %d: after %d %s are admitted, and %s by the same knowledge", seed, seq, grants(have), grants(want))
			}
			if rng.IntN(3) == 0 {
				along.Undo(&have)
				continue
			}
			along.Confirm(&have, 0)
			for _, g := range have.Grants {
				latest[g.Task] = g
			}
			for name, until := range have.Rates {
				used.Rates[name] = until
			}
		}
	}
}
