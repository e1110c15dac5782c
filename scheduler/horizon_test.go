package scheduler

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
)

func TestChoose(t *testing.T) {
	at := func(seq uint64) Point { return Point{Seq: seq, Stored: time.Unix(int64(seq), 0)} }
	k := Keeping{Age: time.Hour, Tasks: 100, Least: 10, Most: 1000}
	for name, c := range map[string]struct {
		front Front
		below uint64
		why   string
		held  string
	}{
		"nothing is old":           {Front{First: 1, Young: at(500)}, 0, "", ""},
		"by age":                   {Front{First: 1, Aged: at(200), Young: at(500)}, 200, "1h0m0s", ""},
		"by number":                {Front{First: 1, Many: at(300), Young: at(500)}, 300, "100 tasks", ""},
		"by what comes first":      {Front{First: 1, Aged: at(200), Many: at(300), Young: at(500)}, 300, "100 tasks", ""},
		"never what is young":      {Front{First: 1, Many: at(600), Young: at(500)}, 500, "100 tasks", ""},
		"too little":               {Front{First: 195, Aged: at(200), Young: at(500)}, 0, "", ""},
		"a portion":                {Front{First: 1, Aged: at(5000), Young: at(6000)}, 1001, "1h0m0s", ""},
		"an offer is out":          {Front{First: 1, Aged: at(200), Young: at(500), Floor: events.Floor{Seq: 150, Holder: "T"}}, 150, "1h0m0s", "offer"},
		"an offer at the front":    {Front{First: 1, Aged: at(200), Young: at(500), Floor: events.Floor{Seq: 5, Holder: "T"}}, 0, "", "offer"},
		"an offer behind":          {Front{First: 1, Aged: at(200), Young: at(500), Floor: events.Floor{Seq: 250}}, 200, "1h0m0s", ""},
		"a budget counts":          {Front{First: 1, Aged: at(200), Young: at(500), Counts: at(120)}, 120, "1h0m0s", "a budget"},
		"the first of what counts": {Front{First: 1, Aged: at(200), Young: at(500), Counts: at(120), Floor: events.Floor{Seq: 110}}, 110, "1h0m0s", "offer"},
	} {
		got := k.Choose(c.front)
		if got.Below != c.below || !strings.Contains(got.Why, c.why) || (got.Why == "") != (c.below == 0) || !strings.Contains(got.Held.What, c.held) || (got.Held.Seq == 0) != (c.held == "") {
			t.Errorf("%s: %+v, want below %d, because of %q, held by %q", name, got, c.below, c.why, c.held)
		}
	}
}

func TestFates(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	spec := &job.Spec{Handler: "noop"}
	in := func(s task.State) task.Task { return task.Task{State: s, Work: task.Work{Spec: spec}, EndedAt: noon} }
	running, offered, parent := in(task.Running), in(task.Pending), in(task.Running)
	running.Epoch, running.Offer, offered.Offered = 12, 10, true
	k := Keeping{Age: time.Hour}
	for name, c := range map[string]struct {
		t     task.Task
		f     front
		below uint64
		now   time.Time
		is    fate
		seq   uint64
	}{
		"never born":                {task.Task{}, front{}, 20, noon, dies, 0},
		"ended long ago":            {in(task.Error), front{}, 20, noon.Add(time.Hour), dies, 0},
		"ended lately":              {in(task.Error), front{}, 20, noon.Add(time.Hour - 1), stays, 0},
		"ended and needed":          {in(task.Finished), front{needed: true}, 20, noon.Add(time.Hour), stays, 0},
		"ended and heard of since":  {in(task.Finished), front{later: true}, 20, noon.Add(time.Hour), stays, 0},
		"held":                      {in(task.Held), front{}, 20, noon.Add(time.Hour), stays, 0},
		"retrying":                  {in(task.Retrying), front{offer: 3}, 20, noon.Add(time.Hour), stays, 0},
		"a parent":                  {parent, front{}, 20, noon.Add(time.Hour), stays, 0},
		"running below":             {running, front{}, 20, noon, holds, 10},
		"running, its offer behind": {running, front{}, 10, noon, stays, 0},
		"offered below":             {offered, front{offer: 15}, 20, noon, holds, 15},
		"offered behind":            {offered, front{offer: 25}, 20, noon, stays, 0},
		"pending without an offer":  {in(task.Pending), front{}, 20, noon, stays, 0},
	} {
		if is, seq := k.fateOf(&c.t, c.f, c.below, c.now); is != c.is || seq != c.seq {
			t.Errorf("%s: fate %d at %d, want %d at %d", name, is, seq, c.is, c.seq)
		}
	}
	lately, now := in(task.Finished), noon.Add(time.Second)
	lately.Route = "bulk.5"
	for stay, k := range map[fate]Keeping{dies: {Age: time.Hour, Tasks: 100, many: now}, stays: {Age: time.Hour, Tasks: 100, Queues: map[string]time.Duration{"bulk": time.Minute}}} {
		if is, _ := k.fateOf(&lately, front{}, 20, now); is != stay {
			t.Errorf("a young task that is one too many, kept as %+v: fate %d, want %d", k, is, stay)
		}
	}
	forever := Keeping{}
	if ended := in(task.Finished); func() fate { is, _ := forever.fateOf(&ended, front{}, 20, noon.AddDate(100, 0, 0)); return is }() != stays {
		t.Error("without a bound an ended task goes")
	}
}

// A front that was sampled in vain is sampled again later and later, or when the log has grown.
func TestSampledSeldom(t *testing.T) {
	t.Parallel()
	var s sampled
	now, looks := time.Unix(0, 0), 0
	for range 24 * 60 {
		if now = now.Add(time.Minute); s.again(now, 5000, 5000, 1000) {
			looks++
			s.vain(now, 5000)
		}
	}
	if looks < 100 || looks > 160 {
		t.Errorf("%d looks in a day at rest, want one in some ten minutes", looks)
	}
	s.vain(now, 5000)
	if s.again(now.Add(time.Second), 5100, 5100, 1000) || !s.again(now.Add(time.Second), 7000, 7000, 1000) {
		t.Error("it is the growth that counts")
	}
}
