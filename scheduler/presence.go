package scheduler

import (
	"context"
	"errors"
	"time"

	"millrace/node"
)

// presence is what [Scheduler.CheckNodes] remembers.
type presence struct {
	// settled is when a missing heartbeat begins to mean something.
	settled time.Time
	// missing are the sessions without a heartbeat at the last check. One look is
	// not enough: the heartbeats were read before the nodes.
	missing map[node.ID]string
}

// CheckNodes looks once for nodes whose heartbeat has run out. A node that it
// misses for the second time running is recorded as offline. It is for one
// goroutine, like Sweep; the two may run at once.
func (s *Scheduler) CheckNodes(ctx context.Context) error {
	p := &s.presence
	alive, err := s.beats.Alive(ctx)
	if err != nil {
		// Nodes that beat through the same server had no chance either.
		p.settled = time.Now().Add(s.cfg.Settling)
		return err
	}
	if time.Now().Before(p.settled) {
		return nil
	}
	nodes, _, err := s.view.Nodes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	missing := map[node.ID]string{}
	for _, n := range nodes {
		if n.State != node.Online && n.State != node.Draining {
			continue
		}
		if h, ok := alive[n.ID]; ok && h.Session == n.Session {
			continue
		}
		missing[n.ID] = n.Session
		if p.missing[n.ID] != n.Session {
			continue
		}
		_, event, err := s.rec.DoNode(ctx, n.ID, node.Vanish{Session: n.Session, Reason: "its heartbeat ran out"})
		errs = append(errs, err)
		if event != nil {
			s.log.Warn().Str("node", string(n.ID)).Msg("node is offline: its heartbeat ran out")
		}
	}
	p.missing = missing
	return errors.Join(errs...)
}
