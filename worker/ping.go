package worker

import "millrace/node"

// pong is what the worker answers to who asks it for itself.
func (w *Worker) pong() node.Pong {
	s := w.Stats()
	return node.Pong{
		Node: w.cfg.Node, Session: w.protocol.Session, Version: w.cfg.Version,
		Serving: s.Fetching && w.gate.isOpen(), Running: s.Busy, Slots: s.Slots, LastBeat: s.LastBeat,
	}
}
