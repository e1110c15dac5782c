package duties

import (
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/value"
)

// Settings are the bounds for all tasks of an installation.
type Settings struct {
	// StartDeadline is how long a task may wait while no node serves its queue. Default 0: for ever.
	StartDeadline time.Duration
	// AckWait is how long a silent worker keeps its lease.
	AckWait time.Duration
	// Look is how often the scheduler checks tasks that wait or run without a bound of their own.
	// Default 5s.
	Look time.Duration
	// Slack is how long a step between two writes may take before another component repeats it.
	Slack time.Duration
	// Timer is how long a due timer may take to put its offer into the log before a scheduler
	// places the offer itself. It takes 0.3 s on one server, and 5 to 11 s after the loss of one
	// server of three. Default and minimum: Slack.
	Timer time.Duration
	// Watched is since when all present schedulers watch; zero if unknown. A scheduler counts how long
	// a queue has had no node from its own start, for after a general outage workers may be on
	// their way back. No fact tells that start, so only who asks about the present knows it.
	Watched time.Time
}

// Bounds are the settings as a fact names them.
func (s Settings) Bounds() *task.Bounds {
	return &task.Bounds{
		StartDeadline: value.Duration(s.StartDeadline), AckWait: value.Duration(s.AckWait),
		Slack: value.Duration(s.Slack), Timer: value.Duration(s.Timer),
	}
}

// SettingsOf returns the settings that a fact names.
func SettingsOf(b *task.Bounds) Settings {
	if b == nil {
		return Settings{}
	}
	return Settings{StartDeadline: b.StartDeadline.Std(), AckWait: b.AckWait.Std(), Slack: b.Slack.Std(), Timer: b.Timer.Std()}
}

func (s Settings) timer() time.Duration { return max(s.Timer, s.Slack) }

func (s Settings) look() time.Duration {
	if s.Look == 0 {
		return 5 * time.Second
	}
	return s.Look
}

// counted is from when the schedulers count the absence of nodes that began at a time.
func (s Settings) counted(since time.Time) time.Time { return value.Later(since, s.Watched) }

// watching says in words from when they count it, if that is not since it began.
func (s Settings) watching(since time.Time) string {
	if s.StartDeadline == 0 || !s.Watched.After(since) {
		return ""
	}
	return ", which the scheduler counts from its start at " + value.Clock(s.Watched)
}

// Surroundings are the facts outside a task on which its duty depends.
type Surroundings struct {
	// Serving is how many nodes take new work from the task's route. Unserved is since when there
	// has been none; zero if unknown.
	Serving  int
	Unserved time.Time
	// Able are the nodes that the task is meant for and that take new work, in the task's own
	// order.
	Able []string
	// Lacks says in words that none of the present nodes can run the task; "" if one can, or if no
	// node is present.
	Lacks string
	// Served is since when one of these nodes has taken work without a break; zero if unknown.
	Served time.Time
	// Windowed says that the task's queue has a window.
	Windowed bool
	// NoNode says in words why no node takes the task, as the reason of its end has it; "" if one
	// does, or if that is unknown.
	NoNode string
	// Undo names the commands by which a node takes the task that a quarantine or an operator keeps
	// from it; "" if there is none.
	Undo string
	// NodeGone is since when the session that runs the task counts as gone; zero if it has not
	// ended.
	NodeGone time.Time
	// Paused is the pause of the queue in which the task waits; nil if there is none.
	Paused *queue.Pause
	// Resumed is when the last pause of that queue ended; zero for never. A paused queue misses no
	// nodes, so their absence counts from then.
	Resumed time.Time
	// Shut says in words until when the window of that queue is closed; "" if it is open or there
	// is none.
	Shut string
	// LivesAgain says that the task has ended, and that a retry of one of its parents is about to
	// reopen it ([birth.LivesAgain]).
	LivesAgain bool
	// Seen is when these facts were read; zero if they were not.
	Seen time.Time
}

// because adds to the reason of an end why no node took the task.
func (s *Surroundings) because(why string) string {
	if s.NoNode == "" {
		return why
	}
	return why + "; " + s.NoNode
}

// lacks returns Lacks as part of a sentence.
func (s *Surroundings) lacks() string {
	if s.Lacks == "" {
		return ""
	}
	return ", and passes it on to nodes that can run it: " + s.Lacks
}

// Duty says which component must act next on a task, by when, and what happens otherwise.
type Duty struct {
	// Who is "worker", "node <name>", "server" or "scheduler"; "nobody" for a terminal task that stays
	// so.
	Who string
	// What is the action to take, in words.
	What string
	// By is the deadline; zero if the task has ended, or if an operator must act and no date binds
	// them.
	By time.Time
	// Look says that nothing ends at By: it is the time of the next check, zero for an operator.
	Look bool
	// Else says what happens once By has passed.
	Else string
	// Command enforces the deadline; nil if the offer of [task.NextOffer] does, or if there is nothing
	// to enforce.
	Command task.Command
}

// Overdue tells whether the deadline has passed.
func (d Duty) Overdue(now time.Time) bool { return !d.By.IsZero() && now.After(d.By) }

// operator is who must act where no component can: a person, whom no check of a scheduler binds.
const operator = "operator"

// Owes returns the duty of a task in its surroundings.
func Owes(t task.Task, around Surroundings, s Settings) Duty {
	d := owes(t, around, s)
	if d.Who == operator && d.Look {
		d.By = time.Time{}
	}
	return withinTotal(&t, d)
}

func owes(t task.Task, around Surroundings, s Settings) Duty {
	if len(t.Holds) > 0 && t.Waiting() {
		return heldDuty(t, around, s)
	}
	switch t.State {
	case task.Unknown, task.Finished, task.Error, task.Cancelled, task.Abnormal:
		if around.LivesAgain {
			return Duty{Who: "scheduler", What: "reopen it: a retry of its parent asks for that"}
		}
		return Duty{Who: "nobody", What: "nothing: the task is " + t.State.String()}
	case task.Scheduled:
		what := "the timer offers it when it is due"
		if r, postponed := job.Postpones(t.Reason); postponed {
			what = r.Then
		}
		if waits := t.Waits(); waits != nil {
			what = waits.Words() + ": the timer offers it when that is over"
		}
		return Duty{Who: "server", What: what, By: t.Due.Add(s.timer()),
			Else: "the scheduler offers it"}
	case task.Retrying:
		return Duty{Who: "server", What: fmt.Sprintf("the timer offers attempt %d when it is due", t.Attempt+1), By: t.Due.Add(s.timer()),
			Else: "the scheduler offers it"}
	case task.Pending:
		if !t.Offered {
			what := "place its next offer"
			if why := t.QueuedFor(); why != "" {
				what += " (" + why + ")"
			}
			return Duty{Who: "scheduler", What: what, By: t.Since.Add(s.Slack),
				Else: "the sweep of any scheduler offers it"}
		}
		return pendingDuty(t, around, s)
	case task.Running, task.Cancelling:
		if t.Epoch == 0 {
			return parentDuty(t, around, s)
		}
		return liveDuty(t, around, s)
	}
	return heldDuty(t, around, s)
}

func pendingDuty(t task.Task, around Surroundings, s Settings) Duty {
	if !t.PreferredUntil().IsZero() {
		return handedDuty(t, around, s)
	}
	if on, own := t.Route.Node(); own {
		return placeDuty(t, on, around, s)
	}
	if p := around.Paused; p != nil {
		return awaited(t, around, s, Duty{Who: operator, What: p.Words(t.QueueName())})
	}
	if around.Shut != "" && around.Serving > 0 {
		return awaited(t, around, s, Duty{
			Who: "worker", What: fmt.Sprintf("%s queue %q claims it when that opens: %s", oneOf(around.Serving, "online node that serves", "online nodes that serve"), t.QueueName(), around.Shut),
		})
	}
	if t.Route.Selected() {
		return selectorDuty(t, around, s)
	}
	queue := t.Route.Queue()
	if around.Serving > 0 {
		return busy(t, around, s, Duty{
			Who: "worker", What: fmt.Sprintf("%s queue %q claims it as soon as a slot is free", oneOf(around.Serving, "online node that serves", "online nodes that serve"), queue) + shunned(&t) + around.lacks(),
		})
	}
	since := unservedSince(t, around)
	d := Duty{Who: operator, What: startOne(job.NeedWords(queue, nil), since, around, s)}
	if s.StartDeadline == 0 {
		return awaited(t, around, s, d)
	}
	d.By = s.counted(since).Add(s.StartDeadline)
	d.Else = fmt.Sprintf("it ends as abnormal/expired: start timeout of %v with no node to run it", s.StartDeadline)
	d.Command = task.Expire{Detail: fmt.Sprintf("start timeout: no node served queue %q for %v", queue, s.StartDeadline)}
	if !t.StartBy.IsZero() && t.StartBy.Before(d.By) {
		return awaited(t, around, s, d)
	}
	return d
}

// startOne says what an operator does about a task that no node takes: it has waited since a time
// for a worker that does what.
func startOne(what string, since time.Time, around Surroundings, s Settings) string {
	start := "start a worker that " + what
	if around.Undo != "" {
		start = "run " + around.Undo + ", or start another worker that " + what
	}
	return start + "; waiting since " + value.Clock(since) + s.watching(since)
}

// oneOf returns "the one node that serves" or "one of the 3 nodes that serve".
func oneOf(n int, one, more string) string {
	if n == 1 {
		return "the one " + one
	}
	return fmt.Sprintf("one of the %d %s", n, more)
}

func liveDuty(t task.Task, around Surroundings, s Settings) Duty {
	d := Duty{Who: "node " + t.Node, What: fmt.Sprintf("run attempt %d to its end and renew its lease every %v", t.Attempt, s.AckWait)}
	var lost string
	if t.State == task.Cancelling {
		d.What = "stop the process and confirm that it is gone"
		d.By = t.CancelBy
		lost = "it ends as abnormal/lost, for the end of the process was not seen"
		d.Command = task.Lose{Epoch: t.Epoch, Reason: "the end was not confirmed"}
	} else {
		lost = runningDuty(&t, &d, around, s)
	}
	d.Else = lost
	if around.NodeGone.IsZero() {
		return d
	}
	if t.Spec.Adopts() {
		return adoptDuty(t, around.NodeGone, d, s)
	}
	d.Who, d.Look = "scheduler", false
	d.What = fmt.Sprintf("declare the attempt lost: nothing is to be expected of the session that ran it on node %s since %s", t.Node, value.Clock(around.NodeGone))
	if d.Command == nil || around.NodeGone.Before(d.By) {
		d.By = around.NodeGone
	}
	if t.State == task.Running {
		d.Else = "the lease runs out, and another node takes the task over"
	}
	d.Command = task.Lose{Epoch: t.Epoch, Reason: "node " + t.Node + " is offline"}
	return d
}

// runningDuty sets the deadline of a running attempt and returns what happens otherwise. The
// nearest date counts: the next renewal of the lease or the run timeout. Once the run timeout has
// passed, or if the time of the check is unknown, it is when the scheduler declares the attempt
// lost.
func runningDuty(t *task.Task, d *Duty, around Surroundings, s Settings) (otherwise string) {
	until := t.RunUntil()
	// Renewals leave no facts; when one fails, the server offers the task to another worker.
	lease := looked(t.StartedAt, around).Add(s.AckWait)
	switch {
	case until.IsZero():
		d.By, d.Look = lease, true
		return "its lease runs out, and another node takes the task over; nothing else ends it (timeout.run would)"
	case around.Seen.IsZero() || !around.Seen.Before(until):
		d.By = until.Add(t.Grace() + task.StopMargin)
		d.Command = task.Lose{Epoch: t.Epoch, Reason: fmt.Sprintf("did not end within its run timeout of %v, nor was stopped", until.Sub(t.StartedAt))}
		return "the attempt is declared lost and offered again"
	case lease.Before(until):
		d.By, d.Look = lease, true
		return fmt.Sprintf("its lease runs out, and another node takes the task over; its run timeout passes at %s", value.Clock(until))
	}
	d.By, d.Look = until, true
	return "its run timeout has passed: its node stops it, and the attempt fails as error/timeout" + retriesLeft(t)
}

// retriesLeft says in words whether another attempt may follow a failure.
func retriesLeft(t *task.Task) string {
	if t.TooLong(t.RunUntil()) || t.Spec == nil || t.Failures >= t.Spec.Retry.Max || !t.Spec.Retry.Covers(value.Timeout, nil) {
		return ""
	}
	return "; another attempt may follow"
}

// withinTotal replaces a duty whose deadline is later than the total deadline. The duty of a
// running attempt has it already, in its run timeout.
func withinTotal(t *task.Task, d Duty) Duty {
	if t.EndBy.IsZero() || t.Spec == nil || !d.Look && !d.By.IsZero() && !d.By.After(t.EndBy) {
		return d
	}
	switch {
	case t.Waiting():
		d.Else, d.Command = "it ends as abnormal/timeout: total timeout", task.Expire{Reason: value.Timeout, Detail: t.TotalWords()}
	case t.State == task.Running && t.Epoch == 0:
		d.Else, d.Command = "its children are cancelled, and it ends as error/timeout", task.Cancel{Reason: t.TotalWords()}
	default:
		return d
	}
	d.By, d.Look = t.EndBy, false
	return d
}
