package logtest

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/duties"
)

var Settings = duties.Settings{StartDeadline: 2 * time.Minute, AckWait: 6 * time.Second, Slack: time.Second}

// checkDuty checks that a task's duty names an actor, does not contradict the missing offer, and
// can be enforced.
func CheckDuty(t *testing.T, one task.Task) {
	t.Helper()
	for _, around := range []duties.Surroundings{
		{}, {Serving: 1}, {Unserved: Noon}, {Serving: 1, NodeGone: Noon}, {Able: []string{"n1"}}, {Able: []string{"n2"}, Unserved: Noon},
	} {
		d := duties.Owes(one, around, Settings)
		done := one.State.Terminal() || one.State == task.Unknown
		if d.Who == "" || d.What == "" || (d.Who == "nobody") != done {
			t.Errorf("%s: %q owes %q", one.State, d.Who, d.What)
		}
		if done && (!d.By.IsZero() || d.Command != nil) {
			t.Errorf("%s: it has ended and has the duty %+v", one.State, d)
		}
		if asked := d.Who == "operator" && d.Look; d.By.IsZero() != (done || asked) {
			t.Errorf("%s: %q owes %q by %v", one.State, d.Who, d.What, d.By)
		}
		if !d.By.IsZero() && d.Else == "" {
			t.Errorf("%s: a deadline, and nothing follows", one.State)
		}
		next, missing := task.NextOffer(&one)
		// Limits decide when they offer a task that they hold; its turn does not.
		places := d.Who == "server" || d.Who == "scheduler" && d.Command == nil && !one.Admissible()
		if missing != places {
			t.Errorf("%s: an offer is missing is %v, and %q owes %q", one.State, missing, d.Who, d.What)
		}
		if missing {
			checkOffer(t, one, next, d)
		}
		if d.Command == nil {
			continue
		}
		if missing {
			t.Errorf("%s: an offer is missing, and %T enforces something else", one.State, d.Command)
		}
		e, err := task.Decide(one, d.Command, d.By.Add(1))
		if err != nil || e == nil {
			t.Errorf("%s: %T is to enforce the deadline: %v, %v", one.State, d.Command, e, err)
			continue
		}
		then := task.Evolve(one, task.Recorded{Seq: one.Seq + 1, Chain: true, At: d.By, Event: e})
		if then.State == one.State && then.Route == one.Route {
			t.Errorf("%s: %+v does not end the duty", one.State, e)
		}
	}
}

// checkOffer checks that the missing offer has a deadline, and ends the wait.
func checkOffer(t *testing.T, one task.Task, next task.Queued, d duties.Duty) {
	t.Helper()
	if d.By.IsZero() || d.By.Before(next.Due) {
		t.Errorf("%s: the offer is due at %v, its deadline is %v", one.State, next.Due, d.By)
	}
	then := task.Evolve(one, task.Recorded{Seq: one.Seq + 1, At: next.Due, Event: next})
	if then.State != task.Pending || !then.Offered || then.Head != one.Head {
		t.Errorf("%s: the missing offer left it %s (offered: %v) at %d", one.State, then.State, then.Offered, then.Head)
	}
	if _, still := task.NextOffer(&then); still {
		t.Errorf("%s: the offer was placed and is still missing", one.State)
	}
	// A reader that sees only the offer claims the same attempt at the same turn.
	alone := task.Evolve(task.Task{ID: one.ID}, task.Recorded{Seq: one.Seq + 1, At: next.Due, Event: next})
	if alone.Attempt != one.Attempt || alone.Turn != one.Turn || !alone.StartBy.Equal(one.StartBy) {
		t.Errorf("%s: by the offer alone it is at attempt %d, turn %d; want %d, %d", one.State, alone.Attempt, alone.Turn, one.Attempt, one.Turn)
	}
}

func CheckError(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v, want no error", name, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}
