package worker

import "millrace/node"

// pong is the worker's answer to a client that asks it about itself.
func (w *Worker) pong() node.Pong {
	s := w.Stats()
	return node.Pong{
		Node: w.cfg.Node, Session: w.protocol.Session, Version: w.cfg.Version,
		Serving: s.Fetching && w.gate.isOpen(), Running: s.Busy, Slots: s.Slots, LastBeat: s.LastBeat,
	}
}
