package duties

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// yieldRound is how many deliveries each named node gets before the next named node may take the
// task.
const yieldRound = 2

// maxYields bounds how often an offer goes back to the server in favour of preferred nodes.
const maxYields = 8

// Yields tells whether a node returns an offer of the task, so that a free node that the task names
// earlier can take it. The server hands an offer to the consumer that has waited longest. After a
// few returns, each of which lasts no longer than messages travel, the node takes the task.
func Yields(t *task.Task, node string, deliveries int) bool {
	if t.Spec == nil || t.State != task.Pending || !t.Spec.Place.Named() || len(t.Spec.Place.Nodes) < 2 || !t.Route.Selected() {
		return false
	}
	return deliveries <= min(slices.Index(t.Spec.Place.Nodes, node)*yieldRound, maxYields)
}

// Ran says on which node a task started last, among the tasks that share a name
// ([task.Work.StickyName]). It is a hint, not a fact: the worker that starts such a task overwrites it,
// and without it any node will do.
type Ran struct {
	Name string    `json:"name"`
	Node string    `json:"node"`
	At   time.Time `json:"at"`
}

// Peer is a node that takes new work of a task's kind.
type Peer struct {
	Node   string
	Labels map[string]string
	// At is the last known fact of the node.
	At uint64
}

func (p *Peer) known() task.Known { return task.Known{Node: p.Node, At: p.At} }

// HandsOver says to which node the offered node self leaves the task. First comes the node that ran
// it, its job or its key last (ran, "" if unknown), then the nodes that the task's preferences
// choose. A node on which the task has failed leaves it to any other, if the policy is to avoid
// that node. Others are the nodes that take new work of its kind. False means that self starts the
// task.
func HandsOver(t *task.Task, self Peer, others []Peer, ran string) (task.HandOver, bool) {
	shuns := Shuns(t, self.Node)
	if t.Spec == nil || t.Handed != nil || t.State != task.Pending || !t.Spec.Place.Prefers() && !shuns {
		return task.HandOver{}, false
	}
	var but []placement.Requirement // those on which it has failed
	if _, own := t.Route.Node(); len(t.Avoids) > 0 && !own {
		others = slices.DeleteFunc(slices.Clone(others), func(o Peer) bool { return slices.Contains(t.Avoids, o.Node) })
		but = []placement.Requirement{{Key: placement.LabelNode, Op: placement.OpNotIn, Values: t.Avoids}}
	}
	p := &t.Spec.Place
	if p.Sticky == job.StickyAttempt {
		ran = t.Node
	}
	wait := value.Duration(p.PreferredFor())
	if p.Sticky != "" && ran != "" {
		if ran == self.Node && !shuns {
			return task.HandOver{}, false
		}
		if i := slices.IndexFunc(others, func(o Peer) bool { return o.Node == ran }); i >= 0 {
			return task.HandOver{
				Self:   self.known(),
				Peer:   others[i].known(),
				Ran:    ran,
				To:     placement.NodeRoute(ran, t.Route.Priority()),
				After:  t.Turn,
				Reason: fmt.Sprintf("%s ran %s last, and has %v to claim it", ran, p.StickyWords(), wait),
			}, true
		}
	}
	mine, _ := p.Score(self.Labels)
	if shuns {
		mine = -1 // any other node is better
	}
	best, met, peer := mine, placement.Selector(nil), task.Known{}
	for _, o := range others {
		if score, chosen := p.Score(o.Labels); score > best {
			best, met, peer = score, chosen, o.known()
		}
	}
	if best == mine {
		return task.HandOver{}, false
	}
	asked := askedOf(t)
	to := asked.With(append(met, but...)...)
	c := task.HandOver{To: to.Route(t.Route.Priority()), Asked: to, After: t.Turn, Self: self.known(), Peer: peer, Ran: ran,
		Reason: fmt.Sprintf("nodes with %s are preferred, weight %d against %d of %s, and have %v to claim it", met, best, mine, self.Node, wait)}
	if shuns {
		c.Wait = t.Spec.Retry.ShunnedFor()
		c.Reason = fmt.Sprintf("it failed on %s; other nodes have %v to claim it", strings.Join(t.Avoids, ", "), value.Duration(c.Wait))
	}
	return c, true
}

// Shuns tells whether a node leaves the task to other nodes, because an attempt failed there and
// the task's policy is to avoid that node. It does so once per turn. A task on a node's own route
// shuns no node, because no other node pulls from there.
func Shuns(t *task.Task, node string) bool {
	if t.State != task.Pending || t.Spec == nil || t.Handed != nil || !t.Spec.Retry.AvoidNode || !slices.Contains(t.Avoids, node) {
		return false
	}
	_, own := t.Route.Node()
	return !own
}
