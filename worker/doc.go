// Package worker runs tasks: it pulls offers, claims them, runs what they
// describe and reports how it ended.
//
//	w, err := worker.New(worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s}, worker.Config{Queues: []string{"images"}})
//	…
//	w.Handle("resize", func(ctx context.Context, t task.Task) error { … })
//	err = w.Run(ctx)
//
// A task may run more than once, when a node is lost or cannot be heard; what
// it reports is accepted once. A handler that acts on the outside should pass
// on the epoch of its task ([task.Task.Epoch]), which only grows, so that the
// other side can refuse whoever comes late.
//
// The rules are in package task. Child processes are package worker/process,
// which this package knows only as a [Runner].
package worker
