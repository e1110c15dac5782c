package duties_test

import (
	"fmt"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// The per_node bounds of a task, with expanded keys.
func TestOnNode(t *testing.T) {
	for name, c := range map[string]struct {
		work task.Work
		per  limit.PerNodes
		want string
	}{
		"none":                   {task.Work{Job: "mail"}, nil, "[]"},
		"of the job":             {task.Work{Job: "mail"}, limit.PerNodes{{Max: 2}}, "[job:mail 2]"},
		"without a job":          {task.Work{Route: "images.5"}, limit.PerNodes{{Max: 2}}, "[queue:images 2]"},
		"by a key":               {task.Work{Job: "mail", Labels: map[string]string{"to": "acme"}}, limit.PerNodes{{Max: 1, Key: "{labels.to}"}}, "[key:mail/acme 1]"},
		"common to all jobs":     {task.Work{Job: "mail"}, limit.PerNodes{{Max: 1, Key: "/gpu"}}, "[key:/gpu 1]"},
		"two":                    {task.Work{Job: "mail"}, limit.PerNodes{{Max: 2}, {Max: 1, Key: "a"}}, "[job:mail 2 key:mail/a 1]"},
		"two that are the same":  {task.Work{Job: "mail"}, limit.PerNodes{{Max: 3, Key: "a"}, {Max: 2, Key: "a"}}, "[key:mail/a 2]"},
		"a label that is absent": {task.Work{Job: "mail"}, limit.PerNodes{{Max: 1, Key: "{labels.to}"}}, `per_node.key: {labels.to}: the task has no label "to"`},
	} {
		c.work.Spec = &job.Spec{Handler: "h", PerNode: c.per}
		counters, err := c.work.OnNode()
		said := []string{}
		for _, of := range counters {
			said = append(said, fmt.Sprint(of.Name, " ", of.Max))
		}
		got := fmt.Sprint(said)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if of, err := (&task.Work{Job: "mail", Spec: &job.Spec{PerNode: limit.PerNodes{{Max: 1}}, Each: &job.Each{}}}).OnNode(); err != nil || of != nil {
		t.Errorf("a parent stands under %v, %v", of, err)
	}
}

// An offer that finds no place on a node goes back at once a few times. Then the task comes again
// after those that wait already.
func TestCrowd(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	shared, own := task.Task{Work: task.Work{Route: "default.5"}}, task.Task{Work: task.Work{Route: "@n1.5"}}
	for deliveries, want := range []bool{true, true, true, true, false, false} {
		if got := duties.PassesBack(&shared, deliveries); got != want {
			t.Errorf("at delivery %d an offer goes back: %v", deliveries, got)
		}
		if duties.PassesBack(&own, deliveries) {
			t.Error("an offer on the node's own route goes back")
		}
	}
	two := limit.Counter{Name: "job:mail", Max: 2}
	for n, want := range []bool{false, false, true, true} {
		if got := two.Crowded(make([]uint64, n)); got != want {
			t.Errorf("with %d of 2 there is no place: %v", n, got)
		}
	}
	for last, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Second, 0: time.Second, 950 * time.Millisecond: time.Second, 5 * time.Second: 5050 * time.Millisecond, time.Hour: 10 * time.Minute,
	} {
		c := duties.Crowd{Node: "n1", Counter: two, Epochs: []uint64{7, 8}, Last: noon.Add(last)}
		p, by := c.Postpone(41, noon), c.By(noon)
		if got := p.Due.Sub(noon); got != want {
			t.Errorf("if the last one comes after %v, it comes after %v, want %v", last, got, want)
		}
		if p.After != 41 || p.Reason != value.PerNode || p.Detail != "node n1 has as many tasks under way of job mail as per_node allows: 2" {
			t.Errorf("it is postponed by %+v", p)
		}
		if by.Since.IsZero() != (want == time.Second) || by.Rule != value.PerNode || by.Limit != "job:mail" || by.Self.Node != "n1" {
			t.Errorf("that was decided by %+v", by)
		}
		if again := (&duties.Crowd{Node: "n1", Counter: two, Epochs: by.Ends, Last: by.Since}).Postpone(41, noon); again != p {
			t.Errorf("decided again it is %+v, and was %+v", again, p)
		}
	}
}
