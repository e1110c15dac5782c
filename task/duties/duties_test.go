package duties_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

func TestOwes(t *testing.T) {
	served := duties.Surroundings{Serving: 3}
	withBound := task.Submitted{Work: task.Work{Spec: logtest.Bounded, Route: "images.5", StartBy: logtest.Noon.Add(time.Minute)}}
	endless := []task.Event{task.Submitted{Work: task.Work{Spec: logtest.Bounded, Route: "images.5"}}, logtest.Started}
	waiting := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "h", Signal: &job.Signal{}}, Route: "images.5", Holds: []string{task.HoldSignal}}}
	for name, c := range map[string]struct {
		given  []task.Event
		around duties.Surroundings
		who    string
		by     time.Time
		what   string // a part of What
		or     string // a part of Else
		then   task.Command
	}{
		"nothing known":           {nil, served, "nobody", time.Time{}, "unknown", "", nil},
		"finished":                {logtest.Finished, served, "nobody", time.Time{}, "finished", "", nil},
		"finished, and reopened":  {logtest.Finished, duties.Surroundings{LivesAgain: true}, "scheduler", time.Time{}, "reopen it", "", nil},
		"scheduled":               {logtest.Scheduled, served, "server", logtest.Delayed.Due.Add(time.Second), "timer", "scheduler", nil},
		"retrying":                {logtest.Retrying, served, "server", logtest.Failed.Retry.Due.Add(time.Second), "attempt 2", "scheduler", nil},
		"not offered":             {logtest.Released, served, "scheduler", logtest.At(3).Add(time.Second), "next offer (shutdown)", "sweep", nil},
		"not offered, no reason":  {[]task.Event{waiting, task.Unheld{Hold: task.HoldSignal, Reason: "asked for"}}, served, "scheduler", logtest.At(2).Add(time.Second), "place its next offer", "sweep", nil},
		"pending":                 {logtest.Pending, served, "worker", logtest.At(1).Add(5 * time.Second), `one of the 3 online nodes that serve queue "default" claims it as soon as a slot is free`, "looks again", nil},
		"pending, just looked at": {logtest.Pending, duties.Surroundings{Serving: 1, Seen: logtest.Noon.Add(time.Hour)}, "worker", logtest.Noon.Add(time.Hour + 5*time.Second), "as soon as a slot is free", "looks again", nil},
		"pending with a bound": {[]task.Event{withBound}, served, "worker", logtest.Noon.Add(time.Minute), `queue "images"`, "pending timeout",
			task.Expire{Detail: "pending timeout: not started by 2026-03-01T12:01:00Z"}},
		"pending, nobody serves": {logtest.Pending, duties.Surroundings{}, "operator", logtest.At(1).Add(2 * time.Minute), `start a worker that serves queue "default"; waiting since 2026-03-01T12:00:01Z`, "start timeout of 2m0s",
			task.Expire{Detail: `start timeout: no node served queue "default" for 2m0s`}},
		"pending, nobody serves any more": {logtest.Pending, duties.Surroundings{Unserved: logtest.Noon.Add(time.Hour)}, "operator", logtest.Noon.Add(time.Hour + 2*time.Minute), "start a worker that serves queue", "abnormal/expired",
			task.Expire{Detail: `start timeout: no node served queue "default" for 2m0s`}},
		"pending, nobody has served for long": {logtest.Pending, duties.Surroundings{Unserved: logtest.Noon.Add(-time.Hour)}, "operator", logtest.At(1).Add(2 * time.Minute), "start a worker that serves queue", "abnormal/expired",
			task.Expire{Detail: `start timeout: no node served queue "default" for 2m0s`}},
		"pending, nobody serves, sooner bound": {[]task.Event{withBound}, duties.Surroundings{}, "operator", logtest.Noon.Add(time.Minute), "start a worker that serves queue", "pending timeout",
			task.Expire{Detail: "pending timeout: not started by 2026-03-01T12:01:00Z"}},
		"running": {logtest.Running, served, "node n1", logtest.At(2).Add(time.Minute + 3*time.Second + task.StopMargin), "run attempt 1", "lost and offered again",
			task.Lose{Epoch: 2, Reason: "did not end within its run timeout of 1m0s, nor was stopped"}},
		"running, just looked at":   {logtest.Running, duties.Surroundings{Serving: 1, Seen: logtest.At(10)}, "node n1", logtest.At(16), "renew its lease", "takes the task over; its run timeout passes at 2026-03-01T12:01:02Z", nil},
		"running, its time soon up": {logtest.Running, duties.Surroundings{Serving: 1, Seen: logtest.At(60)}, "node n1", logtest.At(62), "run attempt 1", "fails as error/timeout; another attempt may follow", nil},
		"running, its time is up": {logtest.Running, duties.Surroundings{Serving: 1, Seen: logtest.At(62)}, "node n1", logtest.At(2).Add(time.Minute + 3*time.Second + task.StopMargin), "run attempt 1", "lost and offered again",
			task.Lose{Epoch: 2, Reason: "did not end within its run timeout of 1m0s, nor was stopped"}},
		"running, looked at, node gone": {logtest.Running, duties.Surroundings{NodeGone: logtest.At(9), Seen: logtest.At(10)}, "scheduler", logtest.At(9), "declare", "takes the task over",
			task.Lose{Epoch: 2, Reason: "node n1 is offline"}},
		"running without a bound": {endless, served, "node n1", logtest.At(2).Add(6 * time.Second), "renew its lease", "takes the task over", nil},
		"running, spec unknown":   {[]task.Event{nil, logtest.Started}, served, "node n1", logtest.At(2).Add(6 * time.Second), "renew its lease", "takes the task over", nil},
		"running, node gone": {endless, duties.Surroundings{NodeGone: logtest.Noon.Add(time.Hour)}, "scheduler", logtest.Noon.Add(time.Hour), "node n1 since 2026-03-01T13:00:00Z", "takes the task over",
			task.Lose{Epoch: 2, Reason: "node n1 is offline"}},
		"running, node gone, sooner bound": {logtest.Running, duties.Surroundings{NodeGone: logtest.Noon.Add(time.Hour)}, "scheduler", logtest.At(2).Add(time.Minute + 3*time.Second + task.StopMargin), "declare", "takes the task over",
			task.Lose{Epoch: 2, Reason: "node n1 is offline"}},
		"cancelling": {logtest.Cancelling, served, "node n1", logtest.Cancel.Deadline, "stop the process", "abnormal/lost",
			task.Lose{Epoch: 2, Reason: "the end was not confirmed"}},
		"cancelling, node gone": {logtest.Cancelling, duties.Surroundings{NodeGone: logtest.Noon}, "scheduler", logtest.Noon, "declare", "abnormal/lost",
			task.Lose{Epoch: 2, Reason: "node n1 is offline"}},
	} {
		d := duties.Owes(logtest.Given(c.given...), c.around, logtest.Settings)
		if d.Who != c.who || !d.By.Equal(c.by) || !strings.Contains(d.What, c.what) || strings.Contains(d.What, "()") || !strings.Contains(d.Else, c.or) || !reflect.DeepEqual(d.Command, c.then) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, d, c)
		}
	}
}

func TestOverdue(t *testing.T) {
	d := duties.Duty{By: logtest.Noon}
	for _, c := range []struct {
		d    duties.Duty
		now  time.Time
		want bool
	}{{d, logtest.Noon.Add(-1), false}, {d, logtest.Noon, false}, {d, logtest.Noon.Add(1), true}, {duties.Duty{}, logtest.Noon, false}} {
		if got := c.d.Overdue(c.now); got != c.want {
			t.Errorf("due by %v, at %v: overdue is %v", c.d.By, c.now, got)
		}
	}
}

func TestEveryStateHasADuty(t *testing.T) {
	for _, h := range logtest.Histories {
		logtest.CheckDuty(t, logtest.Given(h.Events...))
	}
}

// A paused queue misses no nodes: their absence counts from the end of the pause.
func TestOwesAfterAPause(t *testing.T) {
	s := logtest.Settings
	long := logtest.Noon.Add(3 * time.Hour)
	for _, c := range []struct {
		around duties.Surroundings
		by     time.Time
	}{
		{duties.Surroundings{Unserved: long}, long.Add(s.StartDeadline)},
		{duties.Surroundings{Unserved: long, Resumed: long.Add(-time.Minute)}, long.Add(s.StartDeadline)},
		{duties.Surroundings{Unserved: long, Resumed: long.Add(time.Minute)}, long.Add(time.Minute + s.StartDeadline)},
		{duties.Surroundings{Resumed: long}, long.Add(s.StartDeadline)},
	} {
		if d := duties.Owes(logtest.Given(logtest.Pending...), c.around, s); !d.By.Equal(c.by) {
			t.Errorf("unserved since %v, open since %v: %+v, want it by %v", c.around.Unserved, c.around.Resumed, d, c.by)
		}
	}
}

// By default a task waits for ever for a node. An operator must act, and no date binds them but one
// that somebody has set. The end tells why no node took the task.
func TestOwesWithoutAStartDeadline(t *testing.T) {
	s := logtest.Settings
	s.StartDeadline = 0
	s.Watched = logtest.Noon.Add(3 * time.Hour) // it bounds nothing
	gpu := placement.Asked{Queue: "images", Needs: placement.Selector{{Key: "gpu", Op: placement.OpIn, Values: []string{"a100"}}, {Key: "handler/crop", Op: placement.OpExists}}}
	work := func(w task.Work) []task.Event { return []task.Event{task.Submitted{Work: w}} }
	named := job.Spec{Handler: "h", Place: job.Place{Nodes: []string{"n1", "n2"}}}
	none := duties.Surroundings{Unserved: logtest.Noon.Add(time.Hour), NoNode: "no node has it (4 looked at)", Seen: logtest.Noon.Add(2 * time.Hour)}
	for name, c := range map[string]struct {
		given []task.Event
		what  string
	}{
		"a queue":   {logtest.Pending, `start a worker that serves queue "default"; waiting since 2026-03-01T13:00:00Z`},
		"labels":    {work(task.Work{Spec: &job.Spec{Handler: "crop"}, Asked: &gpu, Route: gpu.Route(5)}), `start a worker that serves queue "images" and has the handler "crop" and has gpu=a100; waiting since 2026-03-01T13:00:00Z; or release`},
		"a node":    {work(task.Work{Spec: &job.Spec{Handler: "h"}, Route: "@n1.5"}), "start a worker that runs as node n1; waiting since 2026-03-01T13:00:00Z; or release"},
		"two nodes": {work(task.Work{Spec: &named, Route: "@n1.5"}), "start a worker that runs as node n1 or n2; waiting since 2026-03-01T13:00:00Z; or release"},
	} {
		one := logtest.Given(c.given...)
		d := duties.Owes(one, none, s)
		if d.Who != "operator" || !strings.HasPrefix(d.What, c.what) || !d.By.IsZero() || !d.Look || d.Command != nil || d.Else != "it waits on; nothing ends it (timeout.pending would)" {
			t.Errorf("%s: %+v, want %q", name, d, c.what)
		}
		one.StartBy = logtest.Noon.Add(4 * time.Hour)
		end := task.Expire{Detail: "pending timeout: not started by 2026-03-01T16:00:00Z; no node has it (4 looked at)"}
		if d = duties.Owes(one, none, s); d.Who != "operator" || !strings.HasPrefix(d.What, c.what) || !d.By.Equal(one.StartBy) || d.Look || d.Command != end {
			t.Errorf("%s, bounded: %+v, want %+v", name, d, end)
		}
	}
}

// A job may say how long busy nodes may leave its tasks. That counts only while nodes take work, and not
// in a queue that has a window, or whose nodes cannot run the task.
func TestOwesABusyQueue(t *testing.T) {
	s := logtest.Settings
	s.StartDeadline = 0
	spec := job.Spec{Handler: "h", Timeout: job.Timeout{Assign: value.Duration(time.Hour)}}
	one := logtest.Given(task.Submitted{Work: task.Work{Spec: &spec, Route: "default.5"}})
	offered := one.Since
	seen := offered.Add(30 * time.Minute)
	for name, c := range map[string]struct {
		around duties.Surroundings
		by     time.Time // zero: it is not bounded
	}{
		"busy nodes":               {duties.Surroundings{Serving: 2, Served: offered.Add(-time.Hour)}, offered.Add(time.Hour)},
		"nodes that came later":    {duties.Surroundings{Serving: 2, Served: offered.Add(time.Minute)}, offered.Add(61 * time.Minute)},
		"a pause that ended later": {duties.Surroundings{Serving: 2, Resumed: offered.Add(time.Minute)}, offered.Add(61 * time.Minute)},
		"a pause":                  {duties.Surroundings{Serving: 2, Paused: &queue.Pause{}}, time.Time{}},
		"a window":                 {duties.Surroundings{Serving: 2, Windowed: true}, time.Time{}},
		"nodes that cannot run it": {duties.Surroundings{Serving: 2, Lacks: "no node has it"}, time.Time{}},
		"no node":                  {duties.Surroundings{Unserved: offered}, time.Time{}},
	} {
		c.around.Seen = seen
		d := duties.Owes(one, c.around, s)
		end := task.Expire{Detail: "assign timeout: no worker took it for 1h0m0s; 2 could have, and none had a free slot"}
		if bounded := d.Command != nil && !d.Look; bounded != !c.by.IsZero() || bounded && (!d.By.Equal(c.by) || d.Command != end) {
			t.Errorf("%s: %+v, want it by %v", name, d, c.by)
		}
	}
	one.StartBy = offered.Add(10 * time.Minute)
	if d := duties.Owes(one, duties.Surroundings{Serving: 1}, s); !d.By.Equal(one.StartBy) {
		t.Errorf("with a nearer bound: %+v", d)
	}
}

// What no component does is due by no date unless somebody has set one: the next look of a scheduler
// binds no person.
func TestNoCheckBindsAnOperator(t *testing.T) {
	s := logtest.Settings
	s.StartDeadline = 0
	includes := job.Spec{Handler: "h", Place: job.Place{Mode: job.PlaceAll, Late: job.LateInclude}}
	signal := job.Spec{Handler: "h", Signal: &job.Signal{}}
	for name, c := range map[string]struct {
		given  []task.Event
		around duties.Surroundings
	}{
		"a pause":                {logtest.Pending, duties.Surroundings{Serving: 1, Paused: &queue.Pause{}}},
		"a signal":               {[]task.Event{task.Submitted{Work: task.Work{Spec: &signal, Route: "default.5", Holds: []string{task.HoldSignal}}}}, duties.Surroundings{}},
		"a node that is to come": {[]task.Event{task.Submitted{Work: task.Work{Spec: &includes, Route: "default.5"}}, task.Expanded{}}, duties.Surroundings{}},
	} {
		c.around.Seen = logtest.Noon.Add(time.Hour)
		one := logtest.Given(c.given...)
		if d := duties.Owes(one, c.around, s); d.Who != "operator" || !d.By.IsZero() || !d.Look || d.Else == "" {
			t.Errorf("%s: %+v, want no date", name, d)
		}
		one.EndBy = logtest.Noon.Add(2 * time.Hour)
		if d := duties.Owes(one, c.around, s); d.Who != "operator" || !d.By.Equal(one.EndBy) || d.Look || d.Command == nil {
			t.Errorf("%s, with a total deadline: %+v, want it by then", name, d)
		}
	}
}

// Who is to approve reads which answers are wanted.
func TestOwesAnswers(t *testing.T) {
	spec := job.Spec{Handler: "h", Signal: &job.Signal{Form: []param.Param{{Name: "when"}, {Name: "share", Default: json.RawMessage(`1`)}, {Name: "note", Optional: true}, {Name: "who"}}}}
	d := duties.Owes(logtest.Given(task.Submitted{Work: task.Work{Spec: &spec, Route: "default.5", Holds: []string{task.HoldSignal}}}), duties.Surroundings{}, logtest.Settings)
	if want := " --answer when=… --answer who=…`), or"; !strings.Contains(d.What, want) {
		t.Errorf("to do is %s, want %s", d.What, want)
	}
}

// A scheduler counts the absence of nodes from its own start, and the duty says so.
func TestOwesSchedulersThatHaveJustCome(t *testing.T) {
	s := logtest.Settings
	s.Watched = logtest.Noon.Add(3 * time.Hour)
	for _, c := range []struct {
		around duties.Surroundings
		by     time.Time
		says   bool
	}{
		{duties.Surroundings{}, s.Watched.Add(2 * time.Minute), true},
		{duties.Surroundings{Unserved: s.Watched.Add(-time.Minute)}, s.Watched.Add(2 * time.Minute), true},
		{duties.Surroundings{Unserved: s.Watched.Add(time.Minute)}, s.Watched.Add(3 * time.Minute), false},
	} {
		d := duties.Owes(logtest.Given(logtest.Pending...), c.around, s)
		if says := strings.Contains(d.What, "counts from its start at 2026-03-01T15:00:00Z"); !d.By.Equal(c.by) || says != c.says {
			t.Errorf("unserved since %v: %+v, want it by %v", c.around.Unserved, d, c.by)
		}
	}
}
