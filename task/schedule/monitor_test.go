package schedule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// watched is a run of a monitor that has heard words, of 10 minutes of grace and an hour at most. A word may have an
// id behind a slash; "late" and "end" are waits that were over without a ping.
func watched(t *testing.T, tick time.Time, state task.State, words ...string) task.Task {
	t.Helper()
	m := Monitor{Name: "backup", When: job.Schedule{Cron: "30 2 * * *"}, Grace: 10 * time.Minute, Max: time.Hour}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	j := m.Job()
	r := task.Task{ID: TaskID("backup", tick), State: state, SubmittedAt: tick, EndedAt: tick.Add(time.Minute)}
	r.Job, r.Spec, r.Origin = "backup", &j.Spec, task.Origin{Schedule: "backup", Tick: tick}
	r.Params = value.Must(json.Marshal(j.Params))
	for i, is := range words {
		word, id, _ := strings.Cut(is, "/")
		p := Ping{Word: word, ID: id, At: tick.Add(time.Duration(i) * time.Minute)}
		if word == PingFail {
			p.Exit, p.Lines = new(int), "one\ntwo"
			*p.Exit = 3
		}
		told := value.Must(json.Marshal(map[string]any{"by": "host", "data": p}))
		switch {
		case i == 0 && word != "late" && word != "end":
			r.Inputs = fmt.Appendf(nil, `{"ping":%s}`, told)
			continue
		case r.Durable == nil:
			r.Durable = &task.Durable{}
		}
		s := task.Step{Name: stepEnd, Kind: task.StepAwait, Took: value.Duration(time.Hour), Result: told}
		if word == "late" || word == "end" {
			s.Name, s.Result, s.Error = word, nil, "it did not come"
		}
		r.Durable.Steps = append(r.Durable.Steps, s)
	}
	return r
}

func TestWhatAPingIsFor(t *testing.T) {
	t.Parallel()
	tick := at(t, "2026-03-01T02:30:00Z")
	stored := &Stored{Definition: Definition{Name: "backup", When: job.Schedule{Cron: "30 2 * * *"}, Since: tick.Add(-48 * time.Hour)}}
	run := func(state task.State, words ...string) []task.Task {
		return []task.Task{watched(t, tick, state, words...)}
	}
	old := watched(t, tick.Add(-24*time.Hour), task.Held)
	for name, c := range map[string]struct {
		ping string
		open []task.Task
		last []task.Task
		at   string // after the planned run
		want string
	}{
		"a run that waits":                        {"ok", run(task.Held), nil, "1m", "run"},
		"a start":                                 {"start", run(task.Held), nil, "1m", "run"},
		"the oldest of several":                   {"ok", append([]task.Task{old}, run(task.Held)...), nil, "1m", "old"},
		"a start, while the oldest has begun":     {"start", append([]task.Task{watched(t, old.Tick, task.Held, "start")}, run(task.Held)...), nil, "1m", "run"},
		"an end, while the oldest has begun":      {"fail", append([]task.Task{watched(t, old.Tick, task.Held, "start")}, run(task.Held)...), nil, "1m", "old"},
		"an end after the start":                  {"ok", run(task.Held, "start"), nil, "5m", "run"},
		"a start twice":                           {"start", run(task.Held, "start"), nil, "5m", "it has started already"},
		"the same start twice":                    {"start/a", run(task.Held, "start/a"), nil, "5m", "it came before"},
		"the same end twice":                      {"ok/a", nil, run(task.Finished, "start", "ok/a"), "5m", "it came before"},
		"an ok twice, while it ends":              {"ok", run(task.Running, "ok"), nil, "1m", "was said before"},
		"an ok twice":                             {"ok", nil, run(task.Finished, "ok"), "1m", "the last one did not fail"},
		"a start after the ok":                    {"start", nil, run(task.Finished, "ok"), "1m", "no planned run waits"},
		"before the planned run":                  {"ok", nil, []task.Task{old}, "-20s", "next"},
		"a start before it":                       {"start", nil, []task.Task{old}, "-59s", "next"},
		"before it, while the one before waits":   {"ok", []task.Task{old}, nil, "-20s", "old"},
		"before it, twice":                        {"ok", nil, run(task.Finished, "ok"), "-20s", "the last one did not fail"},
		"too long before it":                      {"ok", nil, run(task.Finished, "ok"), "-2m", "the last one did not fail"},
		"an ok after silence":                     {"ok", nil, run(task.Error), "1h", "own ok"},
		"an ok after a failure":                   {"ok", nil, run(task.Error, "fail"), "1h", "own ok"},
		"a failure after an ok":                   {"fail", nil, run(task.Finished, "ok"), "1h", "own fail"},
		"a failure twice":                         {"fail", nil, run(task.Error, "fail"), "11m", "has failed already"},
		"a failure after silence":                 {"fail", nil, run(task.Error), "1h", "own fail"},
		"the first one of a monitor without runs": {"ok", nil, nil, "1h", "own ok"},
	} {
		after, err := time.ParseDuration(c.at)
		plan, broken := stored.Plan()
		if err != nil || broken != nil {
			t.Fatal(err, broken)
		}
		met := &Pinged{Stored: stored, Plan: plan, Open: c.open, Now: tick.Add(after)}
		if c.last != nil {
			met.Last = &c.last[0]
		}
		word, id, _ := strings.Cut(c.ping, "/")
		p := Ping{Word: word, ID: id, Lines: "one\ntwo"}
		if word == PingFail {
			three := 3
			p.Exit = &three
		}
		meant := met.For(&p)
		got := meant.Nothing
		switch {
		case meant.Next:
			got = "next"
			if !meant.Tick.Equal(tick) {
				t.Errorf("%s: it is for the planned run %v", name, meant.Tick)
			}
		case meant.Run == TaskID("backup", tick):
			got = "run"
		case meant.Run == old.ID:
			got = "old"
		case meant.Own:
			got = "own " + word
			if again := met.For(&p); again != meant || meant.Tick.Equal(tick) {
				t.Errorf("%s: its task is %v, and then %v", name, meant, again)
			}
		}
		if got == "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: it is for %q, want %q", name, got, c.want)
		}
	}
	stored.Paused = &Pause{}
	plan, _ := stored.Plan()
	if meant := (&Pinged{Stored: stored, Plan: plan, Last: &old, Now: tick.Add(-time.Second)}).For(&Ping{Word: PingOK}); meant.Next {
		t.Error("a ping makes the next planned run of a monitor that is paused")
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	tick := at(t, "2026-03-01T02:30:00Z")
	for name, c := range map[string]struct {
		words []string
		after time.Duration
		want  string
	}{
		"ok":                       {[]string{"ok"}, 2 * time.Minute, "finished 0s"},
		"a person's approval":      {[]string{""}, 2 * time.Minute, "finished 0s"},
		"start and ok":             {[]string{"start", "ok"}, 2 * time.Minute, "finished 1m0s"},
		"start":                    {[]string{"start"}, time.Minute, "waits in end until 03:31"},
		"start twice":              {[]string{"start", "start"}, 5 * time.Minute, "silent: it started at"},
		"fail":                     {[]string{"start", "fail"}, time.Minute, "exit: exit code 3: two"},
		"silence":                  {nil, 10*time.Minute + time.Second, "silent: no ping within 10m0s of 2026-03-01T02:30:00Z"},
		"silence after the start":  {[]string{"start", "end"}, 61 * time.Minute, "silent: it started at 2026-03-01T02:30:00Z, and said neither ok nor fail within 1h0m0s"},
		"nobody listened":          {nil, time.Hour, "waits in late until 03:40"},
		"nobody, nor later":        {[]string{"late"}, 70 * time.Minute, "silent: no ping within 10m0s of 2026-03-01T02:30:00Z, nor since a server"},
		"start when one was there": {[]string{"late", "start"}, 70 * time.Minute, "waits in end until 04:40"},
	} {
		r := watched(t, tick, task.Running, c.words...)
		if name == "start when one was there" {
			r.Durable.Steps[1].Name = stepLate
		}
		v := Judge(&r, tick.Add(c.after))
		got := v.Class + ": " + v.Message
		switch {
		case v.Park != nil:
			got = "waits in " + v.Park.Step + " until " + v.Park.Until.Format("15:04")
		case v.Class == "":
			got = "finished " + v.Took.String()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: it is %q, want %q", name, got, c.want)
		}
	}
	own := watched(t, tick, task.Held)
	own.Params = value.Must(json.Marshal((&Ping{Word: PingFail}).Params()))
	if v := Judge(&own, tick); v.Class != value.Silent {
		t.Errorf("a run that is about to be told is %+v", v)
	}
	if own.State = task.Running; Judge(&own, tick).Class != value.Task {
		t.Errorf("a run whose ping got lost is %+v", Judge(&own, tick))
	}
	if own.Spec = (&job.Spec{Handler: job.MonitorHandler}); Judge(&own, tick).Class == value.Silent {
		t.Error("a task that is the run of no monitor is silent")
	}
}

func TestPingsAreCompleted(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		is   Ping
		want string
	}{
		"nothing":      {Ping{}, "ok"},
		"a code":       {Ping{Exit: code(3)}, "fail"},
		"0":            {Ping{Exit: code(0)}, "ok"},
		"a word":       {Ping{Word: "done"}, `says "done", want start, ok, fail`},
		"a large code": {Ping{Exit: code(300)}, "exit is 300"},
		"a long id":    {Ping{ID: strings.Repeat("x", 300)}, "id has 300 bytes"},
	} {
		err := c.is.Complete(time.Time{})
		got := c.is.Word
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	long := Ping{Lines: strings.Repeat("a line\n", 2000) + "the last\xff\n"}
	if err := long.Complete(time.Time{}); err != nil || len(long.Lines) > MaxPingLines || !strings.HasPrefix(long.Lines, "a line\n") || !strings.HasSuffix(long.Lines, "\nthe last�") {
		t.Errorf("%d bytes, %v", len(long.Lines), err)
	}
	for _, m := range []Monitor{{Name: "x", Grace: time.Minute}, {Name: "x", When: job.Schedule{Every: value.Duration(time.Hour)}}, {Name: "x y", When: job.Schedule{Cron: "@daily"}, Grace: time.Minute}, {Name: "x", When: job.Schedule{Cron: "61 * * * *"}, Grace: time.Minute}} {
		if m.Check() == nil {
			t.Errorf("%+v is taken", m)
		}
	}
	every := Monitor{Name: "x", When: job.Schedule{Every: value.Duration(time.Hour)}, Grace: time.Minute}
	if j := every.Job(); j.Spec.Signal.Timeout.Std() != time.Hour+time.Minute {
		t.Errorf("with a fixed interval a ping may take %v", j.Spec.Signal.Timeout)
	}
}
