package whatif_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/whatif"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/value"
)

// nth is the id of the nth task of a [crowded] log, from 1.
func nth(n int) task.ID { return task.ID(fmt.Sprintf("01JNAT%020d", n)) }

// crowded is a log of tasks that come ten a second, run for two seconds or so, and start some
// milliseconds after there is a slot. There are three nodes with eight each. One in so many fails.
func crowded(t testing.TB, tasks, fails int, spec job.Spec) *written {
	w := &written{t: t, tasks: map[task.ID]*task.Task{}}
	type end struct {
		at time.Duration
		of task.ID
	}
	var ends []end
	var waits []task.ID
	names := []string{"n", "m", "k"}
	busy, offers := map[string]int{}, map[task.ID]uint64{}
	for _, name := range names {
		w.ready(node.ID(name), 8)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	do := func(at time.Duration, id task.ID, c task.Command) {
		k := w.tasks[id]
		e, err := k.Decide(c, noon.Add(at))
		if err != nil {
			t.Fatal(err)
		}
		w.add(at, events.KindChain, events.Fact{Task: id, Event: e, By: k.DecidedBy(c, e)})
	}
	start := func(at time.Duration) {
		for len(waits) > 0 {
			i := slices.IndexFunc(names, func(name string) bool { return busy[name] < 8 })
			if i < 0 {
				return
			}
			id := waits[0]
			waits = waits[1:]
			busy[names[i]]++
			do(at+3*ms, id, task.Claim{Node: names[i], Session: "s", Offer: offers[id]})
			e := end{at + 3*ms + time.Duration(1000+rng.IntN(2600))*ms, id}
			at, _ := slices.BinarySearchFunc(ends, e, func(a, b end) int { return int(a.at - b.at) })
			ends = slices.Insert(ends, at, e)
		}
	}
	finish := func(until time.Duration) {
		for len(ends) > 0 && ends[0].at <= until {
			e := ends[0]
			ends = ends[1:]
			k := w.tasks[e.of]
			if rng.IntN(fails) == 0 {
				do(e.at, e.of, task.Fail{Epoch: k.Epoch, Class: value.Exit})
			} else {
				do(e.at, e.of, task.Finish{Epoch: k.Epoch})
			}
			busy[k.Node]--
			start(e.at)
		}
	}
	for i := range tasks {
		at := time.Duration(i) * 100 * ms
		finish(at)
		id := nth(i + 1)
		offers[id] = w.add(at, events.KindOffer, events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Spec: &spec, Route: "default.5", Job: "j"}}})
		waits = append(waits, id)
		start(at)
	}
	finish(time.Hour)
	return w
}

// BenchmarkSimulate plays a log of 10,000 tasks, twice under other settings.
func BenchmarkSimulate(b *testing.B) {
	for name, c := range map[string]struct {
		spec job.Spec
		sets []string
	}{
		"as recorded": {job.Spec{Handler: "x"}, nil},
		"retries":     {job.Spec{Handler: "x"}, []string{"retry.max=2"}},
		"limited":     {job.Spec{Handler: "x", Concurrency: limit.Concurrencies{{Max: 100}}}, []string{"concurrency.max=20"}},
	} {
		b.Run(name, func(b *testing.B) {
			log := crowded(b, 10_000, 20, c.spec).log
			other, err := whatif.Parse(c.sets, whatif.Only{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				var p whatif.Player
				for i := range log {
					if err := p.Add(&log[i]); err != nil {
						b.Fatal(err)
					}
				}
				simulated(b, &p, 1, duties.Settings{StartDeadline: 5 * time.Minute, AckWait: 30 * s, Slack: 3 * s}, other)
			}
		})
	}
}
