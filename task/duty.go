package task

import (
	"fmt"
	"time"
)

// Settings are the bounds that hold for all tasks of an installation.
type Settings struct {
	// StartDeadline is how long a task may wait while no node serves its queue.
	StartDeadline time.Duration
	// AckWait is how long a silent worker keeps its lease.
	AckWait time.Duration
	// Slack is what a timer or a step between two writes may take before
	// somebody else does it again; it must exceed the server's timer error of 0.3 s.
	Slack time.Duration
}

// Surroundings are what the duty of a task depends on besides the task.
type Surroundings struct {
	// Serving is how many online nodes serve the task's queue, and Unserved
	// since when there has been none; zero if that is not known.
	Serving  int
	Unserved time.Time
	// NodeGone is since when the task's node has been offline; zero if it is not.
	NodeGone time.Time
}

// Duty says who must act next on a task, by when, and what happens otherwise.
type Duty struct {
	// Who is "worker", "node <name>", "server" or "scheduler"; "nobody" for a terminal task.
	Who string
	// What is to be done, in words.
	What string
	// By is the deadline; zero if none is set, and then What says why.
	By time.Time
	// Else says what follows when By has passed.
	Else string
	// Command enforces the deadline; nil if the offer of [NextOffer] does, or nothing has to.
	Command Command
}

// Overdue tells whether the deadline has passed.
func (d Duty) Overdue(now time.Time) bool { return !d.By.IsZero() && now.After(d.By) }

// Owes returns the duty of a task in its surroundings.
func Owes(t Task, around Surroundings, s Settings) Duty {
	switch t.State {
	case Unknown, Finished, Error, Cancelled, Abnormal:
		return Duty{Who: "nobody", What: "nothing: the task is " + t.State.String()}
	case Scheduled:
		return Duty{Who: "server", What: "the timer offers it when it is due", By: t.Due.Add(s.Slack),
			Else: "the scheduler offers it"}
	case Retrying:
		return Duty{Who: "server", What: fmt.Sprintf("the timer offers attempt %d when it is due", t.Attempt+1), By: t.Due.Add(s.Slack),
			Else: "the scheduler offers it"}
	case Pending:
		if !t.Offered {
			return Duty{Who: "scheduler", What: "place its next offer (" + t.Reason + ")", By: t.Since.Add(s.Slack),
				Else: "the sweep of any scheduler offers it"}
		}
		return pendingDuty(t, around, s)
	case Running, Cancelling:
		return liveDuty(t, around, s)
	}
	return Duty{Who: "operator", What: "release it: nothing in this version holds tasks"}
}

func pendingDuty(t Task, around Surroundings, s Settings) Duty {
	queue := t.Route.Queue()
	d := Duty{Who: "worker", What: fmt.Sprintf("one of the %d online nodes that serve queue %q claims it as soon as a slot is free", around.Serving, queue)}
	if around.Serving == 0 {
		since := t.Since
		if around.Unserved.After(since) {
			since = around.Unserved
		}
		d.What = fmt.Sprintf("a node that serves queue %q comes online and claims it; since %s there has been none", queue, since.Format(time.RFC3339))
		d.By = since.Add(s.StartDeadline)
		d.Else = fmt.Sprintf("it ends as abnormal/expired: start timeout of %v with no node to run it", s.StartDeadline)
		d.Command = Expire{Detail: fmt.Sprintf("start timeout: no node served queue %q for %v", queue, s.StartDeadline)}
	}
	if !t.StartBy.IsZero() && (d.By.IsZero() || t.StartBy.Before(d.By)) {
		d.By = t.StartBy
		d.Else = "it ends as abnormal/expired: pending timeout"
		d.Command = Expire{Detail: "pending timeout: not started by " + t.StartBy.Format(time.RFC3339)}
	}
	if d.By.IsZero() {
		d.What += "; no bound is set (timeout.pending)"
	}
	return d
}

func liveDuty(t Task, around Surroundings, s Settings) Duty {
	d := Duty{Who: "node " + t.Node, What: fmt.Sprintf("run attempt %d to its end and extend its lease at least every %v", t.Attempt, s.AckWait)}
	if t.State == Cancelling {
		d.What = "stop the process and confirm that it is gone"
		d.By = t.CancelBy
		d.Else = "it ends as abnormal/lost, for the end of the process was not seen"
		d.Command = Lose{Epoch: t.Epoch, Reason: "the end was not confirmed"}
	} else if run := t.runTimeout(); run > 0 {
		d.By = t.StartedAt.Add(run + t.grace() + StopMargin)
		d.Else = "the attempt is declared lost and offered again"
		d.Command = Lose{Epoch: t.Epoch, Reason: fmt.Sprintf("did not end within its run timeout of %v, nor was stopped", run)}
	} else {
		d.What += "; no bound is set (timeout.run)"
	}
	if !around.NodeGone.IsZero() {
		d.What = fmt.Sprintf("its node has been offline since %s; whoever serves queue %q takes over when the lease has run out", around.NodeGone.Format(time.RFC3339), t.Route.Queue())
		if by := around.NodeGone.Add(s.AckWait + s.Slack); d.By.IsZero() || by.Before(d.By) {
			d.By = by
		}
		d.Who = "worker"
		if t.State == Running {
			d.Else = "the attempt is declared lost and offered again"
		}
		d.Command = Lose{Epoch: t.Epoch, Reason: "node " + t.Node + " is offline"}
	}
	return d
}

func (t *Task) runTimeout() time.Duration {
	if t.Spec == nil {
		return 0
	}
	return t.Spec.Timeout.Run.Std()
}
