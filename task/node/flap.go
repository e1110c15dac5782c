package node

import (
	"fmt"
	"math"
	"slices"
	"time"

	"millrace/task/value"
)

// The constants of flapping. They are not settings, because every reader of the log must compute
// the same score.
const (
	// ShortSession is how long a session must last to be useful: about the time to claim a task,
	// run a short one and report.
	ShortSession = 20 * time.Second
	// FlapHalfLife is the half-life of a score. With it, a node that drops a few times in a row, or
	// once a minute, always stays below the default limit; one that drops every five seconds
	// reaches it within a minute.
	FlapHalfLife = 2 * time.Minute
)

// Flap is a score that each short session raises by one and time lowers.
type Flap struct {
	// Score is the score at the time At.
	Score float64   `json:"score"`
	At    time.Time `json:"at,omitzero"`
}

// Now is the score at an instant.
func (f Flap) Now(at time.Time) float64 {
	if f.Score == 0 {
		return 0
	}
	age := max(at.Sub(f.At), 0) // a clock may be behind another
	return f.Score * math.Exp2(-float64(age)/float64(FlapHalfLife))
}

// falls is when the score will have fallen to a bound.
func (f Flap) falls(to float64) time.Time {
	if f.Score <= to || to <= 0 {
		return f.At
	}
	return f.At.Add(time.Duration(math.Log2(f.Score/to) * float64(FlapHalfLife))).Truncate(time.Millisecond).Add(time.Millisecond)
}

// FlapPolicy says which score is too high. Zero fields mean the default.
type FlapPolicy struct {
	// Limit is the score at which a node is quarantined. Default 10: about the eleventh short
	// session within two minutes. A node that is tried out, repaired or restarted by hand stays
	// below it; one in a restart loop soon reaches it. Below zero, no node is quarantined.
	Limit float64
	// Release is the score below which the node is released automatically. Default 3, at most
	// Limit. It must be well below Limit, or a node would alternate between the two.
	Release float64
}

// Defaults of [FlapPolicy].
const (
	DefaultFlapLimit   = 10
	DefaultFlapRelease = 3
)

func (p FlapPolicy) withDefaults() FlapPolicy {
	if p.Limit == 0 {
		p.Limit = DefaultFlapLimit
	}
	if p.Release <= 0 {
		p.Release = DefaultFlapRelease
	}
	p.Release = min(p.Release, max(p.Limit, 0))
	return p
}

// Settled tells whether a quarantined node has stayed long enough to be released if it is alone.
func (n *Node) Settled(at time.Time) bool {
	return n.Quarantine != nil && n.Alive() && !at.Before(n.OnlineSince.Add(ShortSession))
}

// Alone tells whether no other node serves one of the node's queues: without this node its tasks
// would not run at all.
func (n *Node) Alone(others []Node) bool {
	return slices.ContainsFunc(n.Queues, func(queue string) bool {
		return !slices.ContainsFunc(others, func(o Node) bool { return o.ID != n.ID && o.Serves(queue) })
	})
}

// judge returns the event that follows from the score of a node at an instant; nil if there is
// none.
func (p FlapPolicy) judge(n *Node, c Judge) Event {
	p = p.withDefaults()
	at := c.At
	score := n.Flap.Now(at)
	switch {
	case c.Alone && n.Settled(at):
		return WasReleased{Reason: fmt.Sprintf("nobody else serves one of its queues, and it has stayed for %v", ShortSession)}
	case n.Quarantine != nil && (p.Limit < 0 || score <= p.Release):
		return WasReleased{Reason: fmt.Sprintf("it has been calm for long enough: its flap score is down to %.1f", score)}
	case n.Quarantine != nil && at.Before(n.Quarantine.Until):
		return nil
	case p.Limit < 0 || n.Quarantine == nil && (score < p.Limit || !n.Alive()):
		return nil
	}
	until := Flap{Score: score, At: at}.falls(p.Release)
	if !until.After(at) {
		return nil
	}
	return WasQuarantined{Until: until, Reason: fmt.Sprintf(
		"it came and went too often: %d of its sessions were shorter than %v, its flap score is %.1f and the limit %.1f",
		n.Short, ShortSession, score, p.Limit)}
}

// Stability sums up how a node came and went.
type Stability struct {
	// Sessions counts the periods online, including the present one: one for each start and each
	// connection that came back.
	Sessions int `json:"sessions,omitempty"`
	// Ended counts the periods that are over, Lived is their total length, and Short counts those
	// that were cut off within [ShortSession].
	Ended int            `json:"ended,omitempty"`
	Lived value.Duration `json:"lived,omitempty"`
	Short int            `json:"short,omitempty"`
	// Flap is the score.
	Flap Flap `json:"flap,omitzero"`
}

// end adds a period. One that the node announced to end is not a drop.
func (s *Stability) end(since, at time.Time, dropped bool) {
	lived := max(at.Sub(since), 0)
	s.Ended++
	s.Lived += value.Duration(lived)
	if dropped && lived < ShortSession {
		s.Short++
		s.Flap = Flap{Score: s.Flap.Now(at) + 1, At: at}
	}
}

// MeanSession is the mean length of the periods online that are over; 0 if there is none.
func (s *Stability) MeanSession() time.Duration {
	if s.Ended == 0 {
		return 0
	}
	return s.Lived.Std() / time.Duration(s.Ended)
}

var zero time.Time
