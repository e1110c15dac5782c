package task

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

var settings = Settings{StartDeadline: 2 * time.Minute, AckWait: 6 * time.Second, Slack: time.Second}

func TestOwes(t *testing.T) {
	served := Surroundings{Serving: 3}
	withBound := Submitted{Work: Work{Spec: bounded, Route: "images.5", StartBy: noon.Add(time.Minute)}}
	endless := []Event{Submitted{Work: Work{Spec: bounded, Route: "images.5"}}, started}
	for name, c := range map[string]struct {
		given  []Event
		around Surroundings
		who    string
		by     time.Time
		what   string // a part of What
		or     string // a part of Else
		then   Command
	}{
		"nothing known":           {nil, served, "nobody", time.Time{}, "unknown", "", nil},
		"finished":                {finished, served, "nobody", time.Time{}, "finished", "", nil},
		"scheduled":               {scheduled, served, "server", hold.Due.Add(time.Second), "timer", "scheduler", nil},
		"retrying":                {retrying, served, "server", failed.Retry.Due.Add(time.Second), "attempt 2", "scheduler", nil},
		"not offered":             {released, served, "scheduler", at(3).Add(time.Second), "next offer (shutdown)", "sweep", nil},
		"pending":                 {pending, served, "worker", at(1).Add(5 * time.Second), `one of the 3 online nodes that serve queue "default" claims it as soon as a slot is free`, "looks again", nil},
		"pending, just looked at": {pending, Surroundings{Serving: 1, Seen: noon.Add(time.Hour)}, "worker", noon.Add(time.Hour + 5*time.Second), "as soon as a slot is free", "looks again", nil},
		"pending with a bound": {[]Event{withBound}, served, "worker", noon.Add(time.Minute), `queue "images"`, "pending timeout",
			Expire{Detail: "pending timeout: not started by 2026-03-01T12:01:00Z"}},
		"pending, nobody serves": {pending, Surroundings{}, "worker", at(1).Add(2 * time.Minute), "since 2026-03-01T12:00:01Z there has been none", "start timeout of 2m0s",
			Expire{Detail: `start timeout: no node served queue "default" for 2m0s`}},
		"pending, nobody serves any more": {pending, Surroundings{Unserved: noon.Add(time.Hour)}, "worker", noon.Add(time.Hour + 2*time.Minute), "comes online", "abnormal/expired",
			Expire{Detail: `start timeout: no node served queue "default" for 2m0s`}},
		"pending, nobody has served for long": {pending, Surroundings{Unserved: noon.Add(-time.Hour)}, "worker", at(1).Add(2 * time.Minute), "comes online", "abnormal/expired",
			Expire{Detail: `start timeout: no node served queue "default" for 2m0s`}},
		"pending, nobody serves, sooner bound": {[]Event{withBound}, Surroundings{}, "worker", noon.Add(time.Minute), "comes online", "pending timeout",
			Expire{Detail: "pending timeout: not started by 2026-03-01T12:01:00Z"}},
		"running": {running, served, "node n1", at(2).Add(time.Minute + 3*time.Second + StopMargin), "run attempt 1", "lost and offered again",
			Lose{Epoch: 2, Reason: "did not end within its run timeout of 1m0s, nor was stopped"}},
		"running, just looked at":   {running, Surroundings{Serving: 1, Seen: at(10)}, "node n1", at(16), "extend its lease", "takes it over; its run timeout passes at 2026-03-01T12:01:02Z", nil},
		"running, its time soon up": {running, Surroundings{Serving: 1, Seen: at(60)}, "node n1", at(62), "run attempt 1", "fails as error/timeout; another attempt may follow", nil},
		"running, its time is up": {running, Surroundings{Serving: 1, Seen: at(62)}, "node n1", at(2).Add(time.Minute + 3*time.Second + StopMargin), "run attempt 1", "lost and offered again",
			Lose{Epoch: 2, Reason: "did not end within its run timeout of 1m0s, nor was stopped"}},
		"running, looked at, node gone": {running, Surroundings{NodeGone: at(9), Seen: at(10)}, "scheduler", at(9), "declare", "takes it over",
			Lose{Epoch: 2, Reason: "node n1 is offline"}},
		"running without a bound": {endless, served, "node n1", at(2).Add(6 * time.Second), "extend its lease", "takes it over", nil},
		"running, spec unknown":   {[]Event{nil, started}, served, "node n1", at(2).Add(6 * time.Second), "extend its lease", "takes it over", nil},
		"running, node gone": {endless, Surroundings{NodeGone: noon.Add(time.Hour)}, "scheduler", noon.Add(time.Hour), "node n1 since 2026-03-01T13:00:00Z", "takes it over",
			Lose{Epoch: 2, Reason: "node n1 is offline"}},
		"running, node gone, sooner bound": {running, Surroundings{NodeGone: noon.Add(time.Hour)}, "scheduler", at(2).Add(time.Minute + 3*time.Second + StopMargin), "declare", "takes it over",
			Lose{Epoch: 2, Reason: "node n1 is offline"}},
		"cancelling": {cancelling, served, "node n1", cancel2.Deadline, "stop the process", "abnormal/lost",
			Lose{Epoch: 2, Reason: "the end was not confirmed"}},
		"cancelling, node gone": {cancelling, Surroundings{NodeGone: noon}, "scheduler", noon, "declare", "abnormal/lost",
			Lose{Epoch: 2, Reason: "node n1 is offline"}},
	} {
		d := Owes(given(c.given...), c.around, settings)
		if d.Who != c.who || !d.By.Equal(c.by) || !strings.Contains(d.What, c.what) || !strings.Contains(d.Else, c.or) || !reflect.DeepEqual(d.Command, c.then) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, d, c)
		}
	}
}

func TestOverdue(t *testing.T) {
	d := Duty{By: noon}
	for _, c := range []struct {
		d    Duty
		now  time.Time
		want bool
	}{{d, noon.Add(-1), false}, {d, noon, false}, {d, noon.Add(1), true}, {Duty{}, noon, false}} {
		if got := c.d.Overdue(c.now); got != c.want {
			t.Errorf("due by %v, at %v: overdue is %v", c.d.By, c.now, got)
		}
	}
}

func TestEveryStateHasADuty(t *testing.T) {
	for _, h := range histories {
		checkDuty(t, given(h.events...))
	}
}

// checkDuty checks that a task's duty names an actor, does not contradict the missing offer, and
// can be enforced.
func checkDuty(t *testing.T, task Task) {
	t.Helper()
	for _, around := range []Surroundings{
		{}, {Serving: 1}, {Unserved: noon}, {Serving: 1, NodeGone: noon}, {Able: []string{"n1"}}, {Able: []string{"n2"}, Unserved: noon},
	} {
		d := Owes(task, around, settings)
		done := task.State.Terminal() || task.State == Unknown
		if d.Who == "" || d.What == "" || (d.Who == "nobody") != done {
			t.Errorf("%s: %q owes %q", task.State, d.Who, d.What)
		}
		if done && (!d.By.IsZero() || d.Command != nil) {
			t.Errorf("%s: it has ended and has the duty %+v", task.State, d)
		}
		if d.By.IsZero() && !done {
			t.Errorf("%s: nobody is named a time for %q", task.State, d.What)
		}
		if !d.By.IsZero() && d.Else == "" {
			t.Errorf("%s: a deadline, and nothing follows", task.State)
		}
		next, missing := NextOffer(&task)
		// Limits decide when they offer a task that they hold; its turn does not.
		places := d.Who == "server" || d.Who == "scheduler" && d.Command == nil && !task.Admissible()
		if missing != places {
			t.Errorf("%s: an offer is missing is %v, and %q owes %q", task.State, missing, d.Who, d.What)
		}
		if missing {
			checkOffer(t, task, next, d)
		}
		if d.Command == nil {
			continue
		}
		if missing {
			t.Errorf("%s: an offer is missing, and %T enforces something else", task.State, d.Command)
		}
		e, err := Decide(task, d.Command, d.By.Add(1))
		if err != nil || e == nil {
			t.Errorf("%s: %T is to enforce the deadline: %v, %v", task.State, d.Command, e, err)
			continue
		}
		then := Evolve(task, Recorded{Seq: task.Seq + 1, Chain: true, At: d.By, Event: e})
		if then.State == task.State && then.Route == task.Route {
			t.Errorf("%s: %+v does not end the duty", task.State, e)
		}
	}
}

// checkOffer checks that the missing offer has a deadline, and ends the wait.
func checkOffer(t *testing.T, task Task, next Queued, d Duty) {
	t.Helper()
	if d.By.IsZero() || d.By.Before(next.Due) {
		t.Errorf("%s: the offer is due at %v, its deadline is %v", task.State, next.Due, d.By)
	}
	then := Evolve(task, Recorded{Seq: task.Seq + 1, At: next.Due, Event: next})
	if then.State != Pending || !then.Offered || then.Head != task.Head {
		t.Errorf("%s: the missing offer left it %s (offered: %v) at %d", task.State, then.State, then.Offered, then.Head)
	}
	if _, still := NextOffer(&then); still {
		t.Errorf("%s: the offer was placed and is still missing", task.State)
	}
	// A reader that sees only the offer claims the same attempt at the same turn.
	alone := Evolve(Task{ID: task.ID}, Recorded{Seq: task.Seq + 1, At: next.Due, Event: next})
	if alone.Attempt != task.Attempt || alone.Turn != task.Turn || !alone.StartBy.Equal(task.StartBy) {
		t.Errorf("%s: by the offer alone it is at attempt %d, turn %d; want %d, %d", task.State, alone.Attempt, alone.Turn, task.Attempt, task.Turn)
	}
}
