package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/node"
)

// register begins the node's session and brings it online.
func (w *Worker) register(ctx context.Context) error {
	profile := profileOf(w.cfg)
	if _, _, err := w.protocol.Recorder.DoNode(ctx, w.cfg.Node, node.Register{Session: w.protocol.Session, Profile: profile}); err != nil {
		return fmt.Errorf("register node %s: %w", w.cfg.Node, err)
	}
	return w.beatOnce(ctx)
}

// beat says again and again that the node lives, until ctx ends. It returns an
// error if another process has taken the node's place.
func (w *Worker) beat(ctx context.Context) error {
	tick := time.NewTicker(w.cfg.Beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := w.beatOnce(ctx)
		switch {
		case errors.Is(err, node.ErrSuperseded):
			w.log.Error().Err(err).Msg("this worker stops; give one of the two another name")
			return fmt.Errorf("worker: %w", err)
		case err != nil && ctx.Err() == nil:
			w.log.Warn().Err(err).Msg("heartbeat not stored; trying again")
		}
	}
}

// beatOnce stores a heartbeat and makes sure that the log says online: somebody
// may have found the node silent in between.
func (w *Worker) beatOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.NodeTTL)
	defer cancel()
	h := node.Heartbeat{Session: w.protocol.Session, At: time.Now().UTC()}
	asked := time.Now()
	if err := w.store.Beat(ctx, w.cfg.Node, h, w.cfg.NodeTTL); err != nil {
		return err
	}
	w.beaten.Store(&asked)
	_, _, err := w.protocol.Recorder.DoNode(ctx, w.cfg.Node, node.Beat{Session: w.protocol.Session})
	return err
}

func (w *Worker) sayDraining(ctx context.Context) {
	_, _, err := w.protocol.Recorder.DoNode(ctx, w.cfg.Node, node.Drain{Session: w.protocol.Session, Reason: "asked to end"})
	if err != nil && !errors.Is(err, node.ErrSuperseded) {
		w.log.Warn().Err(err).Msg("could not say that this node is draining")
	}
}

// leave says goodbye, so that nobody has to find out.
func (w *Worker) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _, err := w.protocol.Recorder.DoNode(ctx, w.cfg.Node, node.Leave{Session: w.protocol.Session, Reason: "the worker has ended"})
	if errors.Is(err, node.ErrSuperseded) {
		return // the heartbeat is the other one's
	}
	if err == nil {
		err = w.store.Forget(ctx, w.cfg.Node)
	}
	if err != nil {
		w.log.Warn().Err(err).Msg("could not say goodbye; the heartbeat runs out by itself")
	}
}
