package node

import (
	"fmt"
	"time"
)

// Duty is the next action on a node, and its actor. A node never waits without a duty.
type Duty struct {
	// Who must act: "an operator", "its worker", "the scheduler" or "nobody".
	Who string `json:"who"`
	// What is the action, in words.
	What string `json:"what"`
	// By is the deadline, or the earliest time; zero if there is no time.
	By time.Time `json:"by,omitzero"`
	// Else is what happens otherwise; "" for nothing.
	Else string `json:"else,omitempty"`
}

// Operator is who must act on a node of which no process can know more.
const Operator = "an operator"

// Settings are the numbers in the rules of duties.
type Settings struct {
	// TTL is the lifetime of a heartbeat.
	TTL time.Duration
	// RetireAfter is how long a node may be offline before it retires by itself; 0 for ever.
	RetireAfter time.Duration
}

// Owes returns the duty on a node. `node show` shows its text, and so does a wait for a node that
// timed out.
func Owes(n Node, s Settings) Duty {
	const (
		operator  = Operator
		itsWorker = "its worker"
	)
	silent := fmt.Sprintf("when its heartbeat has been missing for %v the scheduler records it as offline", s.TTL)
	start := fmt.Sprintf("start `millrace worker --name %s`, or `millrace node retire %s` if it will not come back", n.ID, n.ID)
	switch n.State {
	case Unknown:
		return Duty{Who: operator, What: fmt.Sprintf("start `millrace worker --name %s`: no worker has registered under this name", n.ID)}
	case Retired:
		return Duty{Who: "nobody", What: "it is retired; a worker that starts under its name begins a new life"}
	case Offline:
		if n.LinkReason == firstReason {
			return Duty{
				Who:  itsWorker,
				What: "store its first heartbeat",
				By:   n.Since.Add(s.TTL),
				Else: "look at the worker's log: it does not reach NATS, or has ended",
			}
		}
		d := Duty{Who: operator, What: start, Else: "its tasks are taken over by others"}
		at, kept := n.Retires(s.RetireAfter)
		switch {
		case !at.IsZero():
			d.By, d.Else = at, "it retires by itself then, unless a task that waits names it"
		case kept != "":
			d.Else = "it stays offline, and does not retire by itself: " + kept
		}
		return d
	case Draining:
		if n.Leaving {
			return Duty{Who: itsWorker, What: "end or give back what runs, and end", Else: silent}
		}
		return Duty{Who: operator, What: fmt.Sprintf("`millrace node undrain %s` when it may work again", n.ID)}
	case Quarantined:
		d := Duty{Who: "the scheduler, or its worker", What: "release it when it has been calm for long enough",
			Else: fmt.Sprintf("`millrace node release %s` does it now", n.ID)}
		if n.Quarantine != nil {
			d.By = n.Quarantine.Until
		}
		return d
	}
	switch {
	case n.Standing.Order == OrderCordon:
		return Duty{Who: operator, What: fmt.Sprintf("`millrace node uncordon %s` when it may take work again", n.ID)}
	case n.State == Online && n.Probes:
		return Duty{
			Who:  itsWorker,
			What: "fetch what was put on its own route, which proves that work reaches it",
			By:   n.OnlineSince.Add(s.TTL),
			Else: "look at the worker's log: it beats, and cannot fetch",
		}
	}
	return Duty{Who: "nobody", What: "it takes work", Else: silent}
}

// firstReason is the reason of a node that has registered and not beaten yet.
const firstReason = "registered, no heartbeat seen yet"
