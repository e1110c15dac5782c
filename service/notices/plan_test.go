package notices

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func config(t *testing.T, rules ...Rule) *Config {
	t.Helper()
	c := &Config{Targets: map[string]*Target{"a": {Subject: "told.a"}, "b": {Subject: "told.b"}}, Rules: rules}
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

func failed(of string, after time.Duration) *Happening {
	return &Happening{Kind: Failure, Group: of + "\x00exit", At: noon.Add(after), Job: of, Queue: "bulk", Notice: Notice{About: of, Task: "01"}}
}

// TestWhoIsTold holds the rules of the operator and the wishes of jobs against what happens.
func TestWhoIsTold(t *testing.T) {
	own := func(on ...string) []job.Notify { return []job.Notify{{On: on, To: []string{"a", "gone"}}} }
	for name, c := range map[string]struct {
		h     Happening
		rules []Rule
		want  string
	}{
		"no rule":                          {h: Happening{Kind: Failure, Job: "x"}},
		"a job's wish":                     {h: Happening{Kind: Failure, Job: "x", Own: own()}, want: "a"},
		"a job does not ask for this":      {h: Happening{Kind: Failure, Job: "x", Own: own(Waiting)}},
		"what a job asks for":              {h: Happening{Kind: Waiting, Job: "x", Own: own(Waiting)}, want: "a"},
		"a job that says nothing of it":    {h: Happening{Kind: Missed, Job: "x", Own: own()}},
		"a rule and a wish for one target": {h: Happening{Kind: Failure, Job: "x", Own: own()}, rules: []Rule{{To: []string{"b", "a"}}}, want: "a b"},
		"another kind":                     {h: Happening{Kind: Failure, Job: "x"}, rules: []Rule{{On: []string{Node}, To: []string{"b"}}}},
		"a pattern of jobs":                {h: Happening{Kind: Failure, Job: "backup-eu"}, rules: []Rule{{Jobs: []string{"x", "backup-*"}, To: []string{"b"}}}, want: "b"},
		"a pattern, and no job":            {h: Happening{Kind: Node}, rules: []Rule{{Jobs: []string{"*"}, To: []string{"b"}}}},
		"a queue":                          {h: Happening{Kind: Failure, Queue: "bulk"}, rules: []Rule{{Queues: []string{"bulk"}, To: []string{"b"}}}, want: "b"},
		"another schedule":                 {h: Happening{Kind: Missed, Schedule: "y"}, rules: []Rule{{Schedules: []string{"x"}, To: []string{"b"}}}},
	} {
		var names []string
		for _, is := range newPlanner(config(t, c.rules...)).targets(&c.h) {
			names = append(names, is.to)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: told are %q, want %q", name, got, c.want)
		}
	}
}

// TestReminders has something stand for a day, and looks at it again and again.
func TestReminders(t *testing.T) {
	for remind, want := range map[time.Duration]int{0: 1, 4 * time.Hour: 7} {
		p := newPlanner(config(t, Rule{To: []string{"a"}}, Rule{To: []string{"a"}, Remind: value.Duration(remind)}))
		n, own, wish := 0, 0, newPlanner(config(t, Rule{To: []string{"a"}}))
		for after := time.Duration(0); after <= 24*time.Hour; after += time.Minute {
			if after%(5*time.Hour) == 0 { // another server goes on
				known := p.due
				p = newPlanner(p.config)
				p.due = known
			}
			n += len(p.plan(&Happening{Kind: Waiting, Group: "x", At: noon, Now: noon.Add(after)}))
			own += len(wish.plan(&Happening{Kind: Waiting, Group: "x", At: noon, Now: noon.Add(after), Remind: value.Duration(remind)}))
		}
		if n != want || own != want {
			t.Errorf("with a reminder each %v there are %d notices, and %d if the task wishes it; want %d", remind, n, own, want)
		}
	}
}

// TestManyAreOne plans what happens in a row: one notice of the first, due when more had time to come, and
// one at the end of the hour, if more came after that.
func TestManyAreOne(t *testing.T) {
	p := newPlanner(config(t, Rule{To: []string{"a"}}))
	var said []string
	plan := func(h *Happening) {
		for _, is := range p.plan(h) {
			said = append(said, fmt.Sprintf("%s at %s from %s more %v", is.About, is.At.Format("15:04:05"), is.From.Format("15:04:05"), is.More))
		}
	}
	for i := range 5000 {
		plan(failed("x", time.Duration(i)*time.Second/1000))
	}
	plan(failed("y", time.Minute))
	for i := range 5000 {
		plan(failed("x", time.Minute+time.Duration(i)*time.Second))
	}
	want := "x at 12:00:10 from 12:00:00 more false|y at 12:01:10 from 12:00:00 more false|x at 13:00:00 from 12:00:10 more true|x at 13:00:10 from 13:00:00 more false|x at 14:00:00 from 13:00:10 more true"
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("planned are %s\nwant %s", got, want)
	}
}

// TestManyCausesAreBounded plans failures of which each has another cause.
func TestManyCausesAreBounded(t *testing.T) {
	p := newPlanner(config(t, Rule{To: []string{"a", "b"}}))
	var all []Planned
	for i := range 10_000 {
		all = append(all, p.plan(failed(fmt.Sprint("job-", i), time.Duration(i)*time.Second/4))...)
	}
	others := 0
	for _, is := range all {
		if is.Others {
			others++
		}
	}
	if len(all) != 2*(mostGroups+2) || others != 4 {
		t.Errorf("%d notices, %d of them of many causes; want %d and 4: two for each target", len(all), others, 2*(mostGroups+2))
	}
}

// TestPlansAreThoseOfAnother holds that a server that begins in the middle plans the same tasks, also after a birth has told it when the first went out.
func TestPlansAreThoseOfAnother(t *testing.T) {
	c := config(t, Rule{To: []string{"a"}})
	first := newPlanner(c)
	ids := map[task.ID]bool{}
	for _, after := range []time.Duration{0, time.Second, time.Minute} {
		for _, is := range first.plan(failed("x", after)) {
			ids[is.ID] = true
		}
	}
	second := newPlanner(c)
	late := failed("x", 2*time.Minute)
	for _, is := range second.plan(late) {
		if !ids[is.ID] {
			t.Errorf("%s is new", is.ID)
		}
		second.learn(is.ID, noon.Add(10*time.Second))
	}
	more := second.plan(late)
	if len(more) != 1 || !ids[more[0].ID] || !more[0].More {
		t.Errorf("then it plans %+v", more)
	}
	second.forget(more[0].ID)
	if again := second.plan(late); len(again) != 1 || again[0].ID != more[0].ID {
		t.Errorf("a notice that could not be made is planned as %+v", again)
	}
	for id := range ids {
		if !id.Derived() {
			t.Errorf("%s may be chosen by others", id)
		}
	}
}

// TestTargetsAreChecked names what is wrong in the file.
func TestTargetsAreChecked(t *testing.T) {
	every := func(every, collect time.Duration) *Target {
		return &Target{Subject: "x", Every: value.Duration(every), Collect: new(value.Duration(collect))}
	}
	for want, is := range map[string]*Target{
		"want one of webhook":  {},
		"belong to a webhook":  {Subject: "x", Slack: true},
		"queue belongs":        {Subject: "x", Queue: "q"},
		"without wildcards":    {Subject: "x.>"},
		"begin with mr":        {Subject: "mr.task.x"},
		"every is 1s":          every(time.Second, 0),
		"collect is 2m0s":      every(time.Minute, 2*time.Minute),
		"want host, from":      {Mail: &Mail{Host: "x"}},
		"show the password":    {Mail: &Mail{Host: "x", From: "a@b", To: []string{"c@d"}, TLS: "none", User: "u"}},
		"template: ":           {Subject: "x", Template: "{{.Title"},
		"mail.port is 70000":   {Mail: &Mail{Host: "x", From: "a@b", To: []string{"c@d"}, Port: 70000}},
		"mail.tls is \"ssl\"":  {Mail: &Mail{Host: "x", From: "a@b", To: []string{"c@d"}, TLS: "ssl"}},
		"want one of webhook,": {Subject: "x", Command: []string{"x"}},
	} {
		if err := is.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", is, err, want)
		}
	}
}
