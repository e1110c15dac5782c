package simulation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
)

// errOverlap belongs to I-3, and the log alone cannot show it.
var errOverlap = errors.New("I-3: no attempt starts while another one runs of a worker that keeps the rules")

// run is an attempt as the process that runs it sees it.
type run struct {
	task  task.Task
	actor *actor
	began time.Time
	// confirmed is when its worker sent what the log confirmed last: its claim, its adoption, or a
	// heartbeat that named it.
	confirmed time.Time
	// beaten is when its worker sent the last heartbeat that was stored.
	beaten time.Time
	// lazy runs keep no rule, as a process does that no worker watches.
	lazy  bool
	offer *events.Offer
	// told tells whether its process has reported its end while another attempt of the task went
	// on.
	told bool
	// outlives is whether it goes on when its actor is dead.
	outlives bool
	// lost is set if the log has lost the attempt, or what its worker knew of it.
	lost bool
	// losses is how often the log had lost messages when the attempt was claimed.
	losses int
	// waits is set until something of it has started.
	waits bool
	// gave is what the steps of its function gave so far; nil for a task without any.
	gave []string
	// drawn are the steps that the log gets with the end of the attempt.
	drawn []task.Step
}

// Parts of the arithmetic in package worker.
const (
	stopAfter = ackWait * 2 / 3  // unconfirmed for so long, an attempt is to stop
	goneAfter = ackWait * 3 / 12 // after that much more at most, nothing is left of it
	slowClaim = ackWait / 6      // after a claim that took so long, an attempt waits for a heartbeat
	waitsFor  = ackWait * 11 / 12
)

// stops returns when the attempt must stop unless more is confirmed.
func (r *run) stops() time.Time {
	if r.waits {
		return earlier(r.confirmed.Add(waitsFor), r.beaten.Add(nodeTTL*11/12), r.began.Add(ackWait))
	}
	at, life := r.confirmed.Add(stopAfter), nodeTTL*2/3
	if r.outlives {
		life = (nodeTTL + ackWait) * 2 / 3
	}
	if silent := r.beaten.Add(life); silent.Before(at) {
		return silent
	}
	return at
}

// mayStart tells whether something of the attempt may start.
func (r *run) mayStart(now time.Time) bool {
	lease, silent := now.Sub(r.confirmed), now.Sub(r.beaten)
	return silent < (beat+nodeTTL*2/3)/2 && (lease < slowClaim || r.confirmed.After(r.began) && lease < ackWait/3)
}

func earlier(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

// confirm notes that the log has confirmed what was sent at a time. It has no effect on an attempt
// that must have stopped by now.
func (r *run) confirm(asked time.Time) {
	if time.Now().Before(r.stops()) && asked.After(r.confirmed) {
		r.confirmed = asked
	}
}

// begin notes that an attempt begins to run.
func (h *history) begin(r *run) {
	now := time.Now()
	if r.losses == h.lost.times && r.losses > 0 && !h.says(r.task.ID) {
		h.blame(r.task.ID, fmt.Errorf("%w: %s", errUnborn, r.actor.name))
	}
	for _, o := range h.runs[r.task.ID] {
		dead := o.actor.dead && !o.outlives
		// A worker whose name another process has taken ends as soon as it hears of that.
		if n := h.fold.nodes[node.ID(o.task.Node)]; n.Session != o.task.Session {
			continue
		}
		if !dead && !o.lazy && !o.lost && o.task.Epoch != r.task.Epoch && now.Before(o.stops().Add(goneAfter)) {
			h.blame(r.task.ID, fmt.Errorf("%w: epoch %d begins, and epoch %d of %s has run for %v and was confirmed %v ago",
				errOverlap, r.task.Epoch, o.task.Epoch, o.actor.name, now.Sub(o.began), now.Sub(o.confirmed)))
		}
	}
	h.runs[r.task.ID] = append(h.runs[r.task.ID], r)
}

// endRun notes that nothing is left of an attempt.
func (h *history) endRun(r *run) {
	h.runs[r.task.ID] = slices.DeleteFunc(h.runs[r.task.ID], func(o *run) bool { return o == r })
}
