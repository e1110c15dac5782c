package node

import (
	"fmt"
	"regexp"
	"time"

	"millrace/task/value"
)

// GeneratedStays is how long a node stays offline, at most, before it retires by itself if its name
// looks generated: a program that starts again gets another name.
const GeneratedStays = time.Hour

// generated are the forms of names that other systems give to what they start, and never give again.
var generated = []*regexp.Regexp{
	regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{7,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`), // a pod of a Kubernetes deployment
	regexp.MustCompile(`-[0-9]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`),                         // a pod of a Kubernetes cron job
	regexp.MustCompile(`^[0-9a-f]{12}$`),                                                         // a container of Docker or Podman
	regexp.MustCompile(`^[0-9a-f]{14}$`),                                                         // a machine of Fly
	regexp.MustCompile(`^i-[0-9a-f]{8}([0-9a-f]{9})?$`),                                          // an instance of EC2
	regexp.MustCompile(`(^|[-_])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`),  // a UUID
}

// Generated tells whether a node's name looks like one that is never given again. Names with a
// number (host-2, web-0) are kept by those who have them, and those with an address (ip-10-0-0-1) may
// come back.
func Generated(id ID) bool {
	for _, form := range generated {
		if form.MatchString(string(id)) {
			return true
		}
	}
	return false
}

// Retires returns when the node retires by itself if it stays offline, by the setting after: how long
// a node may be offline, 0 for ever. It is zero if the node stays, and then kept says why; kept is ""
// if the node is not offline, or if nothing retires by itself.
func (n *Node) Retires(after time.Duration) (at time.Time, kept string) {
	switch {
	case n.State != Offline || after <= 0:
		return at, ""
	case n.Standing.Order != OrderServe:
		return at, "an operator's order stands: " + n.Standing.Words()
	case len(n.Relabels) > 0:
		return at, "an operator has given it labels"
	}
	return n.TakesSince().Add(n.stays(after)), ""
}

// stays is how long the node may be offline before it retires by itself.
func (n *Node) stays(after time.Duration) time.Duration {
	if Generated(n.ID) {
		return min(after, GeneratedStays)
	}
	return after
}

// Forget retires the node if it has been offline for so long that it will not come back: at a time,
// by a setting ([Node.Retires]).
type Forget struct {
	At    time.Time
	After time.Duration
}

func (Forget) isCommand() {}

// forget returns what follows from the command; nil if the node stays.
func (n *Node) forget(c Forget) Event {
	at, _ := n.Retires(c.After)
	if at.IsZero() || c.At.Before(at) {
		return nil
	}
	why := fmt.Sprintf("it has been offline for %v", value.Duration(n.stays(c.After)))
	if Generated(n.ID) {
		why += ", and its name looks generated"
	}
	return WasRetired{Reason: why}
}
