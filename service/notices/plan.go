package notices

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/value"
)

// Kinds of what is told, beside those of [job.NoticeKinds].
const (
	Failure  = "failure"
	Recovery = "recovery"
	Missed   = "missed"
	Overdue  = "overdue"
	Waiting  = "waiting"
	Breaker  = "breaker"
	Node     = "node"         // it is silent, quarantined, or gone with a task that waits for it alone
	Queue    = queue.Unserved // tasks wait in it, and no worker serves it
	Horizon  = "horizon"      // the log cannot forget
	Test     = "test"
)

// Kinds are those that a rule of the operator may name.
var Kinds = append(slices.Clone(job.NoticeKinds), Node, Queue, Horizon)

// Usual are the kinds of a job, schedule or queue that names none.
var Usual = []string{Failure, Recovery}

// Happening is something that people may want to be told.
type Happening struct {
	Kind string
	// Group is what is told together: a node, a schedule, a job with the cause of its failure.
	Group string
	// At is when it happened, or began.
	At time.Time
	// Job, Queue and Schedule are those of the task, or what it is about; "" for none.
	Job, Queue, Schedule string
	// Now is the present, if it goes on until somebody acts; else zero. Remind is how often the task wants to have
	// it told again meanwhile; 0 for as the rules say.
	Now    time.Time
	Remind value.Duration
	// Own are the wishes of the job, the schedule and the queue.
	Own []job.Notify
	// Notice is what the sender gets to know.
	Notice
}

// Notice is what the task of a notice says: whom to tell of what. What else is in the message, as the number
// of failures and the last lines, the sender finds when it sends.
type Notice struct {
	// To is the name of the target.
	To string `json:"to"`
	// Kind is one of [Kinds], or [Test].
	Kind string `json:"kind"`
	// About names the job, or what a task without one does; or the node, queue or schedule.
	About string `json:"about,omitempty"`
	// Task is the first task that it is about; "" if it is about none.
	Task task.ID `json:"task,omitempty"`
	// Reason and Cause are those of the first failure; Cause is as [view.Alike] has it.
	Reason string `json:"reason,omitempty"`
	Cause  string `json:"cause,omitempty"`
	// What says it in words.
	What string `json:"what,omitempty"`
	// From is since when failures count.
	From time.Time `json:"from,omitzero"`
	// More tells that one notice has gone out, and this one tells of what came after it.
	More bool `json:"more,omitempty"`
	// Others tells that this one stands for causes, or things, beyond the most that are told one by one.
	Others bool `json:"others,omitempty"`
}

// Planned is a notice with the id of its task, and when it is due.
type Planned struct {
	ID task.ID
	At time.Time
	Notice
}

// mostGroups is how many groups of a kind are told one by one within [Target.Every]; the others are in one
// message together.
const mostGroups = 20

// mostKnown is how many notices a planner remembers. It may forget them: a birth says that there is one.
const mostKnown = 50_000

// planner decides which notices there are. The id of a notice follows from what it tells, so a planner
// that has forgotten everything, or that of another server, plans the same ones.
type planner struct {
	config *Config
	due    map[task.ID]time.Time // of planned notices
	groups map[string]int        // of a target and kind within a period
}

func newPlanner(c *Config) *planner {
	return &planner{c, map[task.ID]time.Time{}, map[string]int{}}
}

// learn tells when a notice that had been planned before goes out, or went.
func (p *planner) learn(id task.ID, at time.Time) { p.due[id] = at }

// forget tells that a notice could not be made.
func (p *planner) forget(id task.ID) { delete(p.due, id) }

// plan returns the new notices of what has happened: for each target one that is due when a while for more
// of its kind is over ([Target.Collect]), and if that has gone out, one at the end of the period
// ([Target.Every]).
func (p *planner) plan(h *Happening) (all []Planned) {
	if len(p.due) > mostKnown {
		clear(p.due)
		clear(p.groups)
	}
	for _, is := range p.targets(h) {
		to, target, begun, group := is.to, p.config.Targets[is.to], h.At, h.Group
		if past := h.Now.Sub(begun); is.remind > 0 && past >= is.remind {
			begun = begun.Add(past / is.remind * is.remind)
			group += "\x00" + begun.Format(time.RFC3339Nano)
		}
		from := begun.UTC().Truncate(target.Every.Std())
		n := h.Notice
		n.Kind, n.To, n.From = h.Kind, to, from
		period := strings.Join([]string{to, h.Kind, from.Format(time.RFC3339)}, "\x00")
		id := noticeID(from, period, group)
		due, known := p.due[id]
		if !known && p.groups[period] >= mostGroups {
			n = Notice{To: to, Kind: h.Kind, Others: true, From: from}
			id = noticeID(from, period, "")
			due, known = p.due[id]
		} else if !known {
			p.groups[period]++
		}
		at := begun.Add(target.Collect.Std())
		switch {
		case known && !begun.After(due):
			continue // it will be told with the first
		case known:
			n.From, n.More = due, true
			id = noticeID(from, period, group+"\x00more")
			if n.Others {
				id = noticeID(from, period, "\x00more")
			}
			if _, known = p.due[id]; known {
				continue
			}
			at = from.Add(target.Every.Std())
		}
		p.due[id] = at
		all = append(all, Planned{id, at, n})
	}
	return all
}

// toldTo is a target that is told, and how often again while nobody acts; 0 for once.
type toldTo struct {
	to     string
	remind time.Duration
}

// targets are whom a happening concerns, in the order of their names; those that a job or a queue names and the file
// does not have are left out. The most frequent reminder counts.
func (p *planner) targets(h *Happening) (all []toldTo) {
	add := func(names []string, remind value.Duration) {
		for _, to := range names {
			if p.config.Targets[to] != nil {
				all = append(all, toldTo{to, remind.Std()}, toldTo{to, h.Remind.Std()})
			}
		}
	}
	for i := range h.Own {
		kinds := h.Own[i].On
		if len(kinds) == 0 {
			kinds = Usual
		}
		if slices.Contains(kinds, h.Kind) {
			add(h.Own[i].To, h.Own[i].Remind)
		}
	}
	for i := range p.config.Rules {
		r := &p.config.Rules[i]
		if (len(r.On) == 0 || slices.Contains(r.On, h.Kind)) && matches(r.Jobs, h.Job) && matches(r.Queues, h.Queue) && matches(r.Schedules, h.Schedule) {
			add(r.To, r.Remind)
		}
	}
	slices.SortFunc(all, func(a, b toldTo) int {
		return cmp.Or(strings.Compare(a.to, b.to), cmp.Compare(uint64(a.remind)-1, uint64(b.remind)-1)) // 0, for none, is last
	})
	return slices.CompactFunc(all, func(a, b toldTo) bool { return a.to == b.to })
}

// matches tells whether a name is like one of some patterns; no patterns are like all.
func matches(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil && name != ""
	})
}

// noticeID is the id of the task of a notice, which nobody else can take.
func noticeID(at time.Time, period, group string) task.ID {
	var u ulid.ULID
	if u.SetTime(ulid.Timestamp(at)) != nil {
		return "" // no time of a log
	}
	sum := sha256.Sum256([]byte(period + "\x00" + group))
	return task.DerivedID(task.ID(u.String()), "notice\x00"+hex.EncodeToString(sum[:]))
}
